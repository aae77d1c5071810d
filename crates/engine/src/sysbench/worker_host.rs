//! The world of a worker while it runs events: when the next one may begin, and what is counted of it.
//!
//! One clock reading an event when events follow each other: the end of one is the start of the next.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bakeoff_metrics::now_ns;
use bakeoff_script::host::{
    ConnectTarget, Connection, Counter, EventEnd, Host, LogLevel, Reply, SqlError,
};

use super::console::Console;
use super::pace::Pace;
use super::session::{Session, tell};
use super::tally::{Seat, Tally};
use super::semaphore::Semaphore;
use crate::connector::Connector;
use crate::counting;
use crate::gate::Gate;
use crate::placement::Pairing;
use crate::slice::Slice;

/// What the workers of a run share.
pub(super) struct Load {
    pub(super) session: Arc<Session>,
    /// `--placement=paired`.
    pub(super) pairing: Option<Arc<Pairing>>,
    pub(super) gate: Gate,
    pub(super) tally: Tally,
    /// `--events`: counted events that may still begin; none: no limit.
    pub(super) events_left: Option<AtomicU64>,
    /// `--rate`; set when the run starts.
    pub(super) pace: std::sync::OnceLock<Pace>,
    /// Where workers load their scripts.
    pub(super) loading: Semaphore,
    /// Statements of `thread_init()` count, as in sysbench; unless there is a warm-up, whose end begins the counting,
    /// or the script loads the server in there.
    pub(super) warms_up: bool,
}

/// One worker's [`Host`].
pub(super) struct WorkerHost {
    load: Arc<Load>,
    thread: u32,
    connector: Connector,
    /// Number of the gate's slice; the run is its first.
    slice: Cell<u32>,
    count_from_ns: Cell<u64>,
    deadline_ns: Cell<u64>,
    /// The last reading of the clock: end of the last event, start of the next [ns].
    boundary_ns: Cell<u64>,
    /// Where the latency begins: the intended start with `--rate`, else the start [ns].
    origin_ns: Cell<u64>,
    counted: Cell<bool>,
    sent_bytes: Cell<u64>,
    received_bytes: Cell<u64>,
    /// Names of the present event.
    operations: RefCell<Vec<String>>,
}

impl WorkerHost {
    pub(super) fn new(load: &Arc<Load>, thread: u32, connector: Connector) -> Self {
        Self {
            load: Arc::clone(load),
            thread,
            connector,
            slice: Cell::new(0),
            count_from_ns: Cell::new(0),
            deadline_ns: Cell::new(u64::MAX),
            boundary_ns: Cell::new(0),
            origin_ns: Cell::new(0),
            counted: Cell::new(!load.warms_up),
            sent_bytes: Cell::new(0),
            received_bytes: Cell::new(0),
            operations: RefCell::default(),
        }
    }

    /// Waits until every worker is ready and the run begins; false: it never does.
    pub(super) fn wait_for_start(&self) -> bool {
        let Some((number, slice)) = self.load.gate.rest(0) else {
            return false;
        };
        let Slice {
            guard_end_ns,
            deadline_ns,
            ..
        } = *slice;
        self.slice.set(number);
        self.count_from_ns.set(guard_end_ns);
        self.deadline_ns.set(deadline_ns);
        self.boundary_ns.set(now_ns());
        self.load.tally.arrive();
        true
    }

    /// No more events will begin.
    pub(super) fn end(&self) {
        self.load.tally.depart(self.boundary_ns.get());
    }

    /// Where this worker's script is loaded.
    pub(super) fn loading(&self) -> &Semaphore {
        &self.load.loading
    }

    /// Where messages go.
    pub(super) fn console(&self) -> &Console {
        &self.load.session.console
    }

    /// Why there are no more events, for `--verbosity=4`; `None` when the script or a failure ended them.
    pub(super) fn reason_of_end(&self) -> Option<&'static str> {
        let no_tickets = || {
            let left = self.load.events_left.as_ref();
            left.is_some_and(|left| left.load(Relaxed) == 0)
        };
        if self.boundary_ns.get() >= self.deadline_ns.get() {
            Some("Time limit exceeded, exiting...")
        } else if no_tickets() {
            Some("Event limit exceeded, exiting...")
        } else {
            None
        }
    }

    fn seat(&self) -> &Seat {
        self.load.tally.seat(self.thread)
    }

    fn is_open(&self) -> bool {
        self.load.gate.is_open(self.slice.get())
    }

    /// Takes one of `--events`; false when there are none left.
    fn take_ticket(&self, origin_ns: u64) -> bool {
        match &self.load.events_left {
            Some(left) if origin_ns >= self.count_from_ns.get() => left
                .fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1))
                .is_ok(),
            _ => true,
        }
    }

    /// Takes the next intended start and waits for it.
    fn wait_for_intended(&self, pace: &Pace) -> Option<u64> {
        let Some(intended_ns) = pace.take() else {
            // The run lasts as long as it was asked to, also when no event is due any more.
            let deadline_ns = self.deadline_ns.get();
            self.load.gate.sleep_until(self.slice.get(), deadline_ns);
            self.boundary_ns.set(now_ns());
            return None;
        };
        if !self.take_ticket(intended_ns) {
            return None;
        }
        if self.boundary_ns.get() < intended_ns {
            self.load.gate.sleep_until(self.slice.get(), intended_ns);
            self.boundary_ns.set(now_ns());
        }
        Some(intended_ns)
    }
}

