//! The requests of `docs/reference/engine.md`: their JSON shapes, and the checks that need no server.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use bakeoff_load::arrivals::Arrivals;
use bakeoff_load::failure::Failure;
use bakeoff_load::machine::placement::Placement;
use bakeoff_load::net::{Endpoint, PrepareMode, Secret, TlsOptions};
use bakeoff_load::replay::stream::ReplayOrder;
use serde::Deserialize;
use serde_json::{Map, Value};

const MOST_THREADS: usize = 10_000;
const LONGEST_SLICE_NS: u64 = 3_600_000_000_000;
/// Workers are woken one after the other, each in up to this time (docs/evidence/cost.md).
const WAKE_NS: u64 = 5_000;
/// Arrivals scheduled for one slice, each of 8 bytes.
const MOST_ARRIVALS: f64 = 20e6;

#[derive(Debug)]
pub struct Request {
    pub id: u64,
    pub body: Body,
}

/// Braces without fields, because serde ignores unknown fields of a unit variant.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Body {
    Open { arms: Vec<Arm> },
    Command(CommandRequest),
    Load(LoadDump),
    Measure(Box<Measure>),
    Probe(Probe),
    Cpus {},
    Ping {},
    Cancel {},
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

/// Rows as MySQL Shell writes them: `\t` between values, `\n` after a row, `\\` as the escape, `\N` for NULL.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DumpRows {
    pub insert: String,
    pub functions: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    pub host: String,
    pub port: u16,
    pub token: String,
}

fn one() -> usize {
    1
}

fn semicolon() -> String {
    ";".to_owned()
}

fn check<'a>(checks: impl IntoIterator<Item = (bool, &'a str)>) -> Result<(), Failure> {
    match checks.into_iter().find(|(holds, _)| !holds) {
        Some((_, message)) => Err(Failure::bad_request(message)),
        None => Ok(()),
    }
}

fn are_distinct<'a>(mut names: impl Iterator<Item = &'a String>) -> bool {
    let mut seen = BTreeSet::new();
    names.all(|name| seen.insert(name))
}

impl Request {
    pub fn parse(line: &str) -> Result<Self, (Option<u64>, Failure)> {
        let mut fields: Map<String, Value> = serde_json::from_str(line)
            .map_err(|error| (None, Failure::bad_request(format!("request is not a JSON object: {error}"))))?;
        let Some(id) = fields.remove("id").and_then(|id| id.as_u64()) else {
            return Err((None, Failure::bad_request("request has no id (an integer of 0 or more)")));
        };
        // The error repeats a value of the wrong type. `Secret` makes sure that it is never a password.
        let body = Body::deserialize(Value::Object(fields))
            .map_err(|error| Failure::bad_request(format!("request: {error}")))
            .and_then(|body| body.check().map(|()| body));
        body.map(|body| Self { id, body }).map_err(|failure| (Some(id), failure))
    }
}

