//! What is counted, and what is not.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bakeoff_engine::answer::{Call, MessageWriter};
use bakeoff_engine::arm::OpenArm;
use bakeoff_engine::measure::{Contender, measure};
use bakeoff_engine::request::{Load, Measure};
use bakeoff_load::arrivals::Arrivals;
use bakeoff_load::connector::Connector;
use bakeoff_load::host::{Environment, RunHost, RunPlan, SliceHost, ThreadHost};
use bakeoff_load::net::ServerAddress;
use bakeoff_load::start_gate::{Barrier, Slice, StartGate};
use bakeoff_load::worker_pool::WorkerContext;
use bakeoff_load::worker_stats::{LatencyStore, WorkerStats};
use bakeoff_metrics::now_ns;
use bakeoff_script::host::{EventEnd, Events, LogLevel, QueryClass};

use super::world::{arm, cell, events, reply, run, sleeping, sum, throughput};

#[test]
fn arms_alternate_and_measure_their_known_latencies() {
    let arms = [arm("A"), arm("B")];
    let (outcome, said) = run(&cell(&["A", "B"], 4), &arms, &[sleeping(1.0), sleeping(2.0)]);
    outcome.unwrap();
    let slices = said.of_type("slice");
    assert_eq!(slices.len(), 16);
    for block in slices.chunks(4) {
        let order: String = block.iter().map(|slice| slice["arm"].as_str().unwrap()).collect();
        assert!(order == "ABBA" || order == "BAAB", "{order}");
        assert!(block.iter().enumerate().all(|(position, slice)| slice["position"] == position));
    }
    // Slices do not overlap: each starts (guard included) after the one before has drained.
    for pair in slices.windows(2) {
        let end = pair[0]["start_ns"].as_u64().unwrap() + pair[0]["length_ns"].as_u64().unwrap();
        assert!(end <= pair[1]["start_ns"].as_u64().unwrap() - 5_000_000);
    }
    for slice in &slices {
        assert_eq!((&slice["id"], &slice["connections"]), (&9.into(), &2.into()));
        assert!(slice["length_ns"].as_u64().unwrap() >= 30_000_000);
        // In a closed loop a worker's window is its latencies, end to end.
        assert_eq!(slice["busy_ns"], slice["latency_sum_ns"]);
    }
    let ratio = throughput(&slices, "A") / throughput(&slices, "B");
    assert!((1.2..3.3).contains(&ratio), "{ratio} should be about 2");
    let histograms = said.of_type("histogram");
    assert_eq!(histograms.len(), 2);
    for histogram in &histograms {
        let arm = histogram["arm"].as_str().unwrap();
        assert_eq!(histogram["count"], sum(&slices, arm, "events"));
        assert_eq!((&histogram["operation"], &histogram["clock"]), (&"event".into(), &"service".into()));
        assert!(histogram["quantiles_ns"]["0.5"].as_u64().unwrap() >= 1_000_000);
        assert!(histogram["hdr"].as_str().unwrap().starts_with("HISTFAAAA"));
    }
    let done = said.of_type("done");
    assert_eq!((&done[0]["blocks"], &done[0]["cancelled"]), (&4.into(), &false.into()));
}

/// A momentary stall of the machine spoils a ratio of times, so it must hold in one of three attempts.
fn in_one_of_three(mut attempt: impl FnMut() -> Result<(), String>) {
    let failures: Vec<String> = (0..3).map_while(|_| attempt().err()).collect();
    assert!(failures.len() < 3, "{failures:?}");
}

#[test]
fn a_slice_without_arrivals_lasts_as_long_as_any_other() {
    let load = Load::Open { rate_per_s: 1.0, arrivals: Arrivals::Poisson };
    let request = Measure { load, slice_ns: 20_000_000, guard_ns: 5_000_000, ..cell(&["A", "B"], 3) };
    let (outcome, said) = run(&request, &[arm("A"), arm("B")], &[sleeping(1.0), sleeping(1.0)]);
    outcome.unwrap();
    let slices = said.of_type("slice");
    assert_eq!(slices.len(), 12);
    for slice in &slices {
        assert!(slice["length_ns"].as_u64().unwrap() >= 20_000_000, "{slice}");
    }
    for pair in slices.windows(2) {
        let starts = [&pair[0], &pair[1]].map(|slice| slice["start_ns"].as_u64().unwrap());
        assert!(starts[1] - starts[0] >= 25_000_000, "{starts:?}");
    }
}

