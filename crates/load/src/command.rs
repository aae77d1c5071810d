//! A script's command (`prepare`, `cleanup`, its own), by one thread or by all threads of a pool at once.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use bakeoff_script::host::{ConnectTarget, Connection, Counter, Host, LogLevel, SqlError};
use bakeoff_script::{Script, ScriptSource, Settings, SqlCall, ThreadRole};

use crate::barrier::Barrier;
use crate::connector::{Connector, Rotation};
use crate::failure::Failure;
use crate::script_workload::failure;
use crate::worker_host::Environment;
use crate::worker_pool::{PoolOptions, WorkerContext, WorkerPool};

/// What a script sees that runs no events: commands, `init()`, `done()`, reports.
pub struct CommandHost {
    environment: Arc<dyn Environment>,
    connector: Connector,
    /// Shared by the threads of a parallel command.
    barrier: Option<Arc<Barrier>>,
    /// Kept for scripts that count in commands too; nobody reads them but the script.
    counters: RefCell<[u64; 8]>,
}

impl CommandHost {
    /// The host of a script that runs on one thread.
    pub fn new(environment: Arc<dyn Environment>, connector: Connector) -> Rc<Self> {
        Self::in_parallel(environment, connector, None)
    }

    fn in_parallel(environment: Arc<dyn Environment>, connector: Connector, barrier: Option<Arc<Barrier>>) -> Rc<Self> {
        Rc::new(Self {
            environment,
            connector,
            barrier,
            counters: RefCell::default(),
        })
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
        if let Some(barrier) = &self.barrier {
            barrier.wait();
        }
    }

    fn aborted(&self) -> bool {
        self.barrier.as_ref().is_some_and(|barrier| barrier.is_broken())
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
        let role = if self.parallel {
            ThreadRole::Worker(context.thread)
        } else {
            ThreadRole::Main
        };
        let host = CommandHost::in_parallel(
            Arc::clone(&self.environment),
            Connector::rotating(Arc::clone(&self.rotation), Arc::clone(&context.canceller)),
            Some(Arc::clone(&context.barrier)),
        );
        Script::load(&self.source, &self.settings, role, host)
            .and_then(|script| script.command(&self.name))
            .map_err(|error| {
                if context.gate.failure().is_none() {
                    self.environment.command_failed(&error);
                }
                failure(error)
            })
    }
}
