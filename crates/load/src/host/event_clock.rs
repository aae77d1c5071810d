//! When events begin and end, and what is counted of them, in slices and runs alike. Whether an event counts is decided
//! at its start. A closed loop reads the clock once per event.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use bakeoff_metrics::now_ns;
use bakeoff_script::host::{Counter, EventEnd, Events, HostRef, Reply};

use super::ThreadHost;
use crate::arrivals::Piece;
use crate::start_gate::{Slice, StartGate};
use crate::worker_pool::WorkerContext;
use crate::worker_stats::{LatencyStore, WorkerStats};

/// A free worker that begins an open-loop event later than this after its intended start counts a late start [ns].
const LATE_NS: u64 = 1_000_000;

/// What differs between measured slices and a run.
pub trait Schedule: Sized + 'static {
    fn begin(_clock: &EventClock<Self>, _number: u32, _slice: &Slice) {}

    fn more_events(clock: &EventClock<Self>) -> bool;

    fn counts(clock: &EventClock<Self>) -> bool {
        clock.event.counted.get()
    }

    fn event_stopped(_clock: &EventClock<Self>, _end: EventEnd) {}

    fn may_restart(_clock: &EventClock<Self>) -> bool {
        true
    }
}

pub(super) type Counted = (Arc<WorkerStats>, LatencyStore);

pub struct EventClock<S> {
    pub(super) schedule: S,
    pub thread: u32,
    pub thread_host: Rc<ThreadHost>,
    gate: Arc<StartGate>,
    pub(super) stats: Arc<WorkerStats>,
    pub(crate) latencies: LatencyStore,
    pub(super) slice: CurrentSlice,
    pub(super) event: Event,
}

/// The slice that the worker is in, in cells that an event reads without following a pointer.
#[derive(Default)]
pub(super) struct CurrentSlice {
    pub(super) slice: RefCell<Option<Arc<Slice>>>,
    piece: RefCell<Option<Arc<Piece>>>,
    pub(super) number: Cell<u32>,
    pub(super) running: Cell<bool>,
    pub(super) open_loop: Cell<bool>,
    pub(super) guard_end_ns: Cell<u64>,
    pub(super) deadline_ns: Cell<u64>,
    pub(super) window_over: Cell<bool>,
    /// Closed loop: no event begins from here on, whether it would count or not [ns of the clock].
    pub(super) load_end_ns: Cell<u64>,
}

#[derive(Default)]
pub(super) struct Event {
    /// The last reading of the clock: end of the last event, start of the next [ns].
    pub(super) boundary_ns: Cell<u64>,
    /// Start of the latency: the intended start in an open loop, else the start [ns].
    pub(super) origin_ns: Cell<u64>,
    pub(super) in_window: Cell<bool>,
    pub(super) counted: Cell<bool>,
    pub(super) injected: Cell<bool>,
    /// Operations that the event turned out to be. Emptied but never freed, so that naming one allocates nothing.
    operations: RefCell<Vec<usize>>,
    sent_bytes: Cell<u64>,
    received_bytes: Cell<u64>,
}

impl<S: Schedule> EventClock<S> {
    pub(super) fn scheduled(schedule: S, context: &WorkerContext, host: Rc<ThreadHost>, counted: Counted) -> Self {
        let (stats, latencies) = counted;
        let (slice, event) = <(CurrentSlice, Event)>::default();
        let gate = Arc::clone(&context.gate);
        Self { schedule, thread: context.thread, thread_host: host, gate, stats, latencies, slice, event }
    }

    pub fn for_script(self: Rc<Self>) -> HostRef {
        HostRef::new(Rc::clone(&self.thread_host), self)
    }

    #[inline]
    pub fn boundary_ns(&self) -> u64 {
        self.event.boundary_ns.get()
    }