#[test]
fn injected_events_are_run_but_not_counted() {
    for (k, blocks) in [(25.0, 3), (100.0, 3), (7.5, 5)] {
        in_one_of_three(|| injected_events_are_charged(k, blocks));
    }
}

/// Runs a cell with an injected slowdown and checks its counts; an error when the time charged is not in proportion.
fn injected_events_are_charged(k: f64, blocks: u64) -> Result<(), String> {
    let slowed = OpenArm { slowdown_percent: k, ..arm("B") };
    let executed = Arc::new(AtomicU64::new(0));
    let all = Arc::clone(&executed);
    let load = events(move |host: &SliceHost| {
        all.fetch_add(1, SeqCst);
        std::thread::sleep(Duration::from_micros(200));
        host.count_reply(&reply(QueryClass::Read));
        Ok(EventEnd::Done)
    });
    let request = Measure { guard_ns: 0, ..cell(&["B"], blocks) };
    let (outcome, said) = run(&request, &[slowed], &[load as _]);
    outcome.unwrap();
    let slices = said.of_type("slice");
    let (counted, outside) = (sum(&slices, "B", "events"), sum(&slices, "B", "outside_events"));
    assert_eq!(sum(&slices, "B", "reads"), counted, "no query of an injected event is counted");
    assert_eq!(said.of_type("histogram")[0]["count"], counted);
    // Each of the two workers is at most one event away from the exact share of all events, those after a window included.
    let (own, executed) = (counted + outside, executed.load(SeqCst));
    let expected = executed as f64 * 100.0 / (100.0 + k);
    assert!((own as f64 - expected).abs() <= 2.0, "k {k}: {own} of {executed}, expected {expected}");
    // Their time is charged: the window holds all events, the latencies only the counted ones.
    let share = sum(&slices, "B", "latency_sum_ns") as f64 / sum(&slices, "B", "busy_ns") as f64;
    let near = (share / (100.0 / (100.0 + k)) - 1.0).abs() < 0.1;
    near.then_some(()).ok_or_else(|| format!("k {k}: {share}"))
}

#[test]
fn short_cells_inject_the_same_share_of_events_as_long_ones() {
    let slowed = OpenArm { slowdown_percent: 50.0, ..arm("B") };
    let request = Measure { guard_ns: 0, slice_ns: 5_000_000, ..cell(&["B"], 1) };
    let (mut counted, mut executed) = (0, 0);
    for _ in 0..100 {
        let load = events(|_: &SliceHost| {
            std::thread::sleep(Duration::from_millis(1));
            Ok(EventEnd::Done)
        });
        let (outcome, said) = run(&request, std::slice::from_ref(&slowed), &[load.clone() as _]);
        outcome.unwrap();
        counted += sum(&said.of_type("slice"), "B", "events");
        executed += load.executed.load(SeqCst);
    }
    // A worker's few events may hold an injected event or two too many or too few, but over time every worker gets some.
    let injected = (executed - counted) as f64;
    let expected = executed as f64 * 50.0 / 150.0;
    assert!((injected / expected - 1.0).abs() < 0.07, "{injected} of {executed}, expected {expected}");
}

#[test]
fn a_slowed_arm_is_slower_by_the_known_ratio() {
    let slowed = OpenArm { slowdown_percent: 100.0, ..arm("B") };
    let (outcome, said) = run(&cell(&["A", "B"], 8), &[arm("A"), slowed], &[sleeping(0.5), sleeping(0.5)]);
    outcome.unwrap();
    let slices = said.of_type("slice");
    let ratio = throughput(&slices, "B") / throughput(&slices, "A");
    assert!((0.25..0.8).contains(&ratio), "{ratio} should be about 0.5");
}

