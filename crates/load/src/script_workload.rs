//! Lua scripts on workers: as the workload of an arm, and their commands (`prepare`, `cleanup`, their own).

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use bakeoff_script::host::{ConnectTarget, Connection, Counter, Host, LogLevel, SqlError};
use bakeoff_script::random::UniquePlace;
use bakeoff_script::{Script, ScriptError, ScriptSource, Settings, SqlCall, ThreadRole};

use crate::arm_workers::Workload;
use crate::connector::{Connector, Rotation};
use crate::failure::{Code, Failure};
use crate::lock;
use crate::start_gate::Barrier;
use crate::worker_host::{Environment, WorkerHost};
use crate::worker_pool::{PoolOptions, WorkerContext, WorkerPool};

/// A script with its settings, run by every worker in a Lua state of its own.
#[derive(Debug)]
pub struct ScriptWorkload {
    /// The script.
    pub source: Arc<ScriptSource>,
    /// What it is run with.
    pub settings: Settings,
    /// Where its workers leave off.
    pub unique: Arc<UniqueReach>,
}

/// How far all cells have come in the numbers of `sysbench.rand.unique`, on tables that stay: none comes twice.
#[derive(Debug, Default)]
pub struct UniqueReach(Mutex<Option<UniquePlace>>);

impl UniqueReach {
    /// Where the next cell begins; `None` before the first.
    pub fn furthest(&self) -> Option<UniquePlace> {
        *lock(&self.0)
    }

    fn extend(&self, place: UniquePlace) {
        let mut furthest = lock(&self.0);
        *furthest = (*furthest).max(Some(place));
    }
}

impl Workload for ScriptWorkload {
    fn coordinate(&self, host: Rc<WorkerHost>, while_workers_run: &dyn Fn()) -> Result<(), Failure> {
        let script = Script::load(&self.source, &self.settings, ThreadRole::Main, host).map_err(failure)?;
        let outcome = script.init().and_then(|()| {
            while_workers_run();
            script.done()
        });
        self.unique.extend(script.unique_place());
        outcome.map_err(failure)
    }

    fn work(&self, host: Rc<WorkerHost>) -> Result<(), Failure> {
        let role = ThreadRole::Worker(host.thread());
        let script = Script::load(&self.source, &self.settings, role, host).map_err(failure)?;
        let outcome = script.thread_init().and_then(|()| script.run()).and_then(|()| script.thread_done());
        // Rows of a worker that fails stay in the tables, too.
        self.unique.extend(script.unique_place());
        outcome.map_err(failure)
    }
}

/// A script's error by the contract's codes.
pub fn failure(error: ScriptError) -> Failure {
    let words = error.to_string();
    match error {
        ScriptError::Sql { error, .. } => Failure { message: words, ..Failure::running(&error) },
        ScriptError::NotFound { .. } => Failure::new(Code::ScriptNotFound, words),
        ScriptError::Lua { .. } | ScriptError::NoEvent { .. } => Failure::new(Code::ScriptError, words),
        ScriptError::UnknownOption { .. } | ScriptError::BadOption { .. } | ScriptError::NoCommand { .. } => {
            Failure::bad_request(words)
        }
        ScriptError::NotExported { .. } => Failure::new(Code::Internal, words),
    }
}

/// What a script sees that runs no events: commands, `init()`, `done()`, reports.
pub struct CommandHost {
    environment: Arc<dyn Environment>,
    connector: Connector,
    /// Where the threads of a parallel command meet.
    barrier: Arc<Barrier>,
    /// Kept for scripts that count in commands too; nobody reads them but the script.
    counters: RefCell<[u64; 8]>,
}

impl CommandHost {
    /// The host of one thread of those that meet at the barrier.
    pub fn new(environment: Arc<dyn Environment>, connector: Connector, barrier: Arc<Barrier>) -> Rc<Self> {
        Rc::new(Self { environment, connector, barrier, counters: RefCell::default() })
    }
}

impl Host for CommandHost {
    fn connect(&self, target: &ConnectTarget) -> Result<Box<dyn Connection>, SqlError> {
        self.environment.connect(&self.connector, target)
    }

    fn statement_failed(&self, call: SqlCall, error: &SqlError, query: &[u8]) {
        self.environment.statement_failed(call, error, query);
    }

    fn driver(&self, name: &str) -> Result<(), String> {
        self.environment.driver(name)
    }

    fn count(&self, counter: Counter, amount: u64) {
        self.counters.borrow_mut()[counter as usize] += amount;
    }

    fn counter(&self, counter: Counter) -> u64 {
        self.counters.borrow()[counter as usize]
    }

    fn barrier(&self) {
        self.barrier.wait();
    }

    fn aborted(&self) -> bool {
        self.barrier.is_broken()
    }

    fn progress(&self, label: &str, done: u64, total: u64) {
        self.environment.progress(label, done, total);
    }

    fn log(&self, level: LogLevel, message: &str) {
        self.environment.log(level, message);
    }
}

/// A command that the threads of a pool run.
pub struct Command {
    /// The command's name.
    pub name: String,
    /// The script that has it.
    pub source: ScriptSource,
    /// What the script is run with.
    pub settings: Settings,
    /// Is it run by all workers at once? Else by one thread, in the script's main state.
    pub parallel: bool,
    /// The servers.
    pub rotation: Arc<Rotation>,
    /// Where connections come from and messages go.
    pub environment: Arc<dyn Environment>,
}

impl Command {
    /// Starts the pool. Of several threads that fail only the first is reported: the others fail because their connections are cut.
    pub fn start(self, options: PoolOptions<'_>) -> WorkerPool {
        WorkerPool::start(options, move |context| self.run(context))
    }

    fn run(&self, context: &WorkerContext) -> Result<(), Failure> {
        let role = if self.parallel { ThreadRole::Worker(context.thread) } else { ThreadRole::Main };
        let host = CommandHost::new(
            Arc::clone(&self.environment),
            Connector::rotating(Arc::clone(&self.rotation), Arc::clone(&context.canceller)),
            Arc::clone(&context.barrier),
        );
        Script::load(&self.source, &self.settings, role, host).and_then(|script| script.command(&self.name)).map_err(
            |error| {
                if context.gate.failure().is_none() {
                    self.environment.command_failed(&error);
                }
                failure(error)
            },
        )
    }
}

#[cfg(test)]
#[path = "../tests/unit/script_workload.rs"]
mod tests;
