//! What the workers of a run count, and how it is read while they run.
//!
//! Counters belong to one worker each and need no locked instruction. Latencies go into a few histograms that the workers share by
//! number, not into one each: 5,000 idle workers must not cost 5,000 histograms.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bakeoff_metrics::{LatencyHistogram, SliceCounters, SliceTotals};

use crate::latencies::Latencies;

/// Histograms at most; up to this many workers each has its own.
const MOST_SHARDS: usize = 64;

/// One worker's numbers.
#[derive(Debug, Default)]
pub(super) struct Seat {
    pub(super) counters: SliceCounters,
    /// Between an event's start and its end.
    pub(super) in_event: AtomicBool,
}

/// Alone in its pair of cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(Mutex<Latencies>);

/// The numbers of all workers.
#[derive(Debug)]
pub(super) struct Tally {
    seats: Vec<Seat>,
    shards: Vec<Shard>,
    running: AtomicU32,
    /// When the last worker ended its events [ns of the clock]; 0: none has.
    last_departure_ns: AtomicU64,
    collected: Mutex<Collected>,
}

/// Latencies taken out of the shards, for each of those who ask.
#[derive(Debug, Default)]
struct Collected {
    interval: Latencies,
    period: Latencies,
    whole: Latencies,
}

/// What happened in a stretch of the run.
#[derive(Debug, Default)]
pub(super) struct Stretch {
    pub(super) seconds: f64,
    pub(super) totals: SliceTotals,
    pub(super) latencies: Latencies,
    /// Each worker's events and the seconds that they took.
    pub(super) by_worker: Vec<(u64, f64)>,
}

impl Stretch {
    /// Latencies of whole events.
    pub(super) fn events(&self) -> &LatencyHistogram {
        self.latencies.by_operation()[0].1
    }

    /// So many of something, a second.
    #[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
    pub(super) fn per_second(&self, count: u64) -> f64 {
        if self.seconds > 0.0 {
            count as f64 / self.seconds
        } else {
            0.0
        }
    }

    /// Statements of all kinds.
    pub(super) fn queries(&self) -> u64 {
        self.totals.reads + self.totals.writes + self.totals.other
    }

    /// Errors that the script survived.
    pub(super) fn errors(&self) -> u64 {
        self.totals.errors.values().sum()
    }
}

/// Where a stretch began: what the workers had counted until then.
#[derive(Debug, Default)]
pub(super) struct Mark {
    at_ns: u64,
    totals: SliceTotals,
    by_worker: Vec<(u64, u64)>,
}

impl Mark {
    /// At the beginning of counting.
    pub(super) fn start(at_ns: u64) -> Self {
        Self {
            at_ns,
            ..Self::default()
        }
    }
}

impl Tally {
    pub(super) fn new(threads: u32) -> Self {
        let threads = threads as usize;
        Self {
            seats: (0..threads).map(|_| Seat::default()).collect(),
            shards: (0..threads.clamp(1, MOST_SHARDS))
                .map(|_| Shard::default())
                .collect(),
            running: AtomicU32::new(0),
            last_departure_ns: AtomicU64::new(0),
            collected: Mutex::default(),
        }
    }

    /// A worker's own numbers.
    #[inline]
    pub(super) fn seat(&self, thread: u32) -> &Seat {
        &self.seats[thread as usize]
    }

    /// Where a worker's latencies go.
    #[inline]
    pub(super) fn latencies(&self, thread: u32) -> MutexGuard<'_, Latencies> {
        let shard = &self.shards[thread as usize % self.shards.len()];
        shard.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker begins its events.
    pub(super) fn arrive(&self) {
        self.running.fetch_add(1, Relaxed);
    }

    /// A worker has ended them.
    pub(super) fn depart(&self, now_ns: u64) {
        self.running.fetch_sub(1, Relaxed);
        self.last_departure_ns.fetch_max(now_ns, Relaxed);
    }

    /// When the last worker ended its events [ns of the clock]: what comes after it (`thread_done()`, goodbyes) is no part of the run.
    pub(super) fn last_departure_ns(&self) -> Option<u64> {
        Some(self.last_departure_ns.load(Relaxed)).filter(|ns| *ns > 0)
    }