    pub fn is_past_deadline(&self) -> bool {
        self.boundary_ns() >= self.slice.deadline_ns.get()
    }

    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.gate.is_open(self.slice.number.get())
    }

    pub(crate) fn look_at_clock(&self) {
        self.event.boundary_ns.set(now_ns());
    }

    /// Waits for the next slice. Returns false if none follows.
    pub fn rest(&self) -> bool {
        let current = &self.slice;
        current.running.set(false);
        current.slice.take();
        current.piece.take();
        if !current.window_over.take() {
            self.stats.end_slice(self.boundary_ns());
        }
        self.latencies.add_if_half_full();
        let Some((number, slice)) = self.gate.rest(current.number.get()) else { return false };
        current.number.set(number);
        current.open_loop.set(slice.schedule.is_some());
        current.guard_end_ns.set(slice.guard_end_ns);
        current.deadline_ns.set(slice.deadline_ns);
        current.load_end_ns.set(u64::MAX);
        current.piece.replace(slice.schedule.as_ref().map(|schedule| schedule.first()));
        S::begin(self, number, &slice);
        current.slice.replace(Some(slice));
        self.look_at_clock();
        current.running.set(true);
        true
    }

    pub(crate) fn operation_is(&self, operation: usize) {
        let mut operations = self.event.operations.borrow_mut();
        if !operations.contains(&operation) {
            operations.push(operation);
        }
    }

    /// Open loop: takes the next intended start and waits for it. False if there is none or `may_begin` refuses it.
    pub(super) fn next_intended(&self, may_begin: impl FnOnce(bool) -> bool) -> bool {
        let Some(intended_ns) = self.take_intended() else {
            // A slice lasts as long as it was asked to, even if no more events are due.
            self.sleep_until(self.slice.deadline_ns.get());
            self.look_at_clock();
            return false;
        };
        let in_window = intended_ns >= self.slice.guard_end_ns.get();
        if !may_begin(in_window) {
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

    pub(super) fn wait_for(&self, intended_ns: u64) {
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
    pub(super) fn begin_at_boundary(&self) -> bool {
        let in_window = self.boundary_ns() >= self.slice.guard_end_ns.get();
        self.event.origin_ns.set(self.boundary_ns());
        self.event.in_window.set(in_window);
        in_window
    }

    fn sleep_until(&self, until_ns: u64) {
        self.gate.sleep_until(self.slice.number.get(), until_ns);
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
        self.latencies.record(&operations, latency_ns);
    }
}

impl<S: Schedule> Events for EventClock<S> {
    #[inline]
    fn more_events(&self) -> bool {
        S::more_events(self)
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
        let (event, counts) = (&self.event, S::counts(self));
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
        S::event_stopped(self, end);
    }

    fn event_restart(&self) -> bool {
        if S::counts(self) {
            self.stats.counters().retries.add(1);
        }
        self.event.operations.borrow_mut().clear();
        self.is_open() && S::may_restart(self)
    }

    #[inline]
    fn count_reply(&self, reply: &Reply) {
        if S::counts(self) {
            self.stats.add_reply(reply);
        }
    }

    fn count_error(&self, code: u16) {
        self.thread_host.environment.ignored_error(code);
        if S::counts(self) {
            self.stats.counters().add_errors(code, 1);
        }
    }

    fn count(&self, counter: Counter, amount: u64) {
        if S::counts(self) {
            self.stats.add(counter, amount);
        }
    }

    fn counter(&self, counter: Counter) -> u64 {
        self.stats.value(counter)
    }

    fn operation(&self, name: &str) {
        self.operation_is(self.latencies.operation(name));
    }

    fn think(&self, duration_ns: u64) {
        let begun_ns = now_ns();
        let until_ns = begun_ns.saturating_add(duration_ns).min(self.slice.deadline_ns.get());
        // After the deadline nobody thinks any more: further events would be more load than the slice had.
        self.slice.load_end_ns.set(self.slice.deadline_ns.get());
        self.sleep_until(until_ns);
        let woken_ns = now_ns();
        if self.stats.is_in_event() {
            // Keying within an event: the latency starts later by that much.
            self.event.origin_ns.set(self.event.origin_ns.get() + (woken_ns - begun_ns));
        } else {
            self.event.boundary_ns.set(woken_ns);
        }
    }
}
