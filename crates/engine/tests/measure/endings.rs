//! How a cell ends before its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

use bakeoff_engine::answer::{Call, MessageWriter};
use bakeoff_engine::measure::{Contender, measure};
use bakeoff_engine::request::Measure;
use bakeoff_load::arm_workers::Workload;
use bakeoff_load::failure::{Code, Failure};
use bakeoff_load::host::SliceHost;
use bakeoff_script::host::{EventEnd, Host as _};

use super::world::{Said, arm, cell, events, no_streams, run, sleeping, sum};

#[test]
fn a_failing_worker_ends_the_request_and_names_its_arm() {
    let begun = Instant::now();
    let failing = events(|_: &SliceHost| Err(Failure::new(Code::SqlError, "1146 (42S02): no such table")));
    let (outcome, said) = run(&cell(&["A", "B"], 100), &[arm("A"), arm("B")], &[sleeping(1.0), failing]);
    let failure = outcome.unwrap_err();
    assert_eq!((failure.code, failure.arm.as_deref(), failure.fatal), (Code::SqlError, Some("B"), false));
    assert_eq!(failure.to_string(), "arm B: 1146 (42S02): no such table");
    assert!(said.of_type("done").is_empty());
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_panic_becomes_an_internal_failure() {
    let panicking = events(|_: &SliceHost| panic!("index out of range"));
    let (outcome, _) = run(&cell(&["A"], 1), &[arm("A")], &[panicking]);
    let failure = outcome.unwrap_err();
    assert_eq!((failure.code, failure.arm.as_deref()), (Code::Internal, Some("A")));
    assert!(failure.message.contains("index out of range"), "{}", failure.message);
}

#[test]
fn workers_that_stop_are_reported_and_an_arm_without_workers_ends_the_cell() {
    let left = Arc::new(AtomicU64::new(10));
    let stopping = events(move |_: &SliceHost| {
        std::thread::sleep(Duration::from_millis(1));
        let enough = left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_err();
        Ok(if enough { EventEnd::Stop } else { EventEnd::Done })
    });
    let request = Measure { guard_ns: 0, ..cell(&["A"], 1_000) };
    let (outcome, said) = run(&request, &[arm("A")], &[stopping]);
    outcome.unwrap();
    assert_eq!(said.of_type("done")[0]["workers_stopped"], 2);
    assert_eq!(sum(&said.of_type("slice"), "A", "events"), 10, "the event that asks to stop is not counted");
}

/// Runs a long cell of this load and cancels it soon after its start; what was said, the outcome included.
fn cancelled(load: Arc<dyn Workload>) -> Said {
    let control = Arc::new(AtomicBool::default());
    let said = Said::default();
    let arm = arm("A");
    let contenders = vec![Contender { arm: &arm, workload: load }];
    let canceller = {
        let control = Arc::clone(&control);
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            control.store(true, Relaxed);
        })
    };
    let request = Measure { seconds: Some(600.0), blocks: None, ..cell(&["A"], 1) };
    let writer = MessageWriter::new(said.clone());
    let call = Call { id: 9, writer: &writer, cancel: &control };
    writer.send(&measure(call, &request, contenders, no_streams, None).unwrap());
    canceller.join().unwrap();
    said
}

#[test]
fn a_cancelled_cell_ends_at_a_slices_end_and_says_so() {
    let begun = Instant::now();
    let said = cancelled(sleeping(1.0));
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(said.of_type("done")[0]["cancelled"], true);
    assert!(!said.of_type("slice").is_empty());
    assert_eq!(said.of_type("histogram").len(), 1);
}

#[test]
fn a_cancelled_cell_does_not_wait_for_a_long_event() {
    let begun = Instant::now();
    let said = cancelled(events(|host: &SliceHost| {
        while !host.thread_host.aborted() {
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(Failure::new(Code::ServerLost, "cut"))
    }));
    let took = begun.elapsed();
    assert!((Duration::from_secs(5)..Duration::from_secs(15)).contains(&took), "{took:?}");
    let done = &said.of_type("done")[0];
    assert_eq!((&done["cancelled"], &done["blocks"]), (&true.into(), &0.into()));
    assert!(said.of_type("slice").is_empty() && said.of_type("histogram").is_empty());
}
