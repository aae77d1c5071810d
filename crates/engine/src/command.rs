//! `command`: a script's command on one arm, by one thread or by several at once.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bakeoff_script::host::{
    ConnectTarget, Connection, Counter, EventEnd, Host, LogLevel, Reply, SqlError,
};
use bakeoff_script::{Script, ScriptSource, Settings, ThreadRole, describe, find};

use crate::arm::OpenArm;
use crate::barrier::Barrier;
use crate::connector::Connector;
use crate::contract::{Answer, Code, Command, Failure};
use crate::control::Control;
use crate::gate::Gate;
use crate::canceller::Canceller;
use crate::message_writer::MessageWriter;
use crate::progress::Progress;
use crate::scripting::{failure, settings};
use crate::team::{guarded, spawn};

/// How often the wait for the threads looks for a failure or a cancel.
const POLL: Duration = Duration::from_millis(20);
/// How long threads may take to end after their connections were cut.
const LAST_GRACE: Duration = Duration::from_secs(5);

/// One thread's world while a command runs.
struct CommandHost {
    connector: Connector,
    barrier: Arc<Barrier>,
    progress: Arc<Progress>,
    writer: MessageWriter,
    /// Kept for scripts that count in commands too; nobody is told.
    counters: RefCell<[u64; 8]>,
}

impl Host for CommandHost {
    fn connect(&self, target: &ConnectTarget) -> Result<Box<dyn Connection>, SqlError> {
        self.connector.connect(target)
    }
    /// A command is not a run.
    fn more_events(&self) -> bool {
        false
    }
    fn event_start(&self) {}
    fn event_stop(&self, _end: EventEnd) {}
    fn count_reply(&self, _reply: &Reply) {}
    fn count_error(&self, _code: u16) {}
    fn count(&self, counter: Counter, amount: u64) {
        self.counters.borrow_mut()[counter as usize] += amount;
    }
    fn counter(&self, counter: Counter) -> u64 {
        self.counters.borrow()[counter as usize]
    }
    fn operation(&self, _name: &str) {}
    fn barrier(&self) {
        self.barrier.wait();
    }
    fn aborted(&self) -> bool {
        self.barrier.is_broken()
    }
    fn progress(&self, label: &str, done: u64, total: u64) {
        self.progress.add(label, done, total);
    }
    fn log(&self, level: LogLevel, message: &str) {
        self.writer.log(level, message);
    }
}

/// What every thread of the command needs.
struct Work {
    arm: OpenArm,
    source: ScriptSource,
    settings: Settings,
    command: String,
    gate: Gate,
    barrier: Arc<Barrier>,
    progress: Arc<Progress>,
    writer: MessageWriter,
}

/// Runs the command and sends its `progress`; returns its `done`.
///
/// # Errors
/// What the first thread that failed failed with; all threads are joined by then.
pub fn command(
    id: u64,
    request: &Command,
    arm: &OpenArm,
    writer: &MessageWriter,
    control: &Control,
) -> Result<Answer, Failure> {
    let begun = Instant::now();
    let source = find(&request.script).map_err(failure)?;
    let settings = settings(
        &[&request.options],
        request.threads,
        request.seed,
        &arm.ignore_errors,
    )?;
    let parallel = is_parallel(&source, &request.command)?;
    let threads = if parallel { request.threads } else { 1 };
    let work = Arc::new(Work {
        arm: arm.clone(),
        source,
        settings: Settings {
            command: Some(request.command.clone()),
            ..settings
        },
        command: request.command.clone(),
        gate: Gate::new(threads),
        barrier: Arc::new(Barrier::new(threads)),
        progress: Arc::new(Progress::new(id, &arm.name, writer.clone())),
        writer: writer.clone(),
    });
    run(&work, threads, parallel, control)?;
    work.progress.finish();
    Ok(Answer::Done {
        id,
        seconds: begun.elapsed().as_secs_f64(),
        blocks: None,
        cancelled: control.is_cancelled(),
        workers_stopped: None,
    })
}

/// Is the command declared to be run by all workers at once?
fn is_parallel(source: &ScriptSource, command: &str) -> Result<bool, Failure> {
    let description = describe(source).map_err(failure)?;
    Ok(description
        .commands
        .iter()
        .any(|known| known.name == command && known.parallel))
}

fn run(work: &Arc<Work>, threads: usize, parallel: bool, control: &Control) -> Result<(), Failure> {
    let mut cancellers = Vec::with_capacity(threads);
    let mut handles = Vec::with_capacity(threads);
    let mut refused = None;
    for thread in 0..u32::try_from(threads).unwrap_or(u32::MAX) {
        let canceller = Arc::<Canceller>::default();
        cancellers.push(Arc::clone(&canceller));
        let role = if parallel {
            ThreadRole::Worker(thread)
        } else {
            ThreadRole::Main
        };
        let its_work = Arc::clone(work);
        match spawn(&work.arm.name, &thread.to_string(), move || {
            its_work.run(role, canceller)
        }) {
            Ok(handle) => handles.push(handle),
            Err(failure) => {
                // Those that never came to be cannot leave by themselves.
                (handles.len()..threads).for_each(|_| work.gate.leave(Ok(())));
                refused = Some(failure);
                break;
            }
        }
    }
    let mut cut = false;
    while work.gate.wait_all_gone(POLL) > 0 {
        if cut || !(refused.is_some() || work.gate.failure().is_some() || control.is_cancelled()) {
            continue;
        }
        cut = true;
        work.barrier.break_up();
        cancellers.iter().for_each(|canceller| canceller.cut());
        let stuck = work.gate.wait_all_gone(LAST_GRACE);
        if stuck > 0 {
            let message = format!(
                "{stuck} threads of {} do not end: the script does not return",
                work.command
            );
            return Err(Failure {
                fatal: true,
                ..Failure::new(Code::Internal, message)
            }
            .on_arm(&work.arm.name));
        }
    }
    handles.into_iter().for_each(|handle| drop(handle.join()));
    match refused.or_else(|| work.gate.failure()) {
        // What a cancelled command failed with is that its connections were cut.
        Some(failure) if !(cut && control.is_cancelled()) => Err(failure),
        _ => Ok(()),
    }
}

impl Work {
    /// One thread's whole life.
    fn run(&self, role: ThreadRole, canceller: Arc<Canceller>) {
        let result = guarded(|| {
            let host = Rc::new(CommandHost {
                connector: Connector::new(self.arm.patient_address(), canceller),
                barrier: Arc::clone(&self.barrier),
                progress: Arc::clone(&self.progress),
                writer: self.writer.clone(),
                counters: RefCell::default(),
            });
            let script = Script::load(&self.source, &self.settings, role, host).map_err(failure)?;
            script.command(&self.command).map_err(failure)
        });
        if result.is_err() {
            self.barrier.break_up();
        }
        self.barrier.leave();
        self.gate
            .leave(result.map_err(|failure| failure.on_arm(&self.arm.name)));
    }
}
