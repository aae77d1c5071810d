//! Tests of `src/report/final_block.rs`.

use super::*;
use bakeoff_metrics::SliceTotals;

fn delta() -> Delta {
    let mut delta = Delta {
        seconds: 3.00752,
        totals: SliceTotals {
            events: 3,
            other: 6220,
            ..SliceTotals::default()
        },
        by_worker: vec![(2, 0.0191), (1, 0.0185)],
        ..Delta::default()
    };
    for latency_ns in [20_000, 120_000, 850_000] {
        delta.latencies.record(&[], latency_ns);
    }
    delta
}

fn percentiles(labels: &[&str]) -> Vec<Percentile> {
    let read = |label: &&str| Percentile {
        per_cent: label.parse().expect("a number"),
        label: (*label).to_owned(),
    };
    labels.iter().map(read).collect()
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
fn the_layout_of_1_0() {
    let text = block(&delta(), 3.00752, Heading::Sql, Dialect::V1_0, &percentiles(&["99"]));
    assert_eq!(text, SAMPLE);
}

#[test]
fn the_layout_of_1_1() {
    let text = block(&delta(), 3.00752, Heading::Plain, Dialect::V1_1, &percentiles(&["99"]));
    let expected = "\nThroughput:\n    events/s (eps):                      0.9975\n    time elapsed:                        3.0075s\n    total number of events:              3\n\nLatency (ms):\n";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn several_percentiles_or_none_keep_the_column() {
    let text = block(
        &delta(),
        3.00752,
        Heading::Plain,
        Dialect::V1_0,
        &percentiles(&["5", "99.9", "100"]),
    );
    let widths: Vec<usize> = text
        .lines()
        .filter(|line| line.contains("percentile:"))
        .map(str::len)
        .collect();
    assert_eq!(widths, [53, 53, 53], "{text}");
    let text = block(&delta(), 3.00752, Heading::Plain, Dialect::V1_0, &[]);
    assert!(
        text.contains("         percentile stats:               disabled\n"),
        "{text}"
    );
}
