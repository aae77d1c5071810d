//! Results for programs: `--json`, and `--hdr-log` in `HdrHistogram`'s format 1.3. Its values are nanoseconds, but
//! `Interval_Max` is in milliseconds, as in Java's `HistogramLogWriter`.

use std::fs::File;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use bakeoff_metrics::{LatencyHistogram, ms};
use serde_json::{Map, Value, json};

use super::{Queue, percentile_ms};
use crate::run_options::{Percentile, RunOptions};
use crate::session::SysbenchSession;
use crate::stats::Delta;
use crate::test::{Ending, Outcome};

pub(crate) fn result(
    test: &str,
    options: &RunOptions,
    given: Map<String, Value>,
    session: &SysbenchSession,
    engine: &Value,
    Outcome { ending, whole, intervals, dropped }: Outcome,
) -> Value {
    let [events, busy] = whole.fairness();
    let unfinished = match ending {
        Ending::Forced { unfinished } => Some(unfinished),
        _ => None,
    };
    json!({
        "format": 1,
        "engine": engine,
        "test": test,
        "options": given,
        "threads": options.threads,
        "seed": options.seed,
        "rate_per_s": options.rate_per_s,
        "warmup_s": options.warmup.as_secs(),
        "charset": session.charset.0,
        "collation": session.charset.1,
        "server": session.server().map(|server| json!({
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
        "forced_shutdown": unfinished.is_some(),
        "unfinished": unfinished.unwrap_or(0),
        "dropped": dropped,
        "latency_ms": latency(&whole, &options.percentiles),
        "operations": operations(&whole, &options.percentiles),
        "fairness": {
            "events": {"mean": events.0, "stddev": events.1},
            "busy_s": {"mean": busy.0, "stddev": busy.1},
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
    let value = |percentile: &Percentile| (percentile.label.clone(), json!(percentile_ms(latencies, percentile)));
    percentiles.iter().map(value).collect()
}

fn operations(delta: &Delta, percentiles: &[Percentile]) -> Map<String, Value> {
    let object = |(name, latencies): (&str, &LatencyHistogram)| {
        let object = json!({
            "count": latencies.count(),
            "mean_ms": latencies.mean_ns() / 1e6,
            "max_ms": ms(latencies.max_ns()),
            "percentiles_ms": percentile_object(latencies, percentiles),
        });
        (name.to_owned(), object)
    };
    delta.latencies.by_operation().into_iter().skip(1).map(object).collect()
}

/// A file that an option names. It is created before the run, so that a bad path does not waste the run.
#[derive(Debug)]
pub(crate) struct OutputFile {
    file: File,
    named: String,
}

impl OutputFile {
    pub(crate) fn create(option: &str, path: &str) -> Result<Self, String> {
        let named = format!("{option} {path}");
        let file = File::create(path).map_err(|error| format!("{named}: {error}"))?;
        Ok(Self { file, named })
    }

    pub(crate) fn write(&mut self, text: &str) -> Result<(), String> {
        self.file.write_all(text.as_bytes()).map_err(|error| format!("{}: {error}", self.named))
    }

    pub(crate) fn hdr_log(path: &str) -> Result<Self, String> {
        let mut log = Self::create("--hdr-log", path)?;
        let start_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        log.write(&format!(
            "\
#[Histogram log format version 1.3]
#[StartTime: {start_s:.3} (seconds since epoch), nanoseconds of whole events]
\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"
"
        ))?;
        Ok(log)
    }

    pub(crate) fn write_hdr_interval(&mut self, at_s: f64, delta: &Delta) -> Result<(), String> {
        let (begin_s, length_s, events) = (at_s - delta.seconds, delta.seconds, delta.events());
        self.write(&format!("{begin_s:.3},{length_s:.3},{:.3},{}\n", ms(events.max_ns()), events.to_base64()))
    }
}
