use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bakeoff_load::arrivals::{ArrivalSchedule, LONGEST_QUEUE};
use bakeoff_load::connector::pairing;
use bakeoff_load::failure::Failure;
use bakeoff_load::host::{Environment, Mode, WorkerHost};
use bakeoff_load::machine::placement::{Pairing, Placement};
use bakeoff_load::start_gate::{Semaphore, Slice, WaitError};
use bakeoff_load::worker_pool::{PoolOptions, WorkerContext, WorkerPool, give_back_memory, spawn};
use bakeoff_metrics::{now_ns, seconds};
use bakeoff_script::Script;
use bakeoff_script::host::LogLevel;
use serde_json::Value;

use crate::report::final_block::{Heading, block};
use crate::report::machine_readable::HdrLog;
use crate::report::reporter::{CUMULATIVE, Reported, Reporter};
use crate::report::{cumulative_statistics, histogram, of_thread, operations};
use crate::run_options::RunOptions;
use crate::session::{IdleConnections, SysbenchSession};
use crate::stats::{Delta, Snapshot, Stats};
use crate::test::{Test, TestWorker};

/// sysbench's message if `--rate` is more than the workers can do.
const FULL_QUEUE: &str = "The event queue is full. This means the worker threads are unable to keep up with the specified event generation rate";

/// How long workers may take to end their events after a failure, and again to end once their connections are cut.
const LAST_GRACE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(200);

const REPORTER_STACK_BYTES: usize = 2 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Complete,
    Failed,
    NotReady,
    Forced { unfinished: u64 },
}

pub(crate) struct Run {
    pub(crate) test: Arc<Test>,
    pub(crate) options: Arc<RunOptions>,
    pub(crate) session: Arc<SysbenchSession>,
}

pub(crate) struct Outcome {
    pub(crate) ending: Ending,
    pub(crate) whole: Delta,
    pub(crate) intervals: Vec<Value>,
    /// With `--rate`: events that were due and never begun.
    pub(crate) dropped: Option<u64>,
}

impl Outcome {
    fn without_a_run(ending: Ending) -> Self {
        Self { ending, whole: Delta::default(), intervals: Vec::new(), dropped: None }
    }
}

impl Run {
    pub(crate) fn run(&self, main: Option<&Script>, hdr_log: Option<HdrLog>) -> Outcome {
        let console = &self.session.console;
        // Held until the run has ended.
        let _idle = match self.open_idle_connections() {
            Ok(idle) => idle,
            Err(words) => {
                console.fatal(&words);
                return Outcome::without_a_run(Ending::Failed);
            }
        };
        let stats = Arc::new(Stats::new(self.options.threads));
        let pairing = self.pairing();
        let workers = self.start_workers(&stats, pairing.clone());
        if let Err(ending) = self.wait_until_ready(&workers) {
            return Outcome::without_a_run(ending);
        }
        let unpaired = || pairing.as_ref().and_then(|pairing| pairing.failure());
        if let Some(reason) = unpaired() {
            console.fatal(&format!("connections cannot be paired: {reason}"));
            end_workers(&workers);
            return Outcome::without_a_run(Ending::Failed);
        }
        give_back_memory(self.options.threads as usize);
        let (reporter, start) = self.start_reporter(&stats, hdr_log);
        let slice = Arc::new(self.slice());
        self.announce();
        workers.gate().open(Arc::clone(&slice));
        // A reporter that could not be started is reported below.
        let _ = start.send(Arc::clone(&slice));

        let ending = self.wait_until_done(&workers, &stats, &slice);
        let end_ns = match ending {
            Ending::Complete => stats.last_departure_ns().unwrap_or_else(now_ns),
            _ => now_ns(),
        };
        drop(start);
        // After a forced end a worker may still be connecting, which would block the question.
        if let Some(reason) = (ending == Ending::Complete).then(unpaired).flatten() {
            let words = format!("not every connection could be paired again: {reason}");
            console.log(LogLevel::Warning, &words);
        }
        let reported = match end_reporter(reporter.map_err(|failure| self.options.no_thread(&failure))) {
            Ok(reported) => reported,
            Err(words) => {
                console.fatal(&words);
                return Outcome::without_a_run(Ending::Failed);
            }
        };
        self.report_ending(ending, &workers);
        if ending != Ending::Failed {
            self.report(main, &stats, reported.period, (slice.guard_end_ns, end_ns));
        }
        Outcome {
            ending,
            dropped: self.dropped(&slice, end_ns),
            whole: stats.whole(slice.guard_end_ns, end_ns),
            intervals: reported.intervals,
        }
    }

