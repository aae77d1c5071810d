pub mod cache_line;
pub mod ending;
pub mod freeze;
pub mod observe;
mod pinning;
pub mod placement;
