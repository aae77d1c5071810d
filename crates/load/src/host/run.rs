//! The host of a worker of the drop-in's `run`: one run that its deadline or its number of events ends. Counters are never reset.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bakeoff_metrics::now_ns;
use bakeoff_script::host::{Counter, EventEnd, Events, HostRef, Reply};

use super::event_clock::{EventClock, common_accessors, forwarded_events};
use super::{Environment, ThreadHost};
use crate::connector::Connector;
use crate::worker_pool::WorkerContext;
use crate::worker_stats::{LatencyStore, WorkerStats};

pub struct RunHost {
    clock: EventClock,
    thread: u32,
    events_left: Option<Arc<AtomicU64>>,
}

impl RunHost {
    /// `events_left` is how many counted events may still begin, None for no limit.
    pub fn new(
        context: &WorkerContext,
        (events_left, counts_set_up): (Option<Arc<AtomicU64>>, bool),
        environment: Arc<dyn Environment>,
        connector: Connector,
        counted: (Arc<WorkerStats>, LatencyStore),
    ) -> Self {
        let thread = ThreadHost::in_run(environment, connector, Arc::clone(&context.gate));
        let clock = EventClock::new(&context.gate, thread, counted);
        clock.event.counted.set(counts_set_up);
        clock.slice.deadline_ns.set(u64::MAX);
        Self { clock, thread: context.thread, events_left }
    }

    common_accessors!();

    pub fn rest(&self) -> bool {
        let begins = self.clock.rest().is_some();
        if begins {
            self.clock.begin();
        }
        begins
    }

    #[inline]
    fn may_begin(&self, in_window: bool) -> bool {
        match &self.events_left {
            Some(left) if in_window => left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok(),
            _ => true,
        }
    }

    /// Whether what happens now counts. As in sysbench, an event that outlasts the warm-up counts from then on.
    #[inline]
    fn counts(&self) -> bool {
        self.clock.event.counted.get() || self.outlasts_warm_up()
    }

    #[cold]
    fn outlasts_warm_up(&self) -> bool {
        let EventClock { slice, event, stats, .. } = &self.clock;
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

impl Events for RunHost {
    #[inline]
    fn more_events(&self) -> bool {
        let clock = &self.clock;
        if !clock.slice.running.get() || !clock.is_open() || clock.is_past_deadline() {
            return false;
        }
        if clock.slice.open_loop.get() {
            return clock.next_intended(|in_window| self.may_begin(in_window));
        }
        self.may_begin(clock.begin_at_boundary())
    }

    #[inline]
    fn event_stop(&self, end: EventEnd) {
        self.clock.look_at_clock();
        self.clock.event_stop(end, self.counts());
    }

    /// Returns false once the run's time is over, so that an event that always fails does not outlast it.
    fn event_restart(&self) -> bool {
        self.clock.event_restart(self.counts());
        self.clock.is_open() && now_ns() < self.clock.slice.deadline_ns.get()
    }

    forwarded_events!();
}
