//! The world of a load-generating worker, as its script sees it.
//!
//! [`LoadHost::more_events`] is where a worker rests between slices, so the script's own loop needs to know nothing of arms. What
//! is counted is decided once an event, at its start: not within the guard, and not when the event is a shadow. One clock reading an
//! event in a closed loop: the end of an event is the start of the next. Nothing here is shared but the [`Desk`] and the gate's word.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use bakeoff_metrics::now_ns;
use bakeoff_script::host::{
    ConnectTarget, Connection, Counter, EventEnd, Host, LogLevel, Reply, SqlError,
};

use crate::barrier::Barrier;
use crate::connector::Connector;
use crate::counting;
use crate::desk::Desk;
use crate::gate::Gate;
use crate::latencies::Latencies;
use crate::message_writer::MessageWriter;
use crate::slice::Slice;

/// An open-loop event that begins later than this after its intended start, by a worker that was free, is the client's fault [ns].
const LATE_NS: u64 = 1_000_000;

/// Starts the random streams of this thread anew, from the three numbers (key seed, block, thread).
pub type Reseed = fn(key_seed: u64, block: u64, thread: u32);

/// One worker's [`Host`] during `measure`.
pub struct LoadHost {
    pub(crate) connector: Connector,
    pub(crate) gate: Arc<Gate>,
    pub(crate) desk: Arc<Desk>,
    pub(crate) barrier: Arc<Barrier>,
    pub(crate) writer: MessageWriter,
    pub(crate) reseed: Reseed,
    pub(crate) key_seed: u64,
    pub(crate) thread: u32,
    /// Uncounted events owed for each counted one, `slowdown_percent / 100`.
    pub(crate) slowdown_per_event: f64,
    pub(crate) turn: Turn,
    pub(crate) event: Event,
    pub(crate) latencies: RefCell<Latencies>,
}

/// The slice that the worker is in, in cells that an event reads without following a pointer.
#[derive(Default)]
pub(crate) struct Turn {
    slice: RefCell<Option<Arc<Slice>>>,
    number: Cell<u32>,
    running: Cell<bool>,
    open_loop: Cell<bool>,
    guard_end_ns: Cell<u64>,
    deadline_ns: Cell<u64>,
}

/// The event that is running, or the last one.
#[derive(Default)]
pub(crate) struct Event {
    /// The last reading of the clock: end of the last event, start of the next [ns].
    boundary_ns: Cell<u64>,
    /// Where the latency begins: the intended start in an open loop, else the start [ns].
    origin_ns: Cell<u64>,
    /// Begun after the guard.
    in_window: Cell<bool>,
    counted: Cell<bool>,
    shadow: Cell<bool>,
    /// Uncounted events owed; the fraction is carried from slice to slice, so that no slice begins with a whole credit.
    owed: Cell<f64>,
    /// Between its start and its end.
    running: Cell<bool>,
    /// What the event turned out to be; emptied, never freed, so that naming allocates nothing.
    operations: RefCell<Vec<usize>>,
    sent_bytes: Cell<u64>,
    received_bytes: Cell<u64>,
}

impl Event {
    /// Before a worker's first event. What is owed then goes round from 0 to `1 + slowdown_per_event`; the workers of an arm begin at
    /// places, from 0 to 1, spread over that round: if each began with nothing owed, each would have half a shadow too few.
    pub(crate) fn at_phase(place: f64, slowdown_per_event: f64) -> Self {
        Self {
            owed: Cell::new(place * (1.0 + slowdown_per_event)),
            ..Self::default()
        }
    }
}

impl LoadHost {
    /// The worker's number within its arm, from 0.
    pub fn thread(&self) -> u32 {
        self.thread
    }

    /// Is there another event to begin in this slice? Waits for its intended start in an open loop.
    #[inline]
    fn next_in_slice(&self) -> bool {
        if !self.gate.is_open(self.turn.number.get()) {
            return false;
        }
        let shadow = self.event.owed.get() >= 1.0;
        self.event.shadow.set(shadow);
        if self.turn.open_loop.get() {
            return self.next_intended(shadow);
        }
        let now_ns = self.event.boundary_ns.get();
        self.event.origin_ns.set(now_ns);
        self.event
            .in_window
            .set(now_ns >= self.turn.guard_end_ns.get());
        now_ns < self.turn.deadline_ns.get()
    }

    /// Open loop: takes the next intended start and waits for it. A shadow takes none, it follows its event at once.
    fn next_intended(&self, shadow: bool) -> bool {
        let now_ns = self.event.boundary_ns.get();
        if shadow {
            self.event.origin_ns.set(now_ns);
            return true;
        }
        let slice = self.turn.slice.borrow();
        let Some((slice, agenda)) = slice
            .as_deref()
            .and_then(|slice| Some((slice, slice.agenda.as_ref()?)))
        else {
            return false;
        };
        let Some(offset_ns) = agenda.take(now_ns) else {
            return false;
        };
        let intended_ns = slice.start_ns + offset_ns;
        let in_window = intended_ns >= slice.guard_end_ns;
        if now_ns < intended_ns {
            self.gate.sleep_until(self.turn.number.get(), intended_ns);
            let woken_ns = now_ns_after(intended_ns);
            self.event.boundary_ns.set(woken_ns);
            if in_window && woken_ns > intended_ns + LATE_NS {
                self.desk.counters().add_late_start();
            }
        }
        self.event.origin_ns.set(intended_ns);
        self.event.in_window.set(in_window);
        self.gate.is_open(self.turn.number.get())
    }

