//! A Lua script as the workload of an arm.

use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bakeoff_script::host::SqlError;
use bakeoff_script::random::UniquePlace;
use bakeoff_script::{Script, ScriptError, ScriptSource, Settings, ThreadRole};

use crate::arm_workers::Workload;
use crate::failure::{Code, Failure};
use crate::worker_host::WorkerHost;

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
    #[must_use]
    pub fn furthest(&self) -> Option<UniquePlace> {
        *self.lock()
    }

    fn extend(&self, place: UniquePlace) {
        let mut furthest = self.lock();
        *furthest = (*furthest).max(Some(place));
    }

    fn lock(&self) -> MutexGuard<'_, Option<UniquePlace>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Workload for ScriptWorkload {
    fn coordinate(&self, host: Rc<WorkerHost>, while_workers_run: &dyn Fn()) -> Result<(), Failure> {
        let script = Script::load(&self.source, &self.settings, ThreadRole::Main, host).map_err(failure)?;
        script.init().map_err(failure)?;
        while_workers_run();
        script.done().map_err(failure)
    }

    fn work(&self, host: Rc<WorkerHost>) -> Result<(), Failure> {
        let role = ThreadRole::Worker(host.thread());
        let script = Script::load(&self.source, &self.settings, role, host).map_err(failure)?;
        script.thread_init().map_err(failure)?;
        script.run().map_err(failure)?;
        script.thread_done().map_err(failure)?;
        self.unique.extend(script.unique_place());
        Ok(())
    }
}

/// A script's error by the contract's codes.
pub fn failure(error: ScriptError) -> Failure {
    let words = error.to_string();
    match error {
        ScriptError::Sql {
            errno,
            sqlstate,
            message,
            fatal,
            ..
        } => {
            let error = SqlError {
                code: errno,
                sqlstate,
                message,
                fatal,
            };
            Failure {
                message: words,
                ..Failure::running(&error)
            }
        }
        ScriptError::NotFound { .. } => Failure::new(Code::ScriptNotFound, words),
        ScriptError::Lua { .. } | ScriptError::NoEvent { .. } => Failure::new(Code::ScriptError, words),
        ScriptError::UnknownOption { .. } | ScriptError::BadOption { .. } | ScriptError::NoCommand { .. } => {
            Failure::bad_request(words)
        }
        ScriptError::NotExported { .. } => Failure::new(Code::Internal, words),
    }
}

#[cfg(test)]
#[path = "../tests/unit/script_workload.rs"]
mod tests;
