//! `command`: a script's command on one arm, by one thread or by several at once, with messages of its progress.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bakeoff_load::connector::Rotation;
use bakeoff_load::failure::{Code, Failure};
use bakeoff_load::host::Environment;
use bakeoff_load::lock;
use bakeoff_load::net::FETCHED_REPLY_BYTES;
use bakeoff_load::script_workload::{ScriptCommand, failure};
use bakeoff_load::worker_pool::{PoolOptions, STACK_BYTES, WorkerPool};
use bakeoff_script::host::LogLevel;
use bakeoff_script::{Settings, describe, find};

use crate::answer::{Answer, Call, MessageWriter};
use crate::arm::OpenArm;
use crate::request::CommandRequest;
use crate::scripts::settings;

pub fn command(call: Call<'_>, request: &CommandRequest, arm: &OpenArm) -> Result<Answer, Failure> {
    let begun = Instant::now();
    let source = find(&request.script).map_err(failure)?;
    let settings = settings(&[&request.options], request.threads, request.seed, &arm.ignore_errors)?;
    let described = describe(&source).map_err(failure)?;
    let parallel = described.commands().iter().any(|known| known.name == request.command && known.parallel);
    drop(described);
    let progress = Arc::new(CommandProgress::new(call, arm));
    let command = ScriptCommand {
        name: request.command.clone(),
        source,
        settings: Settings { command: Some(request.command.clone()), ..settings },
        parallel,
        rotation: Arc::new(Rotation::new(vec![arm.command_address(FETCHED_REPLY_BYTES)])),
        environment: Arc::clone(&progress) as Arc<dyn Environment>,
    };
    let threads = if parallel { request.threads } else { 1 };
    let stuck_what = format!("threads of {} still run although their connections were cut", request.command);
    run_to_end(command.start(pool_options(arm, threads)), arm, call, &stuck_what)?;
    progress.finish();
    Ok(call.done(begun))
}

pub(crate) fn pool_options(arm: &OpenArm, threads: usize) -> PoolOptions<'_> {
    PoolOptions { name: &arm.name, threads: u32::try_from(threads).unwrap_or(u32::MAX), stack_bytes: STACK_BYTES }
}

pub(crate) fn run_to_end(mut pool: WorkerPool, arm: &OpenArm, call: Call<'_>, stuck_what: &str) -> Result<(), Failure> {
    let stuck = pool.run_to_end(|| call.is_cancelled());
    if stuck > 0 {
        return Err(Failure::new(Code::Internal, format!("{stuck} {stuck_what}")).on_arm(&arm.name).fatal());
    }
    pool.join();
    match pool.failure() {
        Some(failure) if !call.is_cancelled() => Err(failure),
        _ => Ok(()),
    }
}

const INTERVAL: Duration = Duration::from_millis(100);

pub(crate) struct CommandProgress {
    id: u64,
    arm: String,
    writer: MessageWriter,
    labels: Mutex<BTreeMap<String, Label>>,
}

#[derive(Default)]
struct Label {
    done: u64,
    total: u64,
    sent: Option<(Instant, u64)>,
}

impl CommandProgress {
    pub(crate) fn new(call: Call<'_>, arm: &OpenArm) -> Self {
        Self { id: call.id, arm: arm.name.clone(), writer: call.writer.clone(), labels: Mutex::default() }
    }

    pub(crate) fn add(&self, label: &str, done: u64, total: u64) {
        let mut labels = lock(&self.labels);
        let entry = labels.entry(label.to_owned()).or_default();
        entry.done += done;
        entry.total = entry.total.max(total);
        let due = entry.sent.is_none_or(|(when, _)| when.elapsed() >= INTERVAL);
        if due || entry.done >= entry.total {
            self.send(label, entry);
        }
    }

    pub(crate) fn finish(&self) {
        lock(&self.labels).iter_mut().for_each(|(label, entry)| self.send(label, entry));
    }

    fn send(&self, label: &str, entry: &mut Label) {
        if entry.sent.is_some_and(|(_, done)| done == entry.done) {
            return;
        }
        entry.sent = Some((Instant::now(), entry.done));
        self.writer.send(&Answer::Progress {
            id: self.id,
            arm: self.arm.clone(),
            label: label.to_owned(),
            done: entry.done,
            total: entry.total,
        });
    }
}

impl Environment for CommandProgress {
    fn log(&self, level: LogLevel, message: &str) {
        self.writer.log(level, message);
    }

    fn progress(&self, label: &str, done: u64, total: u64) {
        self.add(label, done, total);
    }
}
