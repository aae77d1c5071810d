//! The engine as its caller sees it.
//!
//! `drive`: the built program, JSON lines, and fake servers of known latency. `measure`: workloads of known law, with no server and no
//! Lua, but real threads and clocks; the machine is shared, so times are compared with wide margins, and counts are exact.

#![allow(clippy::unwrap_used, reason = "in helpers of tests as in tests")]

mod drive {
    mod captures;
    mod drop_in;
    mod endings;
    mod failures;
    mod harness;
    mod measuring;
    mod memory;
    mod requests;
}
mod measure {
    mod counting;
    mod endings;
    mod freezing;
    mod world;
}
