//! The host of a measured worker: slice after slice until the gate closes, with counters that begin at zero in each.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use bakeoff_script::host::EventEnd;

use super::ThreadHost;
use super::event_clock::{Counted, EventClock, Schedule};
use crate::start_gate::Slice;
use crate::worker_pool::WorkerContext;

/// Restarts this thread's random streams from three numbers: key seed, block and thread.
pub type Reseed = fn(key_seed: u64, block: u64, thread: u32);

#[derive(Debug, Clone, Copy)]
pub struct SlicePlan {
    pub threads: u32,
    pub reseed: Reseed,
    pub key_seed: u64,
    pub slowdown_per_event: f64,
}

pub type SliceHost = EventClock<Slices>;

pub struct Slices {
    plan: SlicePlan,
    /// Injected events that are due. The fraction carries over between slices, so that none begins with a whole credit.
    injected_due: Cell<f64>,
}

impl SliceHost {
    pub fn new(plan: SlicePlan, context: &WorkerContext, host: Rc<ThreadHost>, counted: Counted) -> Self {
        // `injected_due` cycles from 0 to `1 + slowdown_per_event`. The arm's workers start spread over that cycle:
        // if all started with nothing due, each would run half an injected event too few.
        let place = (f64::from(context.thread) + 0.5) / f64::from(plan.threads);
        let injected_due = Cell::new(place * (1.0 + plan.slowdown_per_event));
        Self::scheduled(Slices { plan, injected_due }, context, host, counted)
    }

    /// The arm's first (0) or second (1) turn of the block, and when its slice began [ns of the clock].
    pub(crate) fn place(&self) -> (u64, u64) {
        let slice = self.slice.slice.borrow();
        slice.as_ref().map_or((0, 0), |slice| (slice.turn, slice.start_ns))
    }

    pub(crate) fn next_statement(&self, intended_ns: Option<u64>) -> bool {
        self.event.injected.set(self.schedule.injected_due.get() >= 1.0);
        self.event.in_window.set(true);
        match intended_ns.filter(|_| !self.is_injected()) {
            Some(intended_ns) => self.wait_for(intended_ns),
            None => self.event.origin_ns.set(self.boundary_ns()),
        }
        self.is_open()
    }

    /// Counts the error of a statement that was not sent, so it has no event.
    pub(crate) fn count_unsent(&self, code: u16) {
        self.stats.counters().add_errors(code, 1);
    }

    pub(crate) fn is_injected(&self) -> bool {
        self.event.injected.get()
    }

    #[inline]
    fn next_in_slice(&self) -> bool {
        if !self.is_open() {
            return false;
        }
        self.event.injected.set(self.schedule.injected_due.get() >= 1.0);
        if self.slice.open_loop.get() {
            if self.is_injected() {
                self.event.origin_ns.set(self.boundary_ns());
                return true;
            }
            return self.next_intended(|_| true);
        }
        self.begin_at_boundary();
        !self.is_past_deadline() || self.keeps_loading()
    }

    /// Closed loop: whether another, uncounted event begins because other windows are not over. Beside idle connections
    /// their events would be faster. So the load goes on for at most two of the worker's mean latencies.
    #[cold]
    fn keeps_loading(&self) -> bool {
        let (current, now_ns) = (&self.slice, self.boundary_ns());
        self.event.in_window.set(false);
        let slice = current.slice.borrow();
        let Some(slice) = slice.as_deref() else { return false };
        if !current.window_over.replace(true) {
            self.stats.end_slice(now_ns);
            slice.open_windows.fetch_sub(1, Relaxed);
            // With fewer than four events two latencies would be more than half a slice.
            let latency_ns = (slice.deadline_ns - slice.guard_end_ns) / self.stats.counters().events.get().max(4);
            current.load_end_ns.set(current.load_end_ns.get().min(slice.deadline_ns + 2 * latency_ns));
        }
        slice.open_windows.load(Relaxed) > 0 && now_ns < current.load_end_ns.get()
    }
}

impl Schedule for Slices {
    fn begin(clock: &SliceHost, number: u32, slice: &Slice) {
        clock.stats.begin_slice(number);
        if slice.turn == 0 {
            let plan = &clock.schedule.plan;
            (plan.reseed)(plan.key_seed, slice.block, clock.thread);
        }
    }

    #[inline]
    fn more_events(clock: &SliceHost) -> bool {
        while !(clock.slice.running.get() && clock.next_in_slice()) {
            if !clock.rest() {
                return false;
            }
        }
        true
    }

    #[inline]
    fn event_stopped(clock: &SliceHost, end: EventEnd) {
        clock.event.counted.set(false);
        if end == EventEnd::Done {
            // Events in the guard bring injected ones too: the sequence continues across slices.
            let Self { plan, injected_due } = &clock.schedule;
            let step = if clock.is_injected() { -1.0 } else { plan.slowdown_per_event };
            injected_due.set(injected_due.get() + step);
        }
    }
}
