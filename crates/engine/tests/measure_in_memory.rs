//! `measure` over workloads of known law: no server, no Lua, real threads and clocks.
//!
//! The machine is shared, so times are compared with wide margins; counts are exact.

use std::io::Write;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bakeoff_engine::arm::OpenArm;
use bakeoff_engine::contract::{Arrivals, Code, Failure, Length, Load, Measure};
use bakeoff_engine::control::Control;
use bakeoff_engine::host::LoadHost;
use bakeoff_engine::measure::{Contender, measure};
use bakeoff_engine::net::ServerAddress;
use bakeoff_engine::outbox::Outbox;
use bakeoff_engine::team::Workload;
use bakeoff_script::host::{EventEnd, Host, QueryClass, Reply};
use serde_json::Value;

/// What was said, line by line.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<u8>>>);

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Said {
    fn of_type(&self, kind: &str) -> Vec<Value> {
        let bytes = self.0.lock().unwrap().clone();
        let lines = String::from_utf8(bytes).unwrap();
        let values = lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        values.filter(|value| value["type"] == kind).collect()
    }
}

/// Runs `event` for each event and counts how often, shadows and guard included.
struct Events<F> {
    executed: AtomicU64,
    event: F,
}

impl<F: Fn(&LoadHost) -> Result<EventEnd, Failure> + Send + Sync + 'static> Workload for Events<F> {
    fn work(&self, host: Rc<LoadHost>) -> Result<(), Failure> {
        while host.more_events() {
            host.event_start();
            self.executed.fetch_add(1, SeqCst);
            let end = (self.event)(&host)?;
            host.event_stop(end);
            if end == EventEnd::Stop {
                break;
            }
        }
        Ok(())
    }
}

fn events<F>(event: F) -> Arc<Events<F>>
where
    F: Fn(&LoadHost) -> Result<EventEnd, Failure> + Send + Sync + 'static,
{
    Arc::new(Events {
        executed: AtomicU64::new(0),
        event,
    })
}

fn sleeping(milliseconds: f64) -> Arc<impl Workload> {
    events(move |_| {
        std::thread::sleep(Duration::from_secs_f64(milliseconds / 1e3));
        Ok(EventEnd::Done)
    })
}

fn arm(name: &str) -> OpenArm {
    OpenArm {
        name: name.into(),
        address: Arc::new(ServerAddress::default()),
        server_pid: None,
        shadow_per_100: 0.0,
        ignore_errors: vec![],
    }
}

fn cell(arms: &[&str], blocks: u64) -> Measure {
    Measure {
        cell: "memory/2".into(),
        script: "memory".into(),
        options: Default::default(),
        arm_options: Default::default(),
        threads: 2,
        arms: arms.iter().map(|&name| name.into()).collect(),
        length: Length::Blocks(blocks),
        slice_ns: 30_000_000,
        guard_ns: 5_000_000,
        order_seed: 1,
        key_seed: 2,
        load: Load::Closed,
        freeze: false,
        settle_ns: 0,
    }
}

fn no_streams(_: u64, _: u64, _: u32) {}

fn run(
    request: &Measure,
    arms: &[OpenArm],
    loads: &[Arc<dyn Workload>],
) -> (Result<(), Failure>, Said) {
    let said = Said::default();
    let pairs = arms.iter().zip(loads);
    let contenders = pairs
        .map(|(arm, load)| Contender {
            arm,
            workload: Arc::clone(load),
        })
        .collect();
    let outbox = Outbox::new(said.clone());
    let outcome = measure(
        9,
        request,
        contenders,
        no_streams,
        &outbox,
        &Control::default(),
    );
    (outcome.map(|done| outbox.send(&done)), said)
}

fn reply(class: QueryClass) -> Reply {
    Reply {
        class,
        columns: 1,
        rows: 1,
        affected_rows: 0,
        last_insert_id: 0,
        more_results: false,
    }
}

fn sum(slices: &[Value], arm: &str, field: &str) -> u64 {
    slices
        .iter()
        .filter(|slice| slice["arm"] == arm)
        .map(|slice| slice[field].as_u64().unwrap())
        .sum()
}

/// Ratio of sums: events x connections / busy time [1/s].
fn throughput(slices: &[Value], arm: &str) -> f64 {
    let connections = slices[0]["connections"].as_u64().unwrap();
    sum(slices, arm, "events") as f64 * connections as f64 / sum(slices, arm, "busy_ns") as f64
        * 1e9
}

