//! Tests of `src/report/final_block.rs`.

#![allow(clippy::unwrap_used, reason = "tests")]

use bakeoff_metrics::SliceTotals;
use bakeoff_script::{ScriptSource, Settings};

use super::*;
use crate::report::operations;
use crate::test::ScriptTest;

fn delta() -> Delta {
    let mut delta = Delta {
        seconds: 3.00752,
        totals: SliceTotals { events: 3, other: 6220, ..SliceTotals::default() },
        by_worker: vec![(2, 0.0191), (1, 0.0185)],
        ..Delta::default()
    };
    for latency_ns in [20_000, 120_000, 850_000] {
        delta.latencies.record(None, latency_ns);
    }
    delta
}

fn percentiles(labels: &[&str]) -> Vec<Percentile> {
    let read = |label: &&str| Percentile { per_cent: label.parse().expect("a number"), label: (*label).to_owned() };
    labels.iter().map(read).collect()
}

fn script() -> Test {
    Test::Script(Box::new(ScriptTest { source: ScriptSource::inline("", ""), settings: Settings::default() }))
}

/// The sample of the facts page, with other numbers.
const SAMPLE: &str = "\
SQL statistics:
    queries performed:
        read:                            0
        write:                           0
        other:                           6220
        total:                           6220
    transactions:                        3      (1.00 per sec.)
    queries:                             6220   (2068.15 per sec.)
    ignored errors:                      0      (0.00 per sec.)
    reconnects:                          0      (0.00 per sec.)

General statistics:
    total time:                          3.0075s
    total number of events:              3

Latency (ms):
         min:                                    0.02
         avg:                                    0.33
         max:                                    0.85
         99th percentile:                        0.85
         sum:                                    0.99

Threads fairness:
    events (avg/stddev):           1.5000/0.50
    execution time (avg/stddev):   0.0188/0.00
";

#[test]
fn the_final_block_matches_sysbench_1_0() {
    let text = block(&delta(), 3.00752, (&script(), true), Dialect::V1_0, &percentiles(&["99"]));
    assert_eq!(text, SAMPLE);
}

#[test]
fn the_final_block_matches_sysbench_1_1() {
    let text = block(&delta(), 3.00752, (&script(), false), Dialect::V1_1, &percentiles(&["99"]));
    let expected = "\nThroughput:\n    events/s (eps):                      0.9975\n    time elapsed:                        3.0075s\n    total number of events:              3\n\nLatency (ms):\n";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn percentile_lines_are_aligned_or_say_disabled() {
    let text = block(&delta(), 3.00752, (&script(), false), Dialect::V1_0, &percentiles(&["5", "99.9", "100"]));
    let widths: Vec<usize> = text.lines().filter(|line| line.contains("percentile:")).map(str::len).collect();
    assert_eq!(widths, [53, 53, 53], "{text}");
    let text = block(&delta(), 3.00752, (&script(), false), Dialect::V1_0, &[]);
    assert!(text.contains("         percentile stats:               disabled\n"), "{text}");
}

/// A minute with these counts of operations, each taking 2 ms.
fn minute(counts: &[(&str, u64)]) -> Delta {
    let mut delta = Delta { seconds: 60.0, ..Delta::default() };
    for (name, count) in counts {
        let place = delta.latencies.operation(name);
        let whole = name.split_once('.').map(|(whole, _)| delta.latencies.operation(whole));
        let parts: u64 = counts
            .iter()
            .filter(|(other, _)| other.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
            .map(|(_, count)| count)
            .sum();
        for _ in parts..*count {
            delta.latencies.record(None, 2_000_000);
            whole.into_iter().chain([place]).for_each(|place| delta.latencies.record(Some(place), 2_000_000));
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

#[test]
fn operations_are_listed_and_parts_are_a_share_of_their_parent() {
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
fn without_operations_there_is_no_table_of_them() {
    assert!(operations(&minute(&[])).is_none());
}
