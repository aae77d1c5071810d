//! The requests of `docs/reference/engine.md`: their JSON shapes, and the checks that need no server.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bakeoff_load::arrivals::Arrivals;
use bakeoff_load::failure::Failure;
use bakeoff_load::machine::placement::Placement;
use bakeoff_load::net::{Endpoint, PrepareMode, Secret, TlsOptions};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

const MOST_THREADS: usize = 10_000;
/// An hour [ns].
const LONGEST_SLICE_NS: u64 = 3_600_000_000_000;
/// Arrivals scheduled for one slice, each of 8 bytes.
const MOST_ARRIVALS: f64 = 20e6;

#[derive(Debug)]
pub struct Request {
    pub id: u64,
    pub body: Body,
}

#[derive(Debug)]
pub enum Body {
    Open(Vec<Arm>),
    Command(CommandRequest),
    Load(LoadDump),
    Measure(Box<Measure>),
    Probe(Probe),
    Cpus,
    Ping,
    Cancel,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandRequest {
    pub arm: String,
    pub script: String,
    pub command: String,
    #[serde(default)]
    pub options: Map<String, Value>,
    #[serde(default = "one")]
    pub threads: usize,
    #[serde(default)]
    pub seed: u64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadDump {
    pub arm: String,
    pub stages: Vec<Vec<DumpFile>>,
    #[serde(default = "one")]
    pub threads: usize,
    pub marks: Option<String>,
    #[serde(default)]
    pub resumed: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DumpFile {
    pub path: PathBuf,
    #[serde(default)]
    pub database: String,
    #[serde(default = "semicolon")]
    pub delimiter: String,
    pub rows: Option<DumpRows>,
    #[serde(default)]
    pub number: u64,
    #[serde(default)]
    pub done: u64,
}

fn semicolon() -> String {
    ";".to_owned()
}

/// Rows as MySQL Shell writes them: `\t` between values, `\n` after a row, `\\` as the escape, `\N` for NULL.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DumpRows {
    pub insert: String,
    pub functions: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "docs/reference/engine.md explains the fields")]
pub struct Probe {
    pub host: String,
    pub port: u16,
    pub token: String,
}

fn one() -> usize {
    1
}

impl Request {
    pub fn parse(line: &str) -> Result<Self, (Option<u64>, Failure)> {
        let bad = |id, message: String| (id, Failure::bad_request(message));
        let value: Value =
            serde_json::from_str(line).map_err(|error| bad(None, format!("request is not JSON: {error}")))?;
        let Value::Object(mut fields) = value else {
            return Err(bad(None, "request is not a JSON object".into()));
        };
        let id = match fields.remove("id").as_ref().map(Value::as_u64) {
            Some(Some(id)) => id,
            Some(None) => {
                return Err(bad(None, "request: id must be an integer of 0 or more".into()));
            }
            None => return Err(bad(None, "request has no id".into())),
        };
        let Some(Value::String(kind)) = fields.remove("type") else {
            return Err(bad(Some(id), "request has no type".into()));
        };
        Self::body(&kind, fields).map(|body| Self { id, body }).map_err(|failure| (Some(id), failure))
    }

