use std::rc::Rc;
use std::sync::{Arc, Mutex};

use bakeoff_script::host::HostRef;
use bakeoff_script::random::UniquePlace;
use bakeoff_script::{Script, ScriptError, ScriptSource, Settings};

use crate::arm_workers::Workload;
use crate::connector::{Connector, Rotation};
use crate::failure::{Code, Failure};
use crate::host::{Environment, SliceHost, ThreadHost};
use crate::lock;
use crate::worker_pool::{PoolOptions, WorkerContext, WorkerPool};

#[derive(Debug)]
pub struct ScriptWorkload {
    pub source: Arc<ScriptSource>,
    pub settings: Settings,
    pub unique: Arc<UniqueReach>,
}

/// How far all cells have used up the numbers of `sysbench.rand.unique` on shared tables, so that none is drawn twice.
#[derive(Debug, Default)]
pub struct UniqueReach(Mutex<Option<UniquePlace>>);

impl UniqueReach {
    pub fn furthest(&self) -> Option<UniquePlace> {
        *lock(&self.0)
    }

    fn extend(&self, place: UniquePlace) {
        let mut furthest = lock(&self.0);
        *furthest = (*furthest).max(Some(place));
    }
}

impl Workload for ScriptWorkload {
    fn coordinate(&self, host: Rc<SliceHost>, while_workers_run: &dyn Fn()) -> Result<(), Failure> {
        let host = host.for_script();
        let script = Script::load(&self.source, &self.settings, 0, host).map_err(failure)?;
        let outcome = script.init().and_then(|()| {
            while_workers_run();
            script.done()
        });
        self.unique.extend(script.unique_place());
        outcome.map_err(failure)
    }

    fn work(&self, host: Rc<SliceHost>) -> Result<(), Failure> {
        let script = Script::load(&self.source, &self.settings, host.thread, host.for_script()).map_err(failure)?;
        let outcome = script.thread_init().and_then(|()| script.run()).and_then(|()| script.thread_done());
        self.unique.extend(script.unique_place());
        outcome.map_err(failure)
    }
}

pub fn failure(error: ScriptError) -> Failure {
    let words = error.to_string();
    match error {
        ScriptError::Sql { error, .. } => Failure { message: words, ..Failure::running(&error) },
        ScriptError::NotFound { .. } => Failure::new(Code::ScriptNotFound, words),
        ScriptError::Lua { .. } | ScriptError::NoEvent { .. } => Failure::new(Code::ScriptError, words),
        ScriptError::UnknownOption { .. } | ScriptError::BadOption { .. } | ScriptError::NoCommand { .. } => {
            Failure::bad_request(words)
        }
    }
}

pub struct ScriptCommand {
    pub name: String,
    pub source: ScriptSource,
    pub settings: Settings,
    pub parallel: bool,
    pub rotation: Arc<Rotation>,
    pub environment: Arc<dyn Environment>,
}

impl ScriptCommand {
    /// Starts the pool. Reports only the first thread that fails: the others fail because their connections are cut.
    pub fn start(self, options: PoolOptions<'_>) -> WorkerPool {
        WorkerPool::start(options, move |context| self.run(context))
    }

    fn run(&self, context: &WorkerContext) -> Result<(), Failure> {
        let thread = if self.parallel { context.thread } else { 0 };
        let host = HostRef::without_events(ThreadHost::new(
            Arc::clone(&self.environment),
            Connector::rotating(Arc::clone(&self.rotation), Arc::clone(&context.canceller)),
            Arc::clone(&context.barrier),
        ));
        Script::load(&self.source, &self.settings, thread, host).and_then(|script| script.command(&self.name)).map_err(
            |error| {
                if context.gate.failure().is_none() {
                    self.environment.command_failed(&error);
                }
                failure(error)
            },
        )
    }
}
