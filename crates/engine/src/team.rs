//! The threads of one arm: one worker a connection, and a conductor for what the script does once for all of them.
//!
//! A team is set up in parallel, rests at its gate between slices, and is always joined: orderly at the end, or by cutting its
//! connections when something failed. A worker that can be had by neither (a script that never returns) makes the failure fatal.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bakeoff_metrics::SliceTotals;

use crate::barrier::Barrier;
use crate::connector::Connector;
use crate::contract::{Code, Failure};
use crate::desk::Desk;
use crate::gate::{Gate, WaitError};
use crate::host::{Event, LoadHost, Reseed};
use crate::latencies::Latencies;
use crate::canceller::Canceller;
use crate::net::ServerAddress;
use crate::message_writer::MessageWriter;
use crate::placement::Pairing;
use crate::slice::Slice;

/// C stack of a worker. LuaJIT's own data is on the heap; its parser and our debug builds want some hundred kilobytes.
const STACK_BYTES: usize = 1 << 20;
/// How long workers may take to say goodbye to their server before their connections are cut.
const GOODBYE: Duration = Duration::from_secs(10);
/// How long workers may take to end after that.
const LAST_GRACE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(2);

/// What the threads of an arm run; a script, or a test's law of service times.
pub trait Workload: Send + Sync + 'static {
    /// Once for all workers: prepares, calls `while_workers_run` (which returns when they are gone), and tidies up.
    ///
    /// # Errors
    /// Ends the request; workers do not start.
    fn conduct(&self, host: Rc<LoadHost>, while_workers_run: &dyn Fn()) -> Result<(), Failure> {
        drop(host);
        while_workers_run();
        Ok(())
    }

    /// One worker: sets itself up, then runs events as long as `host.more_events()` says so.
    ///
    /// # Errors
    /// Ends the request.
    fn work(&self, host: Rc<LoadHost>) -> Result<(), Failure>;
}

/// What a team is made of.
pub struct TeamPlan {
    /// The arm's name.
    pub arm: String,
    /// Its server.
    pub address: Arc<ServerAddress>,
    /// Number of workers, at least 1.
    pub threads: u32,
    /// Of the random streams.
    pub key_seed: u64,
    /// Starts a thread's random streams anew.
    pub reseed: Reseed,
    /// Uncounted events for each hundred counted ones.
    pub slowdown_percent: f64,
    /// Where `print` goes.
    pub writer: MessageWriter,
    /// Pairs the threads of the workers' connections; `None`: they run where the kernel puts them.
    pub pairing: Option<Arc<Pairing>>,
}

/// What all workers of an arm did in one slice.
#[derive(Debug, Default)]
pub struct SliceSum {
    /// Sums over the workers.
    pub totals: SliceTotals,
    /// Workers that took part.
    pub connections: u64,
    /// When the last of them came to rest [ns of the clock].
    pub rested_ns: u64,
}

/// The running threads of one arm.
pub struct Team {
    arm: String,
    gate: Arc<Gate>,
    barriers: [Arc<Barrier>; 2],
    desks: Vec<Arc<Desk>>,
    cancellers: Vec<Arc<Canceller>>,
    workers: Vec<JoinHandle<Latencies>>,
    conductor: Option<Conductor>,
    /// Number of the present slice.
    slice: u32,
}

/// The conductor's thread and the word that it waits for.
struct Conductor {
    thread: JoinHandle<Result<(), Failure>>,
    finish: Sender<()>,
}

/// What one thread of a team gets; becomes its host.
struct Seat {
    plan: Arc<TeamPlan>,
    thread: u32,
    gate: Arc<Gate>,
    desk: Arc<Desk>,
    canceller: Arc<Canceller>,
    /// Passed when the conductor has initialised.
    start: Arc<Barrier>,
    /// The script's own.
    barrier: Arc<Barrier>,
}

