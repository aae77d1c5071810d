//! Counters of one worker in one slice, and their totals.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;

/// Slots for error numbers within a slice. Few scripts survive more. The last slot counts all others.
const ERROR_SLOTS: usize = 16;
/// Bits of a slot for the count. The bits above have the error number plus one, which needs 17 bits.
const COUNT_BITS: u32 = 40;

/// A sum that one worker writes and any thread may read.
#[derive(Debug, Default)]
pub struct Sum(AtomicU64);

impl Sum {
    /// Adds without a locked instruction, which is correct because there is only one writer.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Defines [`SliceCounters`] and [`SliceTotals`], which have a field for each sum in the list.
macro_rules! slice_counters {
    ($($(#[$doc:meta])* $sum:ident,)*) => {
        /// Counters of one worker. Only that worker writes them; any thread may read them. For exact readings stop the
        /// worker and pass an acquire-release edge, such as the start gate's. Aligned to 128 bytes, because processors
        /// fetch cache lines in pairs.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct SliceCounters {
            $($(#[$doc])* pub $sum: Sum,)*
            latency_max_ns: AtomicU64,
            /// Start of the window [ns of the clock], or 0 if no event has begun since the guard.
            window_start_ns: AtomicU64,
            /// End of the last event in the window [ns of the clock].
            window_end_ns: AtomicU64,
            /// `(error number + 1) << COUNT_BITS | count`, or 0 if free. The last slot counts all others as number 0.
            errors: [AtomicU64; ERROR_SLOTS],
        }

        impl SliceCounters {
            pub fn reset(&self) {
                let others = [&self.latency_max_ns, &self.window_start_ns, &self.window_end_ns];
                let all = [$(&self.$sum.0,)*].into_iter().chain(others).chain(&self.errors);
                all.for_each(|counter| counter.store(0, Relaxed));
            }

            pub fn totals(&self) -> SliceTotals {
                SliceTotals {
                    $($sum: self.$sum.get(),)*
                    errors: self.errors(),
                    latency_max_ns: self.latency_max_ns.load(Relaxed),
                    busy_ns: self.window_end_ns.load(Relaxed).saturating_sub(self.window_start_ns.load(Relaxed)),
                }
            }
        }

        /// Sums over the counted part of a slice.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
        pub struct SliceTotals {
            $($(#[$doc])* pub $sum: u64,)*
            /// Errors that the script survived, by server error number. 0 stands for all after the first fifteen.
            pub errors: BTreeMap<u16, u64>,
            pub latency_max_ns: u64,
            /// Sum of the workers' windows [ns], each from the first event start after the guard to the last event end.
            pub busy_ns: u64,
        }

        impl SliceTotals {
            pub fn merge(&mut self, other: &Self) {
                $(self.$sum += other.$sum;)*
                for (&code, &count) in &other.errors {
                    *self.errors.entry(code).or_default() += count;
                }
                self.latency_max_ns = self.latency_max_ns.max(other.latency_max_ns);
                self.busy_ns += other.busy_ns;
            }

            /// Returns what was counted since an earlier state. The maximum cannot be split, so it is unchanged.
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
    /// Events that ended, or that the script counted itself.
    events,
    /// Events that ended outside the window, in the guard or after it. Injected events are not counted.
    outside_events,
    reads,
    writes,
    /// Statements that neither returned a result set nor changed a row.
    other,
    /// Events repeated after an error that the script survived.
    retries,
    reconnects,
    sent_bytes,
    received_bytes,
    latency_sum_ns,
    /// Open loop: events that began more than 1 ms late although a worker was free.
    late_starts,
}

impl SliceCounters {
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

    #[inline]
    pub fn add_event(&self, latency_ns: u64) {
        self.events.add(1);
        self.latency_sum_ns.add(latency_ns);
        if latency_ns > self.latency_max_ns.load(Relaxed) {
            self.latency_max_ns.store(latency_ns, Relaxed);
        }
    }

    pub fn add_errors(&self, code: u16, amount: u64) {
        let key = u64::from(code) + 1;
        let (last, slots) = self.errors.split_last().expect("the array is not empty");
        for slot in slots {
            let present = match slot.load(Relaxed) {
                0 => key << COUNT_BITS,
                present => present,
            };
            if present >> COUNT_BITS == key {
                return slot.store(present + amount, Relaxed);
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
