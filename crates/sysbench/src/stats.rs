//! What the workers of a run count, and how it is read while they run. Latencies go into a few histograms that workers
//! share, because 5,000 idle workers must not cost 5,000 histograms.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use bakeoff_load::lock;
use bakeoff_load::worker_stats::{Latencies, LatencyShard, LatencyStore, WorkerStats};
use bakeoff_metrics::{LatencyHistogram, SliceTotals, ms, seconds};

const MOST_SHARDS: usize = 64;

#[derive(Debug)]
pub(crate) struct Stats {
    workers: Vec<Arc<WorkerStats>>,
    shards: Vec<Arc<LatencyShard>>,
    running: AtomicU32,
    /// When the last worker ended its events [ns of the clock], 0 if none has.
    last_departure_ns: AtomicU64,
    collected: Mutex<Collected>,
}

#[derive(Debug, Default)]
struct Collected {
    latest: Latencies,
    interval: Latencies,
    period: Latencies,
    whole: Latencies,
    /// Shortest and longest event of each shard [ns].
    extremes_ns: Vec<Option<(u64, u64)>>,
}

#[derive(Debug, Default)]
pub(crate) struct Delta {
    pub(crate) seconds: f64,
    pub(crate) totals: SliceTotals,
    pub(crate) latencies: Latencies,
    pub(crate) by_worker: Vec<(u64, f64)>,
}

impl Delta {
    pub(crate) fn events(&self) -> &LatencyHistogram {
        self.latencies.by_operation()[0].1
    }

    #[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
    pub(crate) fn per_second(&self, count: u64) -> f64 {
        if self.seconds > 0.0 { count as f64 / self.seconds } else { 0.0 }
    }

    pub(crate) fn queries(&self) -> u64 {
        self.totals.reads + self.totals.writes + self.totals.other
    }

    pub(crate) fn errors(&self) -> u64 {
        self.totals.errors.values().sum()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    at_ns: u64,
    totals: SliceTotals,
    by_worker: Vec<(u64, u64)>,
}

impl Snapshot {
    pub(crate) fn start(at_ns: u64) -> Self {
        Self { at_ns, ..Self::default() }
    }
}

impl Stats {
    pub(crate) fn new(threads: u32) -> Self {
        let threads = threads as usize;
        Self {
            workers: (0..threads).map(|_| Arc::default()).collect(),
            shards: (0..threads.clamp(1, MOST_SHARDS)).map(|_| Arc::default()).collect(),
            running: AtomicU32::new(0),
            last_departure_ns: AtomicU64::new(0),
            collected: Mutex::default(),
        }
    }

    pub(crate) fn of_worker(&self, thread: u32) -> (Arc<WorkerStats>, LatencyStore) {
        let shard = &self.shards[thread as usize % self.shards.len()];
        (Arc::clone(&self.workers[thread as usize]), LatencyStore::Shared(Arc::clone(shard)))
    }

    pub(crate) fn arrive(&self) {
        self.running.fetch_add(1, Relaxed);
    }

    pub(crate) fn depart(&self, now_ns: u64) {
        self.running.fetch_sub(1, Relaxed);
        self.last_departure_ns.fetch_max(now_ns, Relaxed);
    }

    /// When the last worker ended its events [ns of the clock]. What follows (`thread_done()`, goodbyes) is not part of the run.
    pub(crate) fn last_departure_ns(&self) -> Option<u64> {
        Some(self.last_departure_ns.load(Relaxed)).filter(|ns| *ns > 0)
    }

    pub(crate) fn threads_running(&self) -> u32 {
        self.running.load(Relaxed)
    }

    pub(crate) fn events_running(&self) -> u64 {
        self.workers.iter().filter(|worker| worker.is_in_event()).count() as u64
    }

    pub(crate) fn interval(&self, snapshot: &mut Snapshot, now_ns: u64) -> Delta {
        self.taken(snapshot, now_ns, |collected| &mut collected.interval)
    }

    pub(crate) fn period(&self, snapshot: &mut Snapshot, now_ns: u64) -> Delta {
        self.taken(snapshot, now_ns, |collected| &mut collected.period)
    }

    pub(crate) fn whole(&self, counting_since_ns: u64, now_ns: u64) -> Delta {
        self.taken(&mut Snapshot::start(counting_since_ns), now_ns, |collected| &mut collected.whole)
    }

    fn taken(&self, snapshot: &mut Snapshot, now_ns: u64, from: fn(&mut Collected) -> &mut Latencies) -> Delta {
        let mut collected = self.collect();
        let latencies = std::mem::take(from(&mut collected));
        self.delta(snapshot, now_ns, latencies)
    }

    pub(crate) fn extremes_ms(&self, thread: usize) -> (f64, f64) {
        let collected = lock(&self.collected);
        let of_shard = collected.extremes_ns.get(thread % self.shards.len());
        let (min, max) = of_shard.copied().flatten().unwrap_or_default();
        (ms(min), ms(max))
    }

    fn collect(&self) -> MutexGuard<'_, Collected> {
        let mut collected = lock(&self.collected);
        collected.extremes_ns.resize(self.shards.len(), None);
        for (place, shard) in self.shards.iter().enumerate() {
            let Collected { latest, interval, period, whole, extremes_ns } = &mut *collected;
            shard.take_into(latest);
            let events = latest.by_operation()[0].1;
            if events.count() > 0 {
                let (min, max) = extremes_ns[place].unwrap_or((u64::MAX, 0));
                extremes_ns[place] = Some((min.min(events.min_ns()), max.max(events.max_ns())));
                for sum in [interval, period, whole] {
                    sum.merge(latest);
                }
                latest.clear();
            }
        }
        collected
    }

    fn delta(&self, snapshot: &mut Snapshot, now_ns: u64, latencies: Latencies) -> Delta {
        let mut totals = SliceTotals::default();
        let mut by_worker = Vec::with_capacity(self.workers.len());
        for worker in &self.workers {
            let of_worker = worker.counters().totals();
            by_worker.push((of_worker.events, of_worker.latency_sum_ns));
            totals.merge(&of_worker);
        }
        let before = std::mem::replace(
            snapshot,
            Snapshot { at_ns: now_ns, totals: totals.clone(), by_worker: by_worker.clone() },
        );
        for (worker, earlier) in by_worker.iter_mut().zip(&before.by_worker) {
            worker.0 -= earlier.0;
            worker.1 -= earlier.1;
        }
        Delta {
            seconds: seconds(now_ns.saturating_sub(before.at_ns)),
            totals: totals.since(&before.totals),
            latencies,
            by_worker: by_worker.into_iter().map(|(events, busy_ns)| (events, seconds(busy_ns))).collect(),
        }
    }
}

#[cfg(test)]
#[path = "../tests/unit/stats.rs"]
mod tests;
