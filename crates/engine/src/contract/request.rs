//! What the engine is asked: one line, its id, its body.

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
    // The error repeats a value of the wrong kind; a password's own reader sees to it that it does not repeat that.
    T::deserialize(Value::Object(fields))
        .map_err(|error| Failure::bad_request(format!("{kind}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::super::cell::{Length, Load};
    use super::*;
    use bakeoff_load::arrivals::Arrivals;
    use bakeoff_load::failure::Code;
    use bakeoff_load::net::{PrepareMode, TlsMode};

    const MEASURE: &str = r#"{"type": "measure", "id": 3, "cell": "oltp_point_select/4", "script": "oltp_point_select",
        "options": {"tables": 4}, "arm_options": {"B": {"range_size": 10}},
        "threads": 4, "arms": ["A", "B"], "seconds": 8.0, "blocks": null,
        "slice_ns": 100000000, "guard_ns": 5000000, "order_seed": 1, "key_seed": 2,
        "load": {"model": "closed"}, "freeze": false, "settle_ns": 0}"#;

    const OPEN: &str = r#"{"type": "open", "id": 1, "arms": [{"name": "A", "address": {"socket": "/tmp/a.sock"},
        "user": "root", "password": "hunter2", "database": "sbtest", "charset": "utf8mb4", "collation": null,
        "tls": {"mode": "verify_ca", "ca": null, "cert": null, "key": null}, "prepare_mode": "text",
        "server_pid": 4711, "slowdown_percent": 0, "ignore_errors": [1213, 1020, 1205]}]}"#;

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
            (TlsMode::VerifyCa, PrepareMode::Client)
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
