//! What the engine is asked: one line, its id, its body.

use std::path::PathBuf;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::arm::{Arm, checked_arms};
use super::cell::{Measure, MeasureFields, check_threads};
use bakeoff_load::failure::Failure;

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
    Load(LoadDump),
    Measure(Box<Measure>),
    Ping,
    Cancel,
}

/// `command`: a script's command on one arm.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "docs/engine.md explains the fields")]
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

/// `load`: a dump into one arm.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "docs/engine.md explains the fields")]
pub struct LoadDump {
    pub arm: String,
    pub stages: Vec<Vec<DumpFile>>,
    #[serde(default = "one")]
    pub threads: usize,
}

/// One file of a dump: SQL, or rows.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "docs/engine.md explains the fields")]
pub struct DumpFile {
    pub path: PathBuf,
    #[serde(default)]
    pub database: String,
    #[serde(default = "semicolon")]
    pub delimiter: String,
    pub rows: Option<DumpRows>,
}

fn semicolon() -> String {
    ";".to_owned()
}

/// A file of rows as MySQL Shell writes them: `\t` between values, `\n` after a row, `\\` as the escape, `\N` for NULL.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "docs/engine.md explains the fields")]
pub struct DumpRows {
    pub insert: String,
    pub functions: Vec<String>,
}

fn one() -> usize {
    1
}

impl Request {
    /// Reads one line.
    ///
    /// # Errors
    /// `bad_request`, with the request's id where one could be read.
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
        let kind = match fields.remove("type") {
            Some(Value::String(kind)) => kind,
            _ => return Err(bad(Some(id), "request has no type".into())),
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
                let command: Command = read(kind, fields)?;
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
            "ping" => read::<Nothing>(kind, fields).map(|_| Body::Ping),
            "cancel" => read::<Nothing>(kind, fields).map(|_| Body::Cancel),
            _ => Err(Failure::bad_request(format!(
                "unknown request type {kind:?}; known are open, command, load, measure, ping, cancel"
            ))),
        }
    }
}

fn read<T: DeserializeOwned>(kind: &str, fields: Map<String, Value>) -> Result<T, Failure> {
    // The error repeats a value of the wrong kind; a password's own reader sees to it that it does not repeat that.
    T::deserialize(Value::Object(fields)).map_err(|error| Failure::bad_request(format!("{kind}: {error}")))
}

#[cfg(test)]
#[path = "../../tests/unit/contract_request.rs"]
mod tests;
