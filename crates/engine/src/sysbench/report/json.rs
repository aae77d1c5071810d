//! `--json`: the whole result for programs, in one object.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::final_block::mean_and_deviation;
use super::intermediate::Queue;
use super::{ms, percentile_ms};
use crate::build_info::build;
use crate::sysbench::run_options::{JsonTarget, Percentile, RunOptions};
use crate::sysbench::session::ServerFacts;
use crate::sysbench::tally::Stretch;

/// Version of this form; raised when a field changes its meaning or goes.
const FORMAT: u32 = 1;

/// What a result is made of, besides the numbers of the run.
pub(in crate::sysbench) struct Circumstances<'a> {
    pub(in crate::sysbench) test: &'a str,
    pub(in crate::sysbench) options: &'a RunOptions,
    /// Options as given, passwords left out.
    pub(in crate::sysbench) given: Map<String, Value>,
    /// Character set and collation as chosen.
    pub(in crate::sysbench) charset: (String, Option<String>),
    pub(in crate::sysbench) server: Option<&'a ServerFacts>,
    pub(in crate::sysbench) forced_shutdown: bool,
    /// Events given up by a forced shutdown.
    pub(in crate::sysbench) unfinished: u64,
    /// With `--rate`: events whose time had come and that were never begun.
    pub(in crate::sysbench) dropped: Option<u64>,
}

/// The object.
pub(in crate::sysbench) fn result(
    circumstances: Circumstances<'_>,
    whole: &Stretch,
    intervals: Vec<Value>,
) -> Value {
    let Circumstances {
        test,
        options,
        given,
        charset,
        server,
        forced_shutdown,
        unfinished,
        dropped,
    } = circumstances;
    let build = build();
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
            "version": server.version,
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
        "errors": errors(whole),
        "retries": whole.totals.retries,
        "reconnects": whole.totals.reconnects,
        "sent_bytes": whole.totals.sent_bytes,
        "received_bytes": whole.totals.received_bytes,
        "forced_shutdown": forced_shutdown,
        "unfinished": unfinished,
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

/// One interval.
pub(in crate::sysbench) fn interval(
    at_s: f64,
    threads: u32,
    stretch: &Stretch,
    percentiles: &[Percentile],
    queue: Option<Queue>,
) -> Value {
    json!({
        "at_s": at_s,
        "seconds": stretch.seconds,
        "threads": threads,
        "events": stretch.totals.events,
        "queries": {"read": stretch.totals.reads, "write": stretch.totals.writes, "other": stretch.totals.other},
        "errors": errors(stretch),
        "reconnects": stretch.totals.reconnects,
        "latency_ms": {
            "max": ms(stretch.events().max_ns()),
            "percentiles": percentile_object(stretch, percentiles),
        },
        "queue_length": queue.map(|queue| queue.length),
        "concurrency": queue.map(|queue| queue.concurrency),
    })
}

/// Errors that the script survived, by server error number; 0: those that the script itself counted.
fn errors(stretch: &Stretch) -> Map<String, Value> {
    let by_code = stretch.totals.errors.iter();
    by_code
        .map(|(code, count)| (code.to_string(), json!(count)))
        .collect()
}

fn latency(stretch: &Stretch, percentiles: &[Percentile]) -> Value {
    let events = stretch.events();
    json!({
        "min": ms(events.min_ns()),
        "mean": events.mean_ns() / 1e6,
        "max": ms(events.max_ns()),
        "sum": ms(events.sum_ns()),
        "percentiles": percentile_object(stretch, percentiles),
        "hdr_ns": events.to_base64().ok(),
    })
}

fn percentile_object(stretch: &Stretch, percentiles: &[Percentile]) -> Map<String, Value> {
    let value = |percentile: &Percentile| {
        let value = percentile_ms(stretch, percentile);
        (percentile.label.clone(), json!(value))
    };
    percentiles.iter().map(value).collect()
}

/// Operations that the script named.
fn operations(stretch: &Stretch, percentiles: &[Percentile]) -> Map<String, Value> {
    let named = stretch.latencies.by_operation().into_iter().skip(1);
    named
        .map(|(name, histogram)| {
            let values: Map<String, Value> = percentiles
                .iter()
                .map(|percentile| {
                    let value = ms(histogram.quantile_ns(percentile.per_cent / 100.0));
                    (percentile.label.clone(), json!(value))
                })
                .collect();
            let object = json!({
                "count": histogram.count(),
                "mean_ms": histogram.mean_ns() / 1e6,
                "max_ms": ms(histogram.max_ns()),
                "percentiles_ms": values,
            });
            (name.to_owned(), object)
        })
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
fn f64_of(count: u64) -> f64 {
    count as f64
}

/// Where the object goes.
#[derive(Debug)]
pub(in crate::sysbench) enum JsonOutput {
    StandardOutput,
    File { file: File, path: PathBuf },
}

impl JsonOutput {
    /// Creates the file, if it is one: before the run, which would else be for nothing.
    ///
    /// # Errors
    /// One line.
    pub(in crate::sysbench) fn create(target: &JsonTarget) -> Result<Self, String> {
        Ok(match target {
            JsonTarget::StandardOutput => Self::StandardOutput,
            JsonTarget::File(path) => Self::File {
                file: File::create(path).map_err(|error| failed(path, &error))?,
                path: path.clone(),
            },
        })
    }

    /// Writes the object.
    ///
    /// # Errors
    /// One line.
    pub(in crate::sysbench) fn write(self, result: &Value) -> Result<(), String> {
        match self {
            Self::StandardOutput => {
                // A closed pipe is the reader's choice.
                let _ = writeln!(std::io::stdout(), "{result:#}");
                Ok(())
            }
            Self::File { mut file, path } => file
                .write_all(format!("{result:#}\n").as_bytes())
                .map_err(|error| failed(&path, &error)),
        }
    }
}

fn failed(path: &Path, error: &std::io::Error) -> String {
    format!("--json {}: {error}", path.display())
}