    /// Workers between [`Tally::arrive`] and [`Tally::depart`].
    pub(super) fn threads_running(&self) -> u32 {
        self.running.load(Relaxed)
    }

    /// Events that have begun and not ended.
    pub(super) fn events_running(&self) -> u64 {
        self.seats
            .iter()
            .filter(|seat| seat.in_event.load(Relaxed))
            .count() as u64
    }

    /// Since the last call: for an intermediate report.
    pub(super) fn interval(&self, mark: &mut Mark, now_ns: u64) -> Stretch {
        let mut collected = self.collect();
        let latencies = std::mem::take(&mut collected.interval);
        self.stretch(mark, now_ns, latencies)
    }

    /// Since the last call: for a checkpoint or the final report.
    pub(super) fn period(&self, mark: &mut Mark, now_ns: u64) -> Stretch {
        let mut collected = self.collect();
        let latencies = std::mem::take(&mut collected.period);
        self.stretch(mark, now_ns, latencies)
    }

    /// Since counting began.
    pub(super) fn whole(&self, counting_since_ns: u64, now_ns: u64) -> Stretch {
        let mut collected = self.collect();
        let latencies = std::mem::take(&mut collected.whole);
        self.stretch(&mut Mark::start(counting_since_ns), now_ns, latencies)
    }

    fn collect(&self) -> MutexGuard<'_, Collected> {
        let mut collected = self
            .collected
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for shard in &self.shards {
            // Out of the lock before the histograms are added up: workers wait for the first only.
            let latest =
                std::mem::take(&mut *shard.0.lock().unwrap_or_else(PoisonError::into_inner));
            let Collected {
                interval,
                period,
                whole,
            } = &mut *collected;
            if latest.by_operation()[0].1.count() > 0 {
                for sum in [interval, period, whole] {
                    sum.merge(&latest);
                }
            }
        }
        collected
    }

    #[expect(clippy::cast_precision_loss, reason = "2^53 ns are a hundred days")]
    fn stretch(&self, mark: &mut Mark, now_ns: u64, latencies: Latencies) -> Stretch {
        let mut totals = SliceTotals::default();
        let mut by_worker = Vec::with_capacity(self.seats.len());
        for seat in &self.seats {
            let of_worker = seat.counters.totals();
            by_worker.push((of_worker.events, of_worker.latency_sum_ns));
            totals.merge(&of_worker);
        }
        let before = std::mem::replace(
            mark,
            Mark {
                at_ns: now_ns,
                totals: totals.clone(),
                by_worker: by_worker.clone(),
            },
        );
        for (worker, earlier) in by_worker.iter_mut().zip(&before.by_worker) {
            worker.0 -= earlier.0;
            worker.1 -= earlier.1;
        }
        Stretch {
            seconds: now_ns.saturating_sub(before.at_ns) as f64 / 1e9,
            totals: totals.since(&before.totals),
            latencies,
            by_worker: by_worker
                .into_iter()
                .map(|(events, busy_ns)| (events, busy_ns as f64 / 1e9))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stretch_has_what_happened_in_it_and_nothing_is_lost() {
        let tally = Tally::new(100);
        let event = |thread, latency_ns| {
            tally.seat(thread).counters.add_event(latency_ns);
            tally.latencies(thread).record(&[], latency_ns);
        };
        let (mut intervals, mut periods) = (Mark::start(0), Mark::start(0));
        event(0, 1_000);
        event(99, 3_000);
        let first = tally.interval(&mut intervals, 2_000_000_000);
        assert_eq!(
            (
                first.totals.events,
                first.events().count(),
                first.events().max_ns()
            ),
            (2, 2, 3_000)
        );
        assert!((first.seconds - 2.0).abs() < 1e-9 && (first.per_second(2) - 1.0).abs() < 1e-9);
        event(99, 9_000);
        let second = tally.interval(&mut intervals, 3_000_000_000);
        assert_eq!((second.totals.events, second.events().min_ns()), (1, 9_000));
        let period = tally.period(&mut periods, 3_000_000_000);
        assert_eq!((period.totals.events, period.events().count()), (3, 3));
        assert_eq!(period.by_worker[99].0, 2);
        assert_eq!(tally.period(&mut periods, 4_000_000_000).totals.events, 0);
        assert_eq!(tally.whole(0, 4_000_000_000).events().count(), 3);
    }
}
