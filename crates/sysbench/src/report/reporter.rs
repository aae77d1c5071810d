//! The thread that reports during a run: at each interval, at each checkpoint, through the script's hooks where it has them.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use bakeoff_load::start_gate::Slice;
use bakeoff_metrics::{now_ns, seconds};
use bakeoff_script::{Script, ScriptError, ThreadRole};
use serde_json::Value;

use super::final_block::{Heading, block};
use super::machine_readable::{self, HdrLog};
use super::{Queue, cumulative_statistics, interval, statistics};
use crate::run_options::RunOptions;
use crate::session::SysbenchSession;
use crate::stats::{Delta, Snapshot, Stats};
use crate::test::Test;

const RECORD_INTERVAL_S: u64 = 1;
const SECOND_NS: u64 = 1_000_000_000;

const INTERMEDIATE: &str = "report_intermediate";
pub(crate) const CUMULATIVE: &str = "report_cumulative";

#[derive(Debug, Default)]
pub(crate) struct Reported {
    pub(crate) period: Snapshot,
    pub(crate) intervals: Vec<Value>,
}

pub(crate) struct Reporter {
    pub(crate) session: Arc<SysbenchSession>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) test: Arc<Test>,
    pub(crate) options: Arc<RunOptions>,
    pub(crate) hdr_log: Option<HdrLog>,
}

struct Timetable {
    interval_s: Option<u64>,
    next_interval_s: u64,
    checkpoints_s: Vec<u64>,
}

impl Timetable {
    fn new(options: &RunOptions) -> Self {
        let recorded = options.json.is_some() || options.hdr_log.is_some();
        let interval_s = options.report_interval_s.or(recorded.then_some(RECORD_INTERVAL_S));
        Self {
            interval_s,
            next_interval_s: interval_s.unwrap_or(u64::MAX),
            checkpoints_s: options.checkpoints_s.iter().copied().filter(|at_s| *at_s > 0).rev().collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.interval_s.is_none() && self.checkpoints_s.is_empty()
    }

    /// When to wake next [ns since counting began].
    fn next_ns(&self) -> u64 {
        let checkpoint = self.checkpoints_s.last().copied().unwrap_or(u64::MAX);
        checkpoint.min(self.next_interval_s).saturating_mul(SECOND_NS)
    }

    fn take_checkpoint(&mut self, passed_ns: u64) -> bool {
        let due = self.checkpoints_s.last().is_some_and(|at_s| at_s.saturating_mul(SECOND_NS) <= passed_ns);
        if due {
            self.checkpoints_s.pop();
        }
        due
    }

    /// Whether an interval is due. Intervals that were slept through are not made up for.
    fn take_interval(&mut self, passed_ns: u64) -> bool {
        let Some(interval_s) = self.interval_s else {
            return false;
        };
        let due = self.next_interval_s.saturating_mul(SECOND_NS) <= passed_ns;
        while self.next_interval_s.saturating_mul(SECOND_NS) <= passed_ns {
            self.next_interval_s += interval_s;
        }
        due
    }
}

impl Reporter {
    pub(crate) fn run(mut self, start: &Receiver<Arc<Slice>>) -> Reported {
        let mut timetable = Timetable::new(&self.options);
        let hooks = Hooks::load(&self, &timetable);
        let Ok(slice) = start.recv() else {
            return Reported::default();
        };
        let count_from_ns = slice.guard_end_ns;
        let mut reported = Reported { period: Snapshot::start(count_from_ns), ..Reported::default() };
        let mut interval = Snapshot::start(count_from_ns);
        if timetable.is_empty() {
            let _ = start.recv();
            return reported;
        }
        loop {
            let due_ns = count_from_ns.saturating_add(timetable.next_ns());
            let wait = Duration::from_nanos(due_ns.saturating_sub(now_ns()));
            let ending = !matches!(start.recv_timeout(wait), Err(RecvTimeoutError::Timeout));
            let now_ns = now_ns();
            let passed_ns = now_ns.saturating_sub(count_from_ns);
            if timetable.take_checkpoint(passed_ns) {
                let delta = self.stats.period(&mut reported.period, now_ns);
                self.report_checkpoint(&hooks, seconds(passed_ns), &delta);
            }
            if timetable.take_interval(passed_ns) {
                let delta = self.stats.interval(&mut interval, now_ns);
                let queue = self.queue(&slice);
                self.report_interval(&hooks, seconds(passed_ns), &delta, queue, &mut reported);
            }
            if ending {
                if self.hdr_log.is_some() || self.options.json.is_some() {
                    self.record_rest(&mut interval, seconds(passed_ns), now_ns, &mut reported);
                }
                return reported;
            }
        }
    }

