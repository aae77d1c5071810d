//! One worker's counters and latency histograms: the worker writes them, the coordinator reads them while it rests or runs.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use bakeoff_metrics::{LatencyHistogram, SliceCounters, SliceTotals, Sum};
use bakeoff_script::host::{Counter, QueryClass, Reply};

use crate::lock;

/// One worker's numbers. The start gate's lock orders its writes before the coordinator's reads between slices.
#[derive(Debug, Default)]
pub struct WorkerStats {
    counters: SliceCounters,
    /// Number of the slice that the counters belong to; 0 before the first.
    slice: AtomicU32,
    /// When the worker ended its window, or rested where there is none [ns of the clock].
    ended_ns: AtomicU64,
    /// Between an event's start and its end.
    in_event: AtomicBool,
}

impl WorkerStats {
    /// The worker's counters.
    #[inline]
    pub fn counters(&self) -> &SliceCounters {
        &self.counters
    }

    /// Worker: a slice begins, with all counters at zero.
    pub fn begin_slice(&self, slice: u32) {
        self.counters.reset();
        self.slice.store(slice, Relaxed);
    }

    /// Worker: the last event that can count has ended.
    pub fn end_slice(&self, now_ns: u64) {
        self.ended_ns.store(now_ns, Relaxed);
    }

    /// Coordinator: what the worker did in this slice, and when that ended; `None` if the worker had left before.
    pub fn totals_of(&self, slice: u32) -> Option<(SliceTotals, u64)> {
        (self.slice.load(Relaxed) == slice).then(|| (self.counters.totals(), self.ended_ns.load(Relaxed)))
    }

    /// Worker: an event begins or ends.
    #[inline]
    pub fn set_in_event(&self, in_event: bool) {
        self.in_event.store(in_event, Relaxed);
    }

    /// Is the worker between an event's start and its end?
    pub fn is_in_event(&self) -> bool {
        self.in_event.load(Relaxed)
    }

    /// Counts a reply by the class of its statement.
    #[inline]
    pub fn add_reply(&self, reply: &Reply) {
        match reply.class {
            QueryClass::Read => self.counters.reads.add(1),
            QueryClass::Write => self.counters.writes.add(1),
            QueryClass::Other => self.counters.other.add(1),
        }
    }

    /// Adds what a script has counted itself.
    pub fn add(&self, counter: Counter, amount: u64) {
        match self.sum(counter) {
            Some(sum) => sum.add(amount),
            None => self.counters.add_errors(0, amount),
        }
    }

    /// A counter's value since the counters began.
    pub fn value(&self, counter: Counter) -> u64 {
        self.sum(counter).map_or_else(|| self.counters.totals().errors.values().sum(), Sum::get)
    }

    /// Where a counter of scripts is kept; None: errors, which are counted by number.
    fn sum(&self, counter: Counter) -> Option<&Sum> {
        let counters = &self.counters;
        Some(match counter {
            Counter::Other => &counters.other,
            Counter::Read => &counters.reads,
            Counter::Write => &counters.writes,
            Counter::Transactions => &counters.events,
            Counter::Error => return None,
            Counter::Reconnect => &counters.reconnects,
            Counter::BytesRead => &counters.received_bytes,
            Counter::BytesWritten => &counters.sent_bytes,
        })
    }
}

/// The operation that every script has.
pub const EVENT: &str = "event";

/// Histograms by operation: `event` first, then those that the script named, in the order met.
#[derive(Debug)]
pub struct Latencies {
    event: LatencyHistogram,
    named: Vec<(Arc<str>, LatencyHistogram)>,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { event: LatencyHistogram::new(), named: Vec::new() }
    }
}

impl Latencies {
    /// The number of a named operation. Allocates when the name is new: once for each name and worker.
    pub fn operation(&mut self, name: &str) -> usize {
        match self.named.iter().position(|(known, _)| **known == *name) {
            Some(index) => index,
            None => {
                self.named.push((name.into(), LatencyHistogram::new()));
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

    /// Adds what another worker recorded; operations of which it recorded nothing are left out.
    pub fn merge(&mut self, other: &Self) {
        self.event.merge(&other.event);
        for (name, histogram) in other.named.iter().filter(|(_, histogram)| histogram.count() > 0) {
            let index = self.operation(name);
            self.named[index].1.merge(histogram);
        }
    }

    /// Swaps the histograms for the empty ones of `other`, which takes over the names; numbers of operations stay valid here.
    /// Allocates nothing.
    ///
    /// # Errors
    /// Nothing was swapped, because `other` needs histograms for so many operations.
    fn swap(&mut self, other: &mut Self) -> Result<(), usize> {
        if other.named.len() < self.named.len() {
            return Err(self.named.len());
        }
        std::mem::swap(&mut self.event, &mut other.event);
        for ((name, recorded), (its_name, empty)) in self.named.iter_mut().zip(&mut other.named) {
            its_name.clone_from(name);
            std::mem::swap(recorded, empty);
        }
        Ok(())
    }

    /// Empties the histograms.
    pub fn clear(&mut self) {
        self.event.clear();
        self.named.iter_mut().for_each(|(_, histogram)| histogram.clear());
    }

    /// `event` first, then the named operations by name.
    pub fn by_operation(&self) -> Vec<(&str, &LatencyHistogram)> {
        let mut all: Vec<_> = self.named.iter().map(|(name, histogram)| (&**name, histogram)).collect();
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
        body(&mut lock(&self.0))
    }

    /// Takes out what was recorded, into `empty`. Under the lock, for which workers wait, nothing is allocated or emptied.
    pub fn take_into(&self, empty: &mut Latencies) {
        while let Err(operations) = self.with(|latencies| latencies.swap(empty)) {
            empty.named.resize_with(operations, || ("".into(), LatencyHistogram::new()));
        }
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
#[path = "../tests/unit/worker_stats.rs"]
mod tests;
