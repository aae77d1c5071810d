//! The thread that reports while a run runs: at each interval, at each checkpoint, through the script's hooks where it has them.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use bakeoff_metrics::now_ns;
use bakeoff_script::{Script, ScriptError, Statistics, ThreadRole};
use serde_json::Value;

use super::final_block::{Heading, block};
use super::hdr_log::HdrLog;
use super::intermediate::{Queue, lines};
use super::{cumulative_statistics, json, statistics};
use crate::sysbench::run_options::RunOptions;
use crate::sysbench::session::PlainHost;
use crate::sysbench::tally::{Mark, Stretch};
use crate::sysbench::test::Test;
use crate::sysbench::worker_host::Load;

/// Length of the intervals of `--json` and `--hdr-log` when no `--report-interval` is given.
const RECORD_INTERVAL_S: u64 = 1;
const SECOND_NS: u64 = 1_000_000_000;

/// What the reporter hands back when the run has ended.
#[derive(Debug, Default)]
pub(in crate::sysbench) struct Reported {
    /// Where the last checkpoint was: the final report begins there.
    pub(in crate::sysbench) period: Mark,
    /// For `--json`.
    pub(in crate::sysbench) intervals: Vec<Value>,
}

/// The reporter's belongings; it lives on its own thread.
pub(in crate::sysbench) struct Reporter {
    pub(in crate::sysbench) load: Arc<Load>,
    pub(in crate::sysbench) test: Arc<Test>,
    pub(in crate::sysbench) options: Arc<RunOptions>,
    pub(in crate::sysbench) hdr_log: Option<HdrLog>,
}

/// What is due when.
struct Agenda {
    /// Of intervals, whether printed or only recorded [s]; none: there are no intervals.
    interval_s: Option<u64>,
    next_interval_s: u64,
    checkpoints_s: Vec<u64>,
}

