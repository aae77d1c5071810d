//! What a script sees of its thread, and the events of its measured slices or its run.

mod event_clock;
mod run;
mod slice;
mod thread;

use bakeoff_script::host::{ConnectTarget, Connection, LogLevel, SqlError, known_driver};
use bakeoff_script::{ScriptError, SqlCall};

use crate::connector::Connector;

pub use run::RunHost;
pub use slice::{Reseed, SliceHost, SlicePlan};
pub use thread::ThreadHost;

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
