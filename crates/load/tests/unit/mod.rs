//! Unit tests that need only what the whole crate sees. Those of private items are in their modules.

mod cache_line;
mod failure;
mod net_mod;
mod script_workload;
mod start_gate;
mod worker_pool;
mod worker_stats;
