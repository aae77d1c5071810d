//! Tests of `src/barrier.rs`.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

#[test]
fn nobody_passes_before_all_have_come_and_it_can_be_used_again() {
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
fn those_who_leave_are_not_waited_for() {
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| barrier.wait());
        std::thread::sleep(Duration::from_millis(10));
        barrier.leave();
    });
}

#[test]
fn breaking_it_releases_those_who_wait() {
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| barrier.wait());
        std::thread::sleep(Duration::from_millis(10));
        barrier.break_up();
    });
    barrier.wait();
}

#[test]
fn no_more_than_its_places_are_inside() {
    let semaphore = Semaphore {
        places: Mutex::new(2),
        freed: Condvar::new(),
    };
    let (inside, most, passed) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                semaphore.pass(|| {
                    most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
                    std::thread::sleep(std::time::Duration::from_millis(2));
                    inside.fetch_sub(1, SeqCst);
                    passed.fetch_add(1, SeqCst);
                });
            });
        }
    });
    assert_eq!((passed.into_inner(), inside.into_inner()), (16, 0));
    assert!(most.into_inner() <= 2);
}
