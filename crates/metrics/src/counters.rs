//! Counters of one worker in one slice, and their totals: plain numbers to be added up and sent.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Error numbers that are counted one by one within a slice; few scripts survive more kinds.
const ERROR_SLOTS: usize = 16;
/// Bits of a slot that hold the count; those above hold the error number plus one (17 bits are needed).
const COUNT_BITS: u32 = 40;

/// Counters of one worker, written by that worker alone and readable by any thread.
///
/// An increment is a relaxed load and a relaxed store, which is a plain increment on every processor: no locked instruction, no
/// fence. A reader sees each counter whole but not all of one moment; an exact picture needs the writer at rest, with an
/// acquire-release edge between the two (the start gate has one). Aligned to 128 bytes because processors fetch cache lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct SliceCounters {
    events: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
    other: AtomicU64,
    retries: AtomicU64,
    reconnects: AtomicU64,
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
    latency_sum_ns: AtomicU64,
    latency_max_ns: AtomicU64,
    late_starts: AtomicU64,
    /// Start of the window [ns of the clock]; 0: no event has begun since the guard.
    window_start_ns: AtomicU64,
    /// End of the last event in the window [ns of the clock].
    window_end_ns: AtomicU64,
    /// `(error number + 1) << COUNT_BITS | count`; 0 is a free slot. The last slot takes what finds no other, as number 0.
    errors: [AtomicU64; ERROR_SLOTS],
}

/// Adds without a locked instruction; right only because there is one writer.
#[inline]
fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(amount), Relaxed);
}

impl SliceCounters {
    /// Counters of a slice that has not begun.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the window at `start_ns`, unless it is open already.
    #[inline]
    pub fn open_window(&self, start_ns: u64) {
        if self.window_start_ns.load(Relaxed) == 0 {
            self.window_start_ns.store(start_ns, Relaxed);
            self.window_end_ns.store(start_ns, Relaxed);
        }
    }

    /// Moves the window's end to the end of an event, counted or not.
    #[inline]
    pub fn extend_window(&self, end_ns: u64) {
        self.window_end_ns.store(end_ns, Relaxed);
    }

    /// Counts an event and its latency [ns].
    #[inline]
    pub fn add_event(&self, latency_ns: u64) {
        add(&self.events, 1);
        add(&self.latency_sum_ns, latency_ns);
        if latency_ns > self.latency_max_ns.load(Relaxed) {
            self.latency_max_ns.store(latency_ns, Relaxed);
        }
    }

    /// Counts statements that returned a result set.
    #[inline]
    pub fn add_reads(&self, amount: u64) {
        add(&self.reads, amount);
    }

    /// Counts statements that changed a row.
    #[inline]
    pub fn add_writes(&self, amount: u64) {
        add(&self.writes, amount);
    }

    /// Counts statements that did neither.
    #[inline]
    pub fn add_other(&self, amount: u64) {
        add(&self.other, amount);
    }

    /// Counts events added by the script itself, without a latency.
    #[inline]
    pub fn add_bare_events(&self, amount: u64) {
        add(&self.events, amount);
    }

    /// Counts connections made anew.
    #[inline]
    pub fn add_reconnects(&self, amount: u64) {
        add(&self.reconnects, amount);
    }

    /// Counts bytes over the connection.
    #[inline]
    pub fn add_bytes(&self, sent: u64, received: u64) {
        add(&self.sent_bytes, sent);
        add(&self.received_bytes, received);
    }

    /// Counts an open-loop event that began late although its worker was free.
    #[inline]
    pub fn add_late_start(&self) {
        add(&self.late_starts, 1);
    }

    /// Counts an event that was run again.
    pub fn add_retry(&self) {
        add(&self.retries, 1);
    }

    /// Counts `amount` errors of one number.
    ///
    /// # Panics
    /// Never.
    pub fn add_errors(&self, code: u16, amount: u64) {
        let key = u64::from(code) + 1;
        let (last, slots) = self.errors.split_last().expect("the array is not empty");
        for slot in slots {
            let present = slot.load(Relaxed);
            if present == 0 {
                slot.store((key << COUNT_BITS) + amount, Relaxed);
                return;
            }
            if present >> COUNT_BITS == key {
                slot.store(present + amount, Relaxed);
                return;
            }
        }
        last.store((last.load(Relaxed) | (1 << COUNT_BITS)) + amount, Relaxed);
    }

