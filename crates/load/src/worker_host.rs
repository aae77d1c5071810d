//! What a script sees of its worker while it runs events: when the next event may begin, and what is counted of it.
//!
//! [`WorkerHost::more_events`] is where a worker rests between slices, so the script's own loop needs to know nothing of arms. What
//! is counted is decided once an event, at its start: not within the guard, not after the slice's end, and not when the event is an
//! injected one. One clock reading an event in a closed loop: the end of an event is the start of the next.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bakeoff_metrics::now_ns;
use bakeoff_script::host::{ConnectTarget, Connection, Counter, EventEnd, Host, LogLevel, NullHost, Reply, SqlError};
use bakeoff_script::{ScriptError, SqlCall};

use crate::arrivals::Piece;
use crate::connector::Connector;
use crate::start_gate::{Barrier, Slice, StartGate};
use crate::worker_pool::WorkerContext;
use crate::worker_stats::{LatencyStore, WorkerStats};

/// An open-loop event that begins later than this after its intended start, by a worker that was free, is the client's fault [ns].
const LATE_NS: u64 = 1_000_000;

/// Starts the random streams of this thread anew, from the three numbers (key seed, block, thread).
pub type Reseed = fn(key_seed: u64, block: u64, thread: u32);

/// The program around the workers: where their connections come from and their messages go.
pub trait Environment: Send + Sync + 'static {
    /// Opens a connection for a script.
    ///
    /// # Errors
    /// As [`Connector::connect`].
    fn connect(&self, connector: &Connector, target: &ConnectTarget) -> Result<Box<dyn Connection>, SqlError> {
        connector.connect(target)
    }

    /// As [`Host::driver`].
    ///
    /// # Errors
    /// Why there is none.
    fn driver(&self, name: &str) -> Result<(), String> {
        NullHost.driver(name)
    }

    /// A line of the script, or about it.
    fn log(&self, level: LogLevel, message: &str);

    /// A script has survived this server error.
    fn ignored_error(&self, _code: u16) {}

    /// One thread of a command has done so much more of `total`.
    fn progress(&self, _label: &str, _done: u64, _total: u64) {}

    /// As [`Host::statement_failed`].
    fn statement_failed(&self, _call: SqlCall, _error: &SqlError, _query: &[u8]) {}

    /// A command has failed with this, before any other thread of it.
    fn command_failed(&self, _error: &ScriptError) {}
}

/// What a worker's events are arranged by.
#[derive(Debug)]
pub enum Mode {
    /// One slice after another, until the gate closes. Counters begin at zero in each.
    Slices {
        /// Starts the random streams anew at an arm's first slice of a block.
        reseed: Reseed,
        /// Of the random streams.
        key_seed: u64,
        /// Uncounted events to be run for each counted one.
        slowdown_per_event: f64,
    },
    /// One run, which its deadline or its number of events ends. Counters are never reset.
    Run {
        /// Counted events that may still begin; none: no limit.
        events_left: Option<Arc<AtomicU64>>,
        /// Statements before the first event count, too.
        counts_set_up: bool,
    },
}

/// One worker's [`Host`].
pub struct WorkerHost {
    environment: Arc<dyn Environment>,
    connector: Connector,
    gate: Arc<StartGate>,
    barrier: Arc<Barrier>,
    stats: Arc<WorkerStats>,
    thread: u32,
    mode: Mode,
    present: PresentSlice,
    event: Event,
    latencies: LatencyStore,
}

/// The slice that the worker is in, in cells that an event reads without following a pointer.
#[derive(Default)]
struct PresentSlice {
    slice: RefCell<Option<Arc<Slice>>>,
    /// Open loop: where the worker takes its intended starts.
    piece: RefCell<Option<Arc<Piece>>>,
    number: Cell<u32>,
    running: Cell<bool>,
    open_loop: Cell<bool>,
    guard_end_ns: Cell<u64>,
    deadline_ns: Cell<u64>,
    /// Closed loop: the worker's window is over.
    window_over: Cell<bool>,
    /// Closed loop: no event begins from here on, be it counted or not [ns of the clock].
    load_end_ns: Cell<u64>,
}

/// The event that is running, or the last one.
#[derive(Default)]
struct Event {
    /// The last reading of the clock: end of the last event, start of the next [ns].
    boundary_ns: Cell<u64>,
    /// Where the latency begins: the intended start in an open loop, else the start [ns].
    origin_ns: Cell<u64>,
    /// Begun after the guard.
    in_window: Cell<bool>,
    counted: Cell<bool>,
    /// Run only to slow the arm down.
    injected: Cell<bool>,
    /// Injected events that are due; the fraction is carried from slice to slice, so that no slice begins with a whole credit.
    injected_due: Cell<f64>,
    /// Operations that the event turned out to be; emptied, never freed, so that naming allocates nothing.
    operations: RefCell<Vec<usize>>,
    sent_bytes: Cell<u64>,
    received_bytes: Cell<u64>,
}

