//! What the engine is asked.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::failure::Failure;

/// Connections of one arm at most: a request for more is a slip of the pen, not a benchmark.
const MOST_THREADS: usize = 10_000;
/// Longest slice [ns]: an hour.
const LONGEST_SLICE_NS: u64 = 3_600_000_000_000;
/// Arrivals scheduled for one slice at most (each takes 8 bytes).
const MOST_ARRIVALS: f64 = 20e6;

/// One line of standard input.
#[derive(Debug)]
pub struct Request {
    /// Repeated by the answers.
    pub id: u64,
    /// What is asked.
    pub body: Body,
}

/// What is asked.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names are the contract's")]
pub enum Body {
    Open(Vec<Arm>),
    Command(Command),
    Measure(Box<Measure>),
    Ping,
    Cancel,
}

/// A server's address and account, and how to speak with it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields are told in docs/engine.md")]
pub struct Arm {
    pub name: String,
    pub address: Address,
    pub user: String,
    #[serde(default)]
    pub password: Password,
    pub database: Option<String>,
    pub charset: String,
    pub collation: Option<String>,
    #[serde(default)]
    pub tls: ArmTls,
    #[serde(default)]
    pub prepare_mode: ArmPrepareMode,
    pub server_pid: Option<i32>,
    #[serde(default)]
    pub shadow_per_100: f64,
    #[serde(default)]
    pub ignore_errors: Vec<u16>,
}

/// A password as it came; `Debug` does not show it.
#[derive(Clone, Default)]
pub struct Password(pub String);

impl<'de> Deserialize<'de> for Password {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(password) => Ok(Self(password)),
            // serde's own words would repeat the value.
            _ => Err(serde::de::Error::custom("password must be a string")),
        }
    }
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// Where a server listens.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields are told in docs/engine.md")]
pub enum Address {
    Socket { socket: PathBuf },
    Tcp { host: String, port: u16 },
}

/// TLS mode and files.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields are told in docs/engine.md")]
pub struct ArmTls {
    #[serde(default)]
    pub mode: ArmTlsMode,
    pub ca: Option<PathBuf>,
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

/// MySQL's `--ssl-mode`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the contract's")]
pub enum ArmTlsMode {
    #[default]
    Disabled,
    Preferred,
    Required,
    VerifyCa,
    VerifyIdentity,
}

/// How statements are prepared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the contract's")]
pub enum ArmPrepareMode {
    #[default]
    Server,
    #[serde(alias = "text")]
    Client,
}

/// `command`: a script's command on one arm.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields are told in docs/engine.md")]
pub struct Command {
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

fn one() -> usize {
    1
}

/// `measure` as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MeasureFields {
    cell: String,
    script: String,
    #[serde(default)]
    options: Map<String, Value>,
    #[serde(default)]
    arm_options: BTreeMap<String, Map<String, Value>>,
    threads: usize,
    arms: Vec<String>,
    #[serde(default)]
    seconds: Option<f64>,
    #[serde(default)]
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
    freeze: bool,
    #[serde(default)]
    settle_ns: u64,
}

/// `measure`: one cell.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the fields are told in docs/engine.md")]
pub struct Measure {
    pub cell: String,
    pub script: String,
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
    pub freeze: bool,
    pub settle_ns: u64,
}

/// How long a cell is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Length {
    /// Whole blocks until this much wall time [s] has gone by, at least one.
    Seconds(f64),
    /// Just so many blocks.
    Blocks(u64),
}

/// Who decides when an event begins.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(tag = "model", rename_all = "snake_case", deny_unknown_fields)]
pub enum Load {
    /// A worker begins the next event when the last one has ended.
    #[default]
    Closed,
    /// A schedule that no reply can move.
    Open {
        /// Mean arrivals a second, all workers of the arm together.
        rate_per_s: f64,
        /// Law of the gaps.
        #[serde(default)]
        arrivals: Arrivals,
    },
}

/// Law of the gaps between intended starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Exponential gaps.
    #[default]
    Poisson,
    /// Equal gaps.
    Fixed,
}

