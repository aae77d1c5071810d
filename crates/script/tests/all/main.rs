//! Scripts against a host in memory: one test program, one module a subject. `jit.rs` is alone: LuaJIT's profiler is the process's.

#![allow(clippy::unwrap_used, reason = "in helpers of tests as in tests")]

mod failures;
mod ffi;
mod laws;
mod life_cycle;
mod loading;
mod options;
mod random;
mod sql;
mod styles;
mod texts;
mod tpcc_inputs;
mod tpcc_report;
mod tpcc_rows;
mod tpcc_transactions;
mod workloads;
mod world;