impl Body {
    fn check(&self) -> Result<(), Failure> {
        let threads = match self {
            Self::Command(CommandRequest { threads, .. }) | Self::Load(LoadDump { threads, .. }) => *threads,
            Self::Measure(measure) => measure.threads,
            _ => 1,
        };
        if !(1..=MOST_THREADS).contains(&threads) {
            return Err(Failure::bad_request(format!("threads must be from 1 to {MOST_THREADS}, not {threads}")));
        }
        match self {
            Self::Open { arms } => {
                check([
                    (!arms.is_empty(), "open: arms must name at least one arm"),
                    (are_distinct(arms.iter().map(|arm| &arm.name)), "open: two arms have the same name"),
                ])?;
                arms.iter().try_for_each(|arm| arm.check().map_err(|failure| failure.on_arm(&arm.name)))
            }
            Self::Load(load) => {
                let mut files = load.stages.iter().flatten();
                check([(files.all(|file| !file.delimiter.is_empty()), "load: a delimiter is empty")])
            }
            Self::Measure(measure) => measure.check(),
            _ => Ok(()),
        }
    }
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

impl Arm {
    fn check(&self) -> Result<(), Failure> {
        check([
            (!self.name.contains('\0'), "open: an arm's name must not contain NUL"),
            ((0.0..=10_000.0).contains(&self.slowdown_percent), "open: slowdown_percent must be from 0 to 10000"),
            (self.server_pid.is_none_or(|pid| pid > 1), "open: server_pid must be a process id above 1, or null"),
        ])
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    pub cell: String,
    pub script: Option<String>,
    pub capture: Option<PathBuf>,
    pub chunk_events: Option<u64>,
    pub speed: Option<f64>,
    #[serde(default)]
    pub reads_only: bool,
    #[serde(default)]
    pub options: Map<String, Value>,
    #[serde(default)]
    pub arm_options: BTreeMap<String, Map<String, Value>>,
    pub threads: usize,
    pub arms: Vec<String>,
    /// Whole blocks, at least one, until this much wall time has passed.
    pub seconds: Option<f64>,
    pub blocks: Option<u64>,
    pub slice_ns: u64,
    #[serde(default)]
    pub guard_ns: u64,
    #[serde(default)]
    pub order_seed: u64,
    #[serde(default)]
    pub key_seed: u64,
    #[serde(default)]
    pub load: Load,
    #[serde(default)]
    pub placement: Placement,
    #[serde(default)]
    pub freeze: bool,
}

impl Measure {
    pub fn replay(&self) -> Option<ReplayOrder> {
        Some(ReplayOrder {
            capture: self.capture.clone()?,
            sessions: self.threads,
            chunk_events: self.chunk_events?,
            reads_only: self.reads_only,
            by_clock: self.speed.is_some(),
            begin: self.key_seed,
        })
    }

    /// Returns the guard of a slice. Unless there is none, it lasts until all workers are awake.
    pub fn whole_guard_ns(&self) -> u64 {
        match self.guard_ns {
            0 => 0,
            guard_ns => guard_ns.max(self.threads as u64 * WAKE_NS),
        }
    }

    pub fn is_open_loop(&self) -> bool {
        self.load != Load::default() || self.speed.is_some()
    }

    fn check(&self) -> Result<(), Failure> {
        let is_capture = self.capture.is_some();
        let has_options = !self.options.is_empty() || !self.arm_options.is_empty();
        let slice_s = (self.slice_ns.saturating_add(self.guard_ns)) as f64 / 1e9;
        let rate_fits = match self.load {
            Load::Closed {} => true,
            Load::Open { rate_per_s, .. } => rate_per_s > 0.0 && rate_per_s * slice_s <= MOST_ARRIVALS,
        };
        check([
            (self.seconds.is_some() != self.blocks.is_some(), "measure: exactly one of seconds and blocks must be set"),
            (self.seconds.is_none_or(|seconds| seconds >= 0.0), "measure: seconds must be 0 or more"),
            (self.blocks != Some(0), "measure: blocks must be 1 or more"),
            (!self.arms.is_empty(), "measure: arms must name at least one arm"),
            (are_distinct(self.arms.iter()), "measure: arms names an arm twice"),
            (self.arm_options.keys().all(|name| self.arms.contains(name)), "measure: arm_options has an unknown arm"),
            ((1..=LONGEST_SLICE_NS).contains(&self.slice_ns), "measure: slice_ns must be from 1 to an hour"),
            (self.guard_ns <= LONGEST_SLICE_NS, "measure: guard_ns must be at most an hour"),
            (rate_fits, "measure: load.rate_per_s must be above 0 and give at most 20 million events a slice"),
            (self.script.is_some() != is_capture, "measure: exactly one of script and capture must be set"),
            (
                is_capture || self.chunk_events.is_none() && self.speed.is_none() && !self.reads_only,
                "measure: chunk_events, speed and reads_only belong to a capture",
            ),
            (!is_capture || self.chunk_events > Some(0), "measure: a capture needs chunk_events, 1 or more"),
            (
                !is_capture || self.load == Load::default() && !has_options,
                "measure: a capture has no options and no rate; speed replays it by the clock",
            ),
            (
                self.speed.is_none_or(|speed| (1e-6..=1e6).contains(&speed)),
                "measure: speed must be from 0.000001 to 1000000",
            ),
        ])
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(tag = "model", rename_all = "snake_case", deny_unknown_fields)]
pub enum Load {
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
