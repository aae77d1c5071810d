//! Tests of `src/random.rs`.

use std::collections::HashSet;

use super::*;

#[test]
fn streams_are_reproducible_and_distinct() {
    let draw = |seed, kind, a, b| Generator::for_stream(seed, kind, a, b).next_u64();
    assert_eq!(draw(7, StreamKind::Worker, 1, 0), draw(7, StreamKind::Worker, 1, 0));
    let mut seen = HashSet::new();
    for seed in 0..10 {
        for kind in [StreamKind::Worker, StreamKind::Block, StreamKind::Rows, StreamKind::Unique] {
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
fn unique_numbers_of_threads_never_collide() {
    let mut seen = HashSet::new();
    for thread in 0..8 {
        let mut unique = Unique::new(UniquePlace::first(42), thread, 8);
        for _ in 0..20_000 {
            assert!(seen.insert(unique.draw()));
        }
    }
}

#[test]
fn a_continued_run_repeats_no_unique_number() {
    let mut seen = HashSet::new();
    let mut place = UniquePlace::first(42);
    for threads in [3, 1, 8] {
        let reached = (0..threads).map(|thread| {
            let mut unique = Unique::new(place, thread, threads);
            for _ in 0..1000 + 10 * thread {
                assert!(seen.insert(unique.draw()));
            }
            unique.place
        });
        place = reached.max().expect("a thread");
    }
}

#[test]
fn unique_numbers_depend_on_the_seed() {
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

const DRAWS: u32 = 200_000;

fn generator() -> Generator {
    Generator::for_stream(20_261_121, StreamKind::Worker, 0, 0)
}

fn histogram(count: usize, mut draw: impl FnMut(&mut Generator) -> u32) -> Vec<f64> {
    let mut generator = generator();
    let mut seen = vec![0.0; count];
    for _ in 0..DRAWS {
        seen[draw(&mut generator) as usize - 1] += 1.0;
    }
    seen
}

/// Pearson's statistic against expected shares.
fn chi_square(seen: &[f64], shares: &[f64]) -> f64 {
    seen.iter().zip(shares).map(|(n, p)| (n - p * f64::from(DRAWS)).powi(2) / (p * f64::from(DRAWS))).sum()
}

#[test]
fn uniform_is_uniform() {
    let seen = histogram(100, |generator| Distributions::uniform(generator, 1, 100));
    // 99 degrees of freedom: mean 99, standard deviation 14; 6 of them either side.
    let statistic = chi_square(&seen, &[0.01; 100]);
    assert!((15.0..183.0).contains(&statistic), "{statistic}");
}

#[test]
fn zipfian_follows_the_power_law() {
    for exponent in [0.5, 0.8, 1.0, 1.3] {
        let zipfian = Zipfian::new(100, exponent);
        let seen = histogram(100, |generator| zipfian.draw(generator) as u32);
        let total: f64 = (1..=100).map(|rank| f64::from(rank).powf(-exponent)).sum();
        let shares: Vec<f64> = (1..=100).map(|rank| f64::from(rank).powf(-exponent) / total).collect();
        let statistic = chi_square(&seen, &shares);
        assert!((15.0..183.0).contains(&statistic), "exponent {exponent}: {statistic}");
    }
}

#[test]
fn gaussian_has_the_expected_mean_and_spread() {
    let distributions = Distributions::new(&RandSettings::default());
    let mut generator = generator();
    let draws: Vec<f64> = (0..DRAWS).map(|_| f64::from(distributions.gaussian(&mut generator, 1, 1_000_000))).collect();
    let mean = draws.iter().sum::<f64>() / f64::from(DRAWS);
    let sd = (draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(DRAWS)).sqrt();
    // The mean of 12 uniform draws has standard deviation 1/12 of the range.
    assert!((mean - 500_000.0).abs() < 2_000.0, "{mean}");
    assert!((sd - 1_000_000.0 / 12.0).abs() < 1_000.0, "{sd}");
}

#[test]
fn special_puts_three_quarters_into_the_middle_hundredth() {
    let distributions = Distributions::new(&RandSettings::default());
    let seen = histogram(10_000, |generator| distributions.special(generator, 1, 10_000));
    let band: f64 = seen[4950..5050].iter().sum::<f64>() / f64::from(DRAWS);
    // 4.8 % of the bell's quarter also falls into the band: 0.75 + 0.25 × 0.048.
    assert!((band - 0.762).abs() < 0.01, "{band}");
}

#[test]
fn pareto_gives_a_fifth_of_the_values_four_fifths_of_the_draws() {
    let distributions = Distributions::new(&RandSettings::default());
    let seen = histogram(1_000, |generator| distributions.pareto(generator, 1, 1_000));
    let low: f64 = seen[..200].iter().sum::<f64>() / f64::from(DRAWS);
    assert!((low - 0.8).abs() < 0.01, "{low}");
}

#[test]
fn every_distribution_stays_inside_its_range() {
    for kind in [RandKind::Uniform, RandKind::Gaussian, RandKind::Special, RandKind::Pareto, RandKind::Zipfian] {
        let mut distributions = Distributions::new(&RandSettings { kind, ..RandSettings::default() });
        let mut generator = generator();
        for (low, high) in [(1, 1), (5, 6), (1, 10), (10, 1), (0, u32::MAX), (u32::MAX, u32::MAX)] {
            for _ in 0..2_000 {
                let drawn = distributions.default(&mut generator, low, high);
                assert!((low.min(high)..=low.max(high)).contains(&drawn), "{kind:?} {low} {high} {drawn}");
            }
        }
    }
}
