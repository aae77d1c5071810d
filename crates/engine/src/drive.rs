//! `drive`: requests from standard input, one at a time, and answers to standard output. A reader thread receives the
//! lines. Requests run on the thread that called [`drive`], because workers inherit its CPU set.

use std::collections::VecDeque;
use std::io::BufRead;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bakeoff_load::failure::{Code, Failure};
use bakeoff_load::lock;
use bakeoff_load::machine::cache_line::between_cpus;
use bakeoff_load::replay::stream::{Replay, ReplayOrder};
use bakeoff_load::replay::workload::{Failures, ReplayWorkload};
use bakeoff_load::script_workload::{ScriptWorkload, UniqueReach, failure};
use bakeoff_load::worker_pool::{allow_many_files, guarded};
use bakeoff_script::Settings;

use crate::answer::{Answer, BUILD, CONTRACT, Call, MessageWriter};
use crate::arm::{OpenArm, open};
use crate::command::command;
use crate::load::load;
use crate::measure::{Contender, measure};
use crate::probe::probe;
use crate::request::{Body, Measure, Request};
use crate::scripts::settings;

struct Line {
    request: Result<Request, (Option<u64>, Failure)>,
    cancel: Arc<AtomicBool>,
}

/// What the reader knows of the requests that are not answered yet, oldest first, and when it last heard a line.
struct Pending {
    cancels: Mutex<VecDeque<Arc<AtomicBool>>>,
    heard_at: Mutex<Instant>,
}