#[test]
fn nothing_in_the_guard_is_counted() {
    let request = Measure { slice_ns: 1_000_000, guard_ns: 60_000_000, ..cell(&["A"], 1) };
    let load = events(|host: &SliceHost| {
        std::thread::sleep(Duration::from_millis(2));
        host.count_reply(&reply(QueryClass::Write));
        host.count_error(1213);
        host.event_restart();
        Ok(EventEnd::Done)
    });
    let (outcome, said) = run(&request, &[arm("A")], &[load.clone() as _]);
    outcome.unwrap();
    let slices = said.of_type("slice");
    let counted = sum(&slices, "A", "events");
    // 1 ms is enough for one event a worker and slice, or for none when the guard's last event took longer.
    assert!(counted <= 4, "{counted}");
    assert!(load.executed.load(SeqCst) > counted + 20);
    for slice in &slices {
        assert_eq!((&slice["writes"], &slice["retries"]), (&slice["events"], &slice["events"]));
        assert_eq!(slice["errors"].get("1213").unwrap_or(&0.into()), &slice["events"]);
    }
}

#[test]
fn load_continues_uncounted_until_every_window_closes() {
    // One worker has events of 1 ms or 20 ms, the other a single event that ends 40 ms after the slice's 100 ms.
    let after = |short_ms, thinks: bool| {
        let after = Arc::new(AtomicU64::new(0));
        let its_after = Arc::clone(&after);
        let load = events(move |host: &SliceHost| {
            let short = host.thread == 0;
            its_after.fetch_add(u64::from(host.is_past_deadline()), SeqCst);
            if short && thinks {
                host.think(1_000_000);
            }
            std::thread::sleep(Duration::from_millis(if short { short_ms } else { 140 }));
            Ok(EventEnd::Done)
        });
        let request = Measure { slice_ns: 100_000_000, guard_ns: 0, ..cell(&["A"], 1) };
        let (outcome, said) = run(&request, &[arm("A")], &[load.clone() as _]);
        outcome.unwrap();
        let slices = said.of_type("slice");
        assert_eq!(sum(&slices, "A", "events"), load.executed.load(SeqCst));
        assert_eq!(sum(&slices, "A", "outside_events"), after.load(SeqCst));
        assert!(slices.iter().all(|slice| slice["load_ns"].as_u64().unwrap() >= slice["length_ns"].as_u64().unwrap()));
        after.load(SeqCst)
    };
    in_one_of_three(|| {
        // Two slices: of 40 ms and two events each, and two latencies are the limit.
        let found = (after(20, false), after(1, false));
        let right = matches!(found, (2..=4, 2..=6));
        right.then_some(()).ok_or_else(|| format!("{found:?}"))
    });
    assert_eq!(after(1, true), 0, "who thinks between events does not go on without thinking");
}

struct Silent;

impl Environment for Silent {
    fn log(&self, _level: LogLevel, _message: &str) {}
}

#[test]
fn an_event_that_spans_the_warm_up_is_busy_only_after_it() {
    let gate = Arc::new(StartGate::new(1));
    let connector = Connector::new(Arc::new(ServerAddress::default()), Arc::default());
    let stats: Arc<WorkerStats> = Arc::default();
    let counted = (Arc::clone(&stats), LatencyStore::new(Arc::default(), 1));
    let (barrier, canceller) = (Arc::new(Barrier::new(1)), Arc::default());
    let context = WorkerContext { thread: 0, gate: Arc::clone(&gate), barrier, canceller };
    let host = ThreadHost::in_run(Arc::new(Silent), connector, Arc::clone(&gate));
    let host = RunHost::new(RunPlan { events_left: None, counts_set_up: false }, &context, host, counted);
    let start_ns = now_ns();
    let guard_end_ns = start_ns + 200_000_000;
    let slice = Slice {
        block: 0,
        turn: 0,
        start_ns,
        guard_end_ns,
        deadline_ns: u64::MAX,
        open_windows: 0.into(),
        schedule: None,
    };
    gate.open(Arc::new(slice));
    assert!(host.rest() && host.more_events());
    host.event_start();
    std::thread::sleep(Duration::from_millis(210));
    host.event_stop(EventEnd::Done);
    let totals = stats.counters().totals();
    assert_eq!((totals.events, totals.busy_ns), (1, host.boundary_ns() - guard_end_ns));
    assert!(totals.busy_ns < totals.latency_sum_ns);
}

