//! Makes load on MySQL servers and counts it: connections, workers, arrival schedules, slices.
//!
//! Joins `bakeoff-wire` (bytes), `bakeoff-script` (Lua), `bakeoff-capture` (logs) and `bakeoff-metrics` (numbers), which know nothing of each
//! other. The engine and the sysbench drop-in build on it.
//!
//! ```text
//! arm_workers (measure)   script_workload   sysbench's run
//!        └───────────────► worker_pool ◄───────┘          threads: started, cut, joined
//!                               │
//!                             host                        when the next event may begin, what is counted
//!            ┌──────────────┬───┴──────────┬────────────┐
//!        start_gate      arrivals    worker_stats    connector ─► net
//! ```

pub mod arm_workers;
pub mod arrivals;
pub mod connector;
pub mod failure;
pub mod host;
pub mod machine;
pub mod net;
pub mod replay;
pub mod script_workload;
pub mod start_gate;
pub mod worker_pool;
pub mod worker_stats;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex even if a thread panicked while holding it: nothing behind these locks is ever half changed.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
