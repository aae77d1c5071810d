//! What one worker and the coordinator share: the worker writes in its slices, the coordinator reads while it rests.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use bakeoff_metrics::{SliceCounters, SliceTotals};

/// One worker's numbers. The slice gate's lock orders its writes before the coordinator's reads.
#[derive(Debug, Default)]
pub struct Desk {
    counters: SliceCounters,
    /// Number of the slice that the counters belong to; 0 before the first.
    slice: AtomicU32,
    /// When the worker came to rest [ns of the clock].
    rested_ns: AtomicU64,
}

impl Desk {
    /// The worker's counters.
    #[inline]
    pub fn counters(&self) -> &SliceCounters {
        &self.counters
    }

    /// Worker: a slice begins.
    pub fn begin(&self, slice: u32) {
        self.counters.reset();
        self.slice.store(slice, Relaxed);
    }

    /// Worker: its last event has ended.
    pub fn rest(&self, now_ns: u64) {
        self.rested_ns.store(now_ns, Relaxed);
    }

    /// Coordinator: what the worker did in this slice, and when it came to rest; `None` if it had ended before.
    pub fn totals_of(&self, slice: u32) -> Option<(SliceTotals, u64)> {
        (self.slice.load(Relaxed) == slice)
            .then(|| (self.counters.totals(), self.rested_ns.load(Relaxed)))
    }
}
