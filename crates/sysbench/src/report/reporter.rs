//! The thread that reports during a run: at intervals and checkpoints, through the script's hooks if it has any.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use bakeoff_load::start_gate::Slice;
use bakeoff_metrics::{now_ns, seconds};
use bakeoff_script::Script;
use serde_json::Value;

use super::machine_readable::{self, OutputFile};
use super::{Queue, interval, latency_statistics, statistics};
use crate::run_options::RunOptions;
use crate::stats::{Delta, Snapshot, Span};
use crate::test::{Run, Test};

const SECOND_NS: u64 = 1_000_000_000;

const INTERMEDIATE: &str = "report_intermediate";
pub(crate) const CUMULATIVE: &str = "report_cumulative";

#[derive(Debug, Default)]
pub(crate) struct Reported {
    pub(crate) period: Snapshot,
    pub(crate) intervals: Vec<Value>,
}

pub(crate) struct Reporter {
    pub(crate) run: Run,
    pub(crate) hdr_log: Option<OutputFile>,
}

/// When to report [ns since counting began].
struct Timetable {
    interval_ns: u64,
    next_interval_ns: u64,
    /// The next is the last.
    checkpoints_ns: Vec<u64>,
}

impl Timetable {
    fn new(options: &RunOptions) -> Self {
        let recorded = options.json.is_some() || options.hdr_log.is_some();
        // Files get an interval a second.
        let interval_s = options.report_interval_s.or(recorded.then_some(1));
        let interval_ns = interval_s.map_or(u64::MAX, |interval_s| interval_s * SECOND_NS);
        let checkpoints_s = options.checkpoints_s.iter().filter(|at_s| **at_s > 0);
        let checkpoints_ns = checkpoints_s.rev().map(|at_s| at_s.saturating_mul(SECOND_NS)).collect();
        Self { interval_ns, next_interval_ns: interval_ns, checkpoints_ns }
    }

    fn next_ns(&self) -> u64 {
        self.checkpoints_ns.last().map_or(u64::MAX, |at_ns| *at_ns).min(self.next_interval_ns)
    }

    fn take_checkpoint(&mut self, passed_ns: u64) -> bool {
        self.checkpoints_ns.pop_if(|at_ns| *at_ns <= passed_ns).is_some()
    }

    /// Whether an interval is due. Intervals that were slept through are not made up for.
    fn take_interval(&mut self, passed_ns: u64) -> bool {
        let due = self.next_interval_ns <= passed_ns;
        while self.next_interval_ns <= passed_ns {
            self.next_interval_ns += self.interval_ns;
        }
        due
    }
}

impl Reporter {
    pub(crate) fn run(mut self, start: &Receiver<Arc<Slice>>) -> Reported {
        let mut timetable = Timetable::new(&self.run.options);
        let hooks = hooks(&self.run);
        let hook = |name: &str| hooks.as_ref().filter(|script| script.has_hook(name));
        let Ok(slice) = start.recv() else { return Reported::default() };
        let count_from_ns = slice.guard_end_ns;
        let period = Snapshot::start(Span::Period, count_from_ns);
        let mut reported = Reported { period, intervals: Vec::new() };
        let mut interval = Snapshot::start(Span::Interval, count_from_ns);
        loop {
            let due_ns = count_from_ns.saturating_add(timetable.next_ns());
            let wait = Duration::from_nanos(due_ns.saturating_sub(now_ns()));
            let ending = !matches!(start.recv_timeout(wait), Err(RecvTimeoutError::Timeout));
            let now_ns = now_ns();
            let passed_ns = now_ns.saturating_sub(count_from_ns);
            let at_s = seconds(passed_ns);
            if timetable.take_checkpoint(passed_ns) {
                let delta = self.run.stats.since(&mut reported.period, now_ns);
                self.report_checkpoint(hook(CUMULATIVE), at_s, &delta);
            }
            if timetable.take_interval(passed_ns) {
                let delta = self.run.stats.since(&mut interval, now_ns);
                let queue = self.queue(&slice);
                self.report_interval(hook(INTERMEDIATE), at_s, &delta, queue);
                self.record(at_s, queue, &delta, &mut reported);
            }
            if ending {
                let rest = self.run.stats.since(&mut interval, now_ns);
                // An event's latency may be recorded just after its count was read, or the other way round.
                if rest.totals.events > 0 || rest.events().count() > 0 {
                    self.record(at_s, None, &rest, &mut reported);
                }
                return reported;
            }
        }
    }

    fn queue(&self, slice: &Slice) -> Option<Queue> {
        let schedule = slice.schedule.as_ref()?;
        Some(Queue { length: schedule.waiting(now_ns()), concurrency: self.run.stats.events_running() })
    }

    fn report_interval(&self, hook: Option<&Script>, at_s: f64, delta: &Delta, queue: Option<Queue>) {
        let Run { options, session, stats, .. } = &self.run;
        let threads = stats.threads_running();
        // Workers that have ended their events may still be disconnecting.
        let over = threads == 0 && delta.totals.events == 0;
        if options.report_interval_s.is_none() || over {
            return;
        }
        let percentile = options.percentiles.first();
        match hook {
            Some(script) => {
                let Queue { length, concurrency } = queue.unwrap_or_default();
                let mut numbers = statistics(delta, at_s, percentile, threads);
                numbers.extend([("queue_length", length as f64), ("concurrency", concurrency as f64)]);
                self.run.call_hook(script, INTERMEDIATE, &numbers, &[]);
            }
            None => {
                let uses_database = session.server().is_some();
                session.console.notice(&interval(at_s, threads, delta, percentile, queue, uses_database));
            }
        }
    }

    fn record(&mut self, at_s: f64, queue: Option<Queue>, delta: &Delta, reported: &mut Reported) {
        let Run { options, session, stats, .. } = &self.run;
        if options.json.is_some() {
            let threads = stats.threads_running();
            reported.intervals.push(machine_readable::interval(at_s, threads, delta, &options.percentiles, queue));
        }
        if let Some(log) = &mut self.hdr_log
            && let Err(words) = log.write_hdr_interval(at_s, delta)
        {
            session.console.fatal(&words);
            self.hdr_log = None;
        }
    }

    fn report_checkpoint(&self, hook: Option<&Script>, at_s: f64, delta: &Delta) {
        let Run { options, session, stats, .. } = &self.run;
        session.console.notice(&format!("[ {at_s:.0}s ] Checkpoint report:"));
        let mut numbers = statistics(delta, at_s, options.percentiles.first(), stats.threads_running());
        numbers.extend(latency_statistics(delta.events()));
        self.run.report_in_full(hook, delta, at_s, &numbers);
    }
}

/// Loads a script for its hooks. A body that fails here has failed in the main state too, and the run with it.
fn hooks(run: &Run) -> Option<Script> {
    let Test::Script(test) = &*run.test else { return None };
    let reports = run.options.report_interval_s.is_some() || !run.options.checkpoints_s.is_empty();
    let script = reports.then(|| test.load(run.options.threads, run.session.command_host()).ok())?;
    script.filter(|script| script.has_hook(INTERMEDIATE) || script.has_hook(CUMULATIVE))
}
