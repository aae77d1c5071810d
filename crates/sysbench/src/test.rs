//! What is run: a script with its commands, or the built-in test `cpu`.

use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use bakeoff_load::failure::Failure;
use bakeoff_load::host::{Environment, RunHost, RunPlan, ThreadHost};
use bakeoff_load::lock;
use bakeoff_load::machine::placement::Pairing;
use bakeoff_load::script_workload::{ScriptCommand, failure};
use bakeoff_load::worker_pool::{PoolOptions, WorkerContext};
use bakeoff_metrics::now_ns;
use bakeoff_script::host::{EventEnd, Events as _, Host as _, HostRef, LogLevel};
use bakeoff_script::{Script, ScriptError, ScriptSource, Settings};
use serde_json::Value;

use crate::run_options::RunOptions;
use crate::session::{CALL_COMMAND, SysbenchSession};
use crate::stats::{Delta, Stats};

pub(crate) const MAX_PRIME: u64 = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Complete,
    Failed,
    NotReady,
    Forced { unfinished: u64 },
}

#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) test: Arc<Test>,
    pub(crate) options: Arc<RunOptions>,
    pub(crate) session: Arc<SysbenchSession>,
    pub(crate) stats: Arc<Stats>,
}

pub(crate) struct Outcome {
    pub(crate) ending: Ending,
    pub(crate) whole: Delta,
    pub(crate) intervals: Vec<Value>,
    /// With `--rate`: events that were due and never begun.
    pub(crate) dropped: Option<u64>,
}

pub(crate) struct Worker {
    pub(crate) run: Run,
    pub(crate) pairing: Option<Arc<Pairing>>,
    /// `--events`: counted events that may still begin. None for no limit.
    pub(crate) events_left: Option<Arc<AtomicU64>>,
    /// Threads load the script a few at a time, in these places: loading needs the CPU and leaves garbage behind.
    pub(crate) loading: Vec<Mutex<()>>,
    /// Statements of `thread_init()` count, as in sysbench, unless there is a warm-up or it is the script's ramp-up.
    pub(crate) counts_set_up: bool,
}

impl Worker {
    pub(crate) fn work(&self, context: &WorkerContext) -> Result<(), Failure> {
        let (Run { test, session, stats, .. }, thread) = (&self.run, context.thread);
        let console = &session.console;
        console.log(LogLevel::Debug, &format!("Worker thread (#{thread}) started"));
        let connector = session.connector(Arc::clone(&context.canceller));
        let connector = connector.paired(self.pairing.as_ref().map(|pairing| pairing.worker(thread)));
        let environment = Arc::clone(session) as Arc<dyn Environment>;
        let host = ThreadHost::in_run(environment, connector, Arc::clone(&context.gate));
        let run = RunPlan { events_left: self.events_left.clone(), counts_set_up: self.counts_set_up };
        let host = Rc::new(RunHost::new(run, context, host, stats.of_worker(thread)));
        test.work(self, &host)?;
        if host.is_past_deadline() {
            console.log(LogLevel::Info, "Time limit exceeded, exiting...");
        } else if self.events_left.as_ref().is_some_and(|left| left.load(Relaxed) == 0) {
            console.log(LogLevel::Info, "Event limit exceeded, exiting...");
        }
        Ok(())
    }

    /// Waits for the start and runs the events. Returns false if the run was given up before.
    fn run_events(&self, host: &RunHost, events: impl FnOnce() -> Result<(), Failure>) -> Result<bool, Failure> {
        let begins = host.rest();
        if begins {
            self.run.stats.arrive();
            events()?;
            self.run.stats.depart(now_ns());
        }
        Ok(begins)
    }
}

#[derive(Debug)]
pub(crate) enum Test {
    Script(Box<ScriptTest>),
    Cpu { max_prime: u64 },
}

#[derive(Debug, Clone)]
pub(crate) struct ScriptTest {
    pub(crate) source: ScriptSource,
    pub(crate) settings: Settings,
}

