//! `drive`: requests from standard input, one at a time, and answers to standard output. A reader thread receives the
//! lines. Requests run on the thread that called [`drive`], because workers inherit its CPU set.

use std::collections::VecDeque;
use std::io::BufRead;
use std::process::ExitCode;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bakeoff_load::failure::{Code, Failure};
use bakeoff_load::lock;
use bakeoff_load::machine::cache_line::between_cpus;
use bakeoff_load::replay::stream::{Replay, ReplayOrder};
use bakeoff_load::replay::workload::{Failures, Home, ReplayWorkload};
use bakeoff_load::script_workload::{ScriptWorkload, UniqueReach, failure};
use bakeoff_load::worker_pool::{CancelToken, allow_many_files, guarded};
use bakeoff_script::Settings;

use crate::answer::{Answer, Build, CONTRACT, MessageWriter};
use crate::arm::{OpenArm, open};
use crate::command::command;
use crate::load::load;
use crate::measure::{Contender, Job, measure};
use crate::probe::probe;
use crate::request::{Body, Measure, ReplayWork, Request, Work};
use crate::scripts::settings;

struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

struct QueueState {
    waiting: VecDeque<Line>,
    heard_at: Instant,
    running: Option<Arc<CancelToken>>,
    ended: bool,
}

struct Line {
    request: Result<Request, (Option<u64>, Failure)>,
    cancel: Arc<CancelToken>,
}

/// Serves requests from `input` until it ends, or until a failure is fatal (exit status 1). If the input ends while a
/// request runs, or no line arrives for `silence_limit`, the process ends at once after thawing every server.
pub fn drive(
    input: impl BufRead + Send + 'static,
    writer: &MessageWriter,
    silence_limit: Option<Duration>,
) -> ExitCode {
    allow_many_files();
    writer.send(&Answer::Hello {
        contract: CONTRACT,
        engine: env!("CARGO_PKG_VERSION"),
        build: Build::current(),
        pid: std::process::id(),
    });
    let queue = Arc::new(Queue::new());
    let reader = Arc::clone(&queue);
    let spawned = spawn("reader", move || read(input, &reader)).and_then(|()| match silence_limit {
        Some(limit) => {
            let queue = Arc::clone(&queue);
            spawn("silence", move || queue.exit_when_silent(limit))
        }
        None => Ok(()),
    });
    if let Err(failure) = spawned {
        writer.send(&Answer::error(None, failure));
        return ExitCode::FAILURE;
    }
    let mut arms = Vec::new();
    let unique = Arc::default();
    while let Some(Line { request, cancel }) = queue.next() {
        let (id, outcome) = match request {
            Ok(Request { id, body }) => (Some(id), serve(id, body, &mut arms, &unique, writer, &cancel)),
            Err((id, failure)) => (id, Err(failure)),
        };
        // Before the answer: its reader may send the next request and a cancel, which must not apply to this one.
        queue.done();
        let fatal = outcome.as_ref().is_err_and(|failure| failure.fatal);
        writer.send(&outcome.unwrap_or_else(|failure| Answer::error(id, failure)));
        if fatal {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    match std::thread::Builder::new().name(name.into()).spawn(work) {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::new(Code::Internal, format!("cannot start the {name} thread: {error}")).fatal()),
    }
}

/// Carries out one request and returns its last answer. A panic is a failure of this request, not of the engine.
fn serve(
    id: u64,
    body: Body,
    arms: &mut Vec<OpenArm>,
    unique: &Arc<UniqueReach>,
    writer: &MessageWriter,
    cancel: &CancelToken,
) -> Result<Answer, Failure> {
    guarded(|| match body {
        Body::Open(wanted) => {
            arms.clear();
            let (opened, found) = open(wanted)?;
            *arms = opened;
            Ok(Answer::Opened { id, arms: found })
        }
        Body::Command(request) => command(id, &request, find_arm(arms, &request.arm)?, writer, cancel),
        Body::Load(request) => load(id, &request, find_arm(arms, &request.arm)?, writer, cancel),
        Body::Measure(request) => match &request.work {
            Work::Script(script) => measure_scripts(id, &request, script, (arms, unique), writer, cancel),
            Work::Replay(work) => measure_replay(id, &request, work, arms, writer, cancel),
        },
        Body::Probe(request) => probe(&request).map(|(rtt_ns, bytes_per_s)| Answer::Probed { id, rtt_ns, bytes_per_s }),
        Body::Cpus => Ok(Answer::Cpus { id, cache_line_ns: between_cpus().map(|time| time.as_nanos() as u64) }),
        // The reader obeys a cancel when it comes in and queues none.
        Body::Ping | Body::Cancel => Ok(Answer::Pong { id }),
    })
}

fn find_arm<'a>(arms: &'a [OpenArm], name: &str) -> Result<&'a OpenArm, Failure> {
    arms.iter().find(|arm| arm.name == name).ok_or_else(|| {
        let known: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
        let known = if known.is_empty() { "none, send `open` first".to_owned() } else { known.join(", ") };
        Failure::bad_request(format!("no arm {name:?} is open; open: {known}"))
    })
}

