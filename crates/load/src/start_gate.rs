//! The start gate, where the workers of one arm rest between slices and the coordinator starts them and waits for them.
//! Workers sleep on a futex that the coordinator raises at each slice's start. Also a barrier.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::thread::futex;

use crate::arrivals::ArrivalSchedule;
use crate::failure::Failure;
use crate::lock;

/// The word's value once the gate is closed for good. Slices are numbered from 1 up.
const CLOSED: u32 = u32::MAX;

#[derive(Debug)]
pub struct Slice {
    pub block: u64,
    /// 0: the arm's first slice of the block, where workers restart their random streams. 1: the second, without.
    pub turn: u64,
    pub start_ns: u64,
    pub guard_end_ns: u64,
    pub deadline_ns: u64,
    /// Closed loop: workers whose window has not ended. The others keep the server under load until there are none.
    pub open_windows: AtomicUsize,
    pub schedule: Option<ArrivalSchedule>,
}

#[derive(Debug)]
pub struct StartGate {
    /// Number of the current or last slice, or [`CLOSED`]. Alone in its cache lines: each worker reads it every event.
    word: Word,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Word(AtomicU32);

#[derive(Debug)]
struct State {
    slice: Option<Arc<Slice>>,
    busy: usize,
    live: usize,
    failure: Option<Failure>,
}

#[derive(Debug)]
pub enum WaitError {
    Failed(Failure),
    TimedOut { busy: usize },
}

impl StartGate {
    pub fn new(workers: usize) -> Self {
        Self {
            word: Word::default(),
            state: Mutex::new(State { slice: None, busy: workers, live: workers, failure: None }),
            changed: Condvar::new(),
        }
    }

    /// Worker: rests until the slice after number `seen` (0 at first) starts. Returns None once the gate is closed.
    pub fn rest(&self, seen: u32) -> Option<(u32, Arc<Slice>)> {
        {
            let mut state = lock(&self.state);
            state.busy = state.busy.saturating_sub(1);
            if state.busy == 0 {
                self.changed.notify_all();
            }
        }
        loop {
            let number = self.word.0.load(Acquire);
            if number == CLOSED {
                return None;
            }
            if number != seen {
                let slice = lock(&self.state).slice.clone()?;
                return Some((number, slice));
            }
            let _ = futex::wait(&self.word.0, futex::Flags::PRIVATE, seen, None);
        }
    }

    #[inline]
    pub fn is_open(&self, number: u32) -> bool {
        self.word.0.load(Relaxed) == number
    }

    pub fn is_closed(&self) -> bool {
        self.is_open(CLOSED)
    }

    pub fn sleep_until(&self, number: u32, until_ns: u64) {
        let limit = rustix::time::Timespec {
            tv_sec: (until_ns / 1_000_000_000).cast_signed(),
            tv_nsec: (until_ns % 1_000_000_000).cast_signed(),
        };
        while self.is_open(number) && bakeoff_metrics::now_ns() < until_ns {
            // The bitset form takes an absolute CLOCK_MONOTONIC time: no drift between reading the clock and sleeping.
            let _ = futex::wait_bitset(&self.word.0, futex::Flags::PRIVATE, number, Some(&limit), NonZeroU32::MAX);
        }
    }

    pub fn leave(&self) {
        let mut state = lock(&self.state);
        state.busy = state.busy.saturating_sub(1);
        state.live -= 1;
        self.changed.notify_all();
    }

    /// Worker: reports its failure before leaving. The first failure is kept, and the others begin no more events.
    pub fn fail(&self, failure: Failure) {
        // Stored before the gate closes, so that the others' leaving is not mistaken for a normal end.
        lock(&self.state).failure.get_or_insert(failure);
        self.changed.notify_all();
        self.close();
    }

    /// Coordinator: starts a slice and returns its number. All workers must be at rest. A closed gate stays closed.
    pub fn open(&self, slice: Arc<Slice>) -> u32 {
        let mut state = lock(&self.state);
        state.slice = Some(slice);
        state.busy = state.live;
        let number = self.word.0.load(Relaxed).saturating_add(1);
        self.word.0.store(number, Release);
        drop(state);
        self.wake_all();
        number
    }

    pub fn close(&self) {
        // Under the lock, so that an opening in progress does not undo it.
        let state = lock(&self.state);
        self.word.0.store(CLOSED, Release);
        drop(state);
        self.wake_all();
    }

    fn wake_all(&self) {
        let _ = futex::wake(&self.word.0, futex::Flags::PRIVATE, i32::MAX.cast_unsigned());
    }

    pub fn wait_all_resting(&self, limit: Duration) -> Result<usize, WaitError> {
        let state = self.wait(limit, |state| state.busy == 0 || state.failure.is_some());
        match &state.failure {
            Some(failure) => Err(WaitError::Failed(failure.clone())),
            None if state.busy == 0 => Ok(state.live),
            None => Err(WaitError::TimedOut { busy: state.busy }),
        }
    }

    pub fn wait_all_gone(&self, limit: Duration) -> usize {
        self.wait(limit, |state| state.live == 0).live
    }

    pub fn failure(&self) -> Option<Failure> {
        lock(&self.state).failure.clone()
    }

    fn wait(&self, limit: Duration, reached: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let until = Instant::now() + limit;
        let mut state = lock(&self.state);
        while !reached(&state) {
            let remaining = until.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                break;
            }
            state = self.changed.wait_timeout(state, remaining).unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }
}

#[derive(Debug)]
pub struct Barrier {
    state: Mutex<BarrierState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct BarrierState {
    parties: usize,
    waiting: usize,
    round: u64,
    broken: bool,
}

impl Barrier {
    pub fn new(parties: usize) -> Self {
        Self { state: Mutex::new(BarrierState { parties, ..BarrierState::default() }), changed: Condvar::new() }
    }

    pub fn wait(&self) {
        let mut state = lock(&self.state);
        state.waiting += 1;
        if self.release_if_complete(&mut state) {
            return;
        }
        let round = state.round;
        while state.round == round && !state.broken {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub fn leave(&self) {
        let mut state = lock(&self.state);
        state.parties = state.parties.saturating_sub(1);
        self.release_if_complete(&mut state);
    }

    pub fn break_up(&self) {
        lock(&self.state).broken = true;
        self.changed.notify_all();
    }

    pub fn is_broken(&self) -> bool {
        lock(&self.state).broken
    }

    fn release_if_complete(&self, state: &mut BarrierState) -> bool {
        let complete = state.waiting >= state.parties;
        if complete {
            state.waiting = 0;
            state.round += 1;
            self.changed.notify_all();
        }
        complete
    }
}
