//! Generates load on MySQL servers and measures it: connections, workers, arrival schedules, slices. Combines
//! `bakeoff-wire`, `bakeoff-script`, `bakeoff-capture` and `bakeoff-metrics`.

pub mod arm_workers;
pub mod arrivals;
pub mod connector;
pub mod failure;
pub mod host;
pub mod machine;
pub mod net;
pub mod replay {
    pub mod stream;
    pub mod workload;
}
pub mod script_workload;
pub mod start_gate;
pub mod worker_pool;
pub mod worker_stats;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex even if a thread panicked while holding it: nothing behind these locks is ever half changed.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "../tests/unit/mod.rs"]
mod tests;