fn measure_scripts(
    id: u64,
    request: &Measure,
    script: &str,
    (arms, unique): (&[OpenArm], &Arc<UniqueReach>),
    writer: &MessageWriter,
    cancel: &CancelToken,
) -> Result<Answer, Failure> {
    let unique_from = unique.furthest();
    let source = Arc::new(bakeoff_script::find(script).map_err(failure)?);
    let contenders: Vec<Contender<'_>> = request
        .arms
        .iter()
        .map(|name| {
            let arm = find_arm(arms, name)?;
            if arm.read_only {
                return Err(Failure::bad_request("measure: read_only is for captures, not for scripts").on_arm(name));
            }
            let mut options = vec![&request.options];
            options.extend(request.arm_options.get(name));
            let settings = settings(&options, request.threads, request.key_seed, &arm.ignore_errors)?;
            let workload = Arc::new(ScriptWorkload {
                source: Arc::clone(&source),
                settings: Settings { unique_from, ..settings },
                unique: Arc::clone(unique),
            });
            Ok(Contender { arm, workload })
        })
        .collect::<Result<_, Failure>>()?;
    measure(id, request, contenders, Job::scripts(bakeoff_script::reseed), writer, cancel)
}

fn measure_replay(
    id: u64,
    request: &Measure,
    work: &ReplayWork,
    arms: &[OpenArm],
    writer: &MessageWriter,
    cancel: &CancelToken,
) -> Result<Answer, Failure> {
    let replay = Replay::open(ReplayOrder {
        capture: work.capture.clone(),
        sessions: request.threads,
        chunk_events: work.chunk_events,
        reads_only: work.reads_only,
        by_clock: work.speed.is_some(),
        begin: request.key_seed,
    })?;
    let found = request.arms.iter().map(|name| find_arm(arms, name).map(OpenArm::for_replay));
    let found: Vec<OpenArm> = found.collect::<Result<_, _>>()?;
    let mut workloads: Vec<Arc<ReplayWorkload>> = Vec::new();
    let mut contenders = Vec::new();
    for arm in &found {
        let collation = arm.address.collation.iter().map(|name| format!(" COLLATE {name}"));
        let workload = Arc::new(ReplayWorkload {
            block: Arc::clone(&replay.block),
            operations: Arc::clone(&replay.operations),
            speed: work.speed,
            read_only: arm.read_only,
            home: Home {
                schema: arm.address.database.clone().unwrap_or_default(),
                names: format!("{}{}", arm.address.charset, collation.collect::<String>()),
            },
            failures: Failures::default(),
        });
        workloads.push(Arc::clone(&workload));
        contenders.push(Contender { arm, workload });
    }
    let job = Job { reseed: |_, _, _| {}, replay: Some(replay) };
    let done = measure(id, request, contenders, job, writer, cancel)?;
    for (arm, workload) in request.arms.iter().zip(workloads) {
        let failures = workload.failures.list(&workload.operations);
        if !failures.is_empty() {
            let (cell, arm) = (request.cell.clone(), arm.clone());
            writer.send(&Answer::Failures { id, cell, arm, failures });
        }
    }
    Ok(done)
}

fn read(input: impl BufRead, queue: &Queue) {
    for line in input.split(b'\n') {
        let Ok(line) = line else { break };
        queue.lock().heard_at = Instant::now();
        let line = String::from_utf8_lossy(&line);
        if line.trim().is_empty() {
            continue;
        }
        match Request::parse(&line) {
            Ok(Request { body: Body::Cancel, .. }) => queue.cancel(),
            request => queue.push(Line { request, cancel: Arc::default() }),
        }
    }
    queue.end();
}

impl Queue {
    fn new() -> Self {
        let state = QueueState { waiting: VecDeque::new(), heard_at: Instant::now(), running: None, ended: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        lock(&self.state)
    }

    fn push(&self, line: Line) {
        self.lock().waiting.push_back(line);
        self.changed.notify_one();
    }

    fn next(&self) -> Option<Line> {
        let mut state = self.lock();
        loop {
            if let Some(line) = state.waiting.pop_front() {
                state.running = Some(Arc::clone(&line.cancel));
                return Some(line);
            }
            if state.ended {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self) {
        self.lock().running = None;
    }

    fn cancel(&self) {
        let state = self.lock();
        let oldest = state.running.as_ref().or_else(|| state.waiting.front().map(|line| &line.cancel));
        if let Some(token) = oldest {
            token.cancel();
        }
    }

    fn exit_when_silent(&self, limit: Duration) {
        loop {
            let silent = self.lock().heard_at.elapsed();
            let Some(rest) = limit.checked_sub(silent).filter(|rest| !rest.is_zero()) else {
                eprintln!("bakeoff-engine: nothing was heard for {} s", limit.as_secs_f64());
                std::process::exit(1);
            };
            std::thread::sleep(rest);
        }
    }

    /// Handles the end of the input: nobody will read the answers to what is still running.
    fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        if state.running.is_some() || !state.waiting.is_empty() {
            std::process::exit(0);
        }
        drop(state);
        self.changed.notify_one();
    }
}
