//! The block at the end of a run and at checkpoints, byte for byte in sysbench's layout: people's scripts parse it.

use std::fmt::Write as _;

use bakeoff_metrics::ms;

use super::percentile_ms;
use crate::run_options::{Dialect, Percentile};
use crate::stats::Delta;
use crate::test::Test;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heading {
    Sql,
    Plain,
    Cpu,
}

impl Heading {
    pub(crate) fn of(test: &Test, uses_database: bool) -> Self {
        match test {
            Test::Cpu { .. } => Self::Cpu,
            Test::Script(_) if uses_database => Self::Sql,
            Test::Script(_) => Self::Plain,
        }
    }
}

pub(crate) fn block(
    delta: &Delta,
    total_s: f64,
    heading: Heading,
    dialect: Dialect,
    percentiles: &[Percentile],
) -> String {
    let mut text = match heading {
        Heading::Sql => sql(delta),
        Heading::Plain => String::new(),
        Heading::Cpu => format!("CPU speed:\n    events per second: {:8.2}\n", delta.per_second(delta.totals.events)),
    };
    general(&mut text, delta, total_s, dialect);
    latency(&mut text, delta, percentiles);
    fairness(&mut text, delta);
    text
}

fn sql(delta: &Delta) -> String {
    let totals = &delta.totals;
    let mut text = format!(
        "SQL statistics:\n    queries performed:\n        read:                            {}\n        write:                           {}\n        other:                           {}\n        total:                           {}\n",
        totals.reads,
        totals.writes,
        totals.other,
        delta.queries()
    );
    for (name, count) in [
        ("transactions:                        ", totals.events),
        ("queries:                             ", delta.queries()),
        ("ignored errors:                      ", delta.errors()),
        ("reconnects:                          ", totals.reconnects),
    ] {
        line(&mut text, format_args!("    {name}{count:<6} ({:.2} per sec.)", delta.per_second(count)));
    }
    text
}

fn general(text: &mut String, delta: &Delta, total_s: f64, dialect: Dialect) {
    let events = delta.totals.events;
    match dialect {
        Dialect::V1_0 => {
            line(text, format_args!("\nGeneral statistics:"));
            line(text, format_args!("    total time:                          {total_s:.4}s"));
        }
        Dialect::V1_1 => {
            line(text, format_args!("\nThroughput:"));
            line(text, format_args!("    events/s (eps):                      {:.4}", delta.per_second(events)));
            line(text, format_args!("    time elapsed:                        {total_s:.4}s"));
        }
    }
    line(text, format_args!("    total number of events:              {events}"));
}

fn latency(text: &mut String, delta: &Delta, percentiles: &[Percentile]) {
    let events = delta.events();
    line(text, format_args!("\nLatency (ms):"));
    line(text, format_args!("         min: {:39.2}", ms(events.min_ns())));
    line(text, format_args!("         avg: {:39.2}", events.mean_ns() / 1e6));
    line(text, format_args!("         max: {:39.2}", ms(events.max_ns())));
    if percentiles.is_empty() {
        line(text, format_args!("         percentile stats:               disabled"));
    }
    for percentile in percentiles {
        let name = format!("{:>3}th percentile:", percentile.label);
        // Numbers end at column 53.
        let room = 45_usize.saturating_sub(name.len());
        line(text, format_args!("        {name}{:room$.2}", percentile_ms(events, percentile)));
    }
    line(text, format_args!("         sum: {:39.2}", ms(events.sum_ns())));
}

fn fairness(text: &mut String, delta: &Delta) {
    #[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
    let events = mean_and_deviation(delta.by_worker.iter().map(|(events, _)| *events as f64));
    let seconds = mean_and_deviation(delta.by_worker.iter().map(|(_, seconds)| *seconds));
    line(text, format_args!("\nThreads fairness:"));
    line(text, format_args!("    events (avg/stddev):           {:.4}/{:3.2}", events.0, events.1));
    line(text, format_args!("    execution time (avg/stddev):   {:.4}/{:3.2}", seconds.0, seconds.1));
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    // Writing into a String cannot fail.
    let _ = writeln!(text, "{words}");
}

#[expect(clippy::cast_precision_loss, reason = "numbers of threads")]
pub(crate) fn mean_and_deviation(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / count;
    let variance = values.map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    (mean, variance.sqrt())
}

#[cfg(test)]
#[path = "../../tests/unit/report_final_block.rs"]
mod tests;
