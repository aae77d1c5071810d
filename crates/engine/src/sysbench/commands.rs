//! `prepare`, `cleanup` and a script's own commands: by one thread, or by all at once where the script says so.

use std::sync::Arc;
use std::time::Duration;

use bakeoff_script::{Script, ScriptError, ThreadRole};

use super::run_options::RunOptions;
use super::session::{PlainHost, Session};
use super::test::{ScriptTest, tell_failure};
use crate::barrier::Barrier;
use crate::contract::Failure;
use crate::gate::Gate;
use crate::canceller::Canceller;
use crate::scripting::failure;
use crate::team::{guarded, spawn_with_stack};

/// How often the wait for the threads looks for a failure.
const POLL: Duration = Duration::from_millis(20);
/// How long threads may take to end after their connections were cut.
const LAST_GRACE: Duration = Duration::from_secs(5);
/// sysbench's name for what runs a declared command.
const CALL_COMMAND: &str = "sysbench.cmdline.call_command";

/// Runs `command` of the script that `main` has loaded; false when it failed, which has been told then.
pub(super) fn run(
    command: &str,
    main: &Script,
    test: &Arc<ScriptTest>,
    options: &RunOptions,
    session: &Arc<Session>,
) -> bool {
    let parallel = main
        .commands()
        .iter()
        .any(|known| known.name == command && known.parallel);
    if parallel && options.threads > 1 {
        session.console.notice("Initializing worker threads...\n");
        return run_in_parallel(command, test, options, session);
    }
    let declared = !["prepare", "cleanup", "help"].contains(&command) || parallel;
    let function = if declared { CALL_COMMAND } else { command };
    main.command(command)
        .inspect_err(|error| tell_failure(&session.console, function, error))
        .is_ok()
}

/// What the threads of a parallel command share.
struct Parallel {
    command: String,
    test: Arc<ScriptTest>,
    session: Arc<Session>,
    gate: Gate,
    barrier: Arc<Barrier>,
}

fn run_in_parallel(
    command: &str,
    test: &Arc<ScriptTest>,
    options: &RunOptions,
    session: &Arc<Session>,
) -> bool {
    let threads = options.threads as usize;
    let shared = Arc::new(Parallel {
        command: command.to_owned(),
        test: Arc::clone(test),
        session: Arc::clone(session),
        gate: Gate::new(threads),
        barrier: Arc::new(Barrier::new(threads)),
    });
    let cancellers: Vec<Arc<Canceller>> = (0..threads).map(|_| Arc::default()).collect();
    for (thread, canceller) in (0..options.threads).zip(&cancellers) {
        let (its_shared, canceller) = (Arc::clone(&shared), Arc::clone(canceller));
        let body = move || its_shared.run(thread, canceller);
        if let Err(failure) = spawn_with_stack("sb", &thread.to_string(), options.stack_bytes, body)
        {
            session.console.fatal(&failure.message);
            // Those that never came to be cannot leave by themselves.
            (thread..options.threads).for_each(|_| shared.gate.leave(Err(failure.clone())));
            break;
        }
    }
    wait(&shared.gate, &shared.barrier, &cancellers).is_none()
}

impl Parallel {
    /// One thread's whole life.
    fn run(&self, thread: u32, canceller: Arc<Canceller>) {
        let barrier = Some(Arc::clone(&self.barrier));
        let host = PlainHost::in_parallel(&self.session, canceller, barrier);
        let result = guarded(|| {
            let told = |error: ScriptError| {
                // What fails after another thread fails because its connection was cut.
                if self.gate.failure().is_none() {
                    tell_failure(&self.session.console, CALL_COMMAND, &error);
                }
                failure(error)
            };
            let script = self
                .test
                .load(ThreadRole::Worker(thread), host)
                .map_err(told)?;
            script.command(&self.command).map_err(told)
        });
        if result.is_err() {
            self.barrier.break_up();
        }
        self.barrier.leave();
        self.gate.leave(result);
    }
}

/// Waits for all threads; when one fails the others' connections are cut, so that none loads on alone.
fn wait(gate: &Gate, barrier: &Barrier, cancellers: &[Arc<Canceller>]) -> Option<Failure> {
    while gate.wait_all_gone(POLL) > 0 {
        if gate.failure().is_some() {
            barrier.break_up();
            cancellers.iter().for_each(|canceller| canceller.cut());
            gate.wait_all_gone(LAST_GRACE);
            break;
        }
    }
    gate.failure()
}