impl Host for WorkerHost {
    fn connect(&self, target: &ConnectTarget) -> Result<Box<dyn Connection>, SqlError> {
        self.load.session.connect(&self.connector, target)
    }

    #[inline]
    fn more_events(&self) -> bool {
        let now_ns = self.boundary_ns.get();
        if !self.is_open() || now_ns >= self.deadline_ns.get() {
            return false;
        }
        let origin_ns = match self.load.pace.get() {
            None => self.take_ticket(now_ns).then_some(now_ns),
            Some(pace) => self.wait_for_intended(pace).filter(|_| self.is_open()),
        };
        if let Some(origin_ns) = origin_ns {
            self.origin_ns.set(origin_ns);
        }
        origin_ns.is_some()
    }

    #[inline]
    fn event_start(&self) {
        self.counted
            .set(self.origin_ns.get() >= self.count_from_ns.get());
        self.seat().in_event.store(true, Relaxed);
        self.operations.borrow_mut().clear();
        let traffic = self.connector.traffic();
        self.sent_bytes.set(traffic.sent_bytes());
        self.received_bytes.set(traffic.received_bytes());
    }

    #[inline]
    fn event_stop(&self, end: EventEnd) {
        let now_ns = now_ns();
        self.boundary_ns.set(now_ns);
        let seat = self.seat();
        seat.in_event.store(false, Relaxed);
        if end != EventEnd::Done || !self.counted.get() {
            return;
        }
        let latency_ns = now_ns.saturating_sub(self.origin_ns.get());
        seat.counters.add_event(latency_ns);
        let traffic = self.connector.traffic();
        seat.counters.add_bytes(
            traffic.sent_bytes() - self.sent_bytes.get(),
            traffic.received_bytes() - self.received_bytes.get(),
        );
        let mut latencies = self.load.tally.latencies(self.thread);
        let names = self.operations.borrow();
        if names.is_empty() {
            latencies.record(&[], latency_ns);
        } else {
            let operations: Vec<usize> =
                names.iter().map(|name| latencies.operation(name)).collect();
            latencies.record(&operations, latency_ns);
        }
    }

    /// An event that fails for ever ends with the run's time, unlike in sysbench.
    fn event_restart(&self) -> bool {
        if self.counted.get() {
            self.seat().counters.add_retry();
        }
        self.is_open() && now_ns() < self.deadline_ns.get()
    }

    #[inline]
    fn count_reply(&self, reply: &Reply) {
        if self.counted.get() {
            counting::add_reply(&self.seat().counters, reply);
        }
    }

    fn count_error(&self, code: u16) {
        let console = self.console();
        if console.shows(LogLevel::Debug) {
            console.log(LogLevel::Debug, &format!("Ignoring error {code}"));
        }
        if self.counted.get() {
            self.seat().counters.add_errors(code, 1);
        }
    }

    fn count(&self, counter: Counter, amount: u64) {
        if self.counted.get() {
            counting::add(&self.seat().counters, counter, amount);
        }
    }

    fn counter(&self, counter: Counter) -> u64 {
        counting::value(&self.seat().counters, counter)
    }

    fn operation(&self, name: &str) {
        self.operations.borrow_mut().push(name.to_owned());
    }

    /// Ends early with the run.
    fn think(&self, duration_ns: u64) {
        let begun_ns = now_ns();
        let until_ns = begun_ns
            .saturating_add(duration_ns)
            .min(self.deadline_ns.get());
        self.load.gate.sleep_until(self.slice.get(), until_ns);
        let woken_ns = now_ns();
        if self.seat().in_event.load(Relaxed) {
            // Keying within an event: the latency begins later by as much.
            self.origin_ns
                .set(self.origin_ns.get() + (woken_ns - begun_ns));
        } else {
            self.boundary_ns.set(woken_ns);
        }
    }

    /// Barriers are for commands.
    fn barrier(&self) {}

    fn aborted(&self) -> bool {
        self.load.gate.is_closed()
    }

    fn progress(&self, _label: &str, _done: u64, _total: u64) {}

    fn log(&self, level: LogLevel, message: &str) {
        tell(&self.load.session.console, level, message);
    }
}
