//! The host of a measured worker: when events begin and end, and what is counted of them. Whether an event counts is
//! decided at its start. A closed loop reads the clock once per event.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bakeoff_metrics::now_ns;
use bakeoff_script::host::{Counter, EventEnd, Events, HostRef, Reply};

use super::{Environment, ThreadHost};
use crate::arrivals::Piece;
use crate::connector::Connector;
use crate::start_gate::{Slice, StartGate};
use crate::worker_pool::WorkerContext;
use crate::worker_stats::{LatencyStore, WorkerStats};

/// A free worker that begins an open-loop event later than this after its intended start counts a late start [ns].
const LATE_NS: u64 = 1_000_000;

/// Restarts this thread's random streams from three numbers: key seed, block and thread.
pub type Reseed = fn(key_seed: u64, block: u64, thread: u32);

#[derive(Debug, Clone, Copy)]
pub struct SlicePlan {
    pub threads: u32,
    pub reseed: Reseed,
    pub key_seed: u64,
    pub slowdown_per_event: f64,
}

pub enum Mode {
    /// One slice after another until the gate closes, with counters that begin at zero in each.
    Slices(SlicePlan),
    /// The drop-in's `run`, which its deadline or its number of events ends. Counters are never reset.
    Run { events_left: Option<Arc<AtomicU64>>, counts_set_up: bool },
}

pub struct WorkerHost {
    thread: u32,
    thread_host: Rc<ThreadHost>,
    gate: Arc<StartGate>,
    stats: Arc<WorkerStats>,
    latencies: LatencyStore,
    slice: CurrentSlice,
    event: Event,
    mode: Mode,
    /// Injected events that are due. The fraction is carried from slice to slice, so that no slice begins with a whole credit.
    injected_due: Cell<f64>,
}

/// The slice that the worker is in, in cells that an event reads without following a pointer.
#[derive(Default)]
struct CurrentSlice {
    slice: RefCell<Option<Arc<Slice>>>,
    piece: RefCell<Option<Arc<Piece>>>,
    number: Cell<u32>,
    running: Cell<bool>,
    open_loop: Cell<bool>,
    guard_end_ns: Cell<u64>,
    deadline_ns: Cell<u64>,
    window_over: Cell<bool>,
    /// Closed loop: no event begins from here on, whether it would count or not [ns of the clock].
    load_end_ns: Cell<u64>,
}

#[derive(Default)]
struct Event {
    /// The last reading of the clock: end of the last event, start of the next [ns].
    boundary_ns: Cell<u64>,
    /// Start of the latency: the intended start in an open loop, else the start [ns].
    origin_ns: Cell<u64>,
    in_window: Cell<bool>,
    counted: Cell<bool>,
    injected: Cell<bool>,
    /// Operations that the event turned out to be. Emptied but never freed, so that naming one allocates nothing.
    operations: RefCell<Vec<usize>>,
    sent_bytes: Cell<u64>,
    received_bytes: Cell<u64>,
}

impl WorkerHost {
    pub fn new(
        context: &WorkerContext,
        mode: Mode,
        environment: Arc<dyn Environment>,
        connector: Connector,
        (stats, latencies): (Arc<WorkerStats>, LatencyStore),
    ) -> Self {
        let gate = Arc::clone(&context.gate);
        let (slice, event, injected_due) = <(CurrentSlice, Event, Cell<f64>)>::default();
        let thread_host = match &mode {
            Mode::Slices(plan) => {
                // What is due cycles from 0 to `1 + slowdown_per_event`. The workers of an arm start at places spread over that cycle:
                // if all started with nothing due, each would run half an injected event too few.
                let place = (f64::from(context.thread) + 0.5) / f64::from(plan.threads);
                injected_due.set(place * (1.0 + plan.slowdown_per_event));
                ThreadHost::new(environment, connector, Arc::clone(&context.barrier))
            }
            Mode::Run { counts_set_up, .. } => {
                event.counted.set(*counts_set_up);
                slice.deadline_ns.set(u64::MAX);
                ThreadHost::in_run(environment, connector, Arc::clone(&gate))
            }
        };
        Self { thread: context.thread, thread_host, gate, stats, latencies, slice, event, mode, injected_due }
    }

    pub fn for_script(self: Rc<Self>) -> HostRef {
        HostRef::new(Rc::clone(&self.thread_host), self)
    }

    pub fn thread_host(&self) -> &ThreadHost {
        &self.thread_host
    }

    pub fn thread(&self) -> u32 {
        self.thread
    }

    pub(crate) fn latencies(&self) -> &LatencyStore {
        &self.latencies
    }

    #[inline]
    pub fn boundary_ns(&self) -> u64 {
        self.event.boundary_ns.get()
    }

    pub fn is_past_deadline(&self) -> bool {
        self.boundary_ns() >= self.slice.deadline_ns.get()
    }

