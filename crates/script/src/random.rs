//! Random numbers: the generator and its streams, `sysbench.rand.unique`, sysbench's distributions, rows and texts.
//!
//! Everything follows from the settings' seed: a stream is named by numbers ([`Generator::for_stream`]), never by a clock.

mod content;
mod distributions;
mod text;

pub use content::{Content, Encoding, Texts};
pub use distributions::{Distributions, RandKind, RandSettings, Zipfian};
pub use text::{SbtestRow, fill_template, fill_varied, push_decimal};

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
            state: if low | high == 0 { [1, GOLDEN] } else { [low, high] },
        }
    }

    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [first, mut second] = self.state;
        let out = first.wrapping_add(second);
        second ^= first;
        self.state = [first.rotate_left(24) ^ second ^ (second << 16), second.rotate_left(37)];
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

/// How many numbers of a seed have been drawn: a run that continues from here draws none of them again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct UniquePlace {
    seed: u64,
    next: u32,
}

impl UniquePlace {
    /// Before the first number.
    #[must_use]
    pub fn first(seed: u64) -> Self {
        Self { seed, next: 0 }
    }
}

/// The numbers of one thread: thread `t` of `n` takes places t, t+n, t+2n … of one permutation of all 32-bit numbers,
/// so threads never collide and need not talk to each other.
#[derive(Debug, Clone)]
pub struct Unique {
    keys: [u32; Self::ROUNDS],
    place: UniquePlace,
    step: u32,
}

impl Unique {
    const ROUNDS: usize = 6;

    /// For thread `thread` of `threads`, which all begin at the same place; the permutation follows from its seed.
    #[must_use]
    pub fn new(from: UniquePlace, thread: u32, threads: u32) -> Self {
        let mut generator = Generator::for_stream(from.seed, StreamKind::Unique, 0, 0);
        let keys = std::array::from_fn(|_| (generator.next_u64() >> 32) as u32);
        Self {
            keys,
            place: UniquePlace {
                next: from.next.wrapping_add(thread),
                ..from
            },
            step: threads.max(1),
        }
    }

    /// This thread's place; the furthest of all threads is where another run may begin.
    #[must_use]
    pub fn place(&self) -> UniquePlace {
        self.place
    }

    /// The next number; the sequence comes round after 2^32 / `threads` of them.
    pub fn draw(&mut self) -> u32 {
        let place = self.place.next;
        self.place.next = place.wrapping_add(self.step);
        self.permute(place, 16)
    }

    /// The next number below `bound` (0 is 2^32); the sequence comes round after `bound` / `threads` of them.
    pub fn draw_below(&mut self, bound: u32) -> u32 {
        let place = self.place.next;
        self.place.next = place.wrapping_add(self.step);
        let Some(largest) = bound.checked_sub(1) else {
            return self.permute(place, 16);
        };
        let half_bits = (u32::BITS - largest.leading_zeros()).div_ceil(2).max(1);
        let mut number = place % bound;
        // Of a bijection of up to four times as many numbers: it comes back below the bound after four steps on average.
        loop {
            number = self.permute(number, half_bits);
            if number < bound {
                return number;
            }
        }
    }

    /// A Feistel network over two halves of so many bits: a bijection for any round function.
    fn permute(&self, place: u32, half_bits: u32) -> u32 {
        let mask = u32::MAX >> (u32::BITS - half_bits);
        let (mut left, mut right) = (place >> half_bits, place & mask);
        for key in self.keys {
            let mut round = (right ^ key).wrapping_mul(0x9e37_79b1);
            round ^= round >> 15;
            round = round.wrapping_mul(0x85eb_ca77) ^ key.rotate_left(16);
            (left, right) = (right, left ^ ((round >> 16) & mask));
        }
        (left << half_bits) | right
    }
}

#[cfg(test)]
#[path = "../tests/unit/random.rs"]
mod tests;
