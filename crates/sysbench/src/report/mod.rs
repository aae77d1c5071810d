//! What a run reports: the texts in sysbench's layout (here and in `final_block`), and the forms for programs.

pub(crate) mod final_block;
pub(crate) mod machine_readable;
pub(crate) mod reporter;

use bakeoff_metrics::{LatencyHistogram, ms};
use bakeoff_script::histogram::Histogram;

use crate::run_options::{Percentile, RunOptions};
use crate::stats::Delta;

pub(crate) fn percentile_ms(latencies: &LatencyHistogram, percentile: &Percentile) -> f64 {
    ms(latencies.quantile_ns(percentile.per_cent / 100.0))
}

/// What report hooks get, under sysbench's names. Times and latencies in seconds, `time_total` since counting began.
pub(crate) fn statistics(
    delta: &Delta,
    time_total: f64,
    percentile: Option<&Percentile>,
    threads_running: u32,
) -> Vec<(&'static str, f64)> {
    let totals = &delta.totals;
    vec![
        ("threads_running", f64::from(threads_running)),
        ("time_interval", delta.seconds),
        ("time_total", time_total),
        ("latency_pct", percentile.map_or(0.0, |percentile| percentile_ms(delta.events(), percentile) / 1e3)),
        ("events", totals.events as f64),
        ("reads", totals.reads as f64),
        ("writes", totals.writes as f64),
        ("other", totals.other as f64),
        ("errors", delta.errors() as f64),
        ("reconnects", totals.reconnects as f64),
        ("bytes_read", totals.received_bytes as f64),
        ("bytes_written", totals.sent_bytes as f64),
    ]
}

/// What cumulative reports get besides [`statistics`].
pub(crate) fn latency_statistics(events: &LatencyHistogram) -> [(&'static str, f64); 4] {
    [
        ("latency_min", ms(events.min_ns()) / 1e3),
        ("latency_max", ms(events.max_ns()) / 1e3),
        ("latency_avg", events.mean_ns() / 1e9),
        ("latency_sum", ms(events.sum_ns()) / 1e3),
    ]
}

pub(crate) fn preamble(options: &RunOptions, of_test: Option<&str>) -> String {
    let seconds: Vec<String> = options.checkpoints_s.iter().map(u64::to_string).collect();
    let shutdown = options.time.zip(options.forced_shutdown).map(|(time, grace)| options.warmup + time + grace);
    let lines = [
        Some("Running the test with following options:".to_owned()),
        Some(format!("Number of threads: {}", options.threads)),
        (!options.warmup.is_zero()).then(|| format!("Warmup time: {}s", options.warmup.as_secs())),
        options.rate_per_s.map(|rate| format!("Target transaction rate: {rate}/sec")),
        options.report_interval_s.map(|seconds| format!("Report intermediate results every {seconds} second(s)")),
        (!seconds.is_empty()).then(|| format!("Report checkpoint(s) at {} seconds", seconds.join(", "))),
        options.debug.then(|| "Debug mode enabled.\n".to_owned()),
        options.validate.then(|| "Validation checks: on.\n".to_owned()),
        Some(match options.given_seed {
            Some(seed) => format!("Initializing random number generator from seed ({seed}).\n"),
            None => "Initializing random number generator from current time\n".to_owned(),
        }),
        shutdown.map(|limit| format!("Forcing shutdown in {} seconds", limit.as_secs())),
        Some(String::new()),
        of_test.map(|line| format!("{line}\n")),
        Some("Initializing worker threads...\n".to_owned()),
    ];
    lines.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

pub(crate) fn of_thread(thread: usize, events: u64, seconds: f64, (min_ms, max_ms): (f64, f64)) -> String {
    let (min, avg, max) = (min_ms / 1e3, seconds / events.max(1) as f64, max_ms / 1e3);
    format!("    thread #{thread:3}: min: {min:.4}s  avg: {avg:.4}s  max: {max:.4}s  events: {events}")
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Queue {
    pub(crate) length: u64,
    pub(crate) concurrency: u64,
}

pub(crate) fn interval(
    at_s: f64,
    threads: u32,
    delta: &Delta,
    percentile: Option<&Percentile>,
    queue: Option<Queue>,
    uses_database: bool,
) -> String {
    let rate = |count| delta.per_second(count);
    let totals = &delta.totals;
    let (label, latency_ms) = match percentile {
        Some(percentile) => (percentile.label.as_str(), percentile_ms(delta.events(), percentile)),
        None => ("0", 0.0),
    };
    let latency = format!("lat (ms,{label}%): {latency_ms:4.2}");
    let mut text = if uses_database {
        format!(
            "[ {at_s:.0}s ] thds: {threads} tps: {:4.2} qps: {:4.2} (r/w/o: {:4.2}/{:4.2}/{:4.2}) {latency} err/s: {:4.2} reconn/s: {:4.2}",
            rate(totals.events),
            rate(delta.queries()),
            rate(totals.reads),
            rate(totals.writes),
            rate(totals.other),
            rate(delta.errors()),
            rate(totals.reconnects),
        )
    } else {
        format!("[ {at_s:.0}s ] thds: {threads} eps: {:4.2} {latency}", rate(totals.events))
    };
    if let Some(Queue { length, concurrency }) = queue {
        let comma = if uses_database { "," } else { "" };
        text += &format!("\n[ {at_s:.0}s ] queue length: {length}{comma} concurrency: {concurrency}");
    }
    text
}

/// The histogram without its final newline. The buckets and their limits [ms] are sysbench's.
pub(crate) fn histogram(delta: &Delta) -> String {
    let mut histogram = Histogram::new(1024, 1e-3, 1e5).unwrap_or_else(|| unreachable!("a range with buckets"));
    for (latency_ns, count) in delta.events().buckets() {
        histogram.add(ms(latency_ns), count);
    }
    format!("Latency histogram (values are in milliseconds)\n{}\n ", histogram.lines().join("\n"))
}

/// The operations' table, or None if the script named none. A name with a dot (`new_order.rollback`) is part of the
/// operation before the dot, and its share is of that operation's events.
pub(crate) fn operations(delta: &Delta) -> Option<String> {
    let named = delta.latencies.by_operation();
    let (&(_, all), named) = named.split_first().filter(|(_, named)| !named.is_empty())?;
    let mut text = format!(
        "Operations:{:>26}{:>9}{:>12}{:>10}{:>10}{:>10}{:>10}{:>10}\n",
        "count", "share", "per minute", "50% ms", "90% ms", "95% ms", "99% ms", "max ms"
    );
    for (name, latencies) in named {
        let whole = name.split_once('.').and_then(|(whole, _)| named.iter().find(|(other, _)| *other == whole));
        let of = whole.map_or(all, |(_, latencies)| latencies).count().max(1);
        let count = latencies.count();
        let share = 100.0 * count as f64 / of as f64;
        text += &format!("    {name:<22}{count:>11}{share:>8.2}%{:>12.1}", 60.0 * delta.per_second(count));
        for quantile in [0.5, 0.9, 0.95, 0.99] {
            text += &format!("{:>10.2}", ms(latencies.quantile_ns(quantile)));
        }
        text += &format!("{:>10.2}\n", ms(latencies.max_ns()));
    }
    Some(text)
}

#[cfg(test)]
#[path = "../../tests/unit/report_mod.rs"]
mod tests;
