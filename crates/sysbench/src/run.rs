//! A run: starts the workers, waits for them, and reports what they did.

use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bakeoff_load::arrivals::{ArrivalSchedule, LONGEST_QUEUE};
use bakeoff_load::connector::pairing;
use bakeoff_load::machine::placement::{Pairing, Placement};
use bakeoff_load::start_gate::{Slice, WaitError};
use bakeoff_load::worker_pool::{PoolOptions, WorkerPool, give_back_memory, spawn};
use bakeoff_metrics::{LatencyHistogram, now_ns, seconds};
use bakeoff_script::Script;
use bakeoff_script::host::LogLevel;

use crate::report::final_block::block;
use crate::report::machine_readable::OutputFile;
use crate::report::reporter::{CUMULATIVE, Reporter};
use crate::report::{histogram, latency_statistics, of_thread, operations, statistics};
use crate::run_options::RunOptions;
use crate::session::SysbenchSession;
use crate::stats::{Delta, Snapshot, Span, Stats};
use crate::test::{Ending, Outcome, Run, Test, Worker};

const FULL_QUEUE: &str = "The event queue is full. This means the worker threads are unable to keep up with the specified event generation rate";

/// How long workers may take to end their events after a failure, and again to end once their connections are cut.
const LAST_GRACE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(200);

const REPORTER_STACK_BYTES: usize = 2 << 20;

impl Run {
    pub(crate) fn new(test: Test, options: &Arc<RunOptions>, session: &Arc<SysbenchSession>) -> Self {
        Self {
            test: Arc::new(test),
            options: Arc::clone(options),
            session: Arc::clone(session),
            stats: Arc::new(Stats::new(options.threads)),
        }
    }

    pub(crate) fn run(&self, main: Option<&Script>, hdr_log: Option<OutputFile>) -> Outcome {
        let without_a_run = |ending| Outcome { ending, whole: Delta::default(), intervals: Vec::new(), dropped: None };
        self.measure(main, hdr_log).unwrap_or_else(without_a_run)
    }

    fn fatal(&self, words: &str) -> Ending {
        self.session.console.fatal(words);
        Ending::Failed
    }

    fn measure(&self, main: Option<&Script>, hdr_log: Option<OutputFile>) -> Result<Outcome, Ending> {
        let (options, stats) = (&self.options, &self.stats);
        // Held until the run has ended.
        let _idle = self.session.idle_connections(options.idle_connections).map_err(|words| self.fatal(&words))?;
        let pairing = self.pairing();
        let workers = self.start_workers(pairing.clone());
        self.wait_until_ready(&workers)?;
        let unpaired = || pairing.as_ref().and_then(|pairing| pairing.failure());
        let stopped = |words: String| {
            let ending = self.fatal(&words);
            end_workers(&workers);
            ending
        };
        if let Some(reason) = unpaired() {
            return Err(stopped(format!("connections cannot be paired: {reason}")));
        }
        give_back_memory(options.threads as usize);
        let (start, started) = channel();
        let reporter = Reporter { run: self.clone(), hdr_log };
        let stack_bytes = options.stack_bytes.max(REPORTER_STACK_BYTES);
        let reporter = spawn("sb", "report", stack_bytes, move || reporter.run(&started))
            .map_err(|failure| stopped(options.no_thread(&failure)))?;
        let slice = Arc::new(self.slice());
        self.announce();
        workers.gate().open(Arc::clone(&slice));
        // Fails only if the reporter panicked, which is reported below.
        let _ = start.send(Arc::clone(&slice));

        let ending = self.wait_until_done(&workers, &slice);
        let end_ns = match ending {
            Ending::Complete => stats.last_departure_ns().unwrap_or_else(now_ns),
            _ => now_ns(),
        };
        drop(start);
        // After a forced end a worker may still be connecting, which would block the question.
        if let Some(reason) = (ending == Ending::Complete).then(unpaired).flatten() {
            let words = format!("not every connection could be paired again: {reason}");
            self.session.console.log(LogLevel::Warning, &words);
        }
        let reported = reporter.join().map_err(|_| self.fatal("a bug in the engine: panic in the reporting thread"))?;
        self.report_ending(ending, &workers);
        if ending != Ending::Failed {
            self.report(main, reported.period, (slice.guard_end_ns, end_ns));
        }
        Ok(Outcome {
            ending,
            dropped: self.dropped(&slice, end_ns),
            whole: stats.since(&mut Snapshot::start(Span::Whole, slice.guard_end_ns), end_ns),
            intervals: reported.intervals,
        })
    }

    /// Starts all workers, which set up in parallel. They are not joined, because a forced shutdown leaves some behind.
    fn start_workers(&self, pairing: Option<Arc<Pairing>>) -> WorkerPool {
        let options = PoolOptions { name: "sb", threads: self.options.threads, stack_bytes: self.options.stack_bytes };
        let cpus = std::thread::available_parallelism().map_or(4, usize::from);
        let worker = Worker {
            run: self.clone(),
            pairing,
            events_left: self.options.events.map(|events| Arc::new(AtomicU64::new(events))),
            loading: std::iter::repeat_with(Mutex::default).take(2 * cpus).collect(),
            counts_set_up: self.options.warmup.is_zero() && !self.test.ramps_up(),
        };
        let pool = WorkerPool::start(options, move |context| worker.work(context));
        if let Some(failure) = pool.spawn_failure() {
            self.fatal(&self.options.no_thread(failure));
        }
        pool
    }

