//! Tests of `src/block_orders.rs`.

use super::*;
use proptest::prelude::*;

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
    fn each_group_of_four_has_two_of_each(seed: u64) {
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
    let heads = (0..1_000)
        .filter(|&seed| BlockOrders::new(2, seed).next().unwrap()[0] == 0)
        .count();
    // 500 expected, standard deviation 16.
    assert!((400..600).contains(&heads), "{heads}");
}