    /// Sets everything back to zero. Only the writer may call it.
    pub fn reset(&self) {
        let plain = [
            &self.events,
            &self.reads,
            &self.writes,
            &self.other,
            &self.retries,
            &self.reconnects,
            &self.sent_bytes,
            &self.received_bytes,
            &self.latency_sum_ns,
            &self.latency_max_ns,
            &self.late_starts,
            &self.window_start_ns,
            &self.window_end_ns,
        ];
        plain.into_iter().chain(&self.errors).for_each(|counter| counter.store(0, Relaxed));
    }

    /// The numbers as they stand; `busy_ns` is the window's length.
    pub fn totals(&self) -> SliceTotals {
        let mut errors = BTreeMap::new();
        for slot in self.errors.iter().map(|slot| slot.load(Relaxed)).filter(|&slot| slot != 0) {
            let code = u16::try_from((slot >> COUNT_BITS) - 1).unwrap_or(0);
            *errors.entry(code).or_default() += slot & ((1 << COUNT_BITS) - 1);
        }
        SliceTotals {
            events: self.events.load(Relaxed),
            reads: self.reads.load(Relaxed),
            writes: self.writes.load(Relaxed),
            other: self.other.load(Relaxed),
            errors,
            retries: self.retries.load(Relaxed),
            reconnects: self.reconnects.load(Relaxed),
            sent_bytes: self.sent_bytes.load(Relaxed),
            received_bytes: self.received_bytes.load(Relaxed),
            latency_sum_ns: self.latency_sum_ns.load(Relaxed),
            latency_max_ns: self.latency_max_ns.load(Relaxed),
            late_starts: self.late_starts.load(Relaxed),
            busy_ns: self.window_end_ns.load(Relaxed).saturating_sub(self.window_start_ns.load(Relaxed)),
        }
    }
}

/// Sums over the counted part of a slice; `latency_max_ns` is a maximum. The zero value is the empty slice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SliceTotals {
    /// Events that ended.
    pub events: u64,
    /// Statements that returned a result set.
    pub reads: u64,
    /// Statements that changed a row.
    pub writes: u64,
    /// Statements that did neither.
    pub other: u64,
    /// Errors that the script survived, by server error number; 0 stands for numbers beyond the first fifteen.
    pub errors: BTreeMap<u16, u64>,
    /// Events run again after such an error.
    pub retries: u64,
    /// Connections made anew.
    pub reconnects: u64,
    /// Bytes handed to the kernel.
    pub sent_bytes: u64,
    /// Bytes received from the kernel.
    pub received_bytes: u64,
    /// Sum of event latencies [ns].
    pub latency_sum_ns: u64,
    /// Greatest event latency [ns].
    pub latency_max_ns: u64,
    /// Open loop: events begun more than 1 ms after their intended start although a worker was free.
    pub late_starts: u64,
    /// Sum of the workers' windows [ns]: first event start after the guard to last event end.
    pub busy_ns: u64,
}

impl SliceTotals {
    /// Adds what another worker did in the same slice, or the same workers in another one.
    pub fn merge(&mut self, other: &Self) {
        self.events += other.events;
        self.reads += other.reads;
        self.writes += other.writes;
        self.other += other.other;
        for (&code, &count) in &other.errors {
            *self.errors.entry(code).or_default() += count;
        }
        self.retries += other.retries;
        self.reconnects += other.reconnects;
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        self.latency_sum_ns += other.latency_sum_ns;
        self.latency_max_ns = self.latency_max_ns.max(other.latency_max_ns);
        self.late_starts += other.late_starts;
        self.busy_ns += other.busy_ns;
    }

    /// What came after `earlier`, an earlier state of the same counters. The maximum is that of the whole: it cannot be split.
    pub fn since(&self, earlier: &Self) -> Self {
        let errors = self.errors.iter().map(|(&code, &count)| {
            let before = earlier.errors.get(&code).copied().unwrap_or_default();
            (code, count - before)
        });
        Self {
            events: self.events - earlier.events,
            reads: self.reads - earlier.reads,
            writes: self.writes - earlier.writes,
            other: self.other - earlier.other,
            errors: errors.filter(|(_, count)| *count > 0).collect(),
            retries: self.retries - earlier.retries,
            reconnects: self.reconnects - earlier.reconnects,
            sent_bytes: self.sent_bytes - earlier.sent_bytes,
            received_bytes: self.received_bytes - earlier.received_bytes,
            latency_sum_ns: self.latency_sum_ns - earlier.latency_sum_ns,
            latency_max_ns: self.latency_max_ns,
            late_starts: self.late_starts - earlier.late_starts,
            busy_ns: self.busy_ns - earlier.busy_ns,
        }
    }
}

#[cfg(test)]
#[path = "../tests/unit/counters.rs"]
mod tests;