#[test]
fn arms_take_turns_and_their_numbers_agree_with_their_law() {
    let arms = [arm("A"), arm("B")];
    let (outcome, said) = run(
        &cell(&["A", "B"], 4),
        &arms,
        &[sleeping(1.0), sleeping(2.0)],
    );
    outcome.unwrap();
    let slices = said.of_type("slice");
    assert_eq!(slices.len(), 16);
    for block in slices.chunks(4) {
        let order: String = block
            .iter()
            .map(|slice| slice["arm"].as_str().unwrap())
            .collect();
        assert!(order == "ABBA" || order == "BAAB", "{order}");
        assert!(
            block
                .iter()
                .enumerate()
                .all(|(position, slice)| slice["position"] == position)
        );
    }
    // Slices do not overlap: each starts (guard included) after the one before has drained.
    for pair in slices.windows(2) {
        let end = pair[0]["start_ns"].as_u64().unwrap() + pair[0]["length_ns"].as_u64().unwrap();
        assert!(end <= pair[1]["start_ns"].as_u64().unwrap() - 5_000_000);
    }
    for slice in &slices {
        assert_eq!(
            (&slice["id"], &slice["connections"]),
            (&9.into(), &2.into())
        );
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
        assert_eq!(
            (&histogram["operation"], &histogram["clock"]),
            (&"event".into(), &"service".into())
        );
        assert!(histogram["quantiles_ns"]["0.5"].as_u64().unwrap() >= 1_000_000);
        assert!(histogram["hdr"].as_str().unwrap().starts_with("HISTFAAAA"));
    }
    let done = said.of_type("done");
    assert_eq!(
        (&done[0]["blocks"], &done[0]["cancelled"]),
        (&4.into(), &false.into())
    );
}

#[test]
fn shadow_events_are_run_and_not_counted_exactly() {
    for (k, blocks) in [(25.0, 3), (100.0, 3), (7.5, 5)] {
        let shadowed = OpenArm {
            shadow_per_100: k,
            ..arm("B")
        };
        let load = events(|host: &LoadHost| {
            std::thread::sleep(Duration::from_micros(200));
            host.count_reply(&reply(QueryClass::Read));
            Ok(EventEnd::Done)
        });
        let request = Measure {
            guard_ns: 0,
            ..cell(&["B"], blocks)
        };
        let (outcome, said) = run(&request, &[shadowed], &[load.clone()]);
        outcome.unwrap();
        let slices = said.of_type("slice");
        let (counted, executed) = (sum(&slices, "B", "events"), load.executed.load(SeqCst));
        assert_eq!(
            sum(&slices, "B", "reads"),
            counted,
            "no query of a shadow is counted"
        );
        assert_eq!(said.of_type("histogram")[0]["count"], counted);
        // Each of the two workers is at most one event away from the exact share.
        let expected = executed as f64 * 100.0 / (100.0 + k);
        assert!(
            (counted as f64 - expected).abs() <= 2.0,
            "k {k}: {counted} of {executed}, expected {expected}"
        );
        // Their time is charged: the window holds all events, the latencies only the counted ones.
        let share =
            sum(&slices, "B", "latency_sum_ns") as f64 / sum(&slices, "B", "busy_ns") as f64;
        assert!(
            (share / (100.0 / (100.0 + k)) - 1.0).abs() < 0.1,
            "k {k}: {share}"
        );
    }
}

#[test]
fn a_shadowed_arm_is_slower_by_the_known_ratio() {
    let shadowed = OpenArm {
        shadow_per_100: 100.0,
        ..arm("B")
    };
    let (outcome, said) = run(
        &cell(&["A", "B"], 8),
        &[arm("A"), shadowed],
        &[sleeping(0.5), sleeping(0.5)],
    );
    outcome.unwrap();
    let slices = said.of_type("slice");
    let ratio = throughput(&slices, "B") / throughput(&slices, "A");
    assert!((0.25..0.8).contains(&ratio), "{ratio} should be about 0.5");
}

#[test]
fn nothing_of_the_guard_is_counted() {
    let request = Measure {
        slice_ns: 1_000_000,
        guard_ns: 60_000_000,
        ..cell(&["A"], 1)
    };
    let load = events(|host: &LoadHost| {
        std::thread::sleep(Duration::from_millis(2));
        host.count_reply(&reply(QueryClass::Write));
        host.count_error(1213);
        host.event_restart();
        Ok(EventEnd::Done)
    });
    let (outcome, said) = run(&request, &[arm("A")], &[load.clone()]);
    outcome.unwrap();
    let slices = said.of_type("slice");
    let counted = sum(&slices, "A", "events");
    // 1 ms has room for one event a worker and slice, or for none when the guard's last event took longer.
    assert!(counted <= 4, "{counted}");
    assert!(load.executed.load(SeqCst) > counted + 20);
    for slice in &slices {
        assert_eq!(
            (&slice["writes"], &slice["retries"]),
            (&slice["events"], &slice["events"])
        );
        assert_eq!(
            slice["errors"].get("1213").unwrap_or(&0.into()),
            &slice["events"]
        );
    }
}

