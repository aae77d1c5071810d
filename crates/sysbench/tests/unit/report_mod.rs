//! Tests of `src/report/mod.rs`.

use super::*;
use crate::command_line::CommandLine;
use bakeoff_metrics::SliceTotals;

fn options(words: &str) -> RunOptions {
    let arguments: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    RunOptions::read(&CommandLine::parse(&arguments).expect("well formed"), |_| ()).expect("fine")
}

#[test]
fn the_preamble_matches_sysbench() {
    let options = options(
        "--threads=2 --rate=20 --report-interval=1 --report-checkpoints=4,2 --rand-seed=7 --time=1 --forced-shutdown=1",
    );
    assert_eq!(
        preamble(&options, None),
        "Running the test with following options:\nNumber of threads: 2\nTarget transaction rate: 20/sec\n\
             Report intermediate results every 1 second(s)\nReport checkpoint(s) at 2, 4 seconds\n\
             Initializing random number generator from seed (7).\n\nForcing shutdown in 2 seconds\n\nInitializing worker threads...\n"
    );
}

#[test]
fn a_plain_preamble_has_two_empty_lines() {
    assert_eq!(
        preamble(&options("run"), Some("Prime numbers limit: 10000")),
        "Running the test with following options:\nNumber of threads: 1\n\
             Initializing random number generator from current time\n\n\nPrime numbers limit: 10000\n\nInitializing worker threads...\n"
    );
}

fn delta() -> Delta {
    let mut delta = Delta {
        seconds: 2.0,
        totals: SliceTotals {
            events: 100,
            reads: 1400,
            writes: 400,
            other: 201,
            errors: [(1213, 1)].into(),
            ..SliceTotals::default()
        },
        ..Delta::default()
    };
    delta.latencies.record(None, 2_500_000);
    delta
}

#[test]
fn interval_lines_match_sysbench() {
    let percentile = Percentile { per_cent: 95.0, label: "95".into() };
    let queue = Some(Queue { length: 9, concurrency: 2 });
    assert_eq!(
        interval(2.0004, 4, &delta(), Some(&percentile), queue, true),
        "[ 2s ] thds: 4 tps: 50.00 qps: 1000.50 (r/w/o: 700.00/200.00/100.50) lat (ms,95%): 2.50 err/s: 0.50 reconn/s: 0.00\n\
             [ 2s ] queue length: 9, concurrency: 2"
    );
    assert_eq!(
        interval(2.0, 1, &delta(), None, queue, false),
        "[ 2s ] thds: 1 eps: 50.00 lat (ms,0%): 0.00\n[ 2s ] queue length: 9 concurrency: 2"
    );
}

#[test]
fn histogram_rows_are_sorted_with_bars_to_scale() {
    let mut delta = Delta::default();
    for (latency_ns, count) in [(30_265_000, 4), (45_793_000, 1), (1, 1)] {
        (0..count).for_each(|_| delta.latencies.record(None, latency_ns));
    }
    let table = histogram(&delta);
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows[2], format!("       0.001 |{:40} 1", "*".repeat(10)));
    assert_eq!(rows[3], format!("      30.265 |{} 4", "*".repeat(40)));
    assert_eq!(rows[4], format!("      45.793 |{:40} 1", "*".repeat(10)));
    assert_eq!(rows.last(), Some(&" "));
}