    /// Rests until the arm's next slice; false when there is none.
    fn rest(&self) -> bool {
        let turn = &self.turn;
        turn.running.set(false);
        turn.slice.take();
        self.desk.rest(self.event.boundary_ns.get());
        let Some((number, slice)) = self.gate.rest(turn.number.get()) else {
            return false;
        };
        self.desk.begin(number);
        turn.number.set(number);
        turn.open_loop.set(slice.agenda.is_some());
        turn.guard_end_ns.set(slice.guard_end_ns);
        turn.deadline_ns.set(slice.deadline_ns);
        if slice.turn == 0 {
            (self.reseed)(self.key_seed, slice.block, self.thread);
        }
        turn.slice.replace(Some(slice));
        self.event.boundary_ns.set(now_ns());
        turn.running.set(true);
        true
    }

    fn record_event(&self, now_ns: u64) {
        let event = &self.event;
        let latency_ns = now_ns.saturating_sub(event.origin_ns.get());
        let counters = self.desk.counters();
        counters.add_event(latency_ns);
        let traffic = self.connector.traffic();
        counters.add_bytes(
            traffic.sent_bytes() - event.sent_bytes.get(),
            traffic.received_bytes() - event.received_bytes.get(),
        );
        self.latencies
            .borrow_mut()
            .record(&event.operations.borrow(), latency_ns);
    }
}

/// The clock, never before `earliest_ns`: a sleep that the gate cut short must not start an event before its time.
fn now_ns_after(earliest_ns: u64) -> u64 {
    now_ns().max(earliest_ns)
}

impl Host for LoadHost {
    fn connect(&self, target: &ConnectTarget) -> Result<Box<dyn Connection>, SqlError> {
        self.connector.connect(target)
    }

    #[inline]
    fn more_events(&self) -> bool {
        while !(self.turn.running.get() && self.next_in_slice()) {
            if !self.rest() {
                return false;
            }
        }
        true
    }

    #[inline]
    fn event_start(&self) {
        let event = &self.event;
        if event.in_window.get() {
            self.desk.counters().open_window(event.boundary_ns.get());
        }
        event
            .counted
            .set(event.in_window.get() && !event.shadow.get());
        event.running.set(true);
        event.operations.borrow_mut().clear();
        let traffic = self.connector.traffic();
        event.sent_bytes.set(traffic.sent_bytes());
        event.received_bytes.set(traffic.received_bytes());
    }

    #[inline]
    fn event_stop(&self, end: EventEnd) {
        let event = &self.event;
        let now_ns = now_ns();
        event.boundary_ns.set(now_ns);
        if end == EventEnd::Done {
            if event.in_window.get() {
                self.desk.counters().extend_window(now_ns);
            }
            if event.counted.get() {
                self.record_event(now_ns);
            }
            // Guard events owe shadows too: the sequence of counted and uncounted goes on as if there were no slices.
            let step = if event.shadow.get() {
                -1.0
            } else {
                self.slowdown_per_event
            };
            event.owed.set(event.owed.get() + step);
        }
        event.counted.set(false);
        event.running.set(false);
    }

    fn event_restart(&self) -> bool {
        if self.event.counted.get() {
            self.desk.counters().add_retry();
        }
        // An event that fails for ever must not outlast a request that has ended.
        self.gate.is_open(self.turn.number.get())
    }

    #[inline]
    fn count_reply(&self, reply: &Reply) {
        if self.event.counted.get() {
            counting::add_reply(self.desk.counters(), reply);
        }
    }

    fn count_error(&self, code: u16) {
        if self.event.counted.get() {
            self.desk.counters().add_errors(code, 1);
        }
    }

    fn count(&self, counter: Counter, amount: u64) {
        if self.event.counted.get() {
            counting::add(self.desk.counters(), counter, amount);
        }
    }

    /// Counters begin at zero in each slice: a script that reads them sees its present slice.
    fn counter(&self, counter: Counter) -> u64 {
        counting::value(self.desk.counters(), counter)
    }

    fn operation(&self, name: &str) {
        let operation = self.latencies.borrow_mut().operation(name);
        self.event.operations.borrow_mut().push(operation);
    }

    fn think(&self, duration_ns: u64) {
        let begun_ns = now_ns();
        let until_ns = begun_ns
            .saturating_add(duration_ns)
            .min(self.turn.deadline_ns.get());
        self.gate.sleep_until(self.turn.number.get(), until_ns);
        let woken_ns = now_ns();
        if self.event.running.get() {
            // Keying within an event: the latency begins later by as much.
            self.event
                .origin_ns
                .set(self.event.origin_ns.get() + (woken_ns - begun_ns));
        } else {
            self.event.boundary_ns.set(woken_ns);
        }
    }

    fn barrier(&self) {
        self.barrier.wait();
    }

    fn aborted(&self) -> bool {
        self.barrier.is_broken()
    }

    /// Progress is a command's; a running load has its slices.
    fn progress(&self, _label: &str, _done: u64, _total: u64) {}

    fn log(&self, level: LogLevel, message: &str) {
        self.writer.log(level, message);
    }
}