static STREAMS: Mutex<Vec<(u64, u64, u32)>> = Mutex::new(Vec::new());

#[test]
fn both_arms_reseed_identically_once_per_block() {
    fn note(key_seed: u64, block: u64, thread: u32) {
        STREAMS.lock().unwrap().push((key_seed, block, thread));
    }
    let arms = [arm("A"), arm("B")];
    let contenders = arms.iter().map(|arm| Contender { arm, workload: sleeping(1.0) }).collect();
    let writer = MessageWriter::new(std::io::sink());
    let call = Call { id: 9, writer: &writer, cancel: &AtomicBool::default() };
    measure(call, &cell(&["A", "B"], 3), contenders, note, None).unwrap();
    let mut seen = STREAMS.lock().unwrap().clone();
    seen.sort_unstable();
    let of_block = |block| [(2, block, 0), (2, block, 0), (2, block, 1), (2, block, 1)];
    assert_eq!(seen, (0..3).flat_map(of_block).collect::<Vec<_>>());
}

#[test]
fn an_open_loop_counts_latency_from_the_intended_start() {
    let load = Load::Open { rate_per_s: 400.0, arrivals: Arrivals::Fixed };
    let request = Measure { slice_ns: 100_000_000, load, ..cell(&["A", "B"], 2) };
    // A: 2 workers of 1 ms could do 2000 a second. B: 2 workers of 10 ms can do 200, and a queue grows.
    let (outcome, said) = run(&request, &[arm("A"), arm("B")], &[sleeping(1.0), sleeping(10.0)]);
    outcome.unwrap();
    let slices = said.of_type("slice");
    assert_eq!(sum(&slices, "A", "events"), sum(&slices, "B", "events"), "the same schedule, every queue drained");
    assert!((150..=164).contains(&sum(&slices, "A", "events")), "400 a second for 4 x 0.1 s");
    assert_eq!(sum(&slices, "A", "dropped") + sum(&slices, "B", "dropped"), 0);
    let histograms = said.of_type("histogram");
    assert!(histograms.iter().all(|histogram| histogram["clock"] == "response"));
    let worst = |arm: &str| histograms.iter().find(|h| h["arm"] == arm).unwrap()["max_ns"].as_u64().unwrap();
    // 40 arrivals, of which 2 x 10 are served within the slice's 0.1 s: the last waits about 0.1 s.
    assert!(worst("B") > 60_000_000, "{}", worst("B"));
    let longest = slices.iter().filter(|s| s["arm"] == "B").map(|s| s["length_ns"].as_u64().unwrap()).max();
    assert!(longest.unwrap() > 150_000_000, "the drain belongs to the slice");
}
#[test]
fn operations_have_histograms_of_their_own_and_thinking_has_no_latency() {
    in_one_of_three(|| {
        let load = events(|host: &SliceHost| {
            host.think(3_000_000);
            std::thread::sleep(Duration::from_micros(300));
            host.operation("new_order");
            host.event_restart();
            host.operation("new_order");
            host.operation("new_order.rollback");
            host.operation("new_order");
            Ok(EventEnd::Done)
        });
        let (outcome, said) = run(&cell(&["A"], 1), &[arm("A")], &[load]);
        outcome.unwrap();
        let histograms = said.of_type("histogram");
        let names: Vec<_> = histograms.iter().map(|h| h["operation"].as_str().unwrap()).collect();
        assert_eq!(names, ["event", "new_order", "new_order.rollback"]);
        assert!(histograms.iter().all(|h| h["count"] == histograms[0]["count"]));
        let slices = said.of_type("slice");
        let (busy, latency) = (sum(&slices, "A", "busy_ns"), sum(&slices, "A", "latency_sum_ns"));
        let mostly_thinking = busy > 3 * latency;
        mostly_thinking.then_some(()).ok_or_else(|| format!("{busy} {latency}"))
    });
}
