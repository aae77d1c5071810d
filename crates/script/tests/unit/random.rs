//! Tests of `src/random.rs`.

use std::collections::HashSet;

use super::*;

#[test]
fn streams_are_reproducible_and_apart() {
    let draw = |seed, kind, a, b| Generator::for_stream(seed, kind, a, b).next_u64();
    assert_eq!(draw(7, StreamKind::Worker, 1, 0), draw(7, StreamKind::Worker, 1, 0));
    let mut seen = HashSet::new();
    for seed in 0..10 {
        for kind in [
            StreamKind::Worker,
            StreamKind::Block,
            StreamKind::Rows,
            StreamKind::Unique,
        ] {
            for first in 0..10 {
                for second in 0..10 {
                    assert!(seen.insert(draw(seed, kind, first, second)));
                }
            }
        }
    }
}

#[test]
fn the_recurrence_is_xoroshiro128plus() {
    // From state (1, 2) by hand: 1 + 2; then s1 = 3, s0 = rotl(1,24) ^ 3 ^ (3 << 16), s1 = rotl(3,37).
    let mut generator = Generator { state: [1, 2] };
    assert_eq!(generator.next_u64(), 3);
    assert_eq!(generator.state, [(1 << 24) ^ 3 ^ (3 << 16), 3 << 37]);
}

#[test]
fn below_stays_below_and_reaches_both_ends() {
    let mut generator = Generator::for_stream(1, StreamKind::Worker, 0, 0);
    let drawn: HashSet<u64> = (0..1000).map(|_| generator.below(7)).collect();
    assert_eq!(drawn, (0..7).collect());
    assert_eq!(generator.below(0), 0);
    assert!((0..1000).all(|_| (0.0..1.0).contains(&generator.next_f64())));
}

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
fn a_run_that_continues_draws_nothing_again() {
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
    assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
}

#[test]
fn every_number_below_a_bound_comes_once() {
    for bound in [1, 2, 5, 100, 1000, 65_537] {
        let mut threads = [0, 1, 2].map(|thread| Unique::new(UniquePlace::first(7), thread, 3));
        let mut drawn: Vec<u32> = (0..bound).map(|n| threads[n as usize % 3].draw_below(bound)).collect();
        drawn.sort_unstable();
        assert!(drawn.into_iter().eq(0..bound), "{bound}");
    }
}
