//! Counters of one worker in one slice, and their totals: plain numbers to be added up and sent.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;

/// Error numbers that are counted one by one within a slice; few scripts survive more kinds.
const ERROR_SLOTS: usize = 16;
/// Bits of a slot that hold the count; those above hold the error number plus one (17 bits are needed).
const COUNT_BITS: u32 = 40;

/// A sum that one worker adds to and any thread may read.
#[derive(Debug, Default)]
pub struct Sum(AtomicU64);

impl Sum {
    /// Adds without a locked instruction; right only because there is one writer.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    /// The sum as it stands.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Makes [`SliceCounters`] and [`SliceTotals`] of one list of sums; each has a field in both.
macro_rules! slice_counters {
    ($($(#[$doc:meta])* $sum:ident,)*) => {
        /// Counters of one worker, written by that worker alone and readable by any thread.
        ///
        /// An increment is a relaxed load and a relaxed store, which is a plain increment on every processor: no locked instruction, no
        /// fence. A reader sees each counter whole but not all of one moment; an exact picture needs the writer at rest, with an
        /// acquire-release edge between the two (the start gate has one). Aligned to 128 bytes because processors fetch cache lines in
        /// pairs.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct SliceCounters {
            $($(#[$doc])* pub $sum: Sum,)*
            latency_max_ns: AtomicU64,
            /// Start of the window [ns of the clock]; 0: no event has begun since the guard.
            window_start_ns: AtomicU64,
            /// End of the last event in the window [ns of the clock].
            window_end_ns: AtomicU64,
            /// `(error number + 1) << COUNT_BITS | count`; 0 is a free slot. The last slot takes what finds no other, as number 0.
            errors: [AtomicU64; ERROR_SLOTS],
        }

        impl SliceCounters {
            /// Sets everything back to zero. Only the writer may call it.
            pub fn reset(&self) {
                let others = [&self.latency_max_ns, &self.window_start_ns, &self.window_end_ns];
                let all = [$(&self.$sum.0,)*].into_iter().chain(others).chain(&self.errors);
                all.for_each(|counter| counter.store(0, Relaxed));
            }

            /// The numbers as they stand; `busy_ns` is the window's length.
            pub fn totals(&self) -> SliceTotals {
                SliceTotals {
                    $($sum: self.$sum.get(),)*
                    errors: self.errors(),
                    latency_max_ns: self.latency_max_ns.load(Relaxed),
                    busy_ns: self.window_end_ns.load(Relaxed).saturating_sub(self.window_start_ns.load(Relaxed)),
                }
            }
        }

        /// Sums over the counted part of a slice; `latency_max_ns` is a maximum. The zero value is the empty slice.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
        pub struct SliceTotals {
            $($(#[$doc])* pub $sum: u64,)*
            /// Errors that the script survived, by server error number; 0 stands for numbers beyond the first fifteen.
            pub errors: BTreeMap<u16, u64>,
            /// Greatest event latency [ns].
            pub latency_max_ns: u64,
            /// Sum of the workers' windows [ns]: first event start after the guard to last event end.
            pub busy_ns: u64,
        }

        impl SliceTotals {
            /// Adds what another worker did in the same slice, or the same workers in another one.
            pub fn merge(&mut self, other: &Self) {
                $(self.$sum += other.$sum;)*
                for (&code, &count) in &other.errors {
                    *self.errors.entry(code).or_default() += count;
                }
                self.latency_max_ns = self.latency_max_ns.max(other.latency_max_ns);
                self.busy_ns += other.busy_ns;
            }

            /// What came after `earlier`, an earlier state of the same counters. The maximum is that of the whole: it cannot be split.
            pub fn since(&self, earlier: &Self) -> Self {
                let errors = self.errors.iter().map(|(&code, &count)| {
                    let before = earlier.errors.get(&code).copied().unwrap_or_default();
                    (code, count - before)
                });
                Self {
                    $($sum: self.$sum - earlier.$sum,)*
                    errors: errors.filter(|(_, count)| *count > 0).collect(),
                    latency_max_ns: self.latency_max_ns,
                    busy_ns: self.busy_ns - earlier.busy_ns,
                }
            }
        }
    };
}

slice_counters! {
    /// Events that ended, and those that the script itself counted.
    events,
    /// Events that ended outside the window, in the guard or after it; none that was injected.
    outside_events,
    /// Statements that returned a result set.
    reads,
    /// Statements that changed a row.
    writes,
    /// Statements that did neither.
    other,
    /// Events run again after an error that the script survived.
    retries,
    /// Connections made anew.
    reconnects,
    /// Bytes handed to the kernel.
    sent_bytes,
    /// Bytes received from the kernel.
    received_bytes,
    /// Event latencies [ns].
    latency_sum_ns,
    /// Open loop: events begun more than 1 ms after their intended start although a worker was free.
    late_starts,
}

impl SliceCounters {
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
        self.events.add(1);
        self.latency_sum_ns.add(latency_ns);
        if latency_ns > self.latency_max_ns.load(Relaxed) {
            self.latency_max_ns.store(latency_ns, Relaxed);
        }
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

    fn errors(&self) -> BTreeMap<u16, u64> {
        let mut errors = BTreeMap::new();
        for slot in self.errors.iter().map(|slot| slot.load(Relaxed)).filter(|&slot| slot != 0) {
            let code = u16::try_from((slot >> COUNT_BITS) - 1).unwrap_or(0);
            *errors.entry(code).or_default() += slot & ((1 << COUNT_BITS) - 1);
        }
        errors
    }
}

#[cfg(test)]
#[path = "../tests/unit/counters.rs"]
mod tests;