    #[inline]
    fn is_open(&self) -> bool {
        self.gate.is_open(self.slice.number.get())
    }

    pub(crate) fn look_at_clock(&self) {
        self.event.boundary_ns.set(now_ns());
    }

    pub fn rest(&self) -> bool {
        let current = &self.slice;
        current.running.set(false);
        current.slice.take();
        current.piece.take();
        if !current.window_over.take() {
            self.stats.end_slice(self.boundary_ns());
        }
        let Some((number, slice)) = self.gate.rest(current.number.get()) else {
            return false;
        };
        current.number.set(number);
        current.open_loop.set(slice.schedule.is_some());
        current.guard_end_ns.set(slice.guard_end_ns);
        current.deadline_ns.set(slice.deadline_ns);
        current.load_end_ns.set(u64::MAX);
        current.piece.replace(slice.schedule.as_ref().map(|schedule| schedule.first()));
        if let Mode::Slices(plan) = &self.mode {
            self.stats.begin_slice(number);
            if slice.turn == 0 {
                (plan.reseed)(plan.key_seed, slice.block, self.thread);
            }
        }
        current.slice.replace(Some(slice));
        self.look_at_clock();
        current.running.set(true);
        true
    }

    /// The arm's first (0) or second (1) turn of the block, and when its slice began [ns of the clock].
    pub(crate) fn place(&self) -> (u64, u64) {
        let slice = self.slice.slice.borrow();
        slice.as_ref().map_or((0, 0), |slice| (slice.turn, slice.start_ns))
    }

    pub(crate) fn next_statement(&self, intended_ns: Option<u64>) -> bool {
        let event = &self.event;
        event.injected.set(self.injected_due.get() >= 1.0);
        event.in_window.set(true);
        match intended_ns.filter(|_| !self.is_injected()) {
            Some(intended_ns) => self.wait_for(intended_ns),
            None => event.origin_ns.set(event.boundary_ns.get()),
        }
        self.is_open()
    }

    pub(crate) fn is_injected(&self) -> bool {
        self.event.injected.get()
    }

    pub(crate) fn operation_is(&self, operation: usize) {
        let mut operations = self.event.operations.borrow_mut();
        if !operations.contains(&operation) {
            operations.push(operation);
        }
    }

    #[inline]
    fn next_in_slice(&self) -> bool {
        if !self.is_open() {
            return false;
        }
        self.event.injected.set(self.injected_due.get() >= 1.0);
        if self.slice.open_loop.get() {
            if self.is_injected() {
                self.event.origin_ns.set(self.boundary_ns());
                return true;
            }
            return self.next_intended();
        }
        self.begin_at_boundary();
        !self.is_past_deadline() || self.keeps_loading()
    }

    #[inline]
    fn next_in_run(&self) -> bool {
        if !self.is_open() || self.is_past_deadline() {
            return false;
        }
        if self.slice.open_loop.get() { self.next_intended() } else { self.may_begin(self.begin_at_boundary()) }
    }

    #[inline]
    fn may_begin(&self, in_window: bool) -> bool {
        match &self.mode {
            Mode::Run { events_left: Some(left), .. } if in_window => {
                left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
            }
            _ => true,
        }
    }

    /// Open loop: takes the next intended start and waits for it. Returns false if there is none or no event may begin.
    fn next_intended(&self) -> bool {
        let Some(intended_ns) = self.take_intended() else {
            // A slice lasts as long as it was asked to, even if no more events are due.
            self.sleep_until(self.slice.deadline_ns.get());
            self.look_at_clock();
            return false;
        };
        let in_window = intended_ns >= self.slice.guard_end_ns.get();
        if !self.may_begin(in_window) {
            return false;
        }
        self.event.in_window.set(in_window);
        self.wait_for(intended_ns);
        self.is_open()
    }

    fn take_intended(&self) -> Option<u64> {
        let (slice, mut piece) = (self.slice.slice.borrow(), self.slice.piece.borrow_mut());
        let schedule = slice.as_deref()?.schedule.as_ref()?;
        schedule.take(piece.as_mut()?, self.boundary_ns())
    }

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

    /// Closed loop: the next event begins where the last one ended. Returns whether that is after the guard.
    #[inline]
    fn begin_at_boundary(&self) -> bool {
        let in_window = self.boundary_ns() >= self.slice.guard_end_ns.get();
        self.event.origin_ns.set(self.boundary_ns());
        self.event.in_window.set(in_window);
        in_window
    }

    fn sleep_until(&self, until_ns: u64) {
        self.gate.sleep_until(self.slice.number.get(), until_ns);
    }