    fn uses_database(&self) -> bool {
        self.session.server().is_some()
    }

    fn queue(&self, slice: &Slice) -> Option<Queue> {
        slice
            .schedule
            .as_ref()
            .map(|schedule| Queue { length: schedule.waiting(now_ns()), concurrency: self.stats.events_running() })
    }

    fn report_interval(
        &mut self,
        hooks: &Hooks,
        at_s: f64,
        delta: &Delta,
        queue: Option<Queue>,
        reported: &mut Reported,
    ) {
        let threads = self.stats.threads_running();
        let percentile = self.options.percentiles.first();
        // Workers that have ended their events may still be disconnecting.
        let over = threads == 0 && delta.totals.events == 0;
        if self.options.report_interval_s.is_some() && !over {
            let reported = hooks.intermediate.as_ref().map(|script| {
                let Queue { length, concurrency } = queue.unwrap_or(Queue { length: 0, concurrency: 0 });
                let mut numbers = statistics(delta, at_s, percentile, threads);
                #[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
                numbers.extend([("queue_length", length as f64), ("concurrency", concurrency as f64)]);
                script.report(INTERMEDIATE, &numbers)
            });
            match reported {
                Some(reported) => self.complain(INTERMEDIATE, reported),
                None => {
                    let lines = interval(at_s, threads, delta, percentile, queue, self.uses_database());
                    self.session.console.notice(&lines);
                }
            }
        }
        self.record(at_s, threads, queue, delta, reported);
    }

    fn record_rest(&mut self, snapshot: &mut Snapshot, at_s: f64, now_ns: u64, reported: &mut Reported) {
        let delta = self.stats.interval(snapshot, now_ns);
        // An event's latency may be recorded just after its count was read, or the other way round.
        if delta.totals.events > 0 || delta.events().count() > 0 {
            let threads = self.stats.threads_running();
            self.record(at_s, threads, None, &delta, reported);
        }
    }

    fn record(&mut self, at_s: f64, threads: u32, queue: Option<Queue>, delta: &Delta, reported: &mut Reported) {
        if self.options.json.is_some() {
            reported.intervals.push(machine_readable::interval(at_s, threads, delta, &self.options.percentiles, queue));
        }
        if let Some(log) = &mut self.hdr_log
            && let Err(words) = log.write(at_s, delta)
        {
            self.session.console.fatal(&words);
            self.hdr_log = None;
        }
    }

    fn report_checkpoint(&self, hooks: &Hooks, at_s: f64, delta: &Delta) {
        let console = &self.session.console;
        console.notice(&format!("[ {at_s:.0}s ] Checkpoint report:"));
        match &hooks.cumulative {
            Some(script) => {
                let numbers =
                    cumulative_statistics(delta, at_s, self.options.percentiles.first(), self.stats.threads_running());
                self.complain(CUMULATIVE, script.report(CUMULATIVE, &numbers));
            }
            None => {
                let heading = Heading::of(&self.test, self.uses_database());
                console.notice(&block(delta, at_s, heading, self.options.dialect, &self.options.percentiles));
            }
        }
    }

    fn complain(&self, hook: &str, called: Result<(), ScriptError>) {
        if let Err(error) = called {
            let words = format!("`sysbench.hooks.{hook}' function failed: {error}");
            self.session.console.fatal(&words);
        }
    }
}

#[derive(Default)]
struct Hooks {
    intermediate: Option<Script>,
    cumulative: Option<Script>,
}

impl Hooks {
    fn load(reporter: &Reporter, timetable: &Timetable) -> Self {
        let Test::Script(test) = &*reporter.test else {
            return Self::default();
        };
        let load = |wanted: bool| {
            let host = reporter.session.command_host();
            let script = wanted.then(|| Script::load(&test.source, &test.settings, ThreadRole::Report, host))?;
            // A body that fails here has failed in the main state too, and the run with it.
            script.ok()
        };
        let intermediate = load(reporter.options.report_interval_s.is_some());
        let cumulative = load(!timetable.checkpoints_s.is_empty());
        Self {
            intermediate: intermediate.filter(|script| script.has_hook(INTERMEDIATE)),
            cumulative: cumulative.filter(|script| script.has_hook(CUMULATIVE)),
        }
    }
}
