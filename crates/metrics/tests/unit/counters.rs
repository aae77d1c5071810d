//! Tests of `src/counters.rs`.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Event(u64),
    Read(u64),
    Write(u64),
    Other(u64),
    Error(u16),
    Retry,
    Reconnect,
    Bytes(u64, u64),
    Late,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0_u64..1_000_000).prop_map(Step::Event),
        (0_u64..9).prop_map(Step::Read),
        (0_u64..9).prop_map(Step::Write),
        (0_u64..9).prop_map(Step::Other),
        prop_oneof![Just(1213), Just(1205), Just(1020), Just(0), Just(u16::MAX)].prop_map(Step::Error),
        Just(Step::Retry),
        Just(Step::Reconnect),
        (0_u64..999, 0_u64..999).prop_map(|(sent, received)| Step::Bytes(sent, received)),
        Just(Step::Late),
    ]
}

fn run(steps: &[Step]) -> SliceTotals {
    let counters = SliceCounters::default();
    for step in steps {
        match *step {
            Step::Event(latency_ns) => counters.add_event(latency_ns),
            Step::Read(n) => counters.reads.add(n),
            Step::Write(n) => counters.writes.add(n),
            Step::Other(n) => counters.other.add(n),
            Step::Error(code) => counters.add_errors(code, 1),
            Step::Retry => counters.retries.add(1),
            Step::Reconnect => counters.reconnects.add(1),
            Step::Bytes(sent, received) => {
                counters.sent_bytes.add(sent);
                counters.received_bytes.add(received);
            }
            Step::Late => counters.late_starts.add(1),
        }
    }
    counters.totals()
}

proptest! {
    #[test]
    fn merging_equals_counting_all(parts in prop::collection::vec(prop::collection::vec(step(), 0..50), 1..6)) {
        let mut merged = SliceTotals::default();
        for part in &parts {
            merged.merge(&run(part));
        }
        prop_assert_eq!(merged, run(&parts.concat()));
    }
}

#[test]
fn the_window_spans_first_start_to_last_end() {
    let counters = SliceCounters::default();
    assert_eq!(counters.totals().busy_ns, 0);
    counters.open_window(1_000);
    counters.extend_window(1_400);
    counters.open_window(1_400);
    counters.extend_window(1_900);
    assert_eq!(counters.totals().busy_ns, 900);
    counters.reset();
    assert_eq!(counters.totals(), SliceTotals::default());
}

#[test]
fn errors_beyond_the_slots_are_counted() {
    let counters = SliceCounters::default();
    (1..=20).for_each(|code| counters.add_errors(code, 2));
    let errors = counters.totals().errors;
    assert_eq!(errors.values().sum::<u64>(), 40);
    assert_eq!((errors[&15], errors[&0]), (2, 10));
}

#[test]
fn two_workers_never_share_a_cache_line_pair() {
    assert_eq!(align_of::<SliceCounters>(), 128);
    assert_eq!(size_of::<SliceCounters>() % 128, 0);
}

#[test]
fn since_is_the_inverse_of_merge() {
    let totals = |scale: u64| SliceTotals {
        events: 3 * scale,
        reads: 5 * scale,
        errors: BTreeMap::from([(1213, scale)]),
        busy_ns: 7 * scale,
        ..SliceTotals::default()
    };
    let (earlier, later) = (totals(2), totals(5));
    let mut sum = earlier.clone();
    sum.merge(&later.since(&earlier));
    assert_eq!(sum, later);
    assert!(later.since(&later).errors.is_empty());
}
