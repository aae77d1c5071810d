//! `run`: workers made ready, started together, watched to their end, and reported.

use std::sync::atomic::AtomicU64;
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use bakeoff_metrics::now_ns;
use bakeoff_script::Script;
use bakeoff_script::host::LogLevel;
use serde_json::Value;

use super::crew::{Crew, Ending};
use super::idle::IdleConnections;
use super::pace::Pace;
use super::report::final_block::{Heading, block};
use super::report::hdr_log::HdrLog;
use super::report::reporter::{Reported, Reporter};
use super::report::{cumulative_statistics, histogram, operations, tpcc};
use super::run_options::RunOptions;
use super::session::Session;
use super::tally::{Mark, Stretch, Tally};
use super::test::{Test, tell_failure};
use super::semaphore::Semaphore;
use super::worker_host::Load;
use crate::connector::pairing;
use crate::contract::{Failure, Placement};
use crate::gate::Gate;
use crate::placement::Pairing;
use crate::process::give_back_memory;
use crate::slice::Slice;
use crate::team::spawn_with_stack;

/// What is run and how.
pub(super) struct Run {
    pub(super) test: Arc<Test>,
    pub(super) options: Arc<RunOptions>,
    pub(super) session: Arc<Session>,
}

/// What a run gave.
pub(super) struct Outcome {
    pub(super) ending: Ending,
    /// All that was counted.
    pub(super) whole: Stretch,
    /// For `--json`.
    pub(super) intervals: Vec<Value>,
    /// With `--rate`: events whose time had come and that were never begun.
    pub(super) dropped: Option<u64>,
}

impl Outcome {
    fn without_a_run(ending: Ending) -> Self {
        Self {
            ending,
            whole: Stretch::default(),
            intervals: Vec::new(),
            dropped: None,
        }
    }
}

/// When counting begins, when the last event may begin, when the last one ended [ns of the clock].
#[derive(Debug, Clone, Copy)]
struct Times {
    count_from_ns: u64,
    deadline_ns: u64,
    end_ns: u64,
}

impl Run {
    /// Runs the test. `main` is the script's global state, whose `init()` has been called.
    pub(super) fn run(&self, main: Option<&Script>, hdr_log: Option<HdrLog>) -> Outcome {
        let console = &self.session.console;
        let idle = match self.options.idle_connections {
            count if count > 0 && !self.session.dry_run => {
                IdleConnections::open(&self.session, count)
            }
            _ => Ok(IdleConnections::none()),
        };
        // Held until the run has ended.
        let _idle = match idle {
            Ok(idle) => idle,
            Err(words) => {
                console.fatal(&words);
                return Outcome::without_a_run(Ending::Failed);
            }
        };
        let load = Arc::new(self.load(self.pairing()));
        let crew = Crew::start(&self.test, &self.options, &load);
        if let Err(ending) = crew.wait_until_ready(&self.options) {
            return Outcome::without_a_run(ending);
        }
        if let Some(reason) = load.pairing.as_ref().and_then(|pairing| pairing.failure()) {
            console.fatal(&format!("connections cannot be paired: {reason}"));
            crew.send_home();
            return Outcome::without_a_run(Ending::Failed);
        }
        give_back_memory(self.options.threads as usize);
        let (start, started) = channel();
        let reporter = Reporter {
            load: Arc::clone(&load),
            test: Arc::clone(&self.test),
            options: Arc::clone(&self.options),
            hdr_log,
        };
        let reporter = spawn_with_stack("sb", "report", self.options.stack_bytes, move || {
            reporter.run(&started)
        });
        let slice = self.slice();
        let mut times = Times {
            count_from_ns: slice.guard_end_ns,
            deadline_ns: slice.deadline_ns,
            end_ns: 0,
        };
        if let Some(rate) = self.options.rate_per_s {
            let _ = load.pace.set(Pace::new(
                rate,
                slice.start_ns,
                slice.deadline_ns,
                self.options.seed,
            ));
        }
        if let Some(server) = self.session.server().filter(|_| !self.session.dry_run) {
            let (charset, collation) = (&server.charset, &server.collation);
            console.notice(&format!(
                "Connection character set: {charset}, collation: {collation}"
            ));
        }
        console.notice("Threads started!\n");
        load.gate.open(Arc::new(slice));
        // A reporter that could not be started is missed below.
        let _ = start.send(times.count_from_ns);

        let ending = crew.wait_until_done(&self.options, times.deadline_ns);
        times.end_ns = match ending {
            Ending::Complete => load.tally.last_departure_ns().unwrap_or_else(now_ns),
            _ => now_ns(),
        };
        drop(start);
        if let Some(reason) = load.pairing.as_ref().and_then(|pairing| pairing.failure()) {
            let words = format!("not every connection could be paired again: {reason}");
            console.log(LogLevel::Warning, &words);
        }
        let reported = match end_reporter(reporter) {
            Ok(reported) => reported,
            Err(words) => {
                console.fatal(&words);
                return Outcome::without_a_run(Ending::Failed);
            }
        };
        self.tell_ending(ending, &crew);
        if ending != Ending::Failed {
            self.report(main, &load, reported.period, times);
        }
        Outcome {
            ending,
            dropped: self.dropped(&load, times),
            whole: load.tally.whole(times.count_from_ns, times.end_ns),
            intervals: reported.intervals,
        }
    }