    fn open_idle_connections(&self) -> Result<Option<IdleConnections>, String> {
        let count = self.options.idle_connections;
        let wanted = (count > 0 && !self.session.dry_run).then(|| IdleConnections::open(&self.session, count));
        wanted.transpose()
    }

    /// Starts all workers, which set themselves up in parallel. They are not joined, because a forced shutdown leaves some behind.
    fn start_workers(&self, stats: &Arc<Stats>, pairing: Option<Arc<Pairing>>) -> WorkerPool {
        let options = PoolOptions { name: "sb", threads: self.options.threads, stack_bytes: self.options.stack_bytes };
        let worker = Worker {
            test: Arc::clone(&self.test),
            session: Arc::clone(&self.session),
            stats: Arc::clone(stats),
            pairing,
            events_left: self.options.events.map(|events| Arc::new(AtomicU64::new(events))),
            loading: Semaphore::for_cpus(),
            counts_set_up: self.options.warmup.is_zero() && !self.test.ramps_up(),
        };
        let pool = WorkerPool::start(options, move |context| worker.work(context));
        if let Some(failure) = pool.spawn_failure() {
            self.session.console.fatal(&self.options.no_thread(failure));
        }
        pool
    }

    fn wait_until_ready(&self, workers: &WorkerPool) -> Result<(), Ending> {
        let limit = self.options.thread_init_timeout;
        let console = &self.session.console;
        match workers.gate().wait_all_resting(limit) {
            Ok(_) => Ok(()),
            Err(WaitError::Failed(_)) => {
                console.fatal("Thread initialization failed!");
                end_workers(workers);
                Err(Ending::Failed)
            }
            Err(WaitError::TimedOut { .. }) => {
                let seconds = limit.as_secs();
                console.fatal(&format!("Worker threads failed to initialize within {seconds} seconds!"));
                workers.gate().close();
                Err(Ending::NotReady)
            }
        }
    }

    /// Waits until every worker has ended, one has failed, it is time for a forced shutdown, or too many events wait.
    fn wait_until_done(&self, workers: &WorkerPool, stats: &Stats, slice: &Slice) -> Ending {
        let gate = workers.gate();
        let waiting = || {
            let due_by_ns = now_ns().min(slice.deadline_ns);
            slice.schedule.as_ref().map_or(0, |schedule| schedule.waiting(due_by_ns))
        };
        let limit_ns = match self.options.forced_shutdown {
            Some(grace) => slice.deadline_ns.saturating_add(ns(grace)),
            None => u64::MAX,
        };
        loop {
            let left = Duration::from_nanos(limit_ns.saturating_sub(now_ns()));
            let are_gone = gate.wait_all_gone(left.min(POLL)) == 0;
            if gate.failure().is_none() && waiting() > LONGEST_QUEUE {
                self.session.console.fatal(FULL_QUEUE);
                end_workers(workers);
                return Ending::Failed;
            }
            if are_gone {
                break;
            }
            if gate.failure().is_some() {
                end_workers(workers);
                break;
            }
            if now_ns() >= limit_ns {
                gate.close();
                return Ending::Forced { unfinished: stats.events_running() };
            }
        }
        if gate.failure().is_some() { Ending::Failed } else { Ending::Complete }
    }

