//! TPC-C's own results below the final block: tpmC and the standard's constraints, from the operations that `tpcc.lua` names.
//!
//! The same definitions as `bakeoff.stats.tpcc` has for duels and studies; docs/tpcc.md explains them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bakeoff_metrics::LatencyHistogram;
use bakeoff_script::Settings;
use bakeoff_script::options::OptionValue;

use super::text::share;
use crate::stats::Delta;

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

/// The block, without the newline that the console adds; none when no transaction of TPC-C was named.
pub(crate) fn block(delta: &Delta, settings: &Settings) -> Option<String> {
    let named: BTreeMap<&str, &LatencyHistogram> = delta.latencies.by_operation().into_iter().collect();
    let count = |name: &str| named.get(name).map_or(0, |histogram| histogram.count());
    let orders = count("new_order");
    let all: u64 = RULES.iter().map(|(name, ..)| count(name)).sum();
    if all == 0 {
        return None;
    }
    let tpmc = 60.0 * delta.per_second(orders);
    let mut text = "TPC-C (not an audited result):\n".to_owned();
    line(&mut text, "tpmC", &format!("{tpmc:.2}"));
    let total = 60.0 * delta.per_second(all);
    line(&mut text, "tpmTotal", &format!("{total:.2}"));
    if let Some(warehouses) = paced_warehouses(settings) {
        let efficiency = 100.0 * tpmc / (TPMC_PER_WAREHOUSE_MAX * warehouses);
        let words = format!("{efficiency:.1}% of 12.86 a warehouse");
        line(&mut text, "efficiency", &words);
    }
    let late: Vec<String> = RULES
        .iter()
        .filter_map(|(name, limit_s, _)| {
            #[expect(clippy::cast_precision_loss, reason = "an hour is 2^42 ns")]
            let seconds = named.get(name)?.quantile_ns(0.9) as f64 / 1e9;
            (seconds > *limit_s).then(|| format!("{name} {seconds:.1} s of at most {limit_s} s"))
        })
        .collect();
    line(&mut text, "response times (90%)", &ok_or_not(&late));
    let rare: Vec<Judgement> = RULES
        .iter()
        .filter(|(_, _, least)| *least > 0.0)
        .map(|(name, _, least)| judge(name, count(name), all, (*least, 1.0), *least))
        .collect();
    line(&mut text, "mix", &worst(&rare));
    let rollbacks = count("new_order.rollback");
    let of_rollbacks = judge("rollbacks", rollbacks, orders, (0.009, 0.011), 0.01);
    line(&mut text, "rollbacks (1%)", &worst(&[of_rollbacks]));
    let skipped = judge(
        "skipped",
        count("delivery.skipped"),
        count("delivery"),
        (0.0, 0.01),
        0.01,
    );
    line(&mut text, "deliveries skipped", &worst(&[skipped]));
    let deadlocks = delta.errors();
    let retried: u64 = RULES.iter().map(|(name, ..)| count(&format!("{name}.retried"))).sum();
    let words = format!("{retried} after {deadlocks} deadlocks and lock waits");
    line(&mut text, "retried", &words);
    Some(text)
}

/// Warehouses in all table sets, when keying and thinking times are both on: only then does efficiency mean anything.
fn paced_warehouses(settings: &Settings) -> Option<f64> {
    let value = |name: &str| settings.options.get(name).map(text_of);
    let is_on = |name: &str| value(name).is_some_and(|text| ["on", "true", "1", ""].contains(&text.as_str()));
    let number = |name: &str| value(name).and_then(|text| text.parse::<f64>().ok());
    if !is_on("keying_time") || !is_on("think_time") {
        return None;
    }
    let scale = number("warehouses")
        .filter(|count| *count > 0.0)
        .or_else(|| number("scale"))
        .unwrap_or(10.0);
    Some(scale * number("tables").unwrap_or(1.0))
}

fn text_of(value: &OptionValue) -> String {
    match value {
        OptionValue::Bool(flag) => if *flag { "on" } else { "off" }.to_owned(),
        OptionValue::Int(number) => number.to_string(),
        OptionValue::Double(number) => number.to_string(),
        OptionValue::Text(text) => text.clone(),
        OptionValue::List(texts) => texts.join(","),
    }
}

/// How a share stands to its limits, worst first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Judgement {
    NotOk(String),
    TooFew,
    Ok,
}

/// Judges a share; one outside by less than chance explains, if its true value were `nominal`, is too few to tell.
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
    if failed.is_empty() {
        "OK".to_owned()
    } else {
        format!("not OK: {}", failed.join(", "))
    }
}

fn line(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "    {:<37}{value}", format!("{name}:"));
}

#[cfg(test)]
#[path = "../../tests/unit/report_tpcc.rs"]
mod tests;
