//! What a run reports: lines while it runs, the block at its end, and the forms for programs.

pub(crate) mod final_block;
pub(crate) mod machine_readable;
pub(crate) mod reporter;
pub(crate) mod text;
pub(crate) mod tpcc;

use bakeoff_script::Statistics;

use crate::run_options::Percentile;
use crate::stats::Delta;

/// A latency percentile [ms].
pub(crate) fn percentile_ms(delta: &Delta, percentile: &Percentile) -> f64 {
    ms(delta.events().quantile_ns(percentile.per_cent / 100.0))
}

#[expect(clippy::cast_precision_loss, reason = "2^53 ns are a hundred days")]
pub(crate) fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// What the script's report hooks get; `time_total` is since counting began.
pub(crate) fn statistics(delta: &Delta, time_total: f64, percentile: Option<&Percentile>) -> Statistics {
    Statistics {
        time_interval: delta.seconds,
        time_total,
        latency_pct: percentile.map_or(0.0, |percentile| percentile_ms(delta, percentile) / 1e3),
        events: delta.totals.events,
        reads: delta.totals.reads,
        writes: delta.totals.writes,
        other: delta.totals.other,
        errors: delta.errors(),
        reconnects: delta.totals.reconnects,
        bytes_read: delta.totals.received_bytes,
        bytes_written: delta.totals.sent_bytes,
        ..Statistics::default()
    }
}

/// The same, with what only a cumulative report has.
pub(crate) fn cumulative_statistics(
    delta: &Delta,
    time_total: f64,
    percentile: Option<&Percentile>,
    threads_running: u32,
) -> Statistics {
    let events = delta.events();
    Statistics {
        threads_running,
        latency_min: Some(ms(events.min_ns()) / 1e3),
        latency_max: Some(ms(events.max_ns()) / 1e3),
        latency_avg: Some(events.mean_ns() / 1e9),
        latency_sum: Some(ms(events.sum_ns()) / 1e3),
        ..statistics(delta, time_total, percentile)
    }
}
