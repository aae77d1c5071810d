//! What all connections share: the configuration, and counters.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::fault::{Fault, FaultKind};
use crate::law::Law;
use crate::resultset::SqlError;

#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) version: String,
    /// None lets everyone in.
    pub(crate) password: Option<String>,
    pub(crate) law: Law,
    /// Server error, and after how many timed statements it recurs.
    pub(crate) injected_error: Option<(u16, u64)>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) seed: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Statements with a latency.
    pub(crate) timed_statements: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) open_connections: AtomicU64,
    pub(crate) injected_errors: AtomicU64,
}

pub(crate) fn count_one(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Ordering::Relaxed) + 1
}

impl Counters {
    /// Names as SHOW GLOBAL STATUS has them, where it has such a counter.
    pub(crate) fn snapshot(&self) -> [(&'static str, u64); 4] {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("Connections", value(&self.connections)),
            ("Fake_injected_errors", value(&self.injected_errors)),
            ("Questions", value(&self.timed_statements)),
            ("Threads_connected", value(&self.open_connections)),
        ]
    }
}

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) config: Config,
    pub(crate) counters: Counters,
}

#[derive(Debug, Default)]
pub(crate) struct Injection {
    pub(crate) error: Option<SqlError>,
    pub(crate) fault: Option<FaultKind>,
}

impl Server {
    /// Counts one timed statement and returns what to inject on it.
    pub(crate) fn count_statement(&self) -> Injection {
        let number = count_one(&self.counters.timed_statements);
        let injected = self.config.injected_error.filter(|(_, every)| number.is_multiple_of(*every));
        if injected.is_some() {
            self.counters.injected_errors.fetch_add(1, Ordering::Relaxed);
        }
        Injection {
            error: injected.map(|(code, _)| SqlError::numbered(code)),
            fault: self.config.faults.iter().find(|fault| fault.at == number).map(|fault| fault.kind),
        }
    }
}
