//! Random numbers of the engine itself: orders and arrivals. The scripts' distributions are `bakeoff-script`'s.
//!
//! A generator of our own, because a run must be repeatable from its seed with any later version of a library.

/// `SplitMix64` (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014): 64 bits of state, every seed good.
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The stream of one seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The stream of several numbers together; `(a, b)` and `(b, a)` differ.
    pub fn of(numbers: &[u64]) -> Self {
        numbers
            .iter()
            .fold(Self(0x0062_616b_656f_6666), |mut stream, &number| {
                let mixed = stream.next_u64();
                Self(mixed ^ number)
            })
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Uniform in `[0, 1)`, 53 bits.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform in `0..bound`; the bias is below `bound` / 2^64.
    ///
    /// # Panics
    /// When `bound` is 0.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the upper half of the product is below `bound`"
    )]
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "nothing is below 0");
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }

    /// Puts `items` into random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_stream_of_seed_1234567() {
        // Vector of the reference implementation (Vigna, prng.di.unimi.it/splitmix64.c).
        let mut stream = SplitMix64::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| stream.next_u64()).collect();
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn every_permutation_of_three_is_about_equally_frequent() {
        let mut stream = SplitMix64::new(7);
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..6_000 {
            let mut items = [0, 1, 2];
            stream.shuffle(&mut items);
            *seen.entry(items).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        // 1000 expected; the standard deviation is 29.
        assert!(
            seen.values().all(|count| (850..1_150).contains(count)),
            "{seen:?}"
        );
    }

    #[test]
    fn order_of_the_numbers_matters() {
        assert_ne!(
            SplitMix64::of(&[1, 2]).next_u64(),
            SplitMix64::of(&[2, 1]).next_u64()
        );
        assert_eq!(
            SplitMix64::of(&[1, 2]).next_u64(),
            SplitMix64::of(&[1, 2]).next_u64()
        );
    }
}