impl WorkerHost {
    /// The host of the worker `context`, of `threads` in its pool.
    pub fn new(
        context: &WorkerContext,
        threads: u32,
        mode: Mode,
        environment: Arc<dyn Environment>,
        connector: Connector,
        (stats, latencies): (Arc<WorkerStats>, LatencyStore),
    ) -> Self {
        let (present, event) = (PresentSlice::default(), Event::default());
        match &mode {
            // What is due goes round from 0 to `1 + slowdown_per_event`. The workers of an arm begin at places, from 0 to 1, spread
            // over that round: if each began with nothing due, each would have half an injected event too few.
            Mode::Slices { slowdown_per_event, .. } => {
                let place = (f64::from(context.thread) + 0.5) / f64::from(threads);
                event.injected_due.set(place * (1.0 + slowdown_per_event));
            }
            Mode::Run { counts_set_up, .. } => {
                event.counted.set(*counts_set_up);
                present.deadline_ns.set(u64::MAX);
            }
        }
        Self {
            environment,
            connector,
            gate: Arc::clone(&context.gate),
            barrier: Arc::clone(&context.barrier),
            stats,
            thread: context.thread,
            mode,
            present,
            event,
            latencies,
        }
    }

    /// The worker's number within its pool, from 0.
    pub fn thread(&self) -> u32 {
        self.thread
    }

    /// The end of the last event, or the last look at the clock [ns of the clock].
    pub fn boundary_ns(&self) -> u64 {
        self.event.boundary_ns.get()
    }

    /// Has the time for events run out?
    pub fn is_past_deadline(&self) -> bool {
        self.boundary_ns() >= self.present.deadline_ns.get()
    }

    /// The arm's first (0) or second (1) turn of the block, and when its slice began [ns of the clock].
    pub(crate) fn place(&self) -> (u64, u64) {
        let slice = self.present.slice.borrow();
        slice.as_ref().map_or((0, 0), |slice| (slice.turn, slice.start_ns))
    }

    /// A replay: may the next statement begin? Waits for its intended start where it has one.
    pub(crate) fn next_statement(&self, intended_ns: Option<u64>) -> bool {
        let event = &self.event;
        event.injected.set(event.injected_due.get() >= 1.0);
        event.in_window.set(true);
        match intended_ns.filter(|_| !event.injected.get()) {
            Some(intended_ns) => self.wait_for(intended_ns),
            None => event.origin_ns.set(event.boundary_ns.get()),
        }
        self.is_open()
    }

    /// Is the event that begins one that only slows the arm down?
    pub(crate) fn is_injected(&self) -> bool {
        self.event.injected.get()
    }

    /// The event is one of this operation, by its number.
    pub(crate) fn operation_is(&self, operation: usize) {
        let mut operations = self.event.operations.borrow_mut();
        if !operations.contains(&operation) {
            operations.push(operation);
        }
    }

    /// What went before is no part of the next event.
    pub(crate) fn look_at_clock(&self) {
        self.event.boundary_ns.set(now_ns());
    }

    pub(crate) fn latencies(&self) -> &LatencyStore {
        &self.latencies
    }

    /// Rests until the next slice; false when there is none.
    pub fn rest(&self) -> bool {
        let present = &self.present;
        present.running.set(false);
        present.slice.take();
        present.piece.take();
        if !present.window_over.take() {
            self.stats.end_slice(self.boundary_ns());
        }
        let Some((number, slice)) = self.gate.rest(present.number.get()) else {
            return false;
        };
        present.number.set(number);
        present.open_loop.set(slice.schedule.is_some());
        present.guard_end_ns.set(slice.guard_end_ns);
        present.deadline_ns.set(slice.deadline_ns);
        present.load_end_ns.set(u64::MAX);
        if let Mode::Slices { reseed, key_seed, .. } = self.mode {
            self.stats.begin_slice(number);
            if slice.turn == 0 {
                reseed(key_seed, slice.block, self.thread);
            }
        }
        present.piece.replace(slice.schedule.as_ref().map(|schedule| schedule.first()));
        present.slice.replace(Some(slice));
        self.look_at_clock();
        present.running.set(true);
        true
    }

    #[inline]
    fn is_open(&self) -> bool {
        self.gate.is_open(self.present.number.get())
    }

    #[inline]
    fn is_run(&self) -> bool {
        matches!(self.mode, Mode::Run { .. })
    }

