//! One worker's counters and latency histograms.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use bakeoff_metrics::{LatencyHistogram, SliceCounters, SliceTotals, Sum};
use bakeoff_script::host::{Counter, QueryClass, Reply};

use crate::lock;

#[derive(Debug, Default)]
pub struct WorkerStats {
    counters: SliceCounters,
    slice: AtomicU32,
    /// When the worker ended its window or, without one, rested [ns of the clock].
    ended_ns: AtomicU64,
    in_event: AtomicBool,
}

impl WorkerStats {
    #[inline]
    pub fn counters(&self) -> &SliceCounters {
        &self.counters
    }

    pub fn begin_slice(&self, slice: u32) {
        self.counters.reset();
        self.slice.store(slice, Relaxed);
    }

    pub fn end_slice(&self, now_ns: u64) {
        self.ended_ns.store(now_ns, Relaxed);
    }

    /// Coordinator: returns the worker's totals in this slice and when it ended. None if the worker had left before.
    pub fn totals_of(&self, slice: u32) -> Option<(SliceTotals, u64)> {
        (self.slice.load(Relaxed) == slice).then(|| (self.counters.totals(), self.ended_ns.load(Relaxed)))
    }

    #[inline]
    pub fn set_in_event(&self, in_event: bool) {
        self.in_event.store(in_event, Relaxed);
    }

    pub fn is_in_event(&self) -> bool {
        self.in_event.load(Relaxed)
    }

    #[inline]
    pub fn add_reply(&self, reply: &Reply) {
        match reply.class {
            QueryClass::Read => self.counters.reads.add(1),
            QueryClass::Write => self.counters.writes.add(1),
            QueryClass::Other => self.counters.other.add(1),
        }
    }

    pub fn add(&self, counter: Counter, amount: u64) {
        match self.sum(counter) {
            Some(sum) => sum.add(amount),
            None => self.counters.add_errors(0, amount),
        }
    }

    pub fn value(&self, counter: Counter) -> u64 {
        self.sum(counter).map_or_else(|| self.counters.totals().errors.values().sum(), Sum::get)
    }

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

pub const EVENT: &str = "event";

#[derive(Debug, Default)]
pub struct Latencies {
    event: LatencyHistogram,
    named: Vec<(Arc<str>, LatencyHistogram)>,
}

impl Latencies {
    pub fn operation(&mut self, name: &str) -> usize {
        self.named.iter().position(|(known, _)| **known == *name).unwrap_or_else(|| {
            self.named.push((name.into(), LatencyHistogram::default()));
            self.named.len() - 1
        })
    }

    /// Records the latency of an event (None) or of one of its operations.
    #[inline]
    pub fn record(&mut self, operation: Option<usize>, latency_ns: u64) {
        match operation {
            None => self.event.record(latency_ns),
            Some(operation) => self.named[operation].1.record(latency_ns),
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.event.merge(&other.event);
        for (name, histogram) in other.named.iter().filter(|(_, histogram)| histogram.count() > 0) {
            let index = self.operation(name);
            self.named[index].1.merge(histogram);
        }
    }

    /// Swaps the histograms for the empty ones of `other`. Fails with the number of histograms that `other` needs
    /// first.
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

    pub fn clear(&mut self) {
        self.event.clear();
        self.named.iter_mut().for_each(|(_, histogram)| histogram.clear());
    }

    pub fn by_operation(&self) -> Vec<(&str, &LatencyHistogram)> {
        let mut all: Vec<_> = self.named.iter().map(|(name, histogram)| (&**name, histogram)).collect();
        all.sort_by_key(|(name, _)| *name);
        all.insert(0, (EVENT, &self.event));
        all
    }
}

/// Histograms of several workers, which a reporter empties while they run. Alone in its pair of cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct LatencyShard(Mutex<Latencies>);

impl LatencyShard {
    #[inline]
    pub fn with<T>(&self, body: impl FnOnce(&mut Latencies) -> T) -> T {
        body(&mut lock(&self.0))
    }

    /// Swaps the recorded histograms into `empty`. Nothing is allocated or emptied while workers wait for the lock.
    pub fn take_into(&self, empty: &mut Latencies) {
        while let Err(operations) = self.with(|latencies| latencies.swap(empty)) {
            empty.named.resize_with(operations, Default::default);
        }
    }
}

/// A worker's way to the histograms that it shares with others: thousands of workers must not cost thousands of
/// histograms, nor wait for each other at every event. So it holds latencies back and adds many at a time.
#[derive(Debug)]
pub struct LatencyStore {
    pub(crate) shard: Arc<LatencyShard>,
    held: RefCell<Vec<(Option<usize>, u64)>>,
    held_max: usize,
    /// Operations that the worker has named, with their numbers in the shard.
    named: RefCell<Vec<(String, usize)>>,
}

impl LatencyStore {
    /// With `held_max` 1 nothing is held back.
    pub fn new(shard: Arc<LatencyShard>, held_max: usize) -> Self {
        Self { shard, held: RefCell::new(Vec::with_capacity(held_max)), held_max, named: RefCell::default() }
    }

    pub(crate) fn operation(&self, name: &str) -> usize {
        let mut named = self.named.borrow_mut();
        let known = named.iter().find(|(known, _)| known == name).map(|(_, number)| *number);
        known.unwrap_or_else(|| {
            let number = self.shard.with(|latencies| latencies.operation(name));
            named.push((name.to_owned(), number));
            number
        })
    }

    #[inline]
    pub fn record(&self, operations: &[usize], latency_ns: u64) {
        for operation in std::iter::once(None).chain(operations.iter().copied().map(Some)) {
            let mut held = self.held.borrow_mut();
            held.push((operation, latency_ns));
            if held.len() >= self.held_max {
                self.add(&mut held);
            }
        }
    }

    /// Called between slices, so that few latencies are added within one.
    pub(crate) fn add_if_half_full(&self) {
        let mut held = self.held.borrow_mut();
        if held.len() > self.held_max / 2 {
            self.add(&mut held);
        }
    }

    pub fn add_all(&self) {
        self.add(&mut self.held.borrow_mut());
    }

    #[cold]
    fn add(&self, held: &mut Vec<(Option<usize>, u64)>) {
        self.shard.with(|latencies| held.drain(..).for_each(|(operation, ns)| latencies.record(operation, ns)));
    }
}
