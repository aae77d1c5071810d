//! `bakeoff-engine drive` as its caller sees it: the built program, JSON lines, and fake servers of known latency.

mod endings;
mod failures;
mod harness;
mod measuring;
mod requests;