    /// Is there another event to begin in this slice? Waits for its intended start in an open loop.
    #[inline]
    fn next_in_slice(&self) -> bool {
        if !self.is_open() {
            return false;
        }
        let event = &self.event;
        event.injected.set(event.injected_due.get() >= 1.0);
        let now_ns = event.boundary_ns.get();
        if self.present.open_loop.get() {
            return self.next_intended(now_ns);
        }
        let in_window = now_ns >= self.present.guard_end_ns.get();
        event.origin_ns.set(now_ns);
        if now_ns >= self.present.deadline_ns.get() {
            event.in_window.set(false);
            return self.keeps_loading(now_ns);
        }
        event.in_window.set(in_window);
        self.may_begin(in_window)
    }

    /// Closed loop, after the worker's window: is there another event to begin, not to be counted, because other windows are not over?
    ///
    /// An event of theirs that ran beside idle connections would be faster than those before it. So the load goes on, for two of the
    /// worker's mean latencies and half a slice at most: some connections wait far longer than others for their CPU.
    #[cold]
    fn keeps_loading(&self, now_ns: u64) -> bool {
        let (present, slice) = (&self.present, self.present.slice.borrow());
        let Some(slice) = slice.as_deref().filter(|_| !self.is_run()) else {
            return false;
        };
        if !present.window_over.replace(true) {
            self.stats.end_slice(now_ns);
            slice.open_windows.fetch_sub(1, Relaxed);
            // With fewer than four events two latencies would be more than half a slice.
            let latency_ns = (slice.deadline_ns - slice.guard_end_ns) / self.stats.counters().events.get().max(4);
            present.load_end_ns.set(present.load_end_ns.get().min(slice.deadline_ns + 2 * latency_ns));
        }
        slice.open_windows.load(Relaxed) > 0 && now_ns < present.load_end_ns.get()
    }

    /// Open loop: takes the next intended start and waits for it. An injected event takes none, it follows its event at once.
    fn next_intended(&self, now_ns: u64) -> bool {
        if self.event.injected.get() {
            self.event.origin_ns.set(now_ns);
            return true;
        }
        if self.is_run() && self.is_past_deadline() {
            return false;
        }
        let Some(intended_ns) = self.take_intended(now_ns) else {
            // A run or a slice lasts as long as it was asked to, also when no event is due any more.
            self.sleep_until(self.present.deadline_ns.get());
            self.look_at_clock();
            return false;
        };
        let in_window = intended_ns >= self.present.guard_end_ns.get();
        if !self.may_begin(in_window) {
            return false;
        }
        self.event.in_window.set(in_window);
        self.wait_for(intended_ns);
        self.is_open()
    }

    /// Waits for the intended start of the event, whose latency begins there.
    fn wait_for(&self, intended_ns: u64) {
        if self.boundary_ns() < intended_ns {
            self.sleep_until(intended_ns);
            // A sleep that the gate cut short must not start an event before its time.
            let woken_ns = now_ns().max(intended_ns);
            self.event.boundary_ns.set(woken_ns);
            if self.event.in_window.get() && woken_ns > intended_ns + LATE_NS {
                self.stats.counters().late_starts.add(1);
            }
        }
        self.event.origin_ns.set(intended_ns);
    }

    fn take_intended(&self, now_ns: u64) -> Option<u64> {
        let (slice, mut piece) = (self.present.slice.borrow(), self.present.piece.borrow_mut());
        let schedule = slice.as_deref()?.schedule.as_ref()?;
        schedule.take(piece.as_mut()?, now_ns)
    }

    /// Takes one of the run's events where their number is limited; false when none is left.
    #[inline]
    fn may_begin(&self, in_window: bool) -> bool {
        match &self.mode {
            Mode::Run { events_left: Some(left), .. } if in_window => {
                left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
            }
            _ => true,
        }
    }

    /// Does what happens now count? In a run an event counts that outlasts the warm-up, from then on, as in sysbench.
    #[inline]
    fn counts(&self) -> bool {
        self.event.counted.get() || (self.is_run() && self.outlasts_warm_up())
    }

    #[cold]
    fn outlasts_warm_up(&self) -> bool {
        let (present, event) = (&self.present, &self.event);
        let crosses = present.running.get() && !event.in_window.get() && self.stats.is_in_event();
        let counts = crosses && now_ns() >= present.guard_end_ns.get() && self.may_begin(true);
        event.counted.set(counts);
        event.in_window.set(counts);
        if counts {
            self.stats.counters().open_window(present.guard_end_ns.get());
        }
        counts
    }

    /// Less long when the gate closes.
    fn sleep_until(&self, until_ns: u64) {
        self.gate.sleep_until(self.present.number.get(), until_ns);
    }

