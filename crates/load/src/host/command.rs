//! The host of a script that runs no events: commands, `init()`, `done()` and report hooks.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bakeoff_script::SqlCall;
use bakeoff_script::host::{ConnectTarget, Connection, Host, HostRef, LogLevel, SqlError};

use super::{Environment, RECONNECT_FOR};
use crate::connector::Connector;
use crate::start_gate::Barrier;

pub struct CommandHost {
    environment: Arc<dyn Environment>,
    connector: Connector,
    barrier: Arc<Barrier>,
}

impl CommandHost {
    /// Creates the host of a thread that meets the others at `barrier`.
    pub fn new(environment: Arc<dyn Environment>, connector: Connector, barrier: Arc<Barrier>) -> HostRef {
        HostRef::without_events(Rc::new(Self { environment, connector, barrier }))
    }
}

impl Host for CommandHost {
    fn connect(&self, target: &ConnectTarget) -> Result<Box<dyn Connection>, SqlError> {
        self.environment.connect(&self.connector, target)
    }

    fn driver(&self, name: &str) -> Result<(), String> {
        self.environment.driver(name)
    }

    fn reconnect_for(&self) -> Duration {
        RECONNECT_FOR
    }

    fn statement_failed(&self, call: SqlCall, error: &SqlError, query: &[u8]) {
        self.environment.statement_failed(call, error, query);
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
