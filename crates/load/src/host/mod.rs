//! What a script sees of its thread, and the events of its measured slices or its run.

mod event_clock;
mod run;
mod slices;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bakeoff_script::host::{ConnectTarget, Connection, Host, LogLevel, SqlError, known_driver};
use bakeoff_script::{ScriptError, SqlCall};

use crate::connector::Connector;
use crate::start_gate::{Barrier, StartGate};

pub use run::{RunHost, RunPlan};
pub use slices::{Reseed, SliceHost, SlicePlan};

/// The program around the workers: where their connections come from and where their messages go.
pub trait Environment: Send + Sync + 'static {
    fn connect(&self, connector: &Connector, target: &ConnectTarget) -> Result<Box<dyn Connection>, SqlError> {
        connector.connect(target)
    }

    fn driver(&self, name: &str) -> Result<(), String> {
        known_driver(name)
    }

    fn log(&self, level: LogLevel, message: &str);

    fn ignored_error(&self, _code: u16) {}

    fn progress(&self, _label: &str, _done: u64, _total: u64) {}

    fn statement_failed(&self, _call: SqlCall, _error: &SqlError, _query: &[u8]) {}

    fn command_failed(&self, _error: &ScriptError) {}
}

/// What scripts reach besides events: in commands, measured slices and runs alike.
pub struct ThreadHost {
    environment: Arc<dyn Environment>,
    connector: Connector,
    peers: Peers,
}

enum Peers {
    Barrier(Arc<Barrier>),
    /// No barrier: sysbench has barriers only in commands.
    Gate(Arc<StartGate>),
}

impl ThreadHost {
    pub fn new(environment: Arc<dyn Environment>, connector: Connector, barrier: Arc<Barrier>) -> Rc<Self> {
        Rc::new(Self { environment, connector, peers: Peers::Barrier(barrier) })
    }

    pub fn in_run(environment: Arc<dyn Environment>, connector: Connector, gate: Arc<StartGate>) -> Rc<Self> {
        Rc::new(Self { environment, connector, peers: Peers::Gate(gate) })
    }
}

impl Host for ThreadHost {
    fn connect(&self, target: &ConnectTarget) -> Result<Box<dyn Connection>, SqlError> {
        self.environment.connect(&self.connector, target)
    }

    fn driver(&self, name: &str) -> Result<(), String> {
        self.environment.driver(name)
    }

    fn reconnect_for(&self) -> Duration {
        match self.peers {
            Peers::Barrier(_) => Duration::from_secs(10),
            Peers::Gate(_) => Duration::ZERO,
        }
    }

    fn statement_failed(&self, call: SqlCall, error: &SqlError, query: &[u8]) {
        // After the gate has closed, its connection was cut, or another failure was reported.
        if !matches!(&self.peers, Peers::Gate(gate) if gate.is_closed()) {
            self.environment.statement_failed(call, error, query);
        }
    }

    fn barrier(&self) {
        if let Peers::Barrier(barrier) = &self.peers {
            barrier.wait();
        }
    }

    fn aborted(&self) -> bool {
        match &self.peers {
            Peers::Barrier(barrier) => barrier.is_broken(),
            Peers::Gate(gate) => gate.is_closed(),
        }
    }

    fn progress(&self, label: &str, done: u64, total: u64) {
        self.environment.progress(label, done, total);
    }

    fn log(&self, level: LogLevel, message: &str) {
        self.environment.log(level, message);
    }
}