/// Serves requests from `input` until it ends, or until a failure is fatal (exit status 1). If the input ends while a
/// request runs, or no line arrives for `silence_limit`, the process ends at once after thawing every server.
pub fn drive(
    input: impl BufRead + Send + 'static,
    writer: &MessageWriter,
    silence_limit: Option<Duration>,
) -> ExitCode {
    allow_many_files();
    let pid = std::process::id();
    writer.send(&Answer::Hello { contract: CONTRACT, engine: env!("CARGO_PKG_VERSION"), build: BUILD, pid });
    let pending = Arc::new(Pending { cancels: Mutex::default(), heard_at: Mutex::new(Instant::now()) });
    let lines = match start_reading(input, &pending, silence_limit) {
        Ok(lines) => lines,
        Err(error) => {
            let failure = Failure::new(Code::Internal, format!("cannot start the reader thread: {error}")).fatal();
            writer.send(&Answer::error(None, failure));
            return ExitCode::FAILURE;
        }
    };
    let mut arms = Vec::new();
    let unique = Arc::default();
    for Line { request, cancel } in lines {
        let (id, outcome) = match request {
            Ok(Request { id, body }) => {
                let call = Call { id, writer, cancel: &cancel };
                (Some(id), guarded(|| serve(call, body, &mut arms, &unique)))
            }
            Err((id, failure)) => (id, Err(failure)),
        };
        // Before the answer: its reader may send the next request and a cancel, which must not apply to this one.
        lock(&pending.cancels).pop_front();
        let fatal = outcome.as_ref().is_err_and(|failure| failure.fatal);
        writer.send(&outcome.unwrap_or_else(|failure| Answer::error(id, failure)));
        if fatal {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn start_reading(
    input: impl BufRead + Send + 'static,
    pending: &Arc<Pending>,
    silence_limit: Option<Duration>,
) -> std::io::Result<Receiver<Line>> {
    let (sender, lines) = channel();
    let reader = Arc::clone(pending);
    std::thread::Builder::new().name("reader".into()).spawn(move || reader.read(input, &sender))?;
    if let Some(limit) = silence_limit {
        let listener = Arc::clone(pending);
        std::thread::Builder::new().name("silence".into()).spawn(move || listener.exit_when_silent(limit))?;
    }
    Ok(lines)
}

impl Pending {
    fn read(&self, input: impl BufRead, lines: &Sender<Line>) {
        for line in input.split(b'\n') {
            let Ok(line) = line else { break };
            *lock(&self.heard_at) = Instant::now();
            let line = String::from_utf8_lossy(&line);
            if line.trim().is_empty() {
                continue;
            }
            match Request::parse(&line) {
                Ok(Request { body: Body::Cancel {}, .. }) => {
                    if let Some(oldest) = lock(&self.cancels).front() {
                        oldest.store(true, Relaxed);
                    }
                }
                request => {
                    let cancel = Arc::<AtomicBool>::default();
                    lock(&self.cancels).push_back(Arc::clone(&cancel));
                    let _ = lines.send(Line { request, cancel });
                }
            }
        }
        if !lock(&self.cancels).is_empty() {
            std::process::exit(0);
        }
    }

    fn exit_when_silent(&self, limit: Duration) {
        loop {
            let silent = lock(&self.heard_at).elapsed();
            let Some(rest) = limit.checked_sub(silent).filter(|rest| !rest.is_zero()) else {
                eprintln!("bakeoff-engine: no line on standard input for {} s", limit.as_secs_f64());
                std::process::exit(1);
            };
            std::thread::sleep(rest);
        }
    }
}

fn serve(call: Call<'_>, body: Body, arms: &mut Vec<OpenArm>, unique: &Arc<UniqueReach>) -> Result<Answer, Failure> {
    let id = call.id;
    match body {
        Body::Open { arms: wanted } => {
            arms.clear();
            let (opened, found) = open(wanted)?;
            *arms = opened;
            Ok(Answer::Opened { id, arms: found })
        }
        Body::Command(request) => command(call, &request, find_arm(arms, &request.arm)?),
        Body::Load(request) => load(call, &request, find_arm(arms, &request.arm)?),
        Body::Measure(request) => match request.replay() {
            Some(order) => measure_replay(call, &request, order, arms),
            None => measure_scripts(call, &request, arms, unique),
        },
        Body::Probe(request) => probe(&request).map(|(rtt_ns, bytes_per_s)| Answer::Probed { id, rtt_ns, bytes_per_s }),
        Body::Cpus {} => Ok(Answer::Cpus { id, cache_line_ns: between_cpus().map(|time| time.as_nanos() as u64) }),
        // The reader handles a cancel when it arrives and never queues it.
        Body::Ping {} | Body::Cancel {} => Ok(Answer::Pong { id }),
    }
}

fn find_arm<'a>(arms: &'a [OpenArm], name: &str) -> Result<&'a OpenArm, Failure> {
    let found = arms.iter().find(|arm| arm.name == name);
    found.ok_or_else(|| Failure::bad_request(format!("no arm {name:?} is open; send `open` first")))
}

fn measure_scripts(
    call: Call<'_>,
    request: &Measure,
    arms: &[OpenArm],
    unique: &Arc<UniqueReach>,
) -> Result<Answer, Failure> {
    let unique_from = unique.furthest();
    let source = Arc::new(bakeoff_script::find(request.script.as_deref().unwrap_or_default()).map_err(failure)?);
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
    measure(call, request, contenders, bakeoff_script::reseed, None)
}

fn measure_replay(call: Call<'_>, request: &Measure, order: ReplayOrder, arms: &[OpenArm]) -> Result<Answer, Failure> {
    let replay = Replay::open(order)?;
    let found = request.arms.iter().map(|name| find_arm(arms, name).map(OpenArm::for_replay));
    let found: Vec<OpenArm> = found.collect::<Result<_, _>>()?;
    let mut workloads: Vec<Arc<ReplayWorkload>> = Vec::new();
    let mut contenders = Vec::new();
    for arm in &found {
        let collation = arm.address.collation.iter().map(|name| format!(" COLLATE {name}"));
        let workload = Arc::new(ReplayWorkload {
            block: Arc::clone(&replay.block),
            operations: Arc::clone(&replay.operations),
            speed: request.speed,
            read_only: arm.read_only,
            home_schema: arm.address.database.clone().unwrap_or_default(),
            home_names: format!("{}{}", arm.address.charset, collation.collect::<String>()),
            failures: Failures::default(),
        });
        workloads.push(Arc::clone(&workload));
        contenders.push(Contender { arm, workload });
    }
    let done = measure(call, request, contenders, |_, _, _| {}, Some(replay))?;
    for (arm, workload) in request.arms.iter().zip(workloads) {
        let failures = workload.failures.list(&workload.operations);
        if !failures.is_empty() {
            let (id, cell, arm) = (call.id, request.cell.clone(), arm.clone());
            call.writer.send(&Answer::Failures { id, cell, arm, failures });
        }
    }
    Ok(done)
}