    fn start_reporter(
        &self,
        stats: &Arc<Stats>,
        hdr_log: Option<HdrLog>,
    ) -> (Result<JoinHandle<Reported>, Failure>, Sender<Arc<Slice>>) {
        let (start, started) = channel();
        let reporter = Reporter {
            session: Arc::clone(&self.session),
            stats: Arc::clone(stats),
            test: Arc::clone(&self.test),
            options: Arc::clone(&self.options),
            hdr_log,
        };
        let body = move || reporter.run(&started);
        let stack_bytes = self.options.stack_bytes.max(REPORTER_STACK_BYTES);
        (spawn("sb", "report", stack_bytes, body), start)
    }

    fn announce(&self) {
        let console = &self.session.console;
        if let Some(server) = self.session.server().filter(|_| self.options.remarks && !self.session.dry_run) {
            let (charset, collation) = (&server.charset, &server.collation);
            console.notice(&format!("Connection character set: {charset}, collation: {collation}"));
        }
        console.notice("Threads started!\n");
        if !self.options.warmup.is_zero() {
            console.notice(&format!("Warming up for {} seconds...\n", self.options.warmup.as_secs()));
        }
    }

    fn pairing(&self) -> Option<Arc<Pairing>> {
        if self.options.placement == Placement::Free || self.session.dry_run {
            return None;
        }
        let pairing = match self.session.rotation.only() {
            Some(address) => pairing(address, None),
            None => Err("there are several servers".to_owned()),
        };
        let warn = |reason: &String| {
            let words = format!("connections cannot be paired: {reason}; their threads run free");
            self.session.console.log(LogLevel::Warning, &words);
        };
        pairing.inspect_err(warn).ok()
    }

    fn slice(&self) -> Slice {
        let start_ns = now_ns();
        let guard_end_ns = start_ns.saturating_add(ns(self.options.warmup));
        let deadline_ns = self.options.time.map_or(u64::MAX, |time| guard_end_ns.saturating_add(ns(time)));
        let rate = self.options.rate_per_s;
        Slice {
            block: 0,
            turn: 0,
            start_ns,
            guard_end_ns,
            deadline_ns,
            open_windows: AtomicUsize::default(),
            schedule: rate.map(|rate| ArrivalSchedule::poisson(rate, start_ns, deadline_ns, self.options.seed)),
        }
    }

    fn report_ending(&self, ending: Ending, workers: &WorkerPool) {
        let console = &self.session.console;
        match ending {
            Ending::Complete => console.log(LogLevel::Info, "Done.\n"),
            Ending::Forced { unfinished } => {
                console.fatal("The --max-time limit has expired, forcing shutdown...");
                console.notice(&format!("\nNumber of unfinished transactions on forced shutdown: {unfinished}"));
                workers.cut_connections();
            }
            Ending::Failed | Ending::NotReady => {}
        }
    }

    fn report_operations(&self, main: Option<&Script>, delta: &Delta, numbers: &[(&str, f64)]) {
        let console = &self.session.console;
        let Some(table) = operations(delta) else {
            return;
        };
        console.notice(&table);
        let named = delta.latencies.by_operation().into_iter().skip(1);
        let named: Vec<_> =
            named.map(|(name, latencies)| (name, latencies.count(), seconds(latencies.quantile_ns(0.9)))).collect();
        if let Some(script) = main.filter(|_| console.shows(LogLevel::Notice))
            && let Err(error) = script.report_operations(numbers, &named)
        {
            console.script_failed("sysbench.hooks.report_operations", &error);
        }
    }