impl Test {
    /// Whether the script loads the server in its `thread_init()` before the run, by its option `ramp_up`.
    pub(crate) fn ramps_up(&self) -> bool {
        let Self::Script(test) = self else { return false };
        let seconds = test.settings.options.get("ramp_up").map(|given| given.to_text().parse::<f64>());
        seconds.is_some_and(|parsed| parsed != Ok(0.0))
    }

    /// Runs one worker. When it returns, the first failure of all workers has been reported.
    fn work(&self, worker: &Worker, host: &Rc<RunHost>) -> Result<(), Failure> {
        let max_prime = match self {
            Self::Script(test) => return test.work(worker, host),
            Self::Cpu { max_prime } => *max_prime,
        };
        let events = || {
            while host.more_events() {
                host.event_start();
                count_primes(max_prime);
                host.event_stop(EventEnd::Done);
            }
            Ok(())
        };
        worker.run_events(host, events).map(|_| ())
    }
}

impl ScriptTest {
    pub(crate) fn load(&self, thread: u32, host: HostRef) -> Result<Script, ScriptError> {
        Script::load(&self.source, &self.settings, thread, host)
    }

    fn work(&self, worker: &Worker, host: &Rc<RunHost>) -> Result<(), Failure> {
        let console = &worker.run.session.console;
        let reported = |function: &'static str| {
            move |error: ScriptError| {
                // After the gate has closed, it fails because its connection was cut, or after another was reported.
                if !host.thread_host.aborted() {
                    console.script_failed(function, &error);
                }
                failure(error)
            }
        };
        // Not held during `thread_init()`, which may wait for other threads.
        let place = lock(&worker.loading[host.thread as usize % worker.loading.len()]);
        let script = self.load(host.thread, Rc::clone(host).for_script()).map_err(reported(""))?;
        drop(place);
        script.thread_init().map_err(reported("thread_init"))?;
        console.log(LogLevel::Debug, &format!("Worker thread (#{}) initialized", host.thread));
        if worker.run_events(host, || script.run().map_err(reported("thread_run")))? {
            // As in sysbench, a failure after the last event is reported but does not fail the run.
            let _ = script.thread_done().map_err(reported("thread_done"));
        }
        Ok(())
    }

    pub(crate) fn command(
        &self,
        name: &str,
        main: &Script,
        options: &RunOptions,
        session: &Arc<SysbenchSession>,
    ) -> bool {
        let mut commands = main.commands().iter();
        let parallel = commands.any(|known| known.name == name && known.parallel);
        if parallel && options.threads > 1 {
            session.console.notice("Initializing worker threads...\n");
            return self.command_in_parallel(name, options, session);
        }
        let declared = !["prepare", "cleanup", "help"].contains(&name) || parallel;
        let function = if declared { CALL_COMMAND } else { name };
        main.command(name).inspect_err(|error| session.console.script_failed(function, error)).is_ok()
    }

    fn command_in_parallel(&self, name: &str, options: &RunOptions, session: &Arc<SysbenchSession>) -> bool {
        let command = ScriptCommand {
            name: name.to_owned(),
            source: self.source.clone(),
            settings: self.settings.clone(),
            parallel: true,
            rotation: Arc::clone(&session.rotation),
            environment: Arc::clone(session) as Arc<dyn Environment>,
        };
        let pool =
            command.start(PoolOptions { name: "sb", threads: options.threads, stack_bytes: options.stack_bytes });
        if let Some(failure) = pool.spawn_failure() {
            session.console.fatal(&options.no_thread(failure));
        }
        pool.run_to_end(|| false);
        pool.failure().is_none()
    }
}

/// Runs one event of `cpu`: counts the primes from 3 to `max_prime` by trial division up to the square root.
#[expect(clippy::maybe_infinite_iter, reason = "`take_while` ends it")]
fn count_primes(max_prime: u64) -> u64 {
    let max_prime = std::hint::black_box(max_prime);
    let is_prime = |number: u64| {
        (2..).take_while(|divisor| divisor * divisor <= number).all(|divisor| !number.is_multiple_of(divisor))
    };
    let primes = (3..=max_prime).filter(|&number| is_prime(number)).count();
    std::hint::black_box(primes as u64)
}

#[cfg(test)]
#[path = "../tests/unit/test.rs"]
mod tests;