impl Team {
    /// Starts all threads; they set themselves up in parallel.
    ///
    /// # Errors
    /// The system gives no more threads; those that were started are ended.
    pub fn start(plan: TeamPlan, workload: &Arc<dyn Workload>) -> Result<Self, Failure> {
        let plan = Arc::new(plan);
        let threads = plan.threads as usize;
        let start = Arc::new(Barrier::new(threads + 1));
        let barrier = Arc::new(Barrier::new(threads));
        let mut team = Self {
            arm: plan.arm.clone(),
            // The conductor counts as one until it has initialised.
            gate: Arc::new(Gate::new(threads + 1)),
            barriers: [Arc::clone(&start), Arc::clone(&barrier)],
            desks: Vec::with_capacity(threads),
            cancellers: Vec::with_capacity(threads + 1),
            workers: Vec::with_capacity(threads),
            conductor: None,
            slice: 0,
        };
        let mut seat = |thread: u32| {
            let seat = Seat {
                plan: Arc::clone(&plan),
                thread,
                gate: Arc::clone(&team.gate),
                desk: Arc::default(),
                canceller: Arc::default(),
                start: Arc::clone(&start),
                barrier: Arc::clone(&barrier),
            };
            team.cancellers.push(Arc::clone(&seat.canceller));
            seat
        };
        let mut seats: Vec<Seat> = (0..plan.threads).map(&mut seat).collect();
        let conductor_seat = seat(plan.threads);
        team.desks = seats.iter().map(|seat| Arc::clone(&seat.desk)).collect();

        let (finish, finished) = channel();
        let load = Arc::clone(workload);
        let conductor = spawn(&plan.arm, "c", move || {
            conductor_seat.conduct(&*load, &finished)
        });
        let mut missing = seats.len() + usize::from(conductor.is_err());
        let mut refused = conductor
            .map(|thread| team.conductor = Some(Conductor { thread, finish }))
            .err();
        for seat in seats.drain(..) {
            if refused.is_some() {
                break;
            }
            let (load, name) = (Arc::clone(workload), seat.thread.to_string());
            match spawn(&plan.arm, &name, move || seat.work(&*load)) {
                Ok(thread) => {
                    team.workers.push(thread);
                    missing -= 1;
                }
                Err(failure) => refused = Some(failure),
            }
        }
        match refused {
            None => Ok(team),
            Some(failure) => {
                // Those that never came to be cannot leave by themselves.
                (0..missing).for_each(|_| team.gate.leave(Ok(())));
                Err(team.abandon(failure))
            }
        }
    }

    /// Waits up to `limit` until every worker is set up or at rest; returns how many live.
    ///
    /// # Errors
    /// [`WaitError`].
    pub fn wait_resting(&self, limit: Duration) -> Result<usize, WaitError> {
        self.gate.wait_all_resting(limit)
    }

    /// Starts a slice; all workers must be at rest.
    pub fn begin(&mut self, slice: &Arc<Slice>) {
        self.slice = self.gate.open(Arc::clone(slice));
    }

    /// What the workers did in the slice last begun; they must be at rest.
    pub fn slice_sum(&self) -> SliceSum {
        let mut sum = SliceSum::default();
        for (totals, rested_ns) in self
            .desks
            .iter()
            .filter_map(|desk| desk.totals_of(self.slice))
        {
            sum.totals.merge(&totals);
            sum.connections += 1;
            sum.rested_ns = sum.rested_ns.max(rested_ns);
        }
        sum
    }

    /// Ends the team in order and returns its latencies.
    ///
    /// # Errors
    /// What the conductor's tidying up failed with, or a fatal failure when a thread does not end.
    pub fn end(mut self) -> Result<Latencies, Failure> {
        self.gate.close();
        if self.gate.wait_all_gone(GOODBYE) > 0 {
            self.cut();
        }
        self.join()?;
        if let Some(failure) = self.gate.failure() {
            return Err(failure);
        }
        let mut latencies = Latencies::default();
        for worker in self.workers.drain(..) {
            if let Ok(part) = worker.join() {
                latencies.merge(&part);
            }
        }
        Ok(latencies)
    }

    /// Ends the team because of `failure`: connections are cut, threads joined. Returns the failure, made fatal if one cannot be.
    #[must_use]
    pub fn abandon(mut self, failure: Failure) -> Failure {
        self.cut();
        match self.join() {
            Err(stuck) if stuck.fatal => Failure {
                fatal: true,
                message: format!("{}; {}", failure.message, stuck.message),
                ..failure
            },
            _ => failure,
        }
    }

    /// The first failure of any thread, if there is one already.
    pub fn failure(&self) -> Option<Failure> {
        self.gate.failure()
    }

    /// Makes every blocking call of the threads return.
    pub fn cut(&self) {
        self.gate.close();
        self.cancellers.iter().for_each(|canceller| canceller.cut());
        self.barriers.iter().for_each(|barrier| barrier.break_up());
    }

