//! Tests of `src/stats.rs`.

use super::*;

#[test]
fn each_delta_covers_its_span_and_no_event_is_lost() {
    let stats = Stats::new(100);
    let event = |thread, latency_ns| {
        let (worker, latencies) = stats.of_worker(thread);
        worker.counters().add_event(latency_ns);
        latencies.record(&[], latency_ns);
    };
    let (mut intervals, mut periods) = (Snapshot::start(Span::Interval, 0), Snapshot::start(Span::Period, 0));
    event(0, 1_000);
    event(99, 3_000);
    let first = stats.since(&mut intervals, 2_000_000_000);
    assert_eq!((first.totals.events, first.events().count(), first.events().max_ns()), (2, 2, 3_000));
    assert!((first.seconds - 2.0).abs() < 1e-9 && (first.per_second(2) - 1.0).abs() < 1e-9);
    event(99, 9_000);
    let second = stats.since(&mut intervals, 3_000_000_000);
    assert_eq!((second.totals.events, second.events().min_ns()), (1, 9_000));
    let period = stats.since(&mut periods, 3_000_000_000);
    assert_eq!((period.totals.events, period.events().count()), (3, 3));
    assert_eq!(period.by_worker[99].0, 2);
    assert_eq!(stats.since(&mut periods, 4_000_000_000).totals.events, 0);
    assert_eq!(stats.since(&mut Snapshot::start(Span::Whole, 0), 4_000_000_000).events().count(), 3);
}
