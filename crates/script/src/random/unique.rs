//! `sysbench.rand.unique`: numbers of 32 bits that never come twice, in no visible order.

use super::generator::{Generator, StreamKind};

/// How far a run has come in the numbers of a seed: one that goes on from there draws none of them again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct UniquePlace {
    seed: u64,
    next: u32,
}

impl UniquePlace {
    /// Before the first number.
    #[must_use]
    pub fn first(seed: u64) -> Self {
        Self { seed, next: 0 }
    }
}

/// The numbers of one thread: thread `t` of `n` takes places t, t+n, t+2n … of one permutation of all 32-bit numbers,
/// so threads never collide and need not talk to each other.
#[derive(Debug, Clone)]
pub struct Unique {
    keys: [u32; Self::ROUNDS],
    place: UniquePlace,
    step: u32,
}

impl Unique {
    const ROUNDS: usize = 6;

    /// For thread `thread` of `threads`, which all begin at the same place; the permutation follows from its seed.
    #[must_use]
    pub fn new(from: UniquePlace, thread: u32, threads: u32) -> Self {
        let mut generator = Generator::for_stream(from.seed, StreamKind::Unique, 0, 0);
        let keys = std::array::from_fn(|_| (generator.next_u64() >> 32) as u32);
        Self {
            keys,
            place: UniquePlace {
                next: from.next.wrapping_add(thread),
                ..from
            },
            step: threads.max(1),
        }
    }

    /// This thread's place; the furthest of all threads is where another run may begin.
    #[must_use]
    pub fn place(&self) -> UniquePlace {
        self.place
    }

    /// The next number; the sequence comes round after 2^32 / `threads` of them.
    pub fn draw(&mut self) -> u32 {
        let place = self.place.next;
        self.place.next = place.wrapping_add(self.step);
        self.permute(place)
    }

    /// A Feistel network over two halves of 16 bits: a bijection for any round function.
    fn permute(&self, place: u32) -> u32 {
        let (mut left, mut right) = ((place >> 16) as u16, place as u16);
        for key in self.keys {
            let mut round = (u32::from(right) ^ key).wrapping_mul(0x9e37_79b1);
            round ^= round >> 15;
            round = round.wrapping_mul(0x85eb_ca77) ^ key.rotate_left(16);
            (left, right) = (right, left ^ (round >> 16) as u16);
        }
        (u32::from(left) << 16) | u32::from(right)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn threads_never_collide() {
        let mut seen = HashSet::new();
        for thread in 0..8 {
            let mut unique = Unique::new(UniquePlace::first(42), thread, 8);
            for _ in 0..20_000 {
                assert!(seen.insert(unique.draw()));
            }
        }
    }

    #[test]
    fn a_run_that_goes_on_draws_nothing_again() {
        let mut seen = HashSet::new();
        let mut place = UniquePlace::first(42);
        for threads in [3, 1, 8] {
            let reached = (0..threads).map(|thread| {
                let mut unique = Unique::new(place, thread, threads);
                for _ in 0..1000 + 10 * thread {
                    assert!(seen.insert(unique.draw()));
                }
                unique.place()
            });
            place = reached.max().expect("a thread");
        }
    }

    #[test]
    fn the_seed_decides() {
        let draw = |seed| {
            let mut unique = Unique::new(UniquePlace::first(seed), 0, 1);
            (0..8).map(|_| unique.draw()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn numbers_are_spread_over_the_whole_range() {
        let mut unique = Unique::new(UniquePlace::first(3), 0, 1);
        let mut counts = [0_u32; 16];
        for _ in 0..16_000 {
            counts[(unique.draw() >> 28) as usize] += 1;
        }
        assert!(
            counts.iter().all(|count| (800..1200).contains(count)),
            "{counts:?}"
        );
    }
}
