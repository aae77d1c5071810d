//! `bakeoff-engine drive` as its caller sees it: the built program, JSON lines, and fake servers of known latency.

#![allow(clippy::unwrap_used, reason = "in helpers of tests as in tests")]

mod endings;
mod failures;
mod harness;
mod measuring;
mod requests;
