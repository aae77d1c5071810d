//! The host of a worker in the drop-in's `run`, which ends by time or number of events. Counters are never reset.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bakeoff_metrics::now_ns;

use super::ThreadHost;
use super::event_clock::{Counted, EventClock, Schedule};
use crate::worker_pool::WorkerContext;

pub type RunHost = EventClock<RunPlan>;

pub struct RunPlan {
    /// How many counted events may still begin, None for no limit.
    pub events_left: Option<Arc<AtomicU64>>,
    pub counts_set_up: bool,
}

impl RunHost {
    pub fn new(run: RunPlan, context: &WorkerContext, host: Rc<ThreadHost>, counted: Counted) -> Self {
        let host = Self::scheduled(run, context, host, counted);
        host.event.counted.set(host.schedule.counts_set_up);
        host.slice.deadline_ns.set(u64::MAX);
        host
    }

    #[inline]
    fn may_begin(&self, in_window: bool) -> bool {
        match &self.schedule.events_left {
            Some(left) if in_window => left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok(),
            _ => true,
        }
    }

    /// As in sysbench, an event that outlasts the warm-up counts from then on.
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
}

impl Schedule for RunPlan {
    #[inline]
    fn more_events(clock: &RunHost) -> bool {
        if !clock.slice.running.get() || !clock.is_open() || clock.is_past_deadline() {
            return false;
        }
        if clock.slice.open_loop.get() {
            return clock.next_intended(|in_window| clock.may_begin(in_window));
        }
        clock.may_begin(clock.begin_at_boundary())
    }

    #[inline]
    fn counts(clock: &RunHost) -> bool {
        clock.event.counted.get() || clock.outlasts_warm_up()
    }

    /// An event that always fails ends with the run's time.
    fn may_restart(clock: &RunHost) -> bool {
        now_ns() < clock.slice.deadline_ns.get()
    }
}
