//! Tests of `src/start_gate.rs`.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Duration;

use crate::failure::{Code, Failure};
use crate::start_gate::{Barrier, Slice, StartGate, WaitError};

const LIMIT: Duration = Duration::from_secs(10);

fn slice(block: u64) -> Arc<Slice> {
    Arc::new(Slice {
        block,
        turn: 0,
        start_ns: 0,
        guard_end_ns: 0,
        deadline_ns: 0,
        open_windows: 0.into(),
        schedule: None,
    })
}

#[test]
fn every_worker_runs_every_slice_once() {
    let gate = StartGate::new(5);
    let sum = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| {
                let mut seen = 0;
                while let Some((number, slice)) = gate.rest(seen) {
                    assert!(number > seen);
                    seen = number;
                    sum.fetch_add(slice.block, Relaxed);
                }
                gate.leave();
            });
        }
        let mut expected = 0;
        for block in 1..200 {
            assert_eq!(gate.wait_all_resting(LIMIT).unwrap(), 5);
            assert_eq!(sum.load(Relaxed), expected);
            gate.open(slice(block));
            expected += 5 * block;
        }
        gate.wait_all_resting(LIMIT).unwrap();
        gate.close();
        assert_eq!(gate.wait_all_gone(LIMIT), 0);
        assert_eq!(sum.load(Relaxed), expected);
    });
}

#[test]
fn a_failure_ends_the_wait_and_closing_releases_the_others() {
    let gate = StartGate::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(gate.rest(0).is_none());
            gate.leave();
        });
        gate.fail(Failure::new(Code::ScriptError, "broken"));
        gate.leave();
        let Err(WaitError::Failed(failure)) = gate.wait_all_resting(LIMIT) else { panic!("no failure") };
        assert_eq!(failure.message, "broken");
        gate.close();
        assert_eq!(gate.wait_all_gone(LIMIT), 0);
    });
}

#[test]
fn waiting_for_a_busy_worker_times_out() {
    let gate = StartGate::new(1);
    let Err(WaitError::TimedOut { busy }) = gate.wait_all_resting(Duration::from_millis(20)) else { panic!("rested") };
    assert_eq!(busy, 1);
}

#[test]
fn closing_ends_a_sleep() {
    let gate = StartGate::new(1);
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let (number, _) = gate.rest(0).unwrap();
            gate.sleep_until(number, bakeoff_metrics::now_ns() + 60_000_000_000);
            assert!(!gate.is_open(number));
            gate.leave();
        });
        gate.wait_all_resting(LIMIT).unwrap();
        gate.open(slice(0));
        std::thread::sleep(Duration::from_millis(20));
        gate.close();
        assert_eq!(gate.wait_all_gone(LIMIT), 0);
        sleeper.join().unwrap();
    });
}

#[test]
fn a_sleep_ends_at_its_time() {
    let gate = StartGate::new(1);
    let begun_ns = bakeoff_metrics::now_ns();
    gate.sleep_until(0, begun_ns + 5_000_000);
    let slept_ns = bakeoff_metrics::now_ns() - begun_ns;
    assert!((5_000_000..1_000_000_000).contains(&slept_ns), "{slept_ns}");
}

#[test]
fn the_barrier_waits_for_everyone_and_is_reusable() {
    let barrier = Barrier::new(4);
    let arrived = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 1..=50 {
                    arrived.fetch_add(1, SeqCst);
                    barrier.wait();
                    assert!(arrived.load(SeqCst) >= 4 * round);
                }
            });
        }
    });
}

#[test]
fn the_barrier_does_not_wait_for_workers_that_left() {
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| barrier.wait());
        std::thread::sleep(Duration::from_millis(10));
        barrier.leave();
    });
}

#[test]
fn breaking_the_barrier_releases_its_waiters() {
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| barrier.wait());
        std::thread::sleep(Duration::from_millis(10));
        barrier.break_up();
    });
    barrier.wait();
}
