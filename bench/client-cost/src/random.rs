//! Random row numbers for a few cycles each.

/// Xorshift64* (Vigna 2016).
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // The state must never be zero; a golden-ratio multiple parts neighbouring seeds.
        Self { state: seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 }
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Uniform in `0..bound`, by multiplication: the bias is below 2^-32 for any table that fits a disk.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    pub(crate) fn digits(&mut self, count: usize) -> String {
        (0..count).map(|_| char::from(b'0' + self.below(10) as u8)).collect()
    }
}
