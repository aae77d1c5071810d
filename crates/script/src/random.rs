//! Random numbers: the generator and its streams, `sysbench.rand.unique`, sysbench's distributions, rows and texts.
//! Everything follows from the seed.

use strum::{Display, EnumString};

mod content;

pub use content::{Content, Texts, fill_template, fill_varied, push_digit_groups, push_row};

/// What a stream is for. Streams of different kinds never coincide, whatever their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum StreamKind {
    Worker = 1,
    Block = 2,
    Rows = 3,
    Unique = 4,
    /// Texts that depend on a number alone, numbered (1, number). (0, 0) is the common part of all compressible texts.
    Text = 5,
}

/// xoroshiro128+ 1.0 (Blackman and Vigna 2018), sysbench's generator. Use the high bits: the lowest one is weak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generator {
    state: [u64; 2],
}

impl Generator {
    pub fn for_stream(seed: u64, kind: StreamKind, first: u64, second: u64) -> Self {
        let mut mixed = mix(seed);
        for word in [kind as u64, first, second] {
            // Multiplied, so that seed and words are not interchangeable.
            mixed = mix(mixed.wrapping_mul(GOLDEN).wrapping_add(word));
        }
        let low = mix(mixed.wrapping_add(GOLDEN));
        let high = mix(mixed.wrapping_add(GOLDEN.wrapping_mul(2)));
        Self { state: if low | high == 0 { [1, GOLDEN] } else { [low, high] } }
    }

    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [first, mut second] = self.state;
        let out = first.wrapping_add(second);
        second ^= first;
        self.state = [first.rotate_left(24) ^ second ^ (second << 16), second.rotate_left(37)];
        out
    }

    #[inline]
    pub fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Uniform in 0..`bound`, for `bound` up to 2^32. Returns 0 for a bound of 0. Multiplies and shifts (Lemire 2019)
    /// without the rejection step: the bias is below `bound` / 2^64.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of splitmix64 (Steele, Lea, Flood 2014), a bijection that spreads every input bit.
pub(super) fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct UniquePlace {
    seed: u64,
    next: u32,
}

impl UniquePlace {
    pub fn first(seed: u64) -> Self {
        Self { seed, next: 0 }
    }
}

/// The unique numbers of one thread. Thread `t` of `n` takes places t, t+n, t+2n … of one permutation of all 32-bit
/// numbers, so threads never collide and need not communicate.
#[derive(Debug, Clone)]
pub struct Unique {
    keys: [u32; Self::ROUNDS],
    pub(crate) place: UniquePlace,
    step: u32,
}

impl Unique {
    const ROUNDS: usize = 6;

    /// Creates the numbers of one of `threads` threads, all of which start at `from`. Its seed fixes the permutation.
    pub fn new(from: UniquePlace, thread: u32, threads: u32) -> Self {
        let mut generator = Generator::for_stream(from.seed, StreamKind::Unique, 0, 0);
        let keys = std::array::from_fn(|_| (generator.next_u64() >> 32) as u32);
        Self { keys, place: UniquePlace { next: from.next.wrapping_add(thread), ..from }, step: threads.max(1) }
    }

    pub fn draw(&mut self) -> u32 {
        self.draw_below(0)
    }

    /// Draws the next number below `bound` (0 for 2^32). The sequence repeats after `bound` / `threads` numbers.
    pub fn draw_below(&mut self, bound: u32) -> u32 {
        let place = self.place.next;
        self.place.next = place.wrapping_add(self.step);
        let Some(largest) = bound.checked_sub(1) else { return self.permute(place, 16) };
        let half_bits = (u32::BITS - largest.leading_zeros()).div_ceil(2).max(1);
        let mut number = place % bound;
        // The bijection covers at most four times as many numbers, so this takes at most four steps on average.
        loop {
            number = self.permute(number, half_bits);
            if number < bound {
                return number;
            }
        }
    }

    /// A Feistel network over two halves of `half_bits`, which is a bijection for any round function.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Display, EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum RandKind {
    #[default]
    Uniform,
    Gaussian,
    Special,
    Pareto,
    Zipfian,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RandSettings {
    pub kind: RandKind,
    /// Uniform draws averaged into one gaussian or special value.
    pub spec_iter: u32,
    /// Width of the special band in the middle, per cent of the range.
    pub spec_pct: f64,
    /// Values that fall into that band, per cent.
    pub spec_res: f64,
    /// A share `h` of the values gets a share `1 - h` of the draws.
    pub pareto_h: f64,
    pub zipfian_exp: f64,
}

impl Default for RandSettings {
    fn default() -> Self {
        Self { kind: RandKind::Uniform, spec_iter: 12, spec_pct: 1.0, spec_res: 75.0, pareto_h: 0.2, zipfian_exp: 0.8 }
    }
}

/// Distributions with their parameters. They draw from the caller's [`Generator`]. A range's ends may be swapped.
#[derive(Debug, Clone)]
pub struct Distributions {
    settings: RandSettings,
    pareto_power: f64,
    zipfian: Zipfian,
}

impl Distributions {
    pub fn new(settings: &RandSettings) -> Self {
        Self {
            settings: *settings,
            pareto_power: settings.pareto_h.ln() / (1.0 - settings.pareto_h).ln(),
            zipfian: Zipfian::new(1, settings.zipfian_exp),
        }
    }