static STREAMS: Mutex<Vec<(u64, u64, u32)>> = Mutex::new(Vec::new());

#[test]
fn both_arms_start_a_blocks_streams_alike_and_once() {
    fn note(key_seed: u64, block: u64, thread: u32) {
        STREAMS.lock().unwrap().push((key_seed, block, thread));
    }
    let arms = [arm("A"), arm("B")];
    let contenders = arms
        .iter()
        .map(|arm| Contender {
            arm,
            workload: sleeping(1.0),
        })
        .collect();
    let outbox = Outbox::new(std::io::sink());
    measure(
        9,
        &cell(&["A", "B"], 3),
        contenders,
        note,
        &outbox,
        &Control::default(),
    )
    .unwrap();
    let mut seen = STREAMS.lock().unwrap().clone();
    seen.sort_unstable();
    let of_block = |block| [(2, block, 0), (2, block, 0), (2, block, 1), (2, block, 1)];
    assert_eq!(seen, (0..3).flat_map(of_block).collect::<Vec<_>>());
}

#[test]
fn an_open_loop_counts_latency_from_the_intended_start() {
    let load = Load::Open {
        rate_per_s: 400.0,
        arrivals: Arrivals::Fixed,
    };
    let request = Measure {
        slice_ns: 100_000_000,
        load,
        ..cell(&["A", "B"], 2)
    };
    // A: 2 workers of 1 ms could do 2000 a second. B: 2 workers of 10 ms can do 200, and a queue grows.
    let (outcome, said) = run(
        &request,
        &[arm("A"), arm("B")],
        &[sleeping(1.0), sleeping(10.0)],
    );
    outcome.unwrap();
    let slices = said.of_type("slice");
    assert_eq!(
        sum(&slices, "A", "events"),
        sum(&slices, "B", "events"),
        "the same schedule, every queue drained"
    );
    assert!(
        (150..=164).contains(&sum(&slices, "A", "events")),
        "400 a second for 4 x 0.1 s"
    );
    assert_eq!(
        sum(&slices, "A", "dropped") + sum(&slices, "B", "dropped"),
        0
    );
    let histograms = said.of_type("histogram");
    assert!(
        histograms
            .iter()
            .all(|histogram| histogram["clock"] == "response")
    );
    let worst = |arm: &str| {
        histograms.iter().find(|h| h["arm"] == arm).unwrap()["max_ns"]
            .as_u64()
            .unwrap()
    };
    // 40 arrivals, of which 2 x 10 are served within the slice's 0.1 s: the last waits about 0.1 s.
    assert!(worst("B") > 60_000_000, "{}", worst("B"));
    let longest = slices
        .iter()
        .filter(|s| s["arm"] == "B")
        .map(|s| s["length_ns"].as_u64().unwrap())
        .max();
    assert!(
        longest.unwrap() > 150_000_000,
        "the drain belongs to the slice"
    );
}

#[test]
fn a_failing_worker_ends_the_request_and_names_its_arm() {
    let begun = Instant::now();
    let failing =
        events(|_: &LoadHost| Err(Failure::new(Code::SqlError, "1146 (42S02): no such table")));
    let (outcome, said) = run(
        &cell(&["A", "B"], 100),
        &[arm("A"), arm("B")],
        &[sleeping(1.0), failing],
    );
    let failure = outcome.unwrap_err();
    assert_eq!(
        (failure.code, failure.arm.as_deref(), failure.fatal),
        (Code::SqlError, Some("B"), false)
    );
    assert_eq!(failure.message, "arm B: 1146 (42S02): no such table");
    assert!(said.of_type("done").is_empty());
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_panic_becomes_an_internal_failure() {
    let panicking = events(|_: &LoadHost| panic!("index out of range"));
    let (outcome, _) = run(&cell(&["A"], 1), &[arm("A")], &[panicking]);
    let failure = outcome.unwrap_err();
    assert_eq!(
        (failure.code, failure.arm.as_deref()),
        (Code::Internal, Some("A"))
    );
    assert!(
        failure.message.contains("index out of range"),
        "{}",
        failure.message
    );
}

#[test]
fn workers_that_stop_are_told_of_and_an_arm_without_workers_ends_the_cell() {
    let left = Arc::new(AtomicU64::new(10));
    let stopping = events(move |_: &LoadHost| {
        std::thread::sleep(Duration::from_millis(1));
        let enough = left
            .fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1))
            .is_err();
        Ok(if enough {
            EventEnd::Stop
        } else {
            EventEnd::Done
        })
    });
    let request = Measure {
        guard_ns: 0,
        ..cell(&["A"], 1_000)
    };
    let (outcome, said) = run(&request, &[arm("A")], &[stopping]);
    outcome.unwrap();
    assert_eq!(said.of_type("done")[0]["workers_stopped"], 2);
    assert_eq!(
        sum(&said.of_type("slice"), "A", "events"),
        10,
        "the event that asks to stop is not counted"
    );
}

