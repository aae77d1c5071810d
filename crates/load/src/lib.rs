//! Makes load on MySQL servers and counts it: connections, workers, arrival schedules, slices.
//!
//! Joins `bakeoff-wire` (bytes), `bakeoff-script` (Lua), `bakeoff-capture` (logs) and `bakeoff-metrics` (numbers), which know nothing
//! of each other. Stands below the engine's requests and below the drop-in for sysbench, and knows nothing of either.
//!
//! ```text
//! arm_workers (measure)   script_workload   sysbench's run
//!        └───────────────► worker_pool ◄───────┘          threads: started, cut, joined
//!                               │
//!                          worker_host                    when the next event may begin, what is counted
//!            ┌──────────────┬───┴──────────┬────────────┐
//!        start_gate      arrivals    worker_stats    connector ─► net
//! ```

pub mod arm_workers;
pub mod arrivals;
pub mod cache_line;
pub mod connector;
pub mod ending;
pub mod failure;
pub mod freeze;
pub mod net;
pub mod observe;
mod pinning;
pub mod placement;
mod read_only;
pub mod replay_stream;
pub mod replay_workload;
pub mod script_workload;
pub mod start_gate;
pub mod worker_host;
pub mod worker_pool;
pub mod worker_stats;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex whether or not a thread panicked while it held it: nothing behind these locks is ever half changed.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
