//! The workers of one measured arm: one thread per connection, and a coordinator for what the script does once. They
//! rest at their gate between slices. At the end all are waited for; if one does not end, the failure is fatal.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bakeoff_metrics::SliceTotals;

use crate::connector::Connector;
use crate::failure::{Code, Failure};
use crate::host::{Environment, SliceHost, SlicePlan, ThreadHost};
use crate::machine::placement::Pairing;
use crate::net::{ConnectionCanceller, ServerAddress};
use crate::start_gate::{Barrier, Slice, StartGate, WaitError};
use crate::worker_pool::{ENDING_LIMIT, PoolOptions, STACK_BYTES, WorkerContext, WorkerPool, guarded, spawn};
use crate::worker_stats::{Latencies, LatencyShard, LatencyStore, WorkerStats};

const GOODBYE: Duration = Duration::from_secs(10);
const DONE_LIMIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(2);
/// Latencies that a worker holds back: those of a slice of 5 ms, in 6 kB.
const HELD_LATENCIES: usize = 256;

/// What the threads of an arm run: a script, a replay, or a test's model of service times.
pub trait Workload: Send + Sync + 'static {
    /// Once for all workers: prepares, calls `while_workers_run` (which returns when they are gone), and tidies up.
    fn coordinate(&self, host: Rc<SliceHost>, while_workers_run: &dyn Fn()) -> Result<(), Failure> {
        drop(host);
        while_workers_run();
        Ok(())
    }

    fn work(&self, host: Rc<SliceHost>) -> Result<(), Failure>;
}

pub struct ArmPlan {
    pub arm: String,
    pub address: Arc<ServerAddress>,
    pub slices: SlicePlan,
    pub environment: Arc<dyn Environment>,
    /// At least one. The first of its workers creates each, so that it is on that worker's memory node.
    pub shards: Vec<OnceLock<Arc<LatencyShard>>>,
    pub pairing: Option<Arc<Pairing>>,
}

#[derive(Debug, Default)]
pub struct SliceSum {
    pub totals: SliceTotals,
    pub connections: u64,
    pub active: u64,
    /// When the last of them ended its window or, without one, rested [ns of the clock].
    pub ended_ns: u64,
}

pub struct ArmWorkers {
    plan: Arc<ArmPlan>,
    pool: WorkerPool,
    stats: Vec<Arc<WorkerStats>>,
    start: Arc<Barrier>,
    coordinator: Option<Coordinator>,
    slice: u32,
}

struct Coordinator {
    thread: JoinHandle<Result<(), Failure>>,
    finish: Sender<()>,
    canceller: Arc<ConnectionCanceller>,
}

impl ArmWorkers {
    pub fn start(plan: ArmPlan, workload: &Arc<dyn Workload>) -> Self {
        let (threads, plan) = (plan.slices.threads, Arc::new(plan));
        // The coordinator counts as a worker until it has initialised.
        let gate = Arc::new(StartGate::new(threads as usize + 1));
        let start = Arc::new(Barrier::new(threads as usize + 1));
        let stats: Vec<Arc<WorkerStats>> = (0..threads).map(|_| Arc::default()).collect();
        let options = PoolOptions { name: &plan.arm, threads, stack_bytes: STACK_BYTES };
        let (its_plan, its_load, its_start, its_stats) =
            (Arc::clone(&plan), Arc::clone(workload), Arc::clone(&start), stats.clone());
        let pool = WorkerPool::start_at(gate, options, move |context| {
            let host = its_plan.host(context, Arc::clone(&its_stats[context.thread as usize]));
            its_start.wait();
            if !context.gate.is_closed() {
                its_load.work(Rc::clone(&host))?;
            }
            host.latencies.add_all();
            Ok(())
        });
        let coordinator = Coordinator::start(&plan, workload, &pool, &start);
        Self { plan, pool, stats, start, coordinator, slice: 0 }
    }

    pub fn wait_resting(&self, limit: Duration) -> Result<usize, WaitError> {
        self.pool.gate().wait_all_resting(limit)
    }

    pub fn begin(&mut self, slice: &Arc<Slice>) {
        self.slice = self.pool.gate().open(Arc::clone(slice));
    }

    pub fn slice_sum(&self) -> SliceSum {
        let mut sum = SliceSum::default();
        let workers = self.stats.iter();
        for (totals, ended_ns) in workers.filter_map(|stats| stats.totals_of(self.slice)) {
            sum.totals.merge(&totals);
            sum.connections += 1;
            sum.active += u64::from(totals.events > 0);
            sum.ended_ns = sum.ended_ns.max(ended_ns);
        }
        sum
    }

