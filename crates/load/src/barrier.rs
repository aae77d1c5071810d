//! Where threads wait for each other: a barrier with a way out when one of them fails, and a semaphore.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A reusable barrier that threads may leave for good and that anyone may break.
#[derive(Debug)]
pub struct Barrier {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    parties: usize,
    waiting: usize,
    /// Raised each time that all have arrived.
    round: u64,
    broken: bool,
}

impl Barrier {
    /// A barrier for so many threads.
    pub fn new(parties: usize) -> Self {
        Self {
            state: Mutex::new(State {
                parties,
                waiting: 0,
                round: 0,
                broken: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until every thread that has not left is here, or the barrier is broken.
    pub fn wait(&self) {
        let mut state = self.lock();
        state.waiting += 1;
        if self.release_if_complete(&mut state) {
            return;
        }
        let round = state.round;
        while state.round == round && !state.broken {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// This thread will not come any more; the others no longer wait for it.
    pub fn leave(&self) {
        let mut state = self.lock();
        state.parties = state.parties.saturating_sub(1);
        self.release_if_complete(&mut state);
    }

    /// Releases everybody, now and from now on.
    pub fn break_up(&self) {
        self.lock().broken = true;
        self.changed.notify_all();
    }

    /// Has the barrier been broken up?
    pub fn is_broken(&self) -> bool {
        self.lock().broken
    }

    fn release_if_complete(&self, state: &mut State) -> bool {
        let complete = state.waiting >= state.parties;
        if complete {
            state.waiting = 0;
            state.round += 1;
            self.changed.notify_all();
        }
        complete
    }
}

/// Lets only so many threads through at a time.
///
/// Loading a script is work for the CPU and leaves garbage behind: thousands of threads that did it at once would only wait for
/// each other and hold all that garbage together. For loading alone: a script's own `thread_init()` may wait for other threads.
#[derive(Debug)]
pub struct Semaphore {
    places: Mutex<usize>,
    freed: Condvar,
}

impl Semaphore {
    /// As many places as there are CPUs, twice.
    pub fn for_cpus() -> Self {
        let cpus = std::thread::available_parallelism().map_or(4, usize::from);
        Self {
            places: Mutex::new(2 * cpus),
            freed: Condvar::new(),
        }
    }

    /// Waits for a place, and keeps it while `work` runs.
    pub fn pass<T>(&self, work: impl FnOnce() -> T) -> T {
        /// Gives the place back, also when `work` panics.
        struct Place<'a>(&'a Semaphore);
        impl Drop for Place<'_> {
            fn drop(&mut self) {
                let places = self.0.places.lock();
                *places.unwrap_or_else(PoisonError::into_inner) += 1;
                self.0.freed.notify_one();
            }
        }
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        while *places == 0 {
            places = self.freed.wait(places).unwrap_or_else(PoisonError::into_inner);
        }
        *places -= 1;
        drop(places);
        let _place = Place(self);
        work()
    }
}

#[cfg(test)]
#[path = "../tests/unit/barrier.rs"]
mod tests;
