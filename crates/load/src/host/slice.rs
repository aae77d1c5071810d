//! The host of a measured worker: one slice after another until the gate closes, with counters that begin at zero in each.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bakeoff_script::host::{Counter, EventEnd, Events, HostRef, Reply};

use super::event_clock::{EventClock, common_accessors, forwarded_events};
use super::{Environment, ThreadHost};
use crate::connector::Connector;
use crate::worker_pool::WorkerContext;
use crate::worker_stats::{LatencyStore, WorkerStats};

/// Restarts this thread's random streams from three numbers: key seed, block and thread.
pub type Reseed = fn(key_seed: u64, block: u64, thread: u32);

#[derive(Debug, Clone, Copy)]
pub struct SlicePlan {
    pub threads: u32,
    pub reseed: Reseed,
    pub key_seed: u64,
    pub slowdown_per_event: f64,
}

pub struct SliceHost {
    clock: EventClock,
    thread: u32,
    plan: SlicePlan,
    /// Injected events that are due. The fraction is carried from slice to slice, so that no slice begins with a whole credit.
    injected_due: Cell<f64>,
}

impl SliceHost {
    pub fn new(
        context: &WorkerContext,
        plan: SlicePlan,
        environment: Arc<dyn Environment>,
        connector: Connector,
        counted: (Arc<WorkerStats>, LatencyStore),
    ) -> Self {
        let thread = ThreadHost::new(environment, connector, Arc::clone(&context.barrier));
        let clock = EventClock::new(&context.gate, thread, counted);
        // What is due cycles from 0 to `1 + slowdown_per_event`. The workers of an arm start at places spread over that cycle: if all
        // started with nothing due, each would run half an injected event too few.
        let place = (f64::from(context.thread) + 0.5) / f64::from(plan.threads);
        let injected_due = Cell::new(place * (1.0 + plan.slowdown_per_event));
        Self { clock, thread: context.thread, plan, injected_due }
    }

    common_accessors!();

    pub fn rest(&self) -> bool {
        let Some((number, slice)) = self.clock.rest() else {
            return false;
        };
        self.clock.stats.begin_slice(number);
        if slice.turn == 0 {
            (self.plan.reseed)(self.plan.key_seed, slice.block, self.thread);
        }
        self.clock.begin();
        true
    }

    /// The arm's first (0) or second (1) turn of the block, and when its slice began [ns of the clock].
    pub(crate) fn place(&self) -> (u64, u64) {
        let slice = self.clock.slice.slice.borrow();
        slice.as_ref().map_or((0, 0), |slice| (slice.turn, slice.start_ns))
    }

    pub(crate) fn next_statement(&self, intended_ns: Option<u64>) -> bool {
        let event = &self.clock.event;
        event.injected.set(self.injected_due.get() >= 1.0);
        event.in_window.set(true);
        match intended_ns.filter(|_| !event.injected.get()) {
            Some(intended_ns) => self.clock.wait_for(intended_ns),
            None => event.origin_ns.set(event.boundary_ns.get()),
        }
        self.clock.is_open()
    }

    pub(crate) fn is_injected(&self) -> bool {
        self.clock.event.injected.get()
    }

    pub(crate) fn operation_is(&self, operation: usize) {
        self.clock.operation_is(operation);
    }

    pub(crate) fn look_at_clock(&self) {
        self.clock.look_at_clock();
    }

    pub(crate) fn latencies(&self) -> &LatencyStore {
        &self.clock.latencies
    }

    #[inline]
    fn next_in_slice(&self) -> bool {
        let clock = &self.clock;
        if !clock.is_open() {
            return false;
        }
        clock.event.injected.set(self.injected_due.get() >= 1.0);
        if clock.slice.open_loop.get() {
            if self.is_injected() {
                // It takes no intended start and follows its event at once.
                clock.event.origin_ns.set(clock.boundary_ns());
                return true;
            }
            return clock.next_intended(|_| true);
        }
        clock.begin_at_boundary();
        !clock.is_past_deadline() || self.keeps_loading()
    }

    /// Closed loop: whether another, uncounted event begins because other windows are not over. Beside idle connections
    /// their events would be faster. So the load goes on for two of the worker's mean latencies at least.
    #[cold]
    fn keeps_loading(&self) -> bool {
        let (clock, current) = (&self.clock, &self.clock.slice);
        let now_ns = clock.boundary_ns();
        clock.event.in_window.set(false);
        let slice = current.slice.borrow();
        let Some(slice) = slice.as_deref() else {
            return false;
        };
        if !current.window_over.replace(true) {
            clock.stats.end_slice(now_ns);
            slice.open_windows.fetch_sub(1, Relaxed);
            // With fewer than four events two latencies would be more than half a slice.
            let latency_ns = (slice.deadline_ns - slice.guard_end_ns) / clock.stats.counters().events.get().max(4);
            current.load_end_ns.set(current.load_end_ns.get().min(slice.deadline_ns + 2 * latency_ns));
        }
        slice.open_windows.load(Relaxed) > 0 && now_ns < current.load_end_ns.get()
    }

    #[inline]
    fn counts(&self) -> bool {
        self.clock.event.counted.get()
    }
}

impl Events for SliceHost {
    #[inline]
    fn more_events(&self) -> bool {
        while !(self.clock.slice.running.get() && self.next_in_slice()) {
            if !self.rest() {
                return false;
            }
        }
        true
    }

    #[inline]
    fn event_stop(&self, end: EventEnd) {
        self.clock.look_at_clock();
        self.clock.event_stop(end, self.counts());
        if end == EventEnd::Done {
            // Events of the guard bring injected ones, too: the sequence continues across slices.
            let step = if self.is_injected() { -1.0 } else { self.plan.slowdown_per_event };
            self.injected_due.set(self.injected_due.get() + step);
        }
        self.clock.event.counted.set(false);
    }

    /// Returns false once the gate is closed, so that an event that always fails ends with its request.
    fn event_restart(&self) -> bool {
        self.clock.event_restart(self.counts());
        self.clock.is_open()
    }

    forwarded_events!();
}