    fn wait_until_ready(&self, workers: &WorkerPool) -> Result<(), Ending> {
        let limit = self.options.thread_init_timeout;
        workers.gate().wait_all_resting(limit).map(|_| ()).map_err(|error| match error {
            WaitError::Failed(_) => {
                let ending = self.fatal("Thread initialization failed!");
                end_workers(workers);
                ending
            }
            WaitError::TimedOut { .. } => {
                let seconds = limit.as_secs();
                self.fatal(&format!("Worker threads failed to initialize within {seconds} seconds!"));
                workers.gate().close();
                Ending::NotReady
            }
        })
    }

    /// Waits until every worker has ended, one has failed, it is time for a forced shutdown, or too many events wait.
    fn wait_until_done(&self, workers: &WorkerPool, slice: &Slice) -> Ending {
        let gate = workers.gate();
        let waiting = || {
            let due_by_ns = now_ns().min(slice.deadline_ns);
            slice.schedule.as_ref().map_or(0, |schedule| schedule.waiting(due_by_ns))
        };
        let grace = self.options.forced_shutdown;
        let limit_ns = grace.map_or(u64::MAX, |grace| slice.deadline_ns.saturating_add(grace.as_nanos() as u64));
        loop {
            let left = Duration::from_nanos(limit_ns.saturating_sub(now_ns()));
            let are_gone = gate.wait_all_gone(left.min(POLL)) == 0;
            if gate.failure().is_some() {
                end_workers(workers);
                return Ending::Failed;
            }
            if waiting() > LONGEST_QUEUE {
                let ending = self.fatal(FULL_QUEUE);
                end_workers(workers);
                return ending;
            }
            if are_gone {
                return Ending::Complete;
            }
            if now_ns() >= limit_ns {
                gate.close();
                return Ending::Forced { unfinished: self.stats.events_running() };
            }
        }
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
        let only = self.session.rotation.only().ok_or_else(|| "there are several servers".to_owned());
        let pairing = only.and_then(|address| pairing(address, None));
        let warn = |reason: &String| {
            let words = format!("connections cannot be paired: {reason}; their threads run free");
            self.session.console.log(LogLevel::Warning, &words);
        };
        pairing.inspect_err(warn).ok()
    }

    fn slice(&self) -> Slice {
        let start_ns = now_ns();
        let guard_end_ns = start_ns.saturating_add(self.options.warmup.as_nanos() as u64);
        let deadline_ns =
            self.options.time.map_or(u64::MAX, |time| guard_end_ns.saturating_add(time.as_nanos() as u64));
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

    pub(crate) fn call_hook(
        &self,
        script: &Script,
        hook: &str,
        numbers: &[(&str, f64)],
        operations: &[(&str, u64, f64)],
    ) {
        if let Err(error) = script.report(hook, numbers, operations) {
            self.session.console.script_failed(&format!("sysbench.hooks.{hook}"), &error);
        }
    }

    /// Reports by the script's hook if there is one, and else in sysbench's layout.
    pub(crate) fn report_in_full(&self, hook: Option<&Script>, delta: &Delta, at_s: f64, numbers: &[(&str, f64)]) {
        let options = &self.options;
        match hook {
            Some(script) => self.call_hook(script, CUMULATIVE, numbers, &[]),
            None => {
                let heading = (&*self.test, self.session.server().is_some());
                self.session.console.notice(&block(delta, at_s, heading, options.dialect, &options.percentiles));
            }
        }
    }

    fn report_operations(&self, main: Option<&Script>, delta: &Delta, numbers: &[(&str, f64)]) {
        let console = &self.session.console;
        let Some(table) = operations(delta) else { return };
        console.notice(&table);
        if let Some(script) = main.filter(|_| console.shows(LogLevel::Notice)) {
            let p90_s = |latencies: &LatencyHistogram| seconds(latencies.quantile_ns(0.9));
            let named = delta.latencies.by_operation().into_iter().skip(1);
            let named: Vec<_> = named.map(|(name, latencies)| (name, latencies.count(), p90_s(latencies))).collect();
            self.call_hook(script, "report_operations", numbers, &named);
        }
    }

    fn report(&self, main: Option<&Script>, mut period: Snapshot, (count_from_ns, end_ns): (u64, u64)) {
        let (console, options) = (&self.session.console, &self.options);
        let delta = self.stats.since(&mut period, end_ns);
        if options.histogram {
            console.notice(&histogram(&delta));
        }
        let total_s = seconds(end_ns.saturating_sub(count_from_ns));
        let mut numbers = statistics(&delta, total_s, options.percentiles.first(), 0);
        numbers.extend(latency_statistics(delta.events()));
        let hook = main.filter(|script| script.has_hook(CUMULATIVE));
        self.report_in_full(hook, &delta, total_s, &numbers);
        if hook.is_some() {
            return;
        }
        self.report_operations(main, &delta, &numbers);
        if options.debug {
            console.log(LogLevel::Debug, "Verbose per-thread statistics:\n");
            for (thread, (events, seconds)) in delta.by_worker.iter().enumerate() {
                let extremes_ms = self.stats.extremes_ms(thread);
                console.log(LogLevel::Debug, &of_thread(thread, *events, *seconds, extremes_ms));
                let total = format!("                 total time taken by event execution: {seconds:.4}s");
                console.log(LogLevel::Debug, &total);
            }
            console.notice("");
        }
    }

    /// With `--rate`, if the run ended by time: counts events that were due and never begun.
    fn dropped(&self, slice: &Slice, end_ns: u64) -> Option<u64> {
        let schedule = slice.schedule.as_ref()?;
        if end_ns < slice.deadline_ns {
            return Some(0);
        }
        let dropped = schedule.waiting(slice.deadline_ns);
        if self.options.remarks && schedule.fell_behind(dropped, self.options.threads, slice.deadline_ns) {
            let words = format!("{dropped} events were due and never begun: the servers did not keep up with --rate");
            self.session.console.log(LogLevel::Warning, &words);
        }
        Some(dropped)
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