    fn record_event(&self, now_ns: u64) {
        let event = &self.event;
        let latency_ns = now_ns.saturating_sub(event.origin_ns.get());
        let counters = self.stats.counters();
        counters.add_event(latency_ns);
        let traffic = self.connector.traffic();
        counters.sent_bytes.add(traffic.sent_bytes.get() - event.sent_bytes.get());
        counters.received_bytes.add(traffic.received_bytes.get() - event.received_bytes.get());
        let operations = event.operations.borrow();
        self.latencies.with(|latencies| latencies.record(&operations, latency_ns));
    }
}

impl Host for WorkerHost {
    fn connect(&self, target: &ConnectTarget) -> Result<Box<dyn Connection>, SqlError> {
        self.environment.connect(&self.connector, target)
    }

    fn driver(&self, name: &str) -> Result<(), String> {
        self.environment.driver(name)
    }

    /// sysbench does not outlive its server.
    fn reconnect_for(&self) -> Duration {
        Duration::from_secs(if self.is_run() { 0 } else { 10 })
    }

    #[inline]
    fn more_events(&self) -> bool {
        while !(self.present.running.get() && self.next_in_slice()) {
            if self.is_run() || !self.rest() {
                return false;
            }
        }
        true
    }

    #[inline]
    fn event_start(&self) {
        let event = &self.event;
        if event.in_window.get() {
            self.stats.counters().open_window(event.boundary_ns.get());
        }
        event.counted.set(event.in_window.get() && !event.injected.get());
        self.stats.set_in_event(true);
        event.operations.borrow_mut().clear();
        let traffic = self.connector.traffic();
        event.sent_bytes.set(traffic.sent_bytes.get());
        event.received_bytes.set(traffic.received_bytes.get());
    }

    #[inline]
    fn event_stop(&self, end: EventEnd) {
        let event = &self.event;
        let now_ns = now_ns();
        event.boundary_ns.set(now_ns);
        let counts = self.counts();
        self.stats.set_in_event(false);
        if end == EventEnd::Done {
            if event.in_window.get() {
                self.stats.counters().extend_window(now_ns);
            }
            if counts {
                self.record_event(now_ns);
            } else if !event.injected.get() {
                self.stats.counters().outside_events.add(1);
            }
        }
        let Mode::Slices { slowdown_per_event, .. } = self.mode else {
            return;
        };
        if end == EventEnd::Done {
            // Events of the guard bring injected ones, too: the sequence of counted and uncounted goes on as if there were no slices.
            let step = if event.injected.get() { -1.0 } else { slowdown_per_event };
            event.injected_due.set(event.injected_due.get() + step);
        }
        event.counted.set(false);
    }

    /// An event that fails for ever must not outlast a request that has ended, nor the time of a run.
    fn event_restart(&self) -> bool {
        if self.counts() {
            self.stats.counters().retries.add(1);
        }
        self.event.operations.borrow_mut().clear();
        self.is_open() && (!self.is_run() || now_ns() < self.present.deadline_ns.get())
    }

    #[inline]
    fn count_reply(&self, reply: &Reply) {
        if self.counts() {
            self.stats.add_reply(reply);
        }
    }

    /// Behind a closed gate it fails because its connection was cut, or after another has been reported.
    fn statement_failed(&self, call: SqlCall, error: &SqlError, query: &[u8]) {
        if !self.aborted() {
            self.environment.statement_failed(call, error, query);
        }
    }

    fn count_error(&self, code: u16) {
        self.environment.ignored_error(code);
        if self.counts() {
            self.stats.counters().add_errors(code, 1);
        }
    }

    fn count(&self, counter: Counter, amount: u64) {
        if self.counts() {
            self.stats.add(counter, amount);
        }
    }

    fn counter(&self, counter: Counter) -> u64 {
        self.stats.value(counter)
    }

    fn operation(&self, name: &str) {
        self.operation_is(self.latencies.with(|latencies| latencies.operation(name)));
    }

    fn think(&self, duration_ns: u64) {
        let begun_ns = now_ns();
        let until_ns = begun_ns.saturating_add(duration_ns).min(self.present.deadline_ns.get());
        // After the deadline nobody thinks any more: further events would be more load than the slice had.
        self.present.load_end_ns.set(self.present.deadline_ns.get());
        self.sleep_until(until_ns);
        let woken_ns = now_ns();
        if self.stats.is_in_event() {
            // Keying within an event: the latency begins later by as much.
            self.event.origin_ns.set(self.event.origin_ns.get() + (woken_ns - begun_ns));
        } else {
            self.event.boundary_ns.set(woken_ns);
        }
    }

    /// sysbench knows barriers in commands only, so a run of the drop-in has none.
    fn barrier(&self) {
        if !self.is_run() {
            self.barrier.wait();
        }
    }

    fn aborted(&self) -> bool {
        if self.is_run() { self.gate.is_closed() } else { self.barrier.is_broken() }
    }

    fn log(&self, level: LogLevel, message: &str) {
        self.environment.log(level, message);
    }
}
