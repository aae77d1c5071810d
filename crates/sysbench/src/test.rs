//! What is run: a script with its commands, or the built-in test `cpu`.

use std::rc::Rc;
use std::sync::Arc;

use bakeoff_load::failure::Failure;
use bakeoff_load::script_workload::{Command, failure};
use bakeoff_load::start_gate::Semaphore;
use bakeoff_load::worker_host::{Environment, WorkerHost};
use bakeoff_load::worker_pool::PoolOptions;
use bakeoff_metrics::now_ns;
use bakeoff_script::host::{EventEnd, Host, HostRef, LogLevel};
use bakeoff_script::{Script, ScriptError, ScriptSource, Settings, ThreadRole};

use crate::run_options::RunOptions;
use crate::session::{CALL_COMMAND, Session};
use crate::stats::Stats;

/// Default of `--cpu-max-prime`.
pub(crate) const MAX_PRIME: u64 = 10_000;

/// What is run.
#[derive(Debug)]
pub(crate) enum Test {
    /// A Lua script.
    Script(Box<ScriptTest>),
    /// The built-in `cpu`: prime numbers by trial division. People run it to see whether a machine is the one that they think it is.
    Cpu {
        /// `--cpu-max-prime`.
        max_prime: u64,
    },
}

/// A script with what it is run with.
#[derive(Debug, Clone)]
pub(crate) struct ScriptTest {
    pub(crate) source: ScriptSource,
    pub(crate) settings: Settings,
}

/// What one worker needs to run a test.
pub(crate) struct TestWorker<'a> {
    pub(crate) host: &'a Rc<WorkerHost>,
    pub(crate) session: &'a Session,
    pub(crate) stats: &'a Stats,
    /// Where workers load their scripts.
    pub(crate) loading: &'a Semaphore,
}

impl TestWorker<'_> {
    /// Waits until every worker is ready and the run begins; false: it never does.
    fn wait_for_start(&self) -> bool {
        let begins = self.host.rest();
        if begins {
            self.stats.arrive();
        }
        begins
    }

    /// No more events will begin.
    fn end(&self) {
        self.stats.depart(now_ns());
    }
}

impl Test {
    /// Does the script load the server in its `thread_init()` before the run, as its option `ramp_up` says?
    pub(crate) fn ramps_up(&self) -> bool {
        match self {
            Self::Script(test) => {
                let ramp_up = test.settings.options.get("ramp_up");
                let seconds = ramp_up.map(|given| given.to_text().parse::<f64>());
                seconds.is_some_and(|parsed| parsed != Ok(0.0))
            }
            Self::Cpu { .. } => false,
        }
    }

    /// One worker's whole run: sets itself up, waits for the start, runs events, tidies up. The first failure of all workers has been
    /// reported when it returns.
    pub(crate) fn work(&self, worker: &TestWorker<'_>) -> Result<(), Failure> {
        match self {
            Self::Script(test) => test.work(worker),
            Self::Cpu { max_prime } => {
                if worker.wait_for_start() {
                    let host = worker.host;
                    while host.more_events() {
                        host.event_start();
                        count_primes(*max_prime);
                        host.event_stop(EventEnd::Done);
                    }
                    worker.end();
                }
                Ok(())
            }
        }
    }
}

impl ScriptTest {
    /// The script in a state of its own.
    pub(crate) fn load(&self, role: ThreadRole, host: HostRef) -> Result<Script, ScriptError> {
        Script::load(&self.source, &self.settings, role, host)
    }

    fn work(&self, worker: &TestWorker<'_>) -> Result<(), Failure> {
        let (host, console) = (worker.host, &worker.session.console);
        let reported = |function: &'static str| {
            move |error: ScriptError| {
                // Behind a closed gate it fails because its connection was cut, or after another has reported why.
                if !host.aborted() {
                    console.script_failed(function, &error);
                }
                failure(error)
            }
        };
        let role = ThreadRole::Worker(host.thread());
        let load = || self.load(role, Rc::clone(host) as HostRef);
        let script = worker.loading.pass(load).map_err(reported(""))?;
        script.thread_init().map_err(reported("thread_init"))?;
        console.log(LogLevel::Debug, &format!("Worker thread (#{}) initialized", host.thread()));
        if !worker.wait_for_start() {
            return Ok(());
        }
        script.run().map_err(reported("thread_run"))?;
        worker.end();
        // As in sysbench, what fails behind the last event is reported, and the run is no failure.
        let _ = script.thread_done().map_err(reported("thread_done"));
        Ok(())
    }

    /// Runs a command of the script that `main` has loaded, by one thread or by all at once where the script says so. False when it
    /// failed, which has been reported then.
    pub(crate) fn command(&self, name: &str, main: &Script, options: &RunOptions, session: &Arc<Session>) -> bool {
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

    fn command_in_parallel(&self, name: &str, options: &RunOptions, session: &Arc<Session>) -> bool {
        let command = Command {
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

/// A value of `--cpu-max-prime`.
pub(crate) fn max_prime(number: &str) -> Result<u64, String> {
    number.parse().ok().filter(|limit| *limit > 0).ok_or_else(|| format!("Invalid value of cpu-max-prime: {number}."))
}

/// One event of `cpu`: counts the primes from 3 to `max_prime` by dividing each number by all up to its square root, in 64 bits.
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
