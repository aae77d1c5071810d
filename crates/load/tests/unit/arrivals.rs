//! Tests of `src/arrivals.rs`.

use proptest::prelude::*;

use super::*;

const SECOND_NS: u64 = 1_000_000_000;

/// Takes as one worker after another would.
fn taker(schedule: &ArrivalSchedule) -> impl FnMut(u64) -> Option<u64> {
    let mut piece = schedule.first();
    move |now_ns| schedule.take(&mut piece, now_ns)
}

proptest! {
    #[test]
    fn starts_are_sorted_within_the_slice_and_reproducible(
        rate_per_s in 0.1_f64..1e5,
        length_ns in 1_u64..1_000_000_000,
        key: [u64; 4],
        fixed: bool,
    ) {
        let law = if fixed { Arrivals::Fixed } else { Arrivals::Poisson };
        let starts = intended_starts(law, rate_per_s, length_ns, key);
        prop_assert!(starts.is_sorted());
        prop_assert!(starts.last().is_none_or(|&last| last < length_ns));
        prop_assert_eq!(intended_starts(law, rate_per_s, length_ns, key), starts);
    }
}

#[test]
fn poisson_counts_have_the_mean_and_variance_of_the_law() {
    // 2000 slices of 100 expected arrivals: the mean's standard error is 0.22, the variance's 3.2.
    let counts: Vec<f64> = (0..2_000)
        .map(|block| intended_starts(Arrivals::Poisson, 1_000.0, 100_000_000, [1, block, 0, 0]).len() as f64)
        .collect();
    let mean = counts.iter().sum::<f64>() / 2_000.0;
    let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 1_999.0;
    assert!((mean - 100.0).abs() < 1.5, "{mean}");
    assert!((variance - 100.0).abs() < 20.0, "{variance}");
}

#[test]
fn fixed_gaps_are_equal() {
    let starts = intended_starts(Arrivals::Fixed, 1_000.0, 50_000_000, [1, 2, 0, 0]);
    assert_eq!(starts.len(), 50);
    assert!(starts.windows(2).all(|pair| (pair[1] - pair[0]).abs_diff(1_000_000) <= 1));
}

#[test]
fn rates_below_one_per_slice_are_right_on_average() {
    let count: usize =
        (0..1_000).map(|block| intended_starts(Arrivals::Fixed, 3.0, 100_000_000, [9, block, 1, 0]).len()).sum();
    // 300 expected, standard deviation 14.
    assert!((230..370).contains(&count), "{count}");
}

#[test]
fn each_start_of_a_slice_is_taken_once_and_in_order() {
    let schedule = ArrivalSchedule::of_slice(vec![1, 5, 9], 10, 100);
    let mut take = taker(&schedule);
    assert_eq!([take(0), take(0)], [Some(11), Some(15)]);
    assert_eq!(schedule.dropped(10), 1);
    assert_eq!([take(0), take(0)], [Some(19), None]);
    assert_eq!(schedule.dropped(10), 0);
}

#[test]
fn starts_not_taken_by_the_deadline_are_dropped() {
    let schedule = ArrivalSchedule::of_slice(vec![1, 5, 9, 12], 0, 100);
    let mut take = taker(&schedule);
    assert_eq!(take(99), Some(1));
    assert_eq!(take(100), None);
    assert_eq!(schedule.dropped(0), 3);
    assert_eq!(schedule.dropped(6), 2, "those of the guard are not counted");
}

#[test]
fn a_poisson_stream_keeps_its_rate_and_order() {
    let schedule = ArrivalSchedule::poisson(1_000, 5 * SECOND_NS, 15 * SECOND_NS, 1);
    let mut take = taker(&schedule);
    let starts: Vec<u64> = std::iter::from_fn(|| take(0)).collect();
    assert!(starts.is_sorted() && starts[0] >= 5 * SECOND_NS);
    // 10,000 expected; the standard deviation is 100.
    assert!((9_500..10_500).contains(&starts.len()), "{}", starts.len());
    assert!(starts.last().is_some_and(|last| *last < 15 * SECOND_NS));
}

#[test]
fn workers_share_a_stream() {
    let schedule = ArrivalSchedule::poisson(1_000, 0, 5 * SECOND_NS, 1);
    let mut alone = taker(&schedule);
    let expected: Vec<u64> = std::iter::from_fn(|| alone(0)).collect();
    let schedule = ArrivalSchedule::poisson(1_000, 0, 5 * SECOND_NS, 1);
    let mut taken: Vec<u64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut take = taker(&schedule);
                    std::iter::from_fn(|| take(0)).collect::<Vec<u64>>()
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    taken.sort_unstable();
    assert_eq!(taken, expected);
}

#[test]
fn only_due_starts_not_yet_taken_are_waiting() {
    let schedule = ArrivalSchedule::poisson(100, 0, 2 * SECOND_NS, 2);
    let mut take = taker(&schedule);
    assert_eq!(schedule.waiting(0), 0);
    let after_a_second = schedule.waiting(SECOND_NS);
    assert!(after_a_second > 50, "{after_a_second}");
    for _ in 0..10 {
        take(0);
    }
    assert_eq!(schedule.waiting(SECOND_NS), after_a_second - 10);
    while take(0).is_some() {}
    assert_eq!(schedule.waiting(SECOND_NS), 0);
    assert_eq!(schedule.waiting(9 * SECOND_NS), 0, "nothing is due after the end");
}

#[test]
fn a_small_backlog_is_not_falling_behind() {
    let schedule = ArrivalSchedule::poisson(1_000, 0, SECOND_NS, 3);
    let due = schedule.waiting(SECOND_NS);
    assert!((900..1_100).contains(&due), "{due}");
    assert!(!schedule.fell_behind(0, 1, SECOND_NS));
    assert!(!schedule.fell_behind(due / 100, 1, SECOND_NS), "1 % of what was due");
    assert!(schedule.fell_behind(due / 100 + 1, 1, SECOND_NS));
    assert!(!schedule.fell_behind(20, 20, SECOND_NS), "one for each worker");
    assert!(schedule.fell_behind(21, 20, SECOND_NS));
}

proptest! {
    #[test]
    fn every_block_is_a_permutation_and_its_reverse(arms in 1_usize..7, seed: u64) {
        for order in BlockOrders::new(arms, seed).take(9) {
            let (there, back) = order.split_at(arms);
            prop_assert!(back.iter().rev().eq(there));
            let mut sorted = there.to_vec();
            sorted.sort_unstable();
            prop_assert!(sorted.into_iter().eq(0..arms));
        }
    }

    #[test]
    fn each_arm_starts_two_of_every_four_blocks(seed: u64) {
        let orders: Vec<_> = BlockOrders::new(2, seed).take(40).collect();
        for group in orders.chunks(GROUP) {
            prop_assert_eq!(group.iter().filter(|order| order[0] == 0).count(), 2);
        }
    }

    #[test]
    fn orders_follow_from_the_seed(arms in 1_usize..7, seed: u64) {
        let first: Vec<_> = BlockOrders::new(arms, seed).take(12).collect();
        prop_assert!(BlockOrders::new(arms, seed).take(12).eq(first));
    }
}

#[test]
fn the_first_block_is_a_fair_coin() {
    let heads = (0..1_000).filter(|&seed| BlockOrders::new(2, seed).next().unwrap()[0] == 0).count();
    // 500 expected, standard deviation 16.
    assert!((400..600).contains(&heads), "{heads}");
}