    /// Closed loop: whether another, uncounted event begins because other windows are not over. Beside idle connections
    /// their events would be faster. So the load goes on for two of the worker's mean latencies at least.
    #[cold]
    fn keeps_loading(&self) -> bool {
        let (current, now_ns) = (&self.slice, self.boundary_ns());
        self.event.in_window.set(false);
        let slice = current.slice.borrow();
        let Some(slice) = slice.as_deref() else {
            return false;
        };
        if !current.window_over.replace(true) {
            self.stats.end_slice(now_ns);
            slice.open_windows.fetch_sub(1, Relaxed);
            // With fewer than four events two latencies would be more than half a slice.
            let latency_ns = (slice.deadline_ns - slice.guard_end_ns) / self.stats.counters().events.get().max(4);
            current.load_end_ns.set(current.load_end_ns.get().min(slice.deadline_ns + 2 * latency_ns));
        }
        slice.open_windows.load(Relaxed) > 0 && now_ns < current.load_end_ns.get()
    }

    /// Whether what happens now counts. As in sysbench, an event that outlasts the warm-up of a run counts from then on.
    #[inline]
    fn counts(&self) -> bool {
        self.event.counted.get() || matches!(self.mode, Mode::Run { .. }) && self.outlasts_warm_up()
    }

    #[cold]
    fn outlasts_warm_up(&self) -> bool {
        let Self { slice, event, stats, .. } = self;
        let crosses = slice.running.get() && !event.in_window.get() && stats.is_in_event();
        let counts = crosses && now_ns() >= slice.guard_end_ns.get() && self.may_begin(true);
        event.counted.set(counts);
        event.in_window.set(counts);
        if counts {
            stats.counters().open_window(slice.guard_end_ns.get());
        }
        counts
    }

    fn record_event(&self) {
        let event = &self.event;
        let latency_ns = self.boundary_ns().saturating_sub(event.origin_ns.get());
        let counters = self.stats.counters();
        counters.add_event(latency_ns);
        let traffic = self.thread_host.connector.traffic();
        counters.sent_bytes.add(traffic.sent_bytes.get() - event.sent_bytes.get());
        counters.received_bytes.add(traffic.received_bytes.get() - event.received_bytes.get());
        let operations = event.operations.borrow();
        self.latencies.with(|latencies| latencies.record(&operations, latency_ns));
    }
}

impl Events for WorkerHost {
    #[inline]
    fn more_events(&self) -> bool {
        match self.mode {
            Mode::Run { .. } => self.slice.running.get() && self.next_in_run(),
            Mode::Slices(_) => loop {
                if self.slice.running.get() && self.next_in_slice() {
                    return true;
                }
                if !self.rest() {
                    return false;
                }
            },
        }
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
        let traffic = self.thread_host.connector.traffic();
        event.sent_bytes.set(traffic.sent_bytes.get());
        event.received_bytes.set(traffic.received_bytes.get());
    }

    #[inline]
    fn event_stop(&self, end: EventEnd) {
        self.look_at_clock();
        let (event, counts) = (&self.event, self.counts());
        self.stats.set_in_event(false);
        if end == EventEnd::Done {
            if event.in_window.get() {
                self.stats.counters().extend_window(self.boundary_ns());
            }
            if counts {
                self.record_event();
            } else if !event.injected.get() {
                self.stats.counters().outside_events.add(1);
            }
        }
        if let Mode::Slices(plan) = &self.mode {
            event.counted.set(false);
            if end == EventEnd::Done {
                // Events of the guard bring injected ones, too: the sequence continues across slices.
                let step = if self.is_injected() { -1.0 } else { plan.slowdown_per_event };
                self.injected_due.set(self.injected_due.get() + step);
            }
        }
    }

    /// Returns false once the gate is closed or the run's time is over, so that an event that always fails ends too.
    fn event_restart(&self) -> bool {
        if self.counts() {
            self.stats.counters().retries.add(1);
        }
        self.event.operations.borrow_mut().clear();
        let in_time = matches!(self.mode, Mode::Slices(_)) || now_ns() < self.slice.deadline_ns.get();
        self.is_open() && in_time
    }

    #[inline]
    fn count_reply(&self, reply: &Reply) {
        if self.counts() {
            self.stats.add_reply(reply);
        }
    }

    fn count_error(&self, code: u16) {
        self.thread_host.environment.ignored_error(code);
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
        let until_ns = begun_ns.saturating_add(duration_ns).min(self.slice.deadline_ns.get());
        // After the deadline nobody thinks any more: further events would be more load than the slice had.
        self.slice.load_end_ns.set(self.slice.deadline_ns.get());
        self.sleep_until(until_ns);
        let woken_ns = now_ns();
        if self.stats.is_in_event() {
            // Keying within an event: the latency begins later by as much.
            self.event.origin_ns.set(self.event.origin_ns.get() + (woken_ns - begun_ns));
        } else {
            self.event.boundary_ns.set(woken_ns);
        }
    }
}
