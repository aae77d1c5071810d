//! `--rate`: events begin at random times that no reply can move.
//!
//! The gaps are exponential, drawn once for all workers; a worker takes the next intended start, waits for it if it is still to
//! come, and the event's latency counts from it. There is no queue to overflow: what the workers cannot keep up with is counted,
//! not stored, so an impossible rate makes latencies grow, as it should, and nothing else.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::random::SplitMix64;

/// The schedule of a run, shared by its workers.
#[derive(Debug)]
pub(super) struct Pace {
    /// Nothing is due from here on [ns of the clock].
    end_ns: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Intended starts as they are taken.
    taken: Arrivals,
    /// The same schedule, followed as time goes by.
    arrived: Arrivals,
}

/// A walk along the schedule.
#[derive(Debug, Clone)]
struct Arrivals {
    stream: SplitMix64,
    gap_ns: f64,
    /// The next intended start [ns of the clock].
    next_ns: f64,
    /// Intended starts gone by.
    count: u64,
}

impl Arrivals {
    fn step(&mut self) {
        // By inversion; `1 - u` is above 0, so the logarithm is finite.
        self.next_ns += -(1.0 - self.stream.unit()).ln() * self.gap_ns;
        self.count += 1;
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time of the clock: positive, below 2^53 for a hundred days of uptime"
    )]
    fn next_ns(&self) -> u64 {
        self.next_ns as u64
    }
}

impl Pace {
    /// `rate_per_s` events a second on average from `start_ns` to `end_ns` [ns of the clock].
    #[expect(
        clippy::cast_precision_loss,
        reason = "the sum's error is below a microsecond"
    )]
    pub(super) fn new(rate_per_s: u32, start_ns: u64, end_ns: u64, seed: u64) -> Self {
        let mut taken = Arrivals {
            stream: SplitMix64::of(&[seed, u64::from(rate_per_s)]),
            gap_ns: 1e9 / f64::from(rate_per_s.max(1)),
            next_ns: start_ns as f64,
            count: 0,
        };
        taken.step();
        taken.count = 0;
        Self {
            end_ns,
            state: Mutex::new(State {
                arrived: taken.clone(),
                taken,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next intended start [ns of the clock]; `None` when none is due before the end.
    pub(super) fn take(&self) -> Option<u64> {
        let taken = &mut self.lock().taken;
        let intended_ns = taken.next_ns();
        (intended_ns < self.end_ns).then(|| {
            taken.step();
            intended_ns
        })
    }

    /// Intended starts before `now_ns` [ns of the clock] that nobody has taken yet.
    pub(super) fn waiting(&self, now_ns: u64) -> u64 {
        let now_ns = now_ns.min(self.end_ns);
        let mut state = self.lock();
        while state.arrived.next_ns() < now_ns {
            state.arrived.step();
        }
        state.arrived.count.saturating_sub(state.taken.count)
    }

    /// Whether `waiting` starts at the end are a sign that the workers did not keep up, and not a few that came in the last
    /// moment: more than there are workers, and more than 1 % of what was due.
    pub(super) fn fell_behind(&self, waiting: u64, workers: u32) -> bool {
        waiting > u64::from(workers) && waiting > self.lock().arrived.count / 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn starts_come_at_the_rate_and_in_order() {
        let pace = Pace::new(1_000, 5 * SECOND_NS, 15 * SECOND_NS, 1);
        let starts: Vec<u64> = std::iter::from_fn(|| pace.take()).collect();
        assert!(starts.is_sorted() && starts[0] >= 5 * SECOND_NS);
        // 10,000 expected; the standard deviation is 100.
        assert!((9_500..10_500).contains(&starts.len()), "{}", starts.len());
        assert_eq!(pace.take(), None);
    }

    #[test]
    fn what_nobody_took_waits_and_what_is_taken_ahead_does_not() {
        let pace = Pace::new(100, 0, 2 * SECOND_NS, 2);
        assert_eq!(pace.waiting(0), 0);
        let after_a_second = pace.waiting(SECOND_NS);
        assert!(after_a_second > 50, "{after_a_second}");
        for _ in 0..10 {
            pace.take();
        }
        assert_eq!(pace.waiting(SECOND_NS), after_a_second - 10);
        while pace.take().is_some() {}
        assert_eq!(pace.waiting(SECOND_NS), 0);
        assert_eq!(
            pace.waiting(9 * SECOND_NS),
            0,
            "nothing is due after the end"
        );
    }

    #[test]
    fn a_few_starts_in_the_last_moment_are_not_falling_behind() {
        let pace = Pace::new(1_000, 0, SECOND_NS, 3);
        let due = pace.waiting(SECOND_NS);
        assert!((900..1_100).contains(&due), "{due}");
        assert!(!pace.fell_behind(0, 1));
        assert!(!pace.fell_behind(due / 100, 1), "1 % of what was due");
        assert!(pace.fell_behind(due / 100 + 1, 1));
        assert!(!pace.fell_behind(20, 20), "one for each worker");
        assert!(pace.fell_behind(21, 20));
    }
}