    /// With `--placement=paired`; `None`, and a warning, where the server's threads cannot be known.
    fn pairing(&self) -> Option<Arc<Pairing>> {
        if self.options.placement == Placement::Free || self.session.dry_run {
            return None;
        }
        let pairing = match self.session.rotation.only() {
            Some(address) => pairing(address, None),
            None => Err("there are several servers".to_owned()),
        };
        let warn = |reason: &String| {
            let words = format!("connections cannot be paired: {reason}; they run free");
            self.session.console.log(LogLevel::Warning, &words);
        };
        pairing.inspect_err(warn).ok().map(Arc::new)
    }

    fn load(&self, pairing: Option<Arc<Pairing>>) -> Load {
        Load {
            session: Arc::clone(&self.session),
            pairing,
            gate: Gate::new(self.options.threads as usize),
            tally: Tally::new(self.options.threads),
            events_left: self.options.events.map(AtomicU64::new),
            pace: OnceLock::new(),
            loading: Semaphore::for_cpus(),
            warms_up: !self.options.warmup.is_zero() || self.test.ramps_up(),
        }
    }

    /// The run as one turn of the gate: its guard is the warm-up.
    fn slice(&self) -> Slice {
        let ns =
            |duration: std::time::Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let start_ns = now_ns();
        let guard_end_ns = start_ns.saturating_add(ns(self.options.warmup));
        Slice {
            block: 0,
            turn: 0,
            start_ns,
            guard_end_ns,
            deadline_ns: self
                .options
                .time
                .map_or(u64::MAX, |time| guard_end_ns.saturating_add(ns(time))),
            agenda: None,
        }
    }

    fn tell_ending(&self, ending: Ending, crew: &Crew) {
        let console = &self.session.console;
        match ending {
            Ending::Complete => console.log(LogLevel::Info, "Done.\n"),
            Ending::Forced { unfinished } => {
                console.fatal("The --max-time limit has expired, forcing shutdown...");
                console.notice(&format!(
                    "\nNumber of unfinished transactions on forced shutdown: {unfinished}"
                ));
                crew.cut();
            }
            Ending::Failed | Ending::NotReady => {}
        }
    }

    /// What the script has named: nothing for a script of sysbench's.
    fn report_operations(&self, stretch: &Stretch) {
        let tpcc = match &*self.test {
            Test::Script(script) => tpcc::block(stretch, &script.settings),
            Test::Cpu { .. } => None,
        };
        for text in operations::table(stretch).into_iter().chain(tpcc) {
            self.session.console.notice(&text);
        }
    }

    /// The histogram and the final block, or what the script's hook makes of it.
    fn report(&self, main: Option<&Script>, load: &Load, mut period: Mark, times: Times) {
        let (console, options) = (&self.session.console, &self.options);
        let stretch = load.tally.period(&mut period, times.end_ns);
        if options.histogram {
            console.notice(&histogram::table(&stretch));
        }
        #[expect(clippy::cast_precision_loss, reason = "2^53 ns are a hundred days")]
        let total_s = (times.end_ns.saturating_sub(times.count_from_ns)) as f64 / 1e9;
        if let Some(script) = main.filter(|script| script.has_report_cumulative()) {
            let statistics =
                cumulative_statistics(&stretch, total_s, options.first_percentile(), 0);
            if let Err(error) = script.report_cumulative(&statistics) {
                tell_failure(console, "sysbench.hooks.report_cumulative", &error);
            }
            return;
        }
        let heading = Heading::of(&self.test, load.session.server().is_some());
        console.notice(&block(
            &stretch,
            total_s,
            heading,
            options.dialect,
            &options.percentiles,
        ));
        self.report_operations(&stretch);
        if options.debug {
            for (thread, (events, seconds)) in stretch.by_worker.iter().enumerate() {
                console.log(
                    LogLevel::Debug,
                    &format!("    thread #{thread:3}: events: {events}  total time taken by event execution: {seconds:.4}s"),
                );
            }
        }
    }

    /// With `--rate` and a run that its time ended: what was due and never begun.
    fn dropped(&self, load: &Load, times: Times) -> Option<u64> {
        let pace = load.pace.get()?;
        if times.end_ns < times.deadline_ns {
            return Some(0);
        }
        let dropped = pace.waiting(times.deadline_ns);
        if pace.fell_behind(dropped, self.options.threads) {
            self.session.console.log(
                LogLevel::Warning,
                &format!("{dropped} events were due and never begun: the servers did not keep up with --rate"),
            );
        }
        Some(dropped)
    }
}

fn end_reporter(reporter: Result<JoinHandle<Reported>, Failure>) -> Result<Reported, String> {
    reporter
        .map_err(|failure| failure.message)?
        .join()
        .map_err(|_| "a bug in the engine: panic in the reporting thread".to_owned())
}
