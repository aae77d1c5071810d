//! A pool of worker threads, started and ended together. A worker that fails closes the start gate and breaks the
//! barrier. Whoever waits for the pool then cuts the others' connections.

use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::failure::{Code, Failure};
use crate::net::ConnectionCanceller;
use crate::start_gate::{Barrier, StartGate};

/// C stack of a worker. LuaJIT's own data is on the heap, but its parser and our debug builds need hundreds of kB.
pub const STACK_BYTES: usize = 1 << 20;
/// How long threads may take to end once their connections are cut. One that is connecting may take ten seconds.
pub(crate) const ENDING_LIMIT: Duration = Duration::from_secs(12);
const POLL: Duration = Duration::from_millis(20);
const MANY_WORKERS: usize = 256;

#[derive(Debug, Clone, Copy)]
pub struct PoolOptions<'a> {
    pub name: &'a str,
    pub threads: u32,
    pub stack_bytes: usize,
}

#[derive(Debug, Clone)]
pub struct WorkerContext {
    pub thread: u32,
    pub gate: Arc<StartGate>,
    pub barrier: Arc<Barrier>,
    pub canceller: Arc<ConnectionCanceller>,
}

#[derive(Debug)]
pub struct WorkerPool {
    gate: Arc<StartGate>,
    barrier: Arc<Barrier>,
    cancellers: Vec<Arc<ConnectionCanceller>>,
    threads: Vec<JoinHandle<()>>,
    spawn_failure: Option<Failure>,
}

impl WorkerPool {
    pub fn start(
        options: PoolOptions<'_>,
        body: impl Fn(&WorkerContext) -> Result<(), Failure> + Send + Sync + 'static,
    ) -> Self {
        let gate = Arc::new(StartGate::new(options.threads as usize));
        Self::start_at(gate, options, body)
    }

    /// Starts all workers, each of which runs `body`. If the system has no more threads, the pool has failed and the
    /// started workers end.
    pub fn start_at(
        gate: Arc<StartGate>,
        options: PoolOptions<'_>,
        body: impl Fn(&WorkerContext) -> Result<(), Failure> + Send + Sync + 'static,
    ) -> Self {
        let PoolOptions { name, threads, stack_bytes } = options;
        let body = Arc::new(body);
        let mut pool = Self {
            gate,
            barrier: Arc::new(Barrier::new(threads as usize)),
            cancellers: Vec::with_capacity(threads as usize),
            threads: Vec::with_capacity(threads as usize),
            spawn_failure: None,
        };
        for thread in 0..threads {
            let context = pool.context(thread);
            pool.cancellers.push(Arc::clone(&context.canceller));
            let (arm, body) = (name.to_owned(), Arc::clone(&body));
            let worker = move || context.run(&arm, &*body);
            match spawn(name, &thread.to_string(), stack_bytes, worker) {
                Ok(handle) => pool.threads.push(handle),
                Err(failure) => {
                    pool.gate.fail(failure.clone());
                    pool.barrier.break_up();
                    // Threads that failed to spawn never call `leave`; do it for them.
                    (thread..threads).for_each(|_| pool.gate.leave());
                    pool.spawn_failure = Some(failure);
                    break;
                }
            }
        }
        pool
    }

    pub fn spawn_failure(&self) -> Option<&Failure> {
        self.spawn_failure.as_ref()
    }

    pub fn join(&mut self) {
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }

    pub(crate) fn context(&self, thread: u32) -> WorkerContext {
        WorkerContext {
            thread,
            gate: Arc::clone(&self.gate),
            barrier: Arc::clone(&self.barrier),
            canceller: Arc::default(),
        }
    }

    pub fn gate(&self) -> &StartGate {
        &self.gate
    }

    pub fn failure(&self) -> Option<Failure> {
        self.gate.failure()
    }

    pub fn cut_connections(&self) {
        self.cancellers.iter().for_each(|canceller| canceller.cut());
    }

    pub fn cut(&self) {
        self.gate.close();
        self.cut_connections();
        self.barrier.break_up();
    }

    /// Waits until all workers end. Cuts them if one fails or `is_cancelled`. Returns how many do not end even then.
    pub fn run_to_end(&self, is_cancelled: impl Fn() -> bool) -> usize {
        while self.gate.wait_all_gone(POLL) > 0 {
            if self.failure().is_some() || is_cancelled() {
                self.cut();
                return self.gate.wait_all_gone(ENDING_LIMIT);
            }
        }
        0
    }
}

impl WorkerContext {
    fn run(&self, arm: &str, body: &impl Fn(&WorkerContext) -> Result<(), Failure>) {
        // Sleeps end when they should. Best effort: older kernels cannot.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        if let Err(failure) = guarded(|| body(self)) {
            self.gate.fail(failure.on_arm(arm));
            self.barrier.break_up();
        }
        self.barrier.leave();
        self.gate.leave();
    }
}

pub fn spawn<T: Send + 'static>(
    arm: &str,
    name: &str,
    stack_bytes: usize,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Failure> {
    let thread = std::thread::Builder::new().name(format!("{arm}/{name}")).stack_size(stack_bytes);
    thread.spawn(body).map_err(|error| {
        let message = format!("cannot start another thread: {error}; raise `ulimit -u` or use fewer threads");
        Failure::new(Code::Internal, message).on_arm(arm)
    })
}

/// Turns a panic into a failure: a bug in one worker must not take the request's answer with it.
pub fn guarded<T>(body: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let words = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        Err(Failure::new(Code::Internal, format!("a bug in the engine: panic in a worker: {words}")))
    })
}

/// Raises the limit of open files as far as allowed. Thousands of connections may exceed a login's limit.
pub fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Returns freed pages to the system, a third of all memory with thousands of workers. Call it once the workers rest.
pub fn give_back_memory(workers: usize) {
    if workers >= MANY_WORKERS {
        // SAFETY: locks each arena while it looks at it; takes no pointers.
        unsafe { libc::malloc_trim(0) };
    }
}