impl Request {
    /// Reads one line.
    ///
    /// # Errors
    /// `bad_request`, with the request's id where one could be read.
    pub fn parse(line: &str) -> Result<Self, (Option<u64>, Failure)> {
        let bad = |id, message: String| (id, Failure::bad_request(message));
        let value: Value = serde_json::from_str(line)
            .map_err(|error| bad(None, format!("request is not JSON: {error}")))?;
        let Value::Object(mut fields) = value else {
            return Err(bad(None, "request is not a JSON object".into()));
        };
        let id = match fields.remove("id").as_ref().map(Value::as_u64) {
            Some(Some(id)) => id,
            Some(None) => {
                return Err(bad(
                    None,
                    "request: id must be an integer of 0 or more".into(),
                ));
            }
            None => return Err(bad(None, "request has no id".into())),
        };
        let kind = match fields.remove("type") {
            Some(Value::String(kind)) => kind,
            _ => return Err(bad(Some(id), "request has no type".into())),
        };
        Self::body(&kind, fields)
            .map(|body| Self { id, body })
            .map_err(|failure| (Some(id), failure))
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
                let command: Command = read(kind, fields)?;
                check_threads(command.threads)?;
                Ok(Body::Command(command))
            }
            "measure" => Ok(Body::Measure(Box::new(
                read::<MeasureFields>(kind, fields)?.try_into()?,
            ))),
            "ping" => read::<Nothing>(kind, fields).map(|_| Body::Ping),
            "cancel" => read::<Nothing>(kind, fields).map(|_| Body::Cancel),
            _ => Err(Failure::bad_request(format!(
                "unknown request type {kind:?}; known are open, command, measure, ping, cancel"
            ))),
        }
    }
}

fn read<T: DeserializeOwned>(kind: &str, fields: Map<String, Value>) -> Result<T, Failure> {
    // The error tells a field's name and kind, not its value: a password cannot be repeated by it.
    T::deserialize(Value::Object(fields))
        .map_err(|error| Failure::bad_request(format!("{kind}: {error}")))
}

fn checked_arms(arms: Vec<Arm>) -> Result<Vec<Arm>, Failure> {
    if arms.is_empty() {
        return Err(Failure::bad_request(
            "open: arms must name at least one arm",
        ));
    }
    for (index, arm) in arms.iter().enumerate() {
        if arms[..index].iter().any(|earlier| earlier.name == arm.name) {
            return Err(Failure::bad_request(format!(
                "open: two arms have the name {:?}",
                arm.name
            )));
        }
        if !(0.0..=10_000.0).contains(&arm.shadow_per_100) {
            return Err(
                Failure::bad_request("open: shadow_per_100 must be from 0 to 10000")
                    .on_arm(&arm.name),
            );
        }
        if arm.server_pid.is_some_and(|pid| pid <= 1) {
            return Err(Failure::bad_request(
                "open: server_pid must be a process id above 1, or null",
            )
            .on_arm(&arm.name));
        }
    }
    Ok(arms)
}

fn check_threads(threads: usize) -> Result<(), Failure> {
    if (1..=MOST_THREADS).contains(&threads) {
        Ok(())
    } else {
        Err(Failure::bad_request(format!(
            "threads must be from 1 to {MOST_THREADS}, not {threads}"
        )))
    }
}

impl TryFrom<MeasureFields> for Measure {
    type Error = Failure;

