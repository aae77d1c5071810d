//! What is run: a script with its commands, or the built-in test `cpu`.

use std::rc::Rc;
use std::sync::Arc;

use bakeoff_load::failure::Failure;
use bakeoff_load::host::{Environment, WorkerHost};
use bakeoff_load::script_workload::{ScriptCommand, failure};
use bakeoff_load::worker_pool::PoolOptions;
use bakeoff_script::host::{EventEnd, Events as _, Host as _, HostRef, LogLevel};
use bakeoff_script::{Script, ScriptError, ScriptSource, Settings, ThreadRole};

use crate::run::Worker;
use crate::run_options::RunOptions;
use crate::session::{CALL_COMMAND, SysbenchSession};

pub(crate) const MAX_PRIME: u64 = 10_000;

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

    /// Runs one worker: sets up, waits for the start, runs events, tidies up. When it returns, the first failure of all
    /// workers has been reported.
    pub(crate) fn work(&self, worker: &Worker, host: &Rc<WorkerHost>) -> Result<(), Failure> {
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
    pub(crate) fn load(&self, role: ThreadRole, host: HostRef) -> Result<Script, ScriptError> {
        Script::load(&self.source, &self.settings, role, host)
    }

    fn work(&self, worker: &Worker, host: &Rc<WorkerHost>) -> Result<(), Failure> {
        let console = &worker.run.session.console;
        let reported = |function: &'static str| {
            move |error: ScriptError| {
                // After the gate has closed, it fails because its connection was cut, or after another was reported.
                if !host.thread_host().aborted() {
                    console.script_failed(function, &error);
                }
                failure(error)
            }
        };
        let role = ThreadRole::Worker(host.thread());
        let load = || self.load(role, Rc::clone(host).for_script());
        let script = worker.loading.pass(load).map_err(reported(""))?;
        script.thread_init().map_err(reported("thread_init"))?;
        console.log(LogLevel::Debug, &format!("Worker thread (#{}) initialized", host.thread()));
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

/// Runs one event of `cpu`: counts the primes from 3 to `max_prime` by dividing each number by all up to its square root.
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