    #[inline]
    pub fn default(&mut self, generator: &mut Generator, low: u32, high: u32) -> u32 {
        match self.settings.kind {
            RandKind::Uniform => Self::uniform(generator, low, high),
            RandKind::Gaussian => self.gaussian(generator, low, high),
            RandKind::Special => self.special(generator, low, high),
            RandKind::Pareto => self.pareto(generator, low, high),
            RandKind::Zipfian => self.zipfian(generator, low, high),
        }
    }

    #[inline]
    pub fn uniform(generator: &mut Generator, low: u32, high: u32) -> u32 {
        let (low, width) = range(low, high);
        low + generator.below(width) as u32
    }

    pub fn gaussian(&self, generator: &mut Generator, low: u32, high: u32) -> u32 {
        let (low, width) = range(low, high);
        let draws = self.settings.spec_iter.max(1);
        let sum: f64 = (0..draws).map(|_| generator.next_f64()).sum();
        at_share(low, width, sum / f64::from(draws))
    }

    /// Draws `spec_res` per cent uniformly from the middle `spec_pct` per cent of the range, and the rest from a bell.
    pub fn special(&self, generator: &mut Generator, low: u32, high: u32) -> u32 {
        if generator.next_f64() * 100.0 >= self.settings.spec_res {
            return self.gaussian(generator, low, high);
        }
        let (low, width) = range(low, high);
        let band = ((width as f64 * self.settings.spec_pct / 100.0) as u64).clamp(1, width);
        low + ((width - band) / 2 + generator.below(band)) as u32
    }

    /// Draws mostly low values: u^p with p = ln h / ln(1-h), so a share h of the range gets a share 1-h of the draws.
    pub fn pareto(&self, generator: &mut Generator, low: u32, high: u32) -> u32 {
        let (low, width) = range(low, high);
        at_share(low, width, generator.next_f64().powf(self.pareto_power))
    }

    pub fn zipfian(&mut self, generator: &mut Generator, low: u32, high: u32) -> u32 {
        let (low, width) = range(low, high);
        if self.zipfian.count != width {
            self.zipfian = Zipfian::new(width, self.settings.zipfian_exp);
        }
        low + (self.zipfian.draw(generator) - 1) as u32
    }
}

#[inline]
fn range(low: u32, high: u32) -> (u32, u64) {
    let (low, high) = if low <= high { (low, high) } else { (high, low) };
    (low, u64::from(high - low) + 1)
}

fn at_share(low: u32, width: u64, share: f64) -> u32 {
    low + ((width as f64 * share) as u64).min(width - 1) as u32
}

/// Ranks with probability proportional to rank^-exponent, by rejection-inversion (Hörmann and Derflinger 1996).
#[derive(Debug, Clone)]
pub struct Zipfian {
    count: u64,
    exponent: f64,
    integral_low: f64,
    integral_high: f64,
    accept_at_once: f64,
}

impl Zipfian {
    /// Creates ranks up to `count` (at least 1). Exponents below 1e-9 count as 1e-9, which is uniform.
    pub fn new(count: u64, exponent: f64) -> Self {
        let exponent = exponent.max(1e-9);
        let mut zipfian =
            Self { count: count.max(1), exponent, integral_low: 0.0, integral_high: 0.0, accept_at_once: 0.0 };
        zipfian.integral_low = zipfian.integral(1.5) - 1.0;
        zipfian.integral_high = zipfian.integral(zipfian.count as f64 + 0.5);
        zipfian.accept_at_once = 2.0 - zipfian.inverse(zipfian.integral(2.5) - zipfian.density(2.0));
        zipfian
    }

    pub fn draw(&self, generator: &mut Generator) -> u64 {
        loop {
            let area = self.integral_high + generator.next_f64() * (self.integral_low - self.integral_high);
            let position = self.inverse(area);
            let rank = position.round().clamp(1.0, self.count as f64);
            if rank - position <= self.accept_at_once || area >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u64;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let power = (1.0 - self.exponent) * log;
        if power.abs() < 1e-8 { log * (1.0 + power / 2.0) } else { power.exp_m1() / (1.0 - self.exponent) }
    }

    fn inverse(&self, area: f64) -> f64 {
        let power = (area * (1.0 - self.exponent)).max(-1.0);
        let log = if power.abs() < 1e-8 { area * (1.0 - power / 2.0) } else { power.ln_1p() / (1.0 - self.exponent) };
        log.exp()
    }
}

#[cfg(test)]
#[path = "../tests/unit/random.rs"]
mod tests;
