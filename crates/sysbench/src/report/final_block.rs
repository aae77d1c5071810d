//! The block at the end of a run and at checkpoints, byte for byte in sysbench's layout: people's scripts parse it. Below it, TPC-C's own.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bakeoff_metrics::{LatencyHistogram, ms, seconds};
use bakeoff_script::{OptionValue, Settings};

use super::{percentile_ms, share};
use crate::run_options::{Dialect, Percentile};
use crate::stats::Delta;
use crate::test::Test;

/// Which numbers come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heading {
    /// A script that has connected.
    Sql,
    /// A script that has not.
    Plain,
    /// The built-in `cpu` test.
    Cpu,
}

impl Heading {
    /// What goes with this test, and with a script that has connected or has not.
    pub(crate) fn of(test: &Test, uses_database: bool) -> Self {
        match test {
            Test::Cpu { .. } => Self::Cpu,
            Test::Script(_) if uses_database => Self::Sql,
            Test::Script(_) => Self::Plain,
        }
    }
}

/// The block, without the newline that the console adds. `total_s`: since counting began; rates are those of the delta, which is
/// shorter after a checkpoint.
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
        // Numbers end in column 53.
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

/// Mean and standard deviation of the workers, who are the whole population.
#[expect(clippy::cast_precision_loss, reason = "numbers of threads")]
pub(crate) fn mean_and_deviation(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / count;
    let variance = values.map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    (mean, variance.sqrt())
}

/// Type, 90th percentile at most [s] (clause 5.2.5.3), least share of all (5.2.3).
const RULES: [(&str, f64, f64); 5] = [
    ("new_order", 5.0, 0.0),
    ("payment", 5.0, 0.43),
    ("order_status", 5.0, 0.04),
    ("delivery", 5.0, 0.04),
    ("stock_level", 20.0, 0.04),
];
/// New-Orders a minute that a warehouse's ten terminals can enter at the standard's pace (clause 4.1.3).
const TPMC_PER_WAREHOUSE_MAX: f64 = 12.86;
/// A share that misses its limit by less than so many of its standard deviations is not judged.
const NOISE_SD: f64 = 3.0;

/// TPC-C's own results, without the newline that the console adds: tpmC and the standard's constraints, from the operations that `tpcc.lua`
/// names; none when no transaction of TPC-C was named. The same definitions as `bakeoff.tpcc.results` has for duels; docs/tpcc.md explains them.
pub(crate) fn tpcc(delta: &Delta, settings: &Settings) -> Option<String> {
    let named: BTreeMap<&str, &LatencyHistogram> = delta.latencies.by_operation().into_iter().collect();
    let count = |name: &str| named.get(name).map_or(0, |histogram| histogram.count());
    let orders = count("new_order");
    let all: u64 = RULES.iter().map(|(name, ..)| count(name)).sum();
    if all == 0 {
        return None;
    }
    let tpmc = 60.0 * delta.per_second(orders);
    let mut text = "TPC-C (not an audited result):\n".to_owned();
    tpcc_line(&mut text, "tpmC", &format!("{tpmc:.2}"));
    let total = 60.0 * delta.per_second(all);
    tpcc_line(&mut text, "tpmTotal", &format!("{total:.2}"));
    if let Some(warehouses) = paced_warehouses(settings) {
        let efficiency = 100.0 * tpmc / (TPMC_PER_WAREHOUSE_MAX * warehouses);
        let words = format!("{efficiency:.1}% of 12.86 a warehouse");
        tpcc_line(&mut text, "efficiency", &words);
    }
    let late: Vec<String> = RULES
        .iter()
        .filter_map(|(name, limit_s, _)| {
            let found_s = seconds(named.get(name)?.quantile_ns(0.9));
            (found_s > *limit_s).then(|| format!("{name} {found_s:.1} s of at most {limit_s} s"))
        })
        .collect();
    tpcc_line(&mut text, "response times (90%)", &ok_or_not(&late));
    let rare: Vec<Judgement> = RULES
        .iter()
        .filter(|(_, _, least)| *least > 0.0)
        .map(|(name, _, least)| judge(name, count(name), all, (*least, 1.0), *least))
        .collect();
    tpcc_line(&mut text, "mix", &worst(&rare));
    let rollbacks = count("new_order.rollback");
    let of_rollbacks = judge("rollbacks", rollbacks, orders, (0.009, 0.011), 0.01);
    tpcc_line(&mut text, "rollbacks (1%)", &worst(&[of_rollbacks]));
    let skipped = judge("skipped", count("delivery.skipped"), count("delivery"), (0.0, 0.01), 0.01);
    tpcc_line(&mut text, "deliveries skipped", &worst(&[skipped]));
    let deadlocks = delta.errors();
    let retried: u64 = RULES.iter().map(|(name, ..)| count(&format!("{name}.retried"))).sum();
    let words = format!("{retried} after {deadlocks} deadlocks and lock waits");
    tpcc_line(&mut text, "retried", &words);
    Some(text)
}

/// Warehouses in all table sets, when keying and thinking times are both on: only then does efficiency mean anything.
fn paced_warehouses(settings: &Settings) -> Option<f64> {
    let value = |name: &str| settings.options.get(name).map(OptionValue::to_text);
    let is_on = |name: &str| value(name).is_some_and(|text| ["on", "true", "1", ""].contains(&text.as_str()));
    let number = |name: &str| settings.options.get(name).map(OptionValue::to_number);
    if !is_on("keying_time") || !is_on("think_time") {
        return None;
    }
    let scale = number("warehouses").filter(|count| *count > 0.0).or_else(|| number("scale")).unwrap_or(10.0);
    Some(scale * number("tables").unwrap_or(1.0))
}

/// How a share stands to its limits, worst first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Judgement {
    NotOk(String),
    TooFew,
    Ok,
}

/// Judges a share; one outside by less than chance explains, if its true value were `nominal`, is too few to judge.
fn judge(name: &str, count: u64, of: u64, limits: (f64, f64), nominal: f64) -> Judgement {
    if of == 0 {
        return Judgement::TooFew;
    }
    let (least, most) = limits;
    let found = share(count, of);
    let missed_by = (least - found).max(found - most);
    if missed_by <= 0.0 {
        return Judgement::Ok;
    }
    #[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
    let deviation = (nominal * (1.0 - nominal) / of as f64).sqrt();
    if missed_by < NOISE_SD * deviation {
        Judgement::TooFew
    } else {
        Judgement::NotOk(format!("{name} {:.2}%", 100.0 * found))
    }
}

fn worst(judgements: &[Judgement]) -> String {
    let failed: Vec<String> = judgements
        .iter()
        .filter_map(|each| match each {
            Judgement::NotOk(words) => Some(words.clone()),
            _ => None,
        })
        .collect();
    if failed.is_empty() && judgements.contains(&Judgement::TooFew) {
        return "too few to tell".to_owned();
    }
    ok_or_not(&failed)
}

fn ok_or_not(failed: &[String]) -> String {
    if failed.is_empty() { "OK".to_owned() } else { format!("not OK: {}", failed.join(", ")) }
}

fn tpcc_line(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "    {:<37}{value}", format!("{name}:"));
}

#[cfg(test)]
#[path = "../../tests/unit/report_final_block.rs"]
mod tests;
