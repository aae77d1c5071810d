//! What the workers of a run count, and how it is read while they run. Latencies go into a few histograms that workers
//! share, because 5,000 idle workers must not cost 5,000 histograms.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

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
    sums: [Latencies; 3],
    /// Shortest and longest event of each shard [ns].
    extremes_ns: Vec<Option<(u64, u64)>>,
}

/// What a report covers. Each kind takes the latencies since the last report of its kind.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) enum Span {
    /// Between intermediate reports.
    #[default]
    Interval,
    /// Between checkpoints.
    Period,
    Whole,
}

#[derive(Debug, Default)]
pub(crate) struct Delta {
    pub(crate) seconds: f64,
    pub(crate) totals: SliceTotals,
    pub(crate) latencies: Latencies,
    /// Events of each worker, and the seconds that they took.
    pub(crate) by_worker: Vec<(u64, f64)>,
}

impl Delta {
    pub(crate) fn events(&self) -> &LatencyHistogram {
        self.latencies.by_operation()[0].1
    }

    pub(crate) fn per_second(&self, count: u64) -> f64 {
        if self.seconds > 0.0 { count as f64 / self.seconds } else { 0.0 }
    }

    pub(crate) fn queries(&self) -> u64 {
        self.totals.reads + self.totals.writes + self.totals.other
    }

    pub(crate) fn errors(&self) -> u64 {
        self.totals.errors.values().sum()
    }

    /// Means and standard deviations over the workers: of their events, and of the seconds that these took.
    pub(crate) fn fairness(&self) -> [(f64, f64); 2] {
        let (events, seconds): (Vec<_>, Vec<_>) = self.by_worker.iter().map(|each| (each.0 as f64, each.1)).unzip();
        [mean_and_deviation(&events), mean_and_deviation(&seconds)]
    }
}

fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    (mean, variance.sqrt())
}

#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    span: Span,
    at_ns: u64,
    totals: SliceTotals,
    by_worker: Vec<(u64, u64)>,
}

impl Snapshot {
    pub(crate) fn start(span: Span, at_ns: u64) -> Self {
        Self { span, at_ns, ..Self::default() }
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
        (Arc::clone(&self.workers[thread as usize]), LatencyStore::new(Arc::clone(shard), 1))
    }

    pub(crate) fn arrive(&self) {
        self.running.fetch_add(1, Relaxed);
    }

    pub(crate) fn depart(&self, now_ns: u64) {
        self.running.fetch_sub(1, Relaxed);
        self.last_departure_ns.fetch_max(now_ns, Relaxed);
    }

    /// When the last worker ended its events [ns of the clock]. `thread_done()` and goodbyes are not part of the run.
    pub(crate) fn last_departure_ns(&self) -> Option<u64> {
        Some(self.last_departure_ns.load(Relaxed)).filter(|ns| *ns > 0)
    }

    pub(crate) fn threads_running(&self) -> u32 {
        self.running.load(Relaxed)
    }

    pub(crate) fn events_running(&self) -> u64 {
        self.workers.iter().filter(|worker| worker.is_in_event()).count() as u64
    }

    /// Shortest and longest event of the thread's shard.
    pub(crate) fn extremes_ms(&self, thread: usize) -> (f64, f64) {
        let collected = lock(&self.collected);
        let of_shard = collected.extremes_ns.get(thread % self.shards.len());
        let (min, max) = of_shard.copied().flatten().unwrap_or_default();
        (ms(min), ms(max))
    }

    /// Returns what happened since the snapshot and moves it to now.
    pub(crate) fn since(&self, snapshot: &mut Snapshot, now_ns: u64) -> Delta {
        let latencies = self.collect(snapshot.span);
        let of_worker: Vec<SliceTotals> = self.workers.iter().map(|worker| worker.counters().totals()).collect();
        let mut totals = SliceTotals::default();
        for each in &of_worker {
            totals.merge(each);
        }
        let by_worker: Vec<_> = of_worker.iter().map(|each| (each.events, each.latency_sum_ns)).collect();
        let now = Snapshot { span: snapshot.span, at_ns: now_ns, totals, by_worker };
        let before = std::mem::replace(snapshot, now);
        let earlier = before.by_worker.into_iter().chain(std::iter::repeat((0, 0)));
        let by_worker = snapshot.by_worker.iter().zip(earlier);
        Delta {
            seconds: seconds(now_ns.saturating_sub(before.at_ns)),
            totals: snapshot.totals.since(&before.totals),
            latencies,
            by_worker: by_worker.map(|(now, before)| (now.0 - before.0, seconds(now.1 - before.1))).collect(),
        }
    }

    fn collect(&self, span: Span) -> Latencies {
        let mut collected = lock(&self.collected);
        let Collected { latest, sums, extremes_ns } = &mut *collected;
        extremes_ns.resize(self.shards.len(), None);
        for (shard, extremes) in self.shards.iter().zip(extremes_ns) {
            shard.take_into(latest);
            let events = latest.by_operation()[0].1;
            if events.count() > 0 {
                let (min, max) = extremes.unwrap_or((u64::MAX, 0));
                *extremes = Some((min.min(events.min_ns()), max.max(events.max_ns())));
                for sum in sums.iter_mut() {
                    sum.merge(latest);
                }
                latest.clear();
            }
        }
        std::mem::take(&mut sums[span as usize])
    }
}

#[cfg(test)]
#[path = "../tests/unit/stats.rs"]
mod tests;
