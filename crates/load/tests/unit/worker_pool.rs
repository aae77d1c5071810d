//! Tests of `src/worker_pool.rs`.

use std::time::Duration;

use crate::failure::{Code, Failure};
use crate::worker_pool::{PoolOptions, STACK_BYTES, WorkerPool};

const OPTIONS: PoolOptions<'_> = PoolOptions { name: "A", threads: 4, stack_bytes: STACK_BYTES };

#[test]
fn workers_return_what_they_made() {
    let mut pool = WorkerPool::start(OPTIONS, |context| Ok(context.thread));
    assert_eq!(pool.run_to_end(|| false), 0);
    assert_eq!(pool.take_results(), [0, 1, 2, 3]);
}

#[test]
fn a_panic_ends_the_others_and_is_the_pools_failure() {
    let pool = WorkerPool::<()>::start(OPTIONS, |context| {
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
    let pool = WorkerPool::start(OPTIONS, |context| Ok(context.gate.rest(0).is_none()));
    assert_eq!(pool.run_to_end(|| true), 0);
    assert!(pool.failure().is_none());
}

#[test]
fn a_cancelled_pool_waits_for_connections_that_are_being_made() {
    // A server that drops packets keeps a connect for its whole limit, ten seconds; nobody can cut it before it is made.
    let connecting = Duration::from_millis(5_500);
    let pool = WorkerPool::start(OPTIONS, move |_| {
        std::thread::sleep(connecting);
        Err::<(), _>(Failure::new(Code::ConnectFailed, "timed out"))
    });
    assert_eq!(pool.run_to_end(|| true), 0);
}