#[test]
fn a_cancelled_cell_ends_at_a_slices_end_and_says_so() {
    let control = Arc::new(Control::default());
    let said = Said::default();
    let (arm, begun) = (arm("A"), Instant::now());
    let contenders = vec![Contender {
        arm: &arm,
        workload: sleeping(1.0),
    }];
    let canceller = {
        let control = Arc::clone(&control);
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            control.cancel();
        })
    };
    let request = Measure {
        length: Length::Seconds(600.0),
        ..cell(&["A"], 1)
    };
    let outbox = Outbox::new(said.clone());
    outbox.send(&measure(9, &request, contenders, no_streams, &outbox, &control).unwrap());
    canceller.join().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(said.of_type("done")[0]["cancelled"], true);
    assert!(!said.of_type("slice").is_empty());
    assert_eq!(said.of_type("histogram").len(), 1);
}

/// A process that stands for a server.
struct Sleeper(std::process::Child);

impl Sleeper {
    fn new() -> Self {
        Self(
            std::process::Command::new("sleep")
                .arg("60")
                .spawn()
                .unwrap(),
        )
    }
    fn pid(&self) -> i32 {
        self.0.id().try_into().unwrap()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn is_stopped(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(')')
        .next()
        .unwrap()
        .trim_start()
        .starts_with('T')
}

#[test]
fn only_the_server_under_load_is_awake_and_all_are_thawed_after() {
    let (first, second) = (Sleeper::new(), Sleeper::new());
    let (a, b) = (first.pid(), second.pid());
    let watching = |mine: i32, other: i32| {
        events(move |_: &LoadHost| {
            std::thread::sleep(Duration::from_millis(1));
            assert!(!is_stopped(mine) && is_stopped(other));
            Ok(EventEnd::Done)
        })
    };
    let arms = [
        OpenArm {
            server_pid: Some(a),
            ..arm("A")
        },
        OpenArm {
            server_pid: Some(b),
            ..arm("B")
        },
    ];
    let request = Measure {
        freeze: true,
        ..cell(&["A", "B"], 2)
    };
    let (outcome, said) = run(&request, &arms, &[watching(a, b), watching(b, a)]);
    outcome.unwrap();
    let slices = said.of_type("slice");
    assert_eq!(slices.len(), 8);
    assert!(
        slices
            .iter()
            .all(|slice| slice["server_rss_bytes"].as_u64().unwrap() > 0)
    );
    assert!(!is_stopped(a) && !is_stopped(b));

    let failing = events(|_: &LoadHost| Err(Failure::new(Code::SqlError, "no")));
    let (outcome, _) = run(&request, &arms, &[sleeping(1.0), failing]);
    assert_eq!(outcome.unwrap_err().arm.as_deref(), Some("B"));
    assert!(!is_stopped(a) && !is_stopped(b), "a failure thaws too");
}

#[test]
fn freezing_without_a_process_is_refused_plainly() {
    let request = Measure {
        freeze: true,
        ..cell(&["A"], 1)
    };
    let (outcome, _) = run(&request, &[arm("A")], &[sleeping(1.0)]);
    assert_eq!(outcome.unwrap_err().code, Code::BadRequest);
}

#[test]
fn operations_have_histograms_of_their_own_and_thinking_has_no_latency() {
    let load = events(|host: &LoadHost| {
        host.think(3_000_000);
        std::thread::sleep(Duration::from_micros(300));
        host.operation("new_order");
        host.operation("new_order.rollback");
        Ok(EventEnd::Done)
    });
    let (outcome, said) = run(&cell(&["A"], 1), &[arm("A")], &[load]);
    outcome.unwrap();
    let histograms = said.of_type("histogram");
    let names: Vec<_> = histograms
        .iter()
        .map(|h| h["operation"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["event", "new_order", "new_order.rollback"]);
    assert!(
        histograms
            .iter()
            .all(|h| h["count"] == histograms[0]["count"])
    );
    let slices = said.of_type("slice");
    let (busy, latency) = (
        sum(&slices, "A", "busy_ns"),
        sum(&slices, "A", "latency_sum_ns"),
    );
    assert!(
        busy > 3 * latency,
        "the window holds the thinking: {busy} {latency}"
    );
}
