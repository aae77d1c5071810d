//! `measure` over workloads of known law: no server, no Lua, real threads and clocks.
//!
//! The machine is shared, so times are compared with wide margins; counts are exact.

#![allow(clippy::unwrap_used, reason = "in helpers of tests as in tests")]

mod counting;
mod endings;
mod freezing;
mod world;
