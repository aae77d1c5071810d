//! What the engine answers: one JSON object a line.

use std::collections::BTreeMap;

use bakeoff_load::failure::{Code, Failure};
use bakeoff_load::observe::Snapshot;
use serde::Serialize;

/// One line to standard output.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(missing_docs, reason = "docs/engine.md explains the fields")]
pub enum Answer {
    Hello {
        contract: u32,
        engine: &'static str,
        build: Build,
        pid: u32,
    },
    Log {
        level: &'static str,
        message: String,
    },
    Opened {
        id: u64,
        arms: Vec<OpenedArm>,
    },
    Progress {
        id: u64,
        arm: String,
        label: String,
        done: u64,
        total: u64,
    },
    Translated {
        id: u64,
        arm: String,
        names: BTreeMap<String, String>,
        left_out: BTreeMap<&'static str, u64>,
    },
    Started {
        id: u64,
    },
    Slice(Box<SliceRecord>),
    Histogram {
        id: u64,
        cell: String,
        arm: String,
        operation: String,
        clock: Clock,
        count: u64,
        mean_ns: f64,
        min_ns: u64,
        max_ns: u64,
        quantiles_ns: BTreeMap<&'static str, u64>,
        hdr: String,
    },
    Failures {
        id: u64,
        cell: String,
        arm: String,
        failures: Vec<FailureCount>,
    },
    Done {
        id: u64,
        seconds: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        blocks: Option<u64>,
        cancelled: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        workers_stopped: Option<u64>,
    },
    Pong {
        id: u64,
    },
    Error {
        id: Option<u64>,
        code: Code,
        arm: Option<String>,
        sql_errno: Option<u16>,
        sqlstate: Option<String>,
        message: String,
        fatal: bool,
    },
}

impl Answer {
    /// The last answer of a request that failed; `id` is null when the line had none that could be read.
    pub fn error(id: Option<u64>, failure: Failure) -> Self {
        let Failure { code, arm, sql_errno, sqlstate, message, fatal } = failure;
        // One line for a person: a Lua traceback keeps its words and loses its line breaks.
        let message = message.replace('\n', " | ");
        Self::Error { id, code, arm, sql_errno, sqlstate, message, fatal }
    }
}

/// Statements of a replay that failed alike.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs, reason = "docs/engine.md explains the fields")]
pub struct FailureCount {
    pub operation: String,
    pub sql_errno: u16,
    pub count: u64,
    pub message: String,
}

/// How this binary was built: a report must be able to say what measured.
#[derive(Debug, Clone, Copy, Serialize)]
#[allow(missing_docs, reason = "docs/engine.md explains the fields")]
pub struct Build {
    pub profile: &'static str,
    pub commit: &'static str,
    pub rustc: &'static str,
    pub target: &'static str,
}

impl Build {
    /// What `build.rs` found out; `unknown` where it could not.
    pub fn current() -> Self {
        Self {
            profile: env!("BAKEOFF_PROFILE"),
            commit: env!("BAKEOFF_COMMIT"),
            rustc: env!("BAKEOFF_RUSTC"),
            target: env!("BAKEOFF_TARGET"),
        }
    }
}

/// What one server reported of itself.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs, reason = "docs/engine.md explains the fields")]
pub struct OpenedArm {
    pub name: String,
    pub server_version: String,
    pub charset: String,
    pub collation: String,
    pub tls_cipher: Option<String>,
}

/// Where a latency begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// When the event began (closed loop).
    Service,
    /// When it was intended to begin (open loop).
    Response,
}

/// One slice of one arm.
#[derive(Debug, Clone, Default, Serialize)]
#[allow(missing_docs, reason = "docs/engine.md explains the fields")]
pub struct SliceRecord {
    pub id: u64,
    pub cell: String,
    pub arm: String,
    pub block: u64,
    pub position: usize,
    pub start_ns: u64,
    pub length_ns: u64,
    pub busy_ns: u64,
    pub connections: u64,
    pub events: u64,
    pub reads: u64,
    pub writes: u64,
    pub other: u64,
    pub errors: BTreeMap<String, u64>,
    pub retries: u64,
    pub reconnects: u64,
    pub late_starts: u64,
    pub dropped: u64,
    pub latency_sum_ns: u64,
    pub latency_max_ns: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// CPU time, bytes and memory of client, server and machine.
    #[serde(flatten)]
    pub spent: Snapshot,
    pub threads: BTreeMap<String, u64>,
}
