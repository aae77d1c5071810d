//! Tests of `src/law.rs`.

use rand::Rng;

use super::*;

const US: f64 = 1e3;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

fn law(draw: Draw) -> Law {
    Law { draw, slow_factor: 1.0, instance_factor: 1.0, drifts: vec![], stall: None }
}

fn mean_work_ns(law: &Law, now_ns: u64, seed: u64) -> f64 {
    let mut random = random_stream(seed, 0);
    let n = 100_000;
    (0..n).map(|_| law.work_ns(now_ns, &mut random) as f64).sum::<f64>() / f64::from(n)
}

#[test]
fn streams_of_one_seed_differ_and_repeat() {
    let first = |seed, stream| random_stream(seed, stream).next_u64();
    assert_ne!(first(1, 0), first(1, 1));
    assert_ne!(first(1, 0), first(2, 0));
    assert_eq!(first(9, 4), first(9, 4));
}

#[test]
fn constant_is_exact() {
    assert_eq!(law(Draw::Constant { ns: 50.0 * US }).work_ns(0, &mut random_stream(1, 1)), 50_000);
}

#[test]
fn means_follow_the_distributions() {
    let exponential = mean_work_ns(&law(Draw::Exponential { mean_ns: 80.0 * US }), 0, 1);
    assert!((exponential / 80e3 - 1.0).abs() < 0.03, "{exponential}");
    let lognormal = mean_work_ns(&law(Draw::LogNormal { median_ns: 50.0 * US, sigma: 0.5 }), 0, 2);
    let expected = 50e3 * (0.125_f64).exp();
    assert!((lognormal / expected - 1.0).abs() < 0.03, "{lognormal} for {expected}");
}

#[test]
fn injected_factors_multiply() {
    let mut slowed = law(Draw::Constant { ns: 100.0 * US });
    slowed.slow_factor = 1.05;
    slowed.instance_factor = 1.10;
    assert_eq!(slowed.work_ns(0, &mut random_stream(1, 1)), 115_500);
}

#[test]
fn instance_factors_have_the_requested_spread_and_repeat_by_seed() {
    let logs: Vec<f64> = (0..4000).map(|seed| Law::draw_instance_factor(0.01, seed).ln()).collect();
    let sd = (logs.iter().map(|x| x * x).sum::<f64>() / logs.len() as f64).sqrt();
    assert!((0.0092..0.0108).contains(&sd), "{sd}");
    assert_eq!(Law::draw_instance_factor(0.01, 5), Law::draw_instance_factor(0.01, 5));
    assert_eq!(Law::draw_instance_factor(0.0, 5), 1.0);
}

#[test]
fn drifts_follow_time() {
    let mut drifting = law(Draw::Constant { ns: 1e6 });
    let at = |law: &Law, s: u64| law.work_ns(s * SECOND, &mut random_stream(1, 1));
    drifting.drifts = vec![Drift::Linear { share: 0.1, period_s: 60.0 }];
    assert_eq!((at(&drifting, 0), at(&drifting, 60), at(&drifting, 120)), (1_000_000, 1_100_000, 1_200_000));
    drifting.drifts = vec![Drift::Sine { share: 0.1, period_s: 60.0 }];
    assert_eq!((at(&drifting, 15), at(&drifting, 45), at(&drifting, 60)), (1_100_000, 900_000, 1_000_000));
    drifting.drifts = vec![Drift::Step { share: 0.2, at_s: 30.0 }, Drift::Linear { share: 0.1, period_s: 60.0 }];
    assert_eq!((at(&drifting, 29), at(&drifting, 30)), (1_048_333, 1_260_000));
}

#[test]
fn stalls_add_their_length_to_what_they_hit() {
    let mut stalled = law(Draw::Constant { ns: 0.0 });
    stalled.stall = Some(Stall { length_ns: 200 * MS, period_ns: 10 * SECOND });
    // The first period has no stall at its start.
    assert_eq!(stalled.finish_ns(0, 5 * MS), 5 * MS);
    // Arrives in a stall: waits for its end.
    assert_eq!(stalled.finish_ns(10 * SECOND + 50 * MS, 5 * MS), 10 * SECOND + 205 * MS);
    // Begins before, is held in the middle.
    assert_eq!(stalled.finish_ns(10 * SECOND - MS, 5 * MS), 10 * SECOND + 204 * MS);
    // Done exactly when the stall begins: not held.
    assert_eq!(stalled.finish_ns(10 * SECOND - MS, MS), 10 * SECOND);
    // Work over several stalls.
    assert_eq!(stalled.finish_ns(0, 25 * SECOND), 25 * SECOND + 400 * MS);
}
