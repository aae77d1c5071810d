//! The answers of `docs/reference/engine.md`, one JSON object a line.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bakeoff_load::failure::Failure;
use bakeoff_load::host::Environment;
use bakeoff_load::lock;
use bakeoff_load::machine::observe::KernelCounters;
use bakeoff_load::net::ServerFacts;
use bakeoff_load::replay::workload::FailureCount;
use bakeoff_load::worker_stats::Latencies;
use bakeoff_metrics::SliceTotals;
use bakeoff_script::host::LogLevel;
use serde::Serialize;

use crate::request::Measure;

pub const CONTRACT: u32 = 5;
const QUANTILES: [(&str, f64); 4] = [("0.5", 0.5), ("0.95", 0.95), ("0.99", 0.99), ("0.999", 0.999)];

#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Answer {
    Hello {
        contract: u32,
        engine: &'static str,
        build: Build,
        pid: u32,
    },
    Log {
        level: String,
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
        clock: &'static str,
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
    Cpus {
        id: u64,
        cache_line_ns: Option<u64>,
    },
    Probed {
        id: u64,
        rtt_ns: u64,
        bytes_per_s: f64,
    },
    Pong {
        id: u64,
    },
    Error {
        id: Option<u64>,
        message: String,
        #[serde(flatten)]
        failure: Failure,
    },
}

impl Answer {
    pub fn error(id: Option<u64>, failure: Failure) -> Self {
        // One line: a Lua traceback loses its line breaks.
        Self::Error { id, message: failure.to_string().replace('\n', " | "), failure }
    }
}

#[derive(Debug, Clone, Copy, Serialize)]
pub struct Build {
    pub profile: &'static str,
    pub commit: &'static str,
    pub rustc: &'static str,
    pub target: &'static str,
}

pub const BUILD: Build = Build {
    profile: env!("BAKEOFF_PROFILE"),
    commit: env!("BAKEOFF_COMMIT"),
    rustc: env!("BAKEOFF_RUSTC"),
    target: env!("BAKEOFF_TARGET"),
};

#[derive(Debug, Clone, Serialize)]
pub struct OpenedArm {
    pub name: String,
    #[serde(flatten)]
    pub server: ServerFacts,
}

#[derive(Debug, Clone, Serialize)]
pub struct SliceRecord {
    pub id: u64,
    pub cell: String,
    pub arm: String,
    pub block: u64,
    pub position: usize,
    pub start_ns: u64,
    pub length_ns: u64,
    pub load_ns: u64,
    pub connections: u64,
    pub dropped: u64,
    #[serde(flatten)]
    pub totals: SliceTotals,
    #[serde(flatten)]
    pub spent: KernelCounters,
    pub threads: BTreeMap<String, u64>,
}

/// Writes answers, one JSON object a line, each flushed. Clones write to the same place.
#[derive(Clone)]
pub struct MessageWriter {
    out: Arc<Mutex<Box<dyn Write + Send>>>,
}

impl MessageWriter {
    pub fn new(out: impl Write + Send + 'static) -> Self {
        Self { out: Arc::new(Mutex::new(Box::new(out))) }
    }

    /// Sends one answer. A failed write is ignored: a reader that has gone away is noticed by the end of standard
    /// input.
    pub fn send(&self, answer: &Answer) {
        let mut line = serde_json::to_vec(answer).expect("answers hold nothing that JSON cannot write");
        line.push(b'\n');
        let mut out = lock(&self.out);
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }
}

impl Environment for MessageWriter {
    fn log(&self, level: LogLevel, message: &str) {
        self.send(&Answer::Log { level: format!("{level:?}").to_lowercase(), message: message.to_owned() });
    }
}

/// A request being served: where its answers go, and whether it was cancelled.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub id: u64,
    pub writer: &'a MessageWriter,
    pub cancel: &'a AtomicBool,
}

impl Call<'_> {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.load(Relaxed)
    }

    pub(crate) fn done(&self, begun: Instant) -> Answer {
        let (id, cancelled) = (self.id, self.is_cancelled());
        Answer::Done { id, seconds: begun.elapsed().as_secs_f64(), blocks: None, cancelled, workers_stopped: None }
    }
}

pub(crate) fn send_histograms(call: Call<'_>, request: &Measure, arm: &str, latencies: &Latencies) {
    let clock = if request.is_open_loop() { "response" } else { "service" };
    for (operation, histogram) in latencies.by_operation() {
        let quantiles = QUANTILES.into_iter().map(|(name, quantile)| (name, histogram.quantile_ns(quantile)));
        call.writer.send(&Answer::Histogram {
            id: call.id,
            cell: request.cell.clone(),
            arm: arm.to_owned(),
            operation: operation.to_owned(),
            clock,
            count: histogram.count(),
            mean_ns: histogram.mean_ns(),
            min_ns: histogram.min_ns(),
            max_ns: histogram.max_ns(),
            quantiles_ns: quantiles.collect(),
            hdr: histogram.to_base64(),
        });
    }
}