    fn try_from(fields: MeasureFields) -> Result<Self, Failure> {
        let bad = |message: &str| Err(Failure::bad_request(format!("measure: {message}")));
        check_threads(fields.threads)?;
        let length = match (fields.seconds, fields.blocks) {
            (Some(seconds), None) if seconds.is_finite() && seconds >= 0.0 => {
                Length::Seconds(seconds)
            }
            (None, Some(blocks)) if blocks > 0 => Length::Blocks(blocks),
            (Some(_), None) => return bad("seconds must be 0 or more"),
            (None, Some(_)) => return bad("blocks must be 1 or more"),
            _ => return bad("exactly one of seconds and blocks must be set"),
        };
        if fields.arms.is_empty() {
            return bad("arms must name at least one arm");
        }
        if fields
            .arms
            .iter()
            .enumerate()
            .any(|(index, arm)| fields.arms[..index].contains(arm))
        {
            return bad("arms names an arm twice");
        }
        if let Some(stranger) = fields
            .arm_options
            .keys()
            .find(|name| !fields.arms.contains(name))
        {
            return bad(&format!(
                "arm_options names {stranger:?}, which is not among arms"
            ));
        }
        if !(1..=LONGEST_SLICE_NS).contains(&fields.slice_ns) {
            return bad("slice_ns must be from 1 to an hour");
        }
        if fields.guard_ns > LONGEST_SLICE_NS || fields.settle_ns > LONGEST_SLICE_NS {
            return bad("guard_ns and settle_ns must be an hour at most");
        }
        if let Load::Open { rate_per_s, .. } = fields.load {
            #[expect(clippy::cast_precision_loss, reason = "bounded by an hour above")]
            let arrivals = rate_per_s * (fields.slice_ns + fields.guard_ns) as f64 / 1e9;
            if !(rate_per_s > 0.0 && arrivals <= MOST_ARRIVALS) {
                return bad(
                    "load.rate_per_s must be above 0 and give at most 20 million events a slice",
                );
            }
        }
        Ok(Self {
            cell: fields.cell,
            script: fields.script,
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
            freeze: fields.freeze,
            settle_ns: fields.settle_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Code;
    use super::*;

    const MEASURE: &str = r#"{"type": "measure", "id": 3, "cell": "oltp_point_select/4", "script": "oltp_point_select",
        "options": {"tables": 4}, "arm_options": {"B": {"range_size": 10}},
        "threads": 4, "arms": ["A", "B"], "seconds": 8.0, "blocks": null,
        "slice_ns": 100000000, "guard_ns": 5000000, "order_seed": 1, "key_seed": 2,
        "load": {"model": "closed"}, "freeze": false, "settle_ns": 0}"#;

    const OPEN: &str = r#"{"type": "open", "id": 1, "arms": [{"name": "A", "address": {"socket": "/tmp/a.sock"},
        "user": "root", "password": "hunter2", "database": "sbtest", "charset": "utf8mb4", "collation": null,
        "tls": {"mode": "verify_ca", "ca": null, "cert": null, "key": null}, "prepare_mode": "text",
        "server_pid": 4711, "shadow_per_100": 0, "ignore_errors": [1213, 1020, 1205]}]}"#;

    fn refused(line: &str) -> (Option<u64>, String) {
        let (id, failure) = Request::parse(line).expect_err(line);
        assert_eq!(failure.code, Code::BadRequest);
        (id, failure.message)
    }

    #[test]
    fn the_documents_examples_are_read() {
        let request = Request::parse(MEASURE).unwrap();
        let Body::Measure(measure) = request.body else {
            panic!("not a measure")
        };
        assert_eq!(
            (request.id, measure.length, measure.load),
            (3, Length::Seconds(8.0), Load::Closed)
        );
        let Body::Open(arms) = Request::parse(OPEN).unwrap().body else {
            panic!("not an open")
        };
        assert_eq!(
            (arms[0].tls.mode, arms[0].prepare_mode),
            (ArmTlsMode::VerifyCa, ArmPrepareMode::Client)
        );
        assert!(!format!("{arms:?}").contains("hunter2"));
    }

    #[test]
    fn an_open_loop_is_read() {
        let line = MEASURE.replace(
            r#"{"model": "closed"}"#,
            r#"{"model": "open", "rate_per_s": 5000.0, "arrivals": "fixed"}"#,
        );
        let Body::Measure(measure) = Request::parse(&line).unwrap().body else {
            panic!("not a measure")
        };
        assert_eq!(
            measure.load,
            Load::Open {
                rate_per_s: 5000.0,
                arrivals: Arrivals::Fixed
            }
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_the_id() {
        assert_eq!(refused("{").0, None);
        assert_eq!(refused("[1]").0, None);
        assert!(refused(r#"{"type":"ping"}"#).1.contains("no id"));
        assert!(
            refused(r#"{"id":7,"type":"sing"}"#)
                .1
                .contains("unknown request type \"sing\"")
        );
        let (id, message) = refused(r#"{"id":7,"type":"ping","loud":true}"#);
        assert_eq!(id, Some(7));
        assert!(message.contains("loud"), "{message}");
        assert!(
            refused(&MEASURE.replace("\"threads\": 4", "\"threads\": 0"))
                .1
                .contains("threads")
        );
        assert!(
            refused(&MEASURE.replace("null", "3"))
                .1
                .contains("exactly one")
        );
        assert!(
            refused(&MEASURE.replace("8.0", "null"))
                .1
                .contains("exactly one")
        );
        assert!(
            refused(&MEASURE.replace(r#"["A", "B"]"#, r#"["A", "A"]"#))
                .1
                .contains("twice")
        );
        assert!(
            refused(&MEASURE.replace("\"slice_ns\": 100000000", "\"slice_ns\": 0"))
                .1
                .contains("slice_ns")
        );
        assert!(
            refused(&OPEN.replace("\"tls\"", "\"ssl\""))
                .1
                .contains("ssl")
        );
    }

    #[test]
    fn a_password_of_the_wrong_kind_is_not_repeated() {
        let (_, message) = refused(&OPEN.replace("\"hunter2\"", "[\"hunter2\"]"));
        assert!(!message.contains("hunter2"), "{message}");
        let (_, message) = refused(&OPEN.replace("\"hunter2\"", "4711172"));
        assert!(!message.contains("4711172"), "{message}");
    }
}
