//! Results for programs: `--json`, and `--hdr-log` in `HdrHistogram`'s format 1.3. Its values are nanoseconds, but
//! `Interval_Max` is in milliseconds, as in Java's `HistogramLogWriter`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use bakeoff_load::net::ServerFacts;
use bakeoff_metrics::{LatencyHistogram, ms};
use serde_json::{Map, Value, json};

use super::final_block::mean_and_deviation;
use super::{Queue, percentile_ms};
use crate::Build;
use crate::run_options::{JsonTarget, Percentile, RunOptions};
use crate::stats::Delta;

const FORMAT: u32 = 1;

pub(crate) struct Circumstances<'a> {
    pub(crate) test: &'a str,
    pub(crate) options: &'a RunOptions,
    pub(crate) given: Map<String, Value>,
    pub(crate) charset: (String, Option<String>),
    pub(crate) server: Option<&'a ServerFacts>,
    pub(crate) given_up: Option<u64>,
    pub(crate) dropped: Option<u64>,
    pub(crate) build: &'a Build,
}

pub(crate) fn result(circumstances: Circumstances<'_>, whole: &Delta, intervals: Vec<Value>) -> Value {
    let Circumstances { test, options, given, charset, server, given_up, dropped, build } = circumstances;
    let events = mean_and_deviation(whole.by_worker.iter().map(|(events, _)| f64_of(*events)));
    let seconds = mean_and_deviation(whole.by_worker.iter().map(|(_, seconds)| *seconds));
    json!({
        "format": FORMAT,
        "engine": {"version": env!("CARGO_PKG_VERSION"), "commit": build.commit, "profile": build.profile},
        "test": test,
        "options": given,
        "threads": options.threads,
        "seed": options.seed,
        "rate_per_s": options.rate_per_s,
        "warmup_s": options.warmup.as_secs(),
        "charset": charset.0,
        "collation": charset.1,
        "server": server.map(|server| json!({
            "version": server.server_version,
            "charset": server.charset,
            "collation": server.collation,
            "tls": server.tls_cipher,
        })),
        "seconds": whole.seconds,
        "events": whole.totals.events,
        "events_per_s": whole.per_second(whole.totals.events),
        "queries": {
            "read": whole.totals.reads,
            "write": whole.totals.writes,
            "other": whole.totals.other,
            "total": whole.queries(),
            "per_s": whole.per_second(whole.queries()),
        },
        "errors": whole.totals.errors,
        "retries": whole.totals.retries,
        "reconnects": whole.totals.reconnects,
        "sent_bytes": whole.totals.sent_bytes,
        "received_bytes": whole.totals.received_bytes,
        "forced_shutdown": given_up.is_some(),
        "unfinished": given_up.unwrap_or(0),
        "dropped": dropped,
        "latency_ms": latency(whole, &options.percentiles),
        "operations": operations(whole, &options.percentiles),
        "fairness": {
            "events": {"mean": events.0, "stddev": events.1},
            "busy_s": {"mean": seconds.0, "stddev": seconds.1},
        },
        "intervals": intervals,
    })
}

pub(crate) fn interval(
    at_s: f64,
    threads: u32,
    delta: &Delta,
    percentiles: &[Percentile],
    queue: Option<Queue>,
) -> Value {
    json!({
        "at_s": at_s,
        "seconds": delta.seconds,
        "threads": threads,
        "events": delta.totals.events,
        "queries": {"read": delta.totals.reads, "write": delta.totals.writes, "other": delta.totals.other},
        "errors": delta.totals.errors,
        "reconnects": delta.totals.reconnects,
        "latency_ms": {
            "max": ms(delta.events().max_ns()),
            "percentiles": percentile_object(delta.events(), percentiles),
        },
        "queue_length": queue.map(|queue| queue.length),
        "concurrency": queue.map(|queue| queue.concurrency),
    })
}

fn latency(delta: &Delta, percentiles: &[Percentile]) -> Value {
    let events = delta.events();
    json!({
        "min": ms(events.min_ns()),
        "mean": events.mean_ns() / 1e6,
        "max": ms(events.max_ns()),
        "sum": ms(events.sum_ns()),
        "percentiles": percentile_object(events, percentiles),
        "hdr_ns": events.to_base64(),
    })
}

fn percentile_object(latencies: &LatencyHistogram, percentiles: &[Percentile]) -> Map<String, Value> {
    let value = |percentile: &Percentile| {
        let value = percentile_ms(latencies, percentile);
        (percentile.label.clone(), json!(value))
    };
    percentiles.iter().map(value).collect()
}

fn operations(delta: &Delta, percentiles: &[Percentile]) -> Map<String, Value> {
    let named = delta.latencies.by_operation().into_iter().skip(1);
    named
        .map(|(name, histogram)| {
            let object = json!({
                "count": histogram.count(),
                "mean_ms": histogram.mean_ns() / 1e6,
                "max_ms": ms(histogram.max_ns()),
                "percentiles_ms": percentile_object(histogram, percentiles),
            });
            (name.to_owned(), object)
        })
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
fn f64_of(count: u64) -> f64 {
    count as f64
}

#[derive(Debug)]
pub(crate) enum JsonOutput {
    StandardOutput,
    File { file: File, path: PathBuf },
}

impl JsonOutput {
    /// Creates the file, if it is one, before the run, which would otherwise be for nothing.
    pub(crate) fn create(target: &JsonTarget) -> Result<Self, String> {
        Ok(match target {
            JsonTarget::StandardOutput => Self::StandardOutput,
            JsonTarget::File(path) => {
                Self::File { file: File::create(path).map_err(|error| failed(path, &error))?, path: path.clone() }
            }
        })
    }

    pub(crate) fn write(self, result: &Value) -> Result<(), String> {
        match self {
            Self::StandardOutput => {
                // A closed pipe is not an error.
                let _ = writeln!(std::io::stdout(), "{result:#}");
                Ok(())
            }
            Self::File { mut file, path } => {
                file.write_all(format!("{result:#}\n").as_bytes()).map_err(|error| failed(&path, &error))
            }
        }
    }
}

fn failed(path: &Path, error: &std::io::Error) -> String {
    format!("--json {}: {error}", path.display())
}

#[derive(Debug)]
pub(crate) struct HdrLog {
    out: BufWriter<File>,
    path: String,
}

impl HdrLog {
    pub(crate) fn create(path: &Path) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("--hdr-log {}: {error}", path.display());
        let mut log =
            Self { out: BufWriter::new(File::create(path).map_err(failed)?), path: path.display().to_string() };
        let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        writeln!(
            log.out,
            "#[Histogram log format version 1.3]\n#[StartTime: {:.3} (seconds since epoch), nanoseconds of whole events]\n\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"",
            start.as_secs_f64()
        )
        .and_then(|()| log.out.flush())
        .map_err(failed)?;
        Ok(log)
    }

    pub(crate) fn write(&mut self, at_s: f64, delta: &Delta) -> Result<(), String> {
        let events = delta.events();
        let encoded = events.to_base64();
        writeln!(self.out, "{:.3},{:.3},{:.3},{encoded}", at_s - delta.seconds, delta.seconds, ms(events.max_ns()))
            .and_then(|()| self.out.flush())
            .map_err(|error| format!("--hdr-log {}: {error}", self.path))
    }
}
