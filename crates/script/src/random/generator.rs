//! xoroshiro128+ and the derivation of independent streams from one seed.

/// What a stream is for: streams of different kinds never coincide, whatever their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum StreamKind {
    /// A worker's draws, numbered (thread, 0), until it is reseeded.
    Worker = 1,
    /// A worker's draws within a block of slices, numbered (thread, block): the same for every arm.
    Block = 2,
    /// The rows of a piece of a table, numbered (table, piece).
    Rows = 3,
    /// Keys of the permutation behind `sysbench.rand.unique`.
    Unique = 4,
    /// Texts that follow from a number alone, numbered (1, number); (0, 0) is what all compressible texts have in common.
    Text = 5,
}

/// xoroshiro128+ 1.0 (Blackman and Vigna 2018, constants 24, 16, 37), the generator that sysbench uses.
///
/// The lowest bit is the weakest, so doubles and ranges are made from the high bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generator {
    state: [u64; 2],
}

impl Generator {
    /// The stream of this kind and these two numbers under `seed`.
    #[must_use]
    pub fn for_stream(seed: u64, kind: StreamKind, first: u64, second: u64) -> Self {
        let mut mixed = mix(seed);
        for word in [kind as u64, first, second] {
            // Multiplied, so that seed and words are not interchangeable.
            mixed = mix(mixed.wrapping_mul(GOLDEN).wrapping_add(word));
        }
        let low = mix(mixed.wrapping_add(GOLDEN));
        let high = mix(mixed.wrapping_add(GOLDEN.wrapping_mul(2)));
        Self {
            state: if low | high == 0 {
                [1, GOLDEN]
            } else {
                [low, high]
            },
        }
    }

    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [first, mut second] = self.state;
        let out = first.wrapping_add(second);
        second ^= first;
        self.state = [
            first.rotate_left(24) ^ second ^ (second << 16),
            second.rotate_left(37),
        ];
        out
    }

    /// Uniform in [0, 1), 53 bits.
    #[inline]
    pub fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Uniform in 0..`bound`, for `bound` up to 2^32; 0 for a bound of 0.
    ///
    /// Multiply and shift (Lemire 2019) without the rejection step: the bias is below `bound` / 2^64.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection that spreads every input bit.
#[must_use]
pub(super) fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn streams_are_reproducible_and_apart() {
        let draw = |seed, kind, a, b| Generator::for_stream(seed, kind, a, b).next_u64();
        assert_eq!(
            draw(7, StreamKind::Worker, 1, 0),
            draw(7, StreamKind::Worker, 1, 0)
        );
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
}
