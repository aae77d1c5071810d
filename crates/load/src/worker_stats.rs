//! One worker's counters: the worker writes them, the coordinator reads them while the worker rests or runs.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use bakeoff_metrics::{SliceCounters, SliceTotals};
use bakeoff_script::host::{Counter, QueryClass, Reply};

/// One worker's numbers. The start gate's lock orders its writes before the coordinator's reads between slices.
#[derive(Debug, Default)]
pub struct WorkerStats {
    counters: SliceCounters,
    /// Number of the slice that the counters belong to; 0 before the first.
    slice: AtomicU32,
    /// When the worker came to rest [ns of the clock].
    rested_ns: AtomicU64,
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

    /// Worker: its last event has ended.
    pub fn rest(&self, now_ns: u64) {
        self.rested_ns.store(now_ns, Relaxed);
    }

    /// Coordinator: what the worker did in this slice, and when it came to rest; `None` if it had ended before.
    pub fn totals_of(&self, slice: u32) -> Option<(SliceTotals, u64)> {
        (self.slice.load(Relaxed) == slice).then(|| (self.counters.totals(), self.rested_ns.load(Relaxed)))
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
            QueryClass::Read => self.counters.add_reads(1),
            QueryClass::Write => self.counters.add_writes(1),
            QueryClass::Other => self.counters.add_other(1),
        }
    }

    /// Adds what a script has counted itself.
    pub fn add(&self, counter: Counter, amount: u64) {
        let counters = &self.counters;
        match counter {
            Counter::Other => counters.add_other(amount),
            Counter::Read => counters.add_reads(amount),
            Counter::Write => counters.add_writes(amount),
            Counter::Transactions => counters.add_bare_events(amount),
            Counter::Error => counters.add_errors(0, amount),
            Counter::Reconnect => counters.add_reconnects(amount),
            Counter::BytesRead => counters.add_bytes(0, amount),
            Counter::BytesWritten => counters.add_bytes(amount, 0),
        }
    }

    /// A counter's value since the counters began.
    pub fn value(&self, counter: Counter) -> u64 {
        let totals = self.counters.totals();
        match counter {
            Counter::Other => totals.other,
            Counter::Read => totals.reads,
            Counter::Write => totals.writes,
            Counter::Transactions => totals.events,
            Counter::Error => totals.errors.values().sum(),
            Counter::Reconnect => totals.reconnects,
            Counter::BytesRead => totals.received_bytes,
            Counter::BytesWritten => totals.sent_bytes,
        }
    }
}
