//! Tests of `src/report/tpcc.rs`.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::report::text::operations;

/// A minute in which so many of each were done, in 2 ms each.
fn minute(counts: &[(&str, u64)]) -> Delta {
    let mut delta = Delta {
        seconds: 60.0,
        ..Delta::default()
    };
    for (name, count) in counts {
        let place = delta.latencies.operation(name);
        let whole = name.split_once('.').map(|(whole, _)| delta.latencies.operation(whole));
        let places: Vec<usize> = whole.into_iter().chain([place]).collect();
        let parts: u64 = counts
            .iter()
            .filter(|(other, _)| other.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
            .map(|(_, count)| count)
            .sum();
        for _ in parts..*count {
            delta.latencies.record(&places, 2_000_000);
        }
    }
    delta
}

const DECKS: [(&str, u64); 6] = [
    ("new_order", 10_000),
    ("payment", 10_000),
    ("order_status", 1_000),
    ("delivery", 1_000),
    ("stock_level", 1_000),
    ("new_order.rollback", 100),
];

fn value_of(text: &str, name: &str) -> String {
    let line = text.lines().find(|line| line.contains(name)).unwrap();
    line.split_once(':').unwrap().1.trim().to_owned()
}

#[test]
fn a_proper_run_is_ok_in_all_respects() {
    let text = block(&minute(&DECKS), &Settings::default()).unwrap();
    assert_eq!(value_of(&text, "tpmC"), "10000.00");
    assert_eq!(value_of(&text, "tpmTotal"), "23000.00");
    for name in ["response times", "mix", "rollbacks", "deliveries skipped"] {
        assert_eq!(value_of(&text, name), "OK", "{name}");
    }
    assert!(!text.contains("efficiency"));
}

#[test]
fn what_misses_its_limit_is_named() {
    let mut counts = DECKS;
    counts[3].1 = 100;
    counts[5].1 = 300;
    let text = block(&minute(&counts), &Settings::default()).unwrap();
    assert!(value_of(&text, "mix").starts_with("not OK: delivery 0.4"));
    assert_eq!(value_of(&text, "rollbacks"), "not OK: rollbacks 3.00%");
    let few = block(
        &minute(&[("new_order", 30), ("payment", 29), ("order_status", 2)]),
        &Settings::default(),
    )
    .unwrap();
    assert_eq!(value_of(&few, "mix"), "too few to tell");
}

#[test]
fn efficiency_is_shown_with_both_waiting_times() {
    let options = [
        ("keying_time", "on"),
        ("think_time", "true"),
        ("scale", "2"),
        ("tables", "2"),
    ];
    let settings = Settings {
        options: options
            .into_iter()
            .map(|(name, value)| (name.to_owned(), OptionValue::Text(value.to_owned())))
            .collect(),
        ..Settings::default()
    };
    let text = block(&minute(&[("new_order", 25), ("payment", 25)]), &settings).unwrap();
    assert_eq!(
        value_of(&text, "efficiency"),
        "48.6% of 12.86 a warehouse" // 25 / (4 * 12.86)
    );
}

#[test]
fn operations_are_listed_and_shares_of_parts_are_of_their_whole() {
    let text = operations(&minute(&DECKS)).unwrap();
    let row = |name: &str| {
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(name));
        line.unwrap().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("payment")[1..4], ["10000", "43.48%", "10000.0"]);
    assert_eq!(row("new_order.rollback")[1..3], ["100", "1.00%"]);
    assert_eq!(row("payment")[4], "2.00");
}

#[test]
fn other_scripts_print_nothing_more() {
    assert!(block(&minute(&[]), &Settings::default()).is_none());
    assert!(operations(&minute(&[])).is_none());
}