    fn report(&self, main: Option<&Script>, stats: &Stats, mut period: Snapshot, (count_from_ns, end_ns): (u64, u64)) {
        let (console, options) = (&self.session.console, &self.options);
        let delta = stats.period(&mut period, end_ns);
        if options.histogram {
            console.notice(&histogram(&delta));
        }
        let total_s = seconds(end_ns.saturating_sub(count_from_ns));
        let numbers = cumulative_statistics(&delta, total_s, options.percentiles.first(), 0);
        if let Some(script) = main.filter(|script| script.has_hook(CUMULATIVE)) {
            if let Err(error) = script.report(CUMULATIVE, &numbers) {
                console.script_failed("sysbench.hooks.report_cumulative", &error);
            }
            return;
        }
        let heading = Heading::of(&self.test, self.session.server().is_some());
        console.notice(&block(&delta, total_s, heading, options.dialect, &options.percentiles));
        self.report_operations(main, &delta, &numbers);
        if options.debug {
            console.log(LogLevel::Debug, "Verbose per-thread statistics:\n");
            for (thread, (events, seconds)) in delta.by_worker.iter().enumerate() {
                for line in of_thread(thread, *events, *seconds, stats.extremes_ms(thread)) {
                    console.log(LogLevel::Debug, &line);
                }
            }
            console.notice("");
        }
    }

    /// With `--rate` and a run that its time ended: counts events that were due and never begun.
    fn dropped(&self, slice: &Slice, end_ns: u64) -> Option<u64> {
        let schedule = slice.schedule.as_ref()?;
        if end_ns < slice.deadline_ns {
            return Some(0);
        }
        let dropped = schedule.waiting(slice.deadline_ns);
        if self.options.remarks && schedule.fell_behind(dropped, self.options.threads, slice.deadline_ns) {
            self.session.console.log(
                LogLevel::Warning,
                &format!("{dropped} events were due and never begun: the servers did not keep up with --rate"),
            );
        }
        Some(dropped)
    }
}

struct Worker {
    test: Arc<Test>,
    session: Arc<SysbenchSession>,
    stats: Arc<Stats>,
    pairing: Option<Arc<Pairing>>,
    /// `--events`: counted events that may still begin. None for no limit.
    events_left: Option<Arc<AtomicU64>>,
    loading: Semaphore,
    /// Statements of `thread_init()` count, as in sysbench, unless there is a warm-up or the script itself loads the server there.
    counts_set_up: bool,
}

impl Worker {
    fn work(&self, context: &WorkerContext) -> Result<(), Failure> {
        let (console, thread) = (&self.session.console, context.thread);
        console.log(LogLevel::Debug, &format!("Worker thread (#{thread}) started"));
        let pairing = self.pairing.as_ref();
        let connector = self.session.connector(Arc::clone(&context.canceller));
        let host = Rc::new(WorkerHost::new(
            context,
            Mode::Run { events_left: self.events_left.clone(), counts_set_up: self.counts_set_up },
            Arc::clone(&self.session) as Arc<dyn Environment>,
            connector.paired(pairing.map(|pairing| pairing.worker(thread))),
            self.stats.of_worker(thread),
        ));
        self.test.work(&TestWorker {
            host: &host,
            session: &self.session,
            stats: &self.stats,
            loading: &self.loading,
        })?;
        let events_left = self.events_left.as_ref();
        if host.is_past_deadline() {
            console.log(LogLevel::Info, "Time limit exceeded, exiting...");
        } else if events_left.is_some_and(|left| left.load(Relaxed) == 0) {
            console.log(LogLevel::Info, "Event limit exceeded, exiting...");
        }
        Ok(())
    }
}

fn end_workers(workers: &WorkerPool) {
    let gate = workers.gate();
    gate.close();
    let until = Instant::now() + LAST_GRACE;
    if gate.wait_all_gone(LAST_GRACE) > 0 {
        workers.cut_connections();
        gate.wait_all_gone(until.saturating_duration_since(Instant::now()) + LAST_GRACE);
    }
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn end_reporter(reporter: Result<JoinHandle<Reported>, String>) -> Result<Reported, String> {
    reporter?.join().map_err(|_| "a bug in the engine: panic in the reporting thread".to_owned())
}
