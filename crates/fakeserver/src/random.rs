//! A small seeded generator: the same seed gives the same latencies in every version, which no library promises.

/// SplitMix64 (Steele, Lea & Flood, OOPSLA 2014): passes BigCrush, 8 bytes of state, any seed is a good seed.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// A stream of its own for each (seed, stream) pair.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut mixer = Self { state: seed };
        let start = mixer.next_u64() ^ stream.wrapping_mul(0xD1B5_4A32_D192_ED03);
        Self { state: start }
    }

    /// Uniform over all 64-bit values.
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Uniform in the open interval (0, 1), 53 bits: a logarithm of it is always finite.
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Exponential with mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -self.unit().ln()
    }

    /// Normal with mean 0 and standard deviation 1 (Box and Muller; the second value is thrown away).
    pub(crate) fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_values_never_change() {
        let mut random = Random { state: 0 };
        // Reference values of SplitMix64 for seed 0.
        assert_eq!(random.next_u64(), 0xE220_A839_7B1D_CDAF);
        assert_eq!(random.next_u64(), 0x6E78_9E6A_A1B9_65F4);
    }

    #[test]
    fn streams_of_one_seed_differ() {
        assert_ne!(Random::new(1, 0).next_u64(), Random::new(1, 1).next_u64());
        assert_ne!(Random::new(1, 0).next_u64(), Random::new(2, 0).next_u64());
        assert_eq!(Random::new(9, 4).next_u64(), Random::new(9, 4).next_u64());
    }

    #[test]
    fn moments_are_near_the_laws() {
        let mut random = Random::new(1, 1);
        let n = 200_000;
        let mean = (0..n).map(|_| random.exponential()).sum::<f64>() / f64::from(n);
        assert!((mean - 1.0).abs() < 0.02, "exponential mean {mean}");
        let normals: Vec<f64> = (0..n).map(|_| random.normal()).collect();
        let mean = normals.iter().sum::<f64>() / f64::from(n);
        let variance = normals.iter().map(|x| x * x).sum::<f64>() / f64::from(n);
        assert!(mean.abs() < 0.02, "normal mean {mean}");
        assert!((variance - 1.0).abs() < 0.03, "normal variance {variance}");
    }
}
