//! The machine under the servers: what a slice costs there, stopping servers, and where threads run.

pub mod cache_line;
pub mod ending;
pub mod freeze;
pub mod observe;
mod pinning;
pub mod placement;
