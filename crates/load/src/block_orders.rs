//! In which order the arms of a block take their turns: random, and such that a linear drift cancels.

use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::arrivals::generator;

/// Blocks in a permuted group of two arms: two ABBA and two BAAB, so that the counts never drift apart by more than two.
const GROUP: usize = 4;

/// The orders of successive blocks, without end. Each is a permutation of the arms and its reverse, so every arm has two slices
/// in a block and the same mean position: a linear drift cancels exactly.
///
/// Two arms: ABBA or BAAB by fair coin, in permuted groups of four. More: a random permutation each block. One: itself.
#[derive(Debug, Clone)]
pub struct BlockOrders {
    arms: usize,
    random: ChaCha8Rng,
    /// Two arms: what is left of the group, true for the reversed order.
    group: Vec<bool>,
}

impl BlockOrders {
    /// The orders for arms `0..arms` that follow from `seed`.
    pub fn new(arms: usize, seed: u64) -> Self {
        Self {
            arms,
            random: generator([seed, arms as u64, 0, 2]),
            group: Vec::new(),
        }
    }

    fn permutation(&mut self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.arms).collect();
        if self.arms == 2 {
            if self.group.is_empty() {
                self.group = (0..GROUP).map(|index| index < GROUP / 2).collect();
                self.group.shuffle(&mut self.random);
            }
            if self.group.pop() == Some(true) {
                order.reverse();
            }
        } else {
            order.shuffle(&mut self.random);
        }
        order
    }
}

impl Iterator for BlockOrders {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        let mut order = self.permutation();
        order.extend_from_within(..);
        order[self.arms..].reverse();
        Some(order)
    }
}

#[cfg(test)]
#[path = "../tests/unit/block_orders.rs"]
mod tests;
