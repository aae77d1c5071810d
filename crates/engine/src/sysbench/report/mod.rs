//! What a run tells: lines while it runs, the block at its end, and the forms for programs.

pub(super) mod final_block;
pub(super) mod hdr_log;
pub(super) mod histogram;
pub(super) mod intermediate;
pub(super) mod json;
pub(super) mod operations;
pub(super) mod reporter;
pub(super) mod tpcc;

use bakeoff_script::Statistics;

use super::run_options::Percentile;
use super::tally::Stretch;

/// A latency percentile [ms].
pub(super) fn percentile_ms(stretch: &Stretch, percentile: &Percentile) -> f64 {
    ms(stretch.events().quantile_ns(percentile.per_cent / 100.0))
}

#[expect(clippy::cast_precision_loss, reason = "2^53 ns are a hundred days")]
pub(super) fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// What the script's report hooks are told; `time_total` is since counting began.
pub(super) fn statistics(
    stretch: &Stretch,
    time_total: f64,
    percentile: Option<&Percentile>,
) -> Statistics {
    Statistics {
        time_interval: stretch.seconds,
        time_total,
        latency_pct: percentile.map_or(0.0, |percentile| percentile_ms(stretch, percentile) / 1e3),
        events: stretch.totals.events,
        reads: stretch.totals.reads,
        writes: stretch.totals.writes,
        other: stretch.totals.other,
        errors: stretch.errors(),
        reconnects: stretch.totals.reconnects,
        bytes_read: stretch.totals.received_bytes,
        bytes_written: stretch.totals.sent_bytes,
        ..Statistics::default()
    }
}

/// The same, with what only a cumulative report has.
pub(super) fn cumulative_statistics(
    stretch: &Stretch,
    time_total: f64,
    percentile: Option<&Percentile>,
    threads_running: u32,
) -> Statistics {
    let events = stretch.events();
    Statistics {
        threads_running,
        latency_min: Some(ms(events.min_ns()) / 1e3),
        latency_max: Some(ms(events.max_ns()) / 1e3),
        latency_avg: Some(events.mean_ns() / 1e9),
        latency_sum: Some(ms(events.sum_ns()) / 1e3),
        ..statistics(stretch, time_total, percentile)
    }
}