    /// Waits for all threads to end; they have been told to.
    fn join(&mut self) -> Result<(), Failure> {
        let stuck = self.gate.wait_all_gone(LAST_GRACE);
        if stuck > 0 {
            let message = format!(
                "{stuck} worker threads do not end: the script does not return from event()"
            );
            return Err(Failure {
                fatal: true,
                ..Failure::new(Code::Internal, message)
            }
            .on_arm(&self.arm));
        }
        let Some(Conductor { thread, finish }) = self.conductor.take() else {
            return Ok(());
        };
        // A conductor that has ended by itself listens no more.
        let _ = finish.send(());
        let until = Instant::now() + LAST_GRACE;
        while !thread.is_finished() {
            if Instant::now() > until {
                let message = "the script does not return from init() or done()";
                return Err(Failure {
                    fatal: true,
                    ..Failure::new(Code::Internal, message)
                }
                .on_arm(&self.arm));
            }
            std::thread::sleep(POLL);
        }
        thread.join().unwrap_or(Ok(()))
    }
}

impl Drop for Team {
    /// For a coordinator that panics: whoever ended the team has emptied it before.
    fn drop(&mut self) {
        self.cut();
    }
}

/// Starts a thread of an arm, with a stack for LuaJIT.
pub(crate) fn spawn<T: Send + 'static>(
    arm: &str,
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Failure> {
    spawn_with_stack(arm, name, STACK_BYTES, body)
}

/// As [`spawn`], with a stack of so many bytes.
pub(crate) fn spawn_with_stack<T: Send + 'static>(
    arm: &str,
    name: &str,
    stack_bytes: usize,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Failure> {
    let thread = std::thread::Builder::new()
        .name(format!("{arm}/{name}"))
        .stack_size(stack_bytes);
    thread.spawn(body).map_err(|error| {
        let message = format!("no more threads: {error}; raise `ulimit -u` or use fewer threads");
        Failure::new(Code::Internal, message).on_arm(arm)
    })
}

impl Seat {
    fn connector(&self) -> Connector {
        // The conductor's number is the first after the workers'; its connections are not measured.
        let pairing = self.plan.pairing.as_ref();
        let paired = pairing
            .filter(|_| self.thread < self.plan.threads)
            .map(|pairing| pairing.worker(self.thread));
        Connector::new(Arc::clone(&self.plan.address), Arc::clone(&self.canceller)).paired(paired)
    }

    fn host(&self) -> Rc<LoadHost> {
        let slowdown_per_event = self.plan.slowdown_percent / 100.0;
        let place = (f64::from(self.thread) + 0.5) / f64::from(self.plan.threads);
        Rc::new(LoadHost {
            connector: self.connector(),
            gate: Arc::clone(&self.gate),
            desk: Arc::clone(&self.desk),
            barrier: Arc::clone(&self.barrier),
            writer: self.plan.writer.clone(),
            reseed: self.plan.reseed,
            key_seed: self.plan.key_seed,
            thread: self.thread,
            slowdown_per_event,
            turn: Default::default(),
            event: Event::at_phase(place, slowdown_per_event),
            latencies: RefCell::default(),
        })
    }

    /// A worker's whole life.
    fn work(self, workload: &dyn Workload) -> Latencies {
        let host = self.host();
        let result = guarded(|| {
            self.start.wait();
            if self.gate.failure().is_some() || self.gate.is_closed() {
                return Ok(());
            }
            precise_sleep();
            workload.work(Rc::clone(&host))
        });
        self.barrier.leave();
        let latencies = host.latencies.take();
        self.gate
            .leave(result.map_err(|failure| failure.on_arm(&self.plan.arm)));
        latencies
    }

    /// The conductor's whole life. Its failure before the workers start is the gate's, a later one is returned.
    fn conduct(self, workload: &dyn Workload, finished: &Receiver<()>) -> Result<(), Failure> {
        let running = std::cell::Cell::new(false);
        let result = guarded(|| {
            workload.conduct(self.host(), &|| {
                running.set(true);
                self.gate.leave(Ok(()));
                self.start.wait();
                let _ = finished.recv();
            })
        });
        let result = result.map_err(|failure| failure.on_arm(&self.plan.arm));
        if running.get() {
            return result;
        }
        self.gate.leave(result);
        self.start.break_up();
        Ok(())
    }
}

/// Turns a panic into a failure: a bug in one worker must not take the request's answer with it.
pub(crate) fn guarded<T>(body: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let words = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        Err(Failure::new(
            Code::Internal,
            format!("a bug in the engine: panic in a worker: {words}"),
        ))
    })
}

/// Makes this thread's sleeps end on time: the kernel may otherwise add 50 us to each, to save wake-ups.
pub(crate) fn precise_sleep() {
    // SAFETY: sets a number of this thread; a kernel that does not know it answers with an error, and nothing is lost.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
}
