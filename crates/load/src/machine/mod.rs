pub mod cache_line;
mod change;
pub mod ending;
pub mod freeze;
pub mod observe;
mod pinning;
pub mod placement;