    pub fn failure(&self) -> Option<Failure> {
        self.pool.failure()
    }

    pub fn end(mut self) -> Result<Latencies, Failure> {
        self.pool.gate().close();
        if self.pool.gate().wait_all_gone(GOODBYE) > 0 {
            self.cut();
        }
        self.join(DONE_LIMIT)?;
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        let mut latencies = Latencies::default();
        for shard in self.plan.shards.iter().filter_map(OnceLock::get) {
            shard.with(|part| latencies.merge(part));
        }
        Ok(latencies)
    }

    /// Cuts all connections and joins the threads because of `failure`. Returns it, fatal if a thread does not end.
    #[must_use]
    pub fn abandon(mut self, failure: Failure) -> Failure {
        self.cut();
        match self.join(Duration::ZERO) {
            Err(stuck) if stuck.fatal => {
                Failure { message: format!("{}; {stuck}", failure.message), ..failure }.fatal()
            }
            _ => failure,
        }
    }

    fn cut(&self) {
        self.pool.cut();
        if let Some(coordinator) = &self.coordinator {
            coordinator.canceller.cut();
        }
        self.start.break_up();
    }

    fn join(&mut self, done_limit: Duration) -> Result<(), Failure> {
        let stuck = self.pool.gate().wait_all_gone(ENDING_LIMIT);
        if stuck > 0 {
            let who = "threads (workers or init())";
            return Err(self.fatal(&format!("{stuck} {who} still run although their connections were cut")));
        }
        let Some(Coordinator { thread, finish, canceller }) = self.coordinator.take() else { return Ok(()) };
        let _ = finish.send(());
        let began = Instant::now();
        while !thread.is_finished() {
            if began.elapsed() > done_limit {
                canceller.cut();
            }
            if began.elapsed() > done_limit + ENDING_LIMIT {
                return Err(self.fatal("init() or done() still runs although its connections were cut"));
            }
            std::thread::sleep(POLL);
        }
        thread.join().unwrap_or(Ok(()))
    }

    fn fatal(&self, message: &str) -> Failure {
        Failure::new(Code::Internal, message).on_arm(&self.plan.arm).fatal()
    }
}

impl Drop for ArmWorkers {
    fn drop(&mut self) {
        self.cut();
    }
}

impl ArmPlan {
    fn host(&self, context: &WorkerContext, stats: Arc<WorkerStats>) -> Rc<SliceHost> {
        // The coordinator's number is the first after the workers'; its connections are not measured.
        let pairing = self.pairing.as_ref();
        let paired =
            pairing.filter(|_| context.thread < self.slices.threads).map(|pairing| pairing.worker(context.thread));
        if let Some(worker) = &paired {
            worker.settle(); // before the thread makes its script's heap
        }
        let connector = Connector::new(Arc::clone(&self.address), Arc::clone(&context.canceller)).paired(paired);
        let shard = self.shards[context.thread as usize % self.shards.len()].get_or_init(Arc::default);
        let latencies = LatencyStore::new(Arc::clone(shard), HELD_LATENCIES);
        let host = ThreadHost::new(Arc::clone(&self.environment), connector, Arc::clone(&context.barrier));
        Rc::new(SliceHost::new(self.slices, context, host, (stats, latencies)))
    }
}

impl Coordinator {
    fn start(
        plan: &Arc<ArmPlan>,
        workload: &Arc<dyn Workload>,
        pool: &WorkerPool,
        start: &Arc<Barrier>,
    ) -> Option<Self> {
        let context = pool.context(plan.slices.threads);
        let canceller = Arc::clone(&context.canceller);
        let (its_plan, load, its_start) = (Arc::clone(plan), Arc::clone(workload), Arc::clone(start));
        let (finish, finished) = channel();
        let body = move || {
            let running = Cell::new(false);
            let while_workers_run = || {
                running.set(true);
                context.gate.leave();
                its_start.wait();
                let _ = finished.recv();
            };
            let result = guarded(|| load.coordinate(its_plan.host(&context, Arc::default()), &while_workers_run));
            let result = result.map_err(|failure| failure.on_arm(&its_plan.arm));
            if running.get() {
                return result;
            }
            if let Err(failure) = result {
                context.gate.fail(failure);
            }
            context.gate.leave();
            its_start.break_up();
            Ok(())
        };
        let spawned = match pool.spawn_failure() {
            None => spawn(&plan.arm, "c", STACK_BYTES, body).map_err(|failure| pool.gate().fail(failure)).ok(),
            Some(_) => None,
        };
        if spawned.is_none() {
            pool.gate().leave();
            start.break_up();
        }
        spawned.map(|thread| Self { thread, finish, canceller })
    }
}