impl Agenda {
    fn new(options: &RunOptions) -> Self {
        let recorded = options.json.is_some() || options.hdr_log.is_some();
        let interval_s = options
            .report_interval_s
            .or(recorded.then_some(RECORD_INTERVAL_S));
        Self {
            interval_s,
            next_interval_s: interval_s.unwrap_or(u64::MAX),
            checkpoints_s: options
                .checkpoints_s
                .iter()
                .copied()
                .filter(|at_s| *at_s > 0)
                .rev()
                .collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.interval_s.is_none() && self.checkpoints_s.is_empty()
    }

    /// When to wake next, since counting began [ns].
    fn next_ns(&self) -> u64 {
        let checkpoint = self.checkpoints_s.last().copied().unwrap_or(u64::MAX);
        checkpoint
            .min(self.next_interval_s)
            .saturating_mul(SECOND_NS)
    }

    fn take_checkpoint(&mut self, passed_ns: u64) -> bool {
        let due = self
            .checkpoints_s
            .last()
            .is_some_and(|at_s| at_s.saturating_mul(SECOND_NS) <= passed_ns);
        if due {
            self.checkpoints_s.pop();
        }
        due
    }

    /// Intervals that were slept through are not made up for.
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
    /// Waits for the time at which counting begins, then reports until the sender is dropped.
    pub(in crate::sysbench) fn run(mut self, start: &Receiver<u64>) -> Reported {
        let mut agenda = Agenda::new(&self.options);
        let hooks = Hooks::load(&self, &agenda);
        let Ok(count_from_ns) = start.recv() else {
            return Reported::default();
        };
        let mut reported = Reported {
            period: Mark::start(count_from_ns),
            ..Reported::default()
        };
        let mut interval = Mark::start(count_from_ns);
        if agenda.is_empty() {
            let _ = start.recv();
            return reported;
        }
        loop {
            let due_ns = count_from_ns.saturating_add(agenda.next_ns());
            let wait = Duration::from_nanos(due_ns.saturating_sub(now_ns()));
            let ending = start.recv_timeout(wait) != Err(RecvTimeoutError::Timeout);
            let now_ns = now_ns();
            let passed_ns = now_ns.saturating_sub(count_from_ns);
            if agenda.take_checkpoint(passed_ns) {
                let stretch = self.load.tally.period(&mut reported.period, now_ns);
                self.report_checkpoint(&hooks, seconds(passed_ns), &stretch);
            }
            if agenda.take_interval(passed_ns) {
                let stretch = self.load.tally.interval(&mut interval, now_ns);
                self.report_interval(&hooks, seconds(passed_ns), &stretch, &mut reported);
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
        self.load.session.server().is_some()
    }

    fn queue(&self) -> Option<Queue> {
        self.load.pace.get().map(|pace| Queue {
            length: pace.waiting(now_ns()),
            concurrency: self.load.tally.events_running(),
        })
    }

    fn report_interval(
        &mut self,
        hooks: &Hooks,
        at_s: f64,
        stretch: &Stretch,
        reported: &mut Reported,
    ) {
        let (threads, queue) = (self.load.tally.threads_running(), self.queue());
        let percentile = self.options.first_percentile();
        // Workers that have ended their events may still say goodbye to their servers.
        let over = threads == 0 && stretch.totals.events == 0;
        if self.options.report_interval_s.is_some() && !over {
            let told = hooks.intermediate.as_ref().map(|script| {
                let queue = queue.unwrap_or(Queue {
                    length: 0,
                    concurrency: 0,
                });
                script.report_intermediate(&Statistics {
                    threads_running: threads,
                    queue_length: Some(queue.length),
                    concurrency: Some(queue.concurrency),
                    ..statistics(stretch, at_s, percentile)
                })
            });
            match told {
                Some(told) => self.complain("report_intermediate", told),
                None => {
                    let lines = lines(
                        at_s,
                        threads,
                        stretch,
                        percentile,
                        queue,
                        self.uses_database(),
                    );
                    self.load.session.console.notice(&lines);
                }
            }
        }
        self.record(at_s, threads, queue, stretch, reported);
    }

    /// The last piece of an interval, which no line tells of.
    fn record_rest(&mut self, mark: &mut Mark, at_s: f64, now_ns: u64, reported: &mut Reported) {
        let stretch = self.load.tally.interval(mark, now_ns);
        // An event's latency may come into the histograms just after its count was read, and the other way round.
        if stretch.totals.events > 0 || stretch.events().count() > 0 {
            let threads = self.load.tally.threads_running();
            self.record(at_s, threads, None, &stretch, reported);
        }
    }

    fn record(
        &mut self,
        at_s: f64,
        threads: u32,
        queue: Option<Queue>,
        stretch: &Stretch,
        reported: &mut Reported,
    ) {
        if self.options.json.is_some() {
            reported.intervals.push(json::interval(
                at_s,
                threads,
                stretch,
                &self.options.percentiles,
                queue,
            ));
        }
        if let Some(log) = &mut self.hdr_log
            && let Err(words) = log.write(at_s, stretch)
        {
            self.load.session.console.fatal(&words);
            self.hdr_log = None;
        }
    }

    fn report_checkpoint(&self, hooks: &Hooks, at_s: f64, stretch: &Stretch) {
        let console = &self.load.session.console;
        console.notice(&format!("[ {at_s:.0}s ] Checkpoint report:"));
        match &hooks.cumulative {
            Some(script) => {
                let statistics = cumulative_statistics(
                    stretch,
                    at_s,
                    self.options.first_percentile(),
                    self.load.tally.threads_running(),
                );
                self.complain("report_cumulative", script.report_cumulative(&statistics));
            }
            None => {
                let heading = Heading::of(&self.test, self.uses_database());
                console.notice(&block(
                    stretch,
                    at_s,
                    heading,
                    self.options.dialect,
                    &self.options.percentiles,
                ));
            }
        }
    }

    /// A hook that fails is told of; the run goes on.
    fn complain(&self, hook: &str, told: Result<(), ScriptError>) {
        if let Err(error) = told {
            let words = format!("`sysbench.hooks.{hook}' function failed: {error}");
            self.load.session.console.fatal(&words);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "2^53 ns are a hundred days")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// The script's states for reports, where it has hooks.
#[derive(Default)]
struct Hooks {
    intermediate: Option<Script>,
    cumulative: Option<Script>,
}

impl Hooks {
    fn load(reporter: &Reporter, agenda: &Agenda) -> Self {
        let Test::Script(test) = &*reporter.test else {
            return Self::default();
        };
        let load = |wanted: bool, role| {
            let host = PlainHost::new(&reporter.load.session);
            let script = wanted.then(|| Script::load(&test.source, &test.settings, role, host))?;
            // A body that fails here has failed in the main state, too, and the run with it.
            script.ok()
        };
        let intermediate = load(
            reporter.options.report_interval_s.is_some(),
            ThreadRole::Report,
        );
        let cumulative = load(!agenda.checkpoints_s.is_empty(), ThreadRole::Checkpoint);
        Self {
            intermediate: intermediate.filter(Script::has_report_intermediate),
            cumulative: cumulative.filter(Script::has_report_cumulative),
        }
    }
}
