//! Latency histograms of one worker or one arm, one for each operation.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use bakeoff_metrics::LatencyHistogram;

/// The operation that every script has.
pub const EVENT: &str = "event";

/// Histograms by operation: `event` first, then those that the script named, in the order met.
#[derive(Debug)]
pub struct Latencies {
    event: LatencyHistogram,
    named: Vec<(String, LatencyHistogram)>,
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            event: LatencyHistogram::new(),
            named: Vec::new(),
        }
    }
}

impl Latencies {
    /// The number of a named operation. Allocates when the name is new: once for each name and worker.
    pub fn operation(&mut self, name: &str) -> usize {
        match self.named.iter().position(|(known, _)| known == name) {
            Some(index) => index,
            None => {
                self.named.push((name.to_owned(), LatencyHistogram::new()));
                self.named.len() - 1
            }
        }
    }

    /// Records an event's latency, also under each name that it was given.
    #[inline]
    pub fn record(&mut self, operations: &[usize], latency_ns: u64) {
        self.event.record(latency_ns);
        for &operation in operations {
            if let Some((_, histogram)) = self.named.get_mut(operation) {
                histogram.record(latency_ns);
            }
        }
    }

    /// Adds what another worker recorded.
    pub fn merge(&mut self, other: &Self) {
        self.event.merge(&other.event);
        for (name, histogram) in &other.named {
            let index = self.operation(name);
            self.named[index].1.merge(histogram);
        }
    }

    /// Takes out what was recorded; the numbers of the operations stay valid.
    #[must_use]
    pub fn take(&mut self) -> Self {
        let names = self.named.iter();
        let emptied = Self {
            event: LatencyHistogram::new(),
            named: names.map(|(name, _)| (name.clone(), LatencyHistogram::new())).collect(),
        };
        std::mem::replace(self, emptied)
    }

    /// Forgets operations of which nothing was recorded.
    pub fn forget_empty(&mut self) {
        self.named.retain(|(_, histogram)| histogram.count() > 0);
    }

    /// `event` first, then the named operations by name.
    pub fn by_operation(&self) -> Vec<(&str, &LatencyHistogram)> {
        let mut all: Vec<_> = self
            .named
            .iter()
            .map(|(name, histogram)| (name.as_str(), histogram))
            .collect();
        all.sort_by_key(|(name, _)| *name);
        all.insert(0, (EVENT, &self.event));
        all
    }
}

/// Where several workers record, and a reporter takes out while they run. Alone in its pair of cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct LatencyShard(Mutex<Latencies>);

impl LatencyShard {
    /// Does something with the histograms while nobody else can.
    #[inline]
    pub fn with<T>(&self, body: impl FnOnce(&mut Latencies) -> T) -> T {
        body(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Where one worker's latencies go.
#[derive(Debug)]
pub enum LatencyStore {
    /// Its own, taken when it has ended.
    Own(RefCell<Latencies>),
    /// Shared with some other workers, so that thousands of idle workers do not cost thousands of histograms.
    Shared(Arc<LatencyShard>),
}

impl LatencyStore {
    #[inline]
    pub(crate) fn with<T>(&self, body: impl FnOnce(&mut Latencies) -> T) -> T {
        match self {
            Self::Own(latencies) => body(&mut latencies.borrow_mut()),
            Self::Shared(shard) => shard.with(body),
        }
    }
}

#[cfg(test)]
#[path = "../tests/unit/latencies.rs"]
mod tests;
