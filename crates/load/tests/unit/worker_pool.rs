//! Tests of `src/worker_pool.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use crate::failure::{Code, Failure};
use crate::worker_pool::{PoolOptions, STACK_BYTES, WorkerPool};

const OPTIONS: PoolOptions<'_> = PoolOptions { name: "A", threads: 4, stack_bytes: STACK_BYTES };

#[test]
fn each_worker_runs_once_and_is_joined() {
    let runs: Arc<[AtomicU32; 4]> = Arc::default();
    let counts = Arc::clone(&runs);
    let mut pool = WorkerPool::start(OPTIONS, move |context| {
        counts[context.thread as usize].fetch_add(1, Relaxed);
        Ok(())
    });
    assert_eq!(pool.run_to_end(|| false), 0);
    pool.join();
    assert_eq!(runs.each_ref().map(|each| each.load(Relaxed)), [1; 4]);
}

#[test]
fn a_panic_ends_the_others_and_is_the_pools_failure() {
    let pool = WorkerPool::start(OPTIONS, |context| {
        assert!(context.thread != 2, "out of order");
        context.barrier.wait();
        Ok(())
    });
    assert_eq!(pool.run_to_end(|| false), 0);
    let failure = pool.failure().expect("failed");
    assert_eq!((failure.code, failure.arm.as_deref()), (Code::Internal, Some("A")));
    assert!(failure.message.contains("out of order"), "{failure}");
}

#[test]
fn a_cancelled_pool_ends() {
    let pool = WorkerPool::start(OPTIONS, |context| {
        assert!(context.gate.rest(0).is_none());
        Ok(())
    });
    assert_eq!(pool.run_to_end(|| true), 0);
    assert!(pool.failure().is_none());
}

#[test]
fn a_cancelled_pool_waits_for_pending_connects() {
    // If a server drops packets, a connect takes its full limit of ten seconds. It cannot be cut before it is made.
    let connecting = Duration::from_millis(5_500);
    let pool = WorkerPool::start(OPTIONS, move |_| {
        std::thread::sleep(connecting);
        Err(Failure::new(Code::ConnectFailed, "timed out"))
    });
    assert_eq!(pool.run_to_end(|| true), 0);
}