    fn body(kind: &str, fields: Map<String, Value>) -> Result<Body, Failure> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Open {
            arms: Vec<Arm>,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Nothing {}

        match kind {
            "open" => Ok(Body::Open(checked_arms(read::<Open>(kind, fields)?.arms)?)),
            "command" => {
                let command: CommandRequest = read(kind, fields)?;
                check_threads(command.threads)?;
                Ok(Body::Command(command))
            }
            "load" => {
                let load: LoadDump = read(kind, fields)?;
                check_threads(load.threads)?;
                if load.stages.iter().flatten().any(|file| file.delimiter.is_empty()) {
                    return Err(Failure::bad_request("load: a delimiter is empty"));
                }
                Ok(Body::Load(load))
            }
            "measure" => Ok(Body::Measure(Box::new(read::<MeasureFields>(kind, fields)?.try_into()?))),
            "probe" => read(kind, fields).map(Body::Probe),
            "cpus" => read::<Nothing>(kind, fields).map(|_| Body::Cpus),
            "ping" => read::<Nothing>(kind, fields).map(|_| Body::Ping),
            "cancel" => read::<Nothing>(kind, fields).map(|_| Body::Cancel),
            _ => Err(Failure::bad_request(format!(
                "unknown request type {kind:?}; known are open, command, load, measure, probe, cpus, ping, cancel"
            ))),
        }
    }
}

fn read<T: DeserializeOwned>(kind: &str, fields: Map<String, Value>) -> Result<T, Failure> {
    // The error repeats a value of the wrong type. `Secret` makes sure that it is never a password.
    T::deserialize(Value::Object(fields)).map_err(|error| Failure::bad_request(format!("{kind}: {error}")))
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    pub name: String,
    pub address: Endpoint,
    pub user: String,
    #[serde(default)]
    pub password: Secret,
    pub database: Option<String>,
    pub charset: String,
    pub collation: Option<String>,
    #[serde(default)]
    pub tls: TlsOptions,
    #[serde(default)]
    pub prepare_mode: PrepareMode,
    pub server_pid: Option<i32>,
    #[serde(default)]
    pub slowdown_percent: f64,
    #[serde(default)]
    pub read_only: bool,
    #[serde(default)]
    pub ignore_errors: Vec<u16>,
}

fn checked_arms(arms: Vec<Arm>) -> Result<Vec<Arm>, Failure> {
    if arms.is_empty() {
        return Err(Failure::bad_request("open: arms must name at least one arm"));
    }
    for (index, arm) in arms.iter().enumerate() {
        if arms[..index].iter().any(|earlier| earlier.name == arm.name) {
            return Err(Failure::bad_request(format!("open: two arms have the name {:?}", arm.name)));
        }
        if arm.name.contains('\0') {
            return Err(Failure::bad_request("open: an arm's name must not contain NUL"));
        }
        if !(0.0..=10_000.0).contains(&arm.slowdown_percent) {
            return Err(Failure::bad_request("open: slowdown_percent must be from 0 to 10000").on_arm(&arm.name));
        }
        if arm.server_pid.is_some_and(|pid| pid <= 1) {
            return Err(
                Failure::bad_request("open: server_pid must be a process id above 1, or null").on_arm(&arm.name)
            );
        }
    }
    Ok(arms)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MeasureFields {
    cell: String,
    script: Option<String>,
    capture: Option<PathBuf>,
    chunk_events: Option<u64>,
    speed: Option<f64>,
    #[serde(default)]
    reads_only: bool,
    #[serde(default)]
    options: Map<String, Value>,
    #[serde(default)]
    arm_options: BTreeMap<String, Map<String, Value>>,
    threads: usize,
    arms: Vec<String>,
    seconds: Option<f64>,
    blocks: Option<u64>,
    slice_ns: u64,
    #[serde(default)]
    guard_ns: u64,
    #[serde(default)]
    order_seed: u64,
    #[serde(default)]
    key_seed: u64,
    #[serde(default)]
    load: Load,
    #[serde(default)]
    placement: Placement,
    #[serde(default)]
    freeze: bool,
}

#[derive(Debug, Clone)]
pub struct Measure {
    pub cell: String,
    pub work: Work,
    pub options: Map<String, Value>,
    pub arm_options: BTreeMap<String, Map<String, Value>>,
    pub threads: usize,
    pub arms: Vec<String>,
    pub length: Length,
    pub slice_ns: u64,
    pub guard_ns: u64,
    pub order_seed: u64,
    pub key_seed: u64,
    pub load: Load,
    pub placement: Placement,
    pub freeze: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    Script(String),
    Replay(ReplayWork),
}

#[derive(Debug, Clone, PartialEq)]
pub struct ReplayWork {
    pub capture: PathBuf,
    pub chunk_events: u64,
    pub speed: Option<f64>,
    pub reads_only: bool,
}

impl Measure {
    pub fn replay(&self) -> Option<&ReplayWork> {
        match &self.work {
            Work::Replay(replay) => Some(replay),
            Work::Script(_) => None,
        }
    }

    pub fn is_open_loop(&self) -> bool {
        self.load != Load::default() || self.replay().is_some_and(|replay| replay.speed.is_some())
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Length {
    /// Whole blocks, at least one, until this much wall time has passed [s].
    Seconds(f64),
    Blocks(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(tag = "model", rename_all = "snake_case", deny_unknown_fields)]
pub enum Load {
    /// A worker begins the next event when the last one has ended. Braces, because serde ignores unknown fields of a unit variant.
    Closed {},
    Open {
        rate_per_s: f64,
        #[serde(default)]
        arrivals: Arrivals,
    },
}

impl Default for Load {
    fn default() -> Self {
        Self::Closed {}
    }
}

fn check_threads(threads: usize) -> Result<(), Failure> {
    if (1..=MOST_THREADS).contains(&threads) {
        Ok(())
    } else {
        Err(Failure::bad_request(format!("threads must be from 1 to {MOST_THREADS}, not {threads}")))
    }
}

impl TryFrom<MeasureFields> for Measure {
    type Error = Failure;

    fn try_from(fields: MeasureFields) -> Result<Self, Failure> {
        let bad = |message: &str| Err(Failure::bad_request(format!("measure: {message}")));
        check_threads(fields.threads)?;
        let length = match (fields.seconds, fields.blocks) {
            (Some(seconds), None) if seconds.is_finite() && seconds >= 0.0 => Length::Seconds(seconds),
            (None, Some(blocks)) if blocks > 0 => Length::Blocks(blocks),
            (Some(_), None) => return bad("seconds must be 0 or more"),
            (None, Some(_)) => return bad("blocks must be 1 or more"),
            _ => return bad("exactly one of seconds and blocks must be set"),
        };
        if fields.arms.is_empty() {
            return bad("arms must name at least one arm");
        }
        if fields.arms.iter().enumerate().any(|(index, arm)| fields.arms[..index].contains(arm)) {
            return bad("arms names an arm twice");
        }
        if let Some(unknown) = fields.arm_options.keys().find(|name| !fields.arms.contains(name)) {
            return bad(&format!("arm_options names {unknown:?}, which is not among arms"));
        }
        if !(1..=LONGEST_SLICE_NS).contains(&fields.slice_ns) {
            return bad("slice_ns must be from 1 to an hour");
        }
        if fields.guard_ns > LONGEST_SLICE_NS {
            return bad("guard_ns must be an hour at most");
        }
        if let Load::Open { rate_per_s, .. } = fields.load {
            #[expect(clippy::cast_precision_loss, reason = "bounded by an hour above")]
            let arrivals = rate_per_s * (fields.slice_ns + fields.guard_ns) as f64 / 1e9;
            if !(rate_per_s > 0.0 && arrivals <= MOST_ARRIVALS) {
                return bad("load.rate_per_s must be above 0 and give at most 20 million events a slice");
            }
        }
        let work = work(&fields)?;
        Ok(Self {
            cell: fields.cell,
            work,
            options: fields.options,
            arm_options: fields.arm_options,
            threads: fields.threads,
            arms: fields.arms,
            length,
            slice_ns: fields.slice_ns,
            guard_ns: fields.guard_ns,
            order_seed: fields.order_seed,
            key_seed: fields.key_seed,
            load: fields.load,
            placement: fields.placement,
            freeze: fields.freeze,
        })
    }
}

fn work(fields: &MeasureFields) -> Result<Work, Failure> {
    let bad = |message: &str| Err(Failure::bad_request(format!("measure: {message}")));
    match (&fields.script, &fields.capture, fields.chunk_events) {
        (Some(script), None, None) if fields.speed.is_none() && !fields.reads_only => Ok(Work::Script(script.clone())),
        (Some(_), None, _) => bad("chunk_events, speed and reads_only belong to a capture"),
        (None, Some(capture), Some(chunk_events @ 1..)) => {
            if fields.load != Load::default() || !fields.options.is_empty() || !fields.arm_options.is_empty() {
                return bad("a capture has no options and no rate; speed replays it by the clock");
            }
            if fields.speed.is_some_and(|speed| !(1e-6..=1e6).contains(&speed)) {
                return bad("speed must be from 0.000001 to 1000000");
            }
            Ok(Work::Replay(ReplayWork {
                capture: capture.clone(),
                chunk_events,
                speed: fields.speed,
                reads_only: fields.reads_only,
            }))
        }
        (None, Some(_), _) => bad("a capture needs chunk_events, 1 or more"),
        _ => bad("exactly one of script and capture must be set"),
    }
}

#[cfg(test)]
#[path = "../tests/unit/request.rs"]
mod tests;
