//! What is run: a script, or the one built-in test that we have.

use std::rc::Rc;

use bakeoff_script::host::{EventEnd, Host, HostRef, LogLevel};
use bakeoff_script::{Script, ScriptError, ScriptSource, Settings, ThreadRole};

use super::console::Console;
use super::cpu_test;
use super::worker_host::WorkerHost;
use crate::contract::Failure;
use crate::scripting::failure;

/// Names of sysbench's built-in tests that are refused here.
pub(super) const REFUSED: [&str; 4] = ["fileio", "memory", "mutex", "threads"];

/// What is run.
#[derive(Debug)]
pub(super) enum Test {
    /// A Lua script.
    Script(Box<ScriptTest>),
    /// The built-in `cpu`.
    Cpu {
        /// `--cpu-max-prime`.
        max_prime: u64,
    },
}

/// A script with what it is run with.
#[derive(Debug)]
pub(super) struct ScriptTest {
    pub(super) source: ScriptSource,
    pub(super) settings: Settings,
}

impl Test {
    /// Does the script load the server in its `thread_init()` before the run, as its option `ramp_up` says?
    pub(super) fn ramps_up(&self) -> bool {
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
    /// told when it returns.
    ///
    /// # Errors
    /// What the script failed with.
    pub(super) fn work(&self, thread: u32, host: &Rc<WorkerHost>) -> Result<(), Failure> {
        match self {
            Self::Script(test) => test.work(thread, host),
            Self::Cpu { max_prime } => {
                if host.wait_for_start() {
                    while host.more_events() {
                        host.event_start();
                        cpu_test::event(*max_prime);
                        host.event_stop(EventEnd::Done);
                    }
                    host.end();
                }
                Ok(())
            }
        }
    }
}

impl ScriptTest {
    /// The script in a state of its own.
    ///
    /// # Errors
    /// As [`Script::load`].
    pub(super) fn load(&self, role: ThreadRole, host: HostRef) -> Result<Script, ScriptError> {
        Script::load(&self.source, &self.settings, role, host)
    }

    fn work(&self, thread: u32, host: &Rc<WorkerHost>) -> Result<(), Failure> {
        let console = host.console();
        let told = |function: &'static str| {
            move |error: ScriptError| {
                // Behind a closed gate it fails because its connection was cut, or after another has told why.
                if !host.aborted() {
                    tell_failure(console, function, &error);
                }
                failure(error)
            }
        };
        let script = host
            .loading()
            .pass(|| {
                let script = self.load(ThreadRole::Worker(thread), Rc::clone(host) as HostRef)?;
                script.collect_garbage()?;
                Ok(script)
            })
            .map_err(told(""))?;
        script.thread_init().map_err(told("thread_init"))?;
        console.log(
            LogLevel::Debug,
            &format!("Worker thread (#{thread}) initialized"),
        );
        if !host.wait_for_start() {
            return Ok(());
        }
        script.run().map_err(told("thread_run"))?;
        host.end();
        script.thread_done().map_err(told("thread_done"))
    }
}

/// Tells an error that ended one of the script's functions, in sysbench's words. `function` is empty for the file's body.
pub(super) fn tell_failure(console: &Console, function: &str, error: &ScriptError) {
    if let ScriptError::Sql {
        errno,
        message,
        query,
        ..
    } = error
        && !query.is_empty()
    {
        console.fatal(&format!(
            "mysql_drv_query() returned error {errno} ({message}) for query '{query}'"
        ));
    }
    match (function, error) {
        ("", _) | (_, ScriptError::NoEvent { .. }) => console.fatal(&error.to_string()),
        _ => console.fatal(&format!("`{function}' function failed: {error}")),
    }
    if let ScriptError::Lua { traceback, .. } = error
        && !traceback.is_empty()
    {
        console.log(LogLevel::Debug, traceback.trim());
    }
}
