//! The answers `slice` and `histogram`: one slice's counters and one arm's latencies in the contract's fields.

use std::collections::BTreeMap;

use bakeoff_load::arm_workers::SliceSum;
use bakeoff_load::failure::{Code, Failure};
use bakeoff_load::observe::Snapshot;
use bakeoff_load::worker_host::Environment as _;
use bakeoff_load::worker_stats::Latencies;
use bakeoff_metrics::LatencyHistogram;
use bakeoff_script::host::LogLevel;

use crate::contract::{Answer, Clock, Measure, SliceRecord};
use crate::message_writer::MessageWriter;

/// Quantiles reported as plain numbers; the rest is in the histogram.
const QUANTILES: [(&str, f64); 4] = [("0.5", 0.5), ("0.95", 0.95), ("0.99", 0.99), ("0.999", 0.999)];

/// The fields of a slice that workers and kernel know; the others are left empty.
pub(crate) fn record_of(sum: SliceSum, spent: Snapshot) -> SliceRecord {
    let totals = sum.totals;
    SliceRecord {
        busy_ns: totals.busy_ns,
        connections: sum.connections,
        events: totals.events,
        reads: totals.reads,
        writes: totals.writes,
        other: totals.other,
        errors: totals.errors.iter().map(|(code, count)| (code.to_string(), *count)).collect(),
        retries: totals.retries,
        reconnects: totals.reconnects,
        late_starts: totals.late_starts,
        latency_sum_ns: totals.latency_sum_ns,
        latency_max_ns: totals.latency_max_ns,
        sent_bytes: totals.sent_bytes,
        received_bytes: totals.received_bytes,
        spent,
        ..SliceRecord::default()
    }
}

/// Sends one `histogram` for each operation of an arm.
pub(crate) fn send_histograms(
    id: u64,
    request: &Measure,
    arm: &str,
    latencies: &Latencies,
    writer: &MessageWriter,
) -> Result<(), Failure> {
    let clock = if request.is_by_the_clock() { Clock::Response } else { Clock::Service };
    for (operation, histogram) in latencies.by_operation() {
        if histogram.clipped() > 0 {
            let message =
                format!("arm {arm}: {} latencies of {operation} lie outside 1 ns to 1 h", histogram.clipped());
            writer.log(LogLevel::Warning, &message);
        }
        writer.send(&Answer::Histogram {
            id,
            cell: request.cell.clone(),
            arm: arm.to_owned(),
            operation: operation.to_owned(),
            clock,
            count: histogram.count(),
            mean_ns: histogram.mean_ns(),
            min_ns: histogram.min_ns(),
            max_ns: histogram.max_ns(),
            quantiles_ns: quantiles(histogram),
            hdr: histogram.to_base64().map_err(|error| Failure::new(Code::Internal, error.to_string()).on_arm(arm))?,
        });
    }
    Ok(())
}

fn quantiles(histogram: &LatencyHistogram) -> BTreeMap<&'static str, u64> {
    QUANTILES.into_iter().map(|(name, quantile)| (name, histogram.quantile_ns(quantile))).collect()
}
