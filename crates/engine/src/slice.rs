//! A turn of one arm, as the coordinator hands it to the arm's workers.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// When an arm is loaded, and how. Times are ns of the engine's clock.
#[derive(Debug)]
pub struct Slice {
    /// Number of the block, from 0.
    pub block: u64,
    /// 0: the arm's first slice of the block, so its workers start their random streams anew; 1: the second, which goes on with them.
    pub turn: u64,
    /// Load begins.
    pub start_ns: u64,
    /// What begins from here on is counted.
    pub guard_end_ns: u64,
    /// Nothing begins from here on (closed loop).
    pub deadline_ns: u64,
    /// Open loop: when events are meant to begin.
    pub agenda: Option<Agenda>,
}

/// Intended starts of a slice, shared by the arm's workers: each takes the next one.
#[derive(Debug)]
pub struct Agenda {
    /// Since the slice's start, in order [ns].
    starts: Vec<u64>,
    next: Shared,
    /// From here on a start that is still untaken is dropped [ns of the clock].
    give_up_ns: u64,
}

/// Alone in its pair of cache lines: every worker of the arm writes it once an event.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shared(AtomicUsize);

impl Agenda {
    /// `starts` in order [ns since the slice's start]; what is not taken by `give_up_ns` [ns of the clock] is dropped.
    pub fn new(starts: Vec<u64>, give_up_ns: u64) -> Self {
        Self {
            starts,
            next: Shared::default(),
            give_up_ns,
        }
    }

    /// Takes the next intended start [ns since the slice's start]; `None` when all are taken or it is too late.
    #[inline]
    pub fn take(&self, now_ns: u64) -> Option<u64> {
        if now_ns >= self.give_up_ns {
            return None;
        }
        self.starts.get(self.next.0.fetch_add(1, Relaxed)).copied()
    }

    /// How many intended starts from `first_counted_ns` [ns since the slice's start] on were never taken. For after the slice.
    pub fn dropped(&self, first_counted_ns: u64) -> u64 {
        let first_counted = self
            .starts
            .partition_point(|&start_ns| start_ns < first_counted_ns);
        let first_untaken = self.next.0.load(Relaxed).max(first_counted);
        self.starts.len().saturating_sub(first_untaken) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_start_is_taken_once_and_in_order() {
        let agenda = Agenda::new(vec![1, 5, 9], 100);
        assert_eq!([agenda.take(0), agenda.take(0)], [Some(1), Some(5)]);
        assert_eq!(agenda.dropped(0), 1);
        assert_eq!([agenda.take(0), agenda.take(0)], [Some(9), None]);
        assert_eq!(agenda.dropped(0), 0);
    }

    #[test]
    fn what_is_untaken_when_it_is_too_late_is_dropped() {
        let agenda = Agenda::new(vec![1, 5, 9, 12], 100);
        assert_eq!(agenda.take(99), Some(1));
        assert_eq!(agenda.take(100), None);
        assert_eq!(agenda.dropped(0), 3);
        assert_eq!(agenda.dropped(6), 2, "those of the guard are not counted");
    }
}
