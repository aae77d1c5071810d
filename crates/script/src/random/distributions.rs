//! sysbench's distributions over a range of whole numbers, both ends included.

use super::Generator;

/// Distribution that `sysbench.rand.default` draws from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the names are --rand-type's")]
pub enum RandKind {
    #[default]
    Uniform,
    Gaussian,
    Special,
    Pareto,
    Zipfian,
}

impl RandKind {
    const NAMES: [(&'static str, Self); 5] = [
        ("uniform", Self::Uniform),
        ("gaussian", Self::Gaussian),
        ("special", Self::Special),
        ("pareto", Self::Pareto),
        ("zipfian", Self::Zipfian),
    ];

    /// By its name in `--rand-type`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let named = Self::NAMES.iter().find(|(known, _)| *known == name);
        named.map(|(_, kind)| *kind)
    }

    /// Its name in `--rand-type`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].0
    }
}

/// Shape of the random distributions; the defaults are sysbench's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RandSettings {
    /// What `sysbench.rand.default` draws from.
    pub kind: RandKind,
    /// Uniform draws averaged into one gaussian or special value (`--rand-spec-iter`).
    pub spec_iter: u32,
    /// Width of the special band in the middle, per cent of the range (`--rand-spec-pct`).
    pub spec_pct: f64,
    /// Values that fall into that band, per cent (`--rand-spec-res`).
    pub spec_res: f64,
    /// `h` of the pareto distribution: a share `h` of the values gets a share `1 - h` of the draws (`--rand-pareto-h`).
    pub pareto_h: f64,
    /// Exponent of the zipfian distribution (`--rand-zipfian-exp`).
    pub zipfian_exp: f64,
}

impl Default for RandSettings {
    fn default() -> Self {
        Self {
            kind: RandKind::Uniform,
            spec_iter: 12,
            spec_pct: 1.0,
            spec_res: 75.0,
            pareto_h: 0.2,
            zipfian_exp: 0.8,
        }
    }
}

/// The distributions with their parameters; the draws come from the caller's [`Generator`].
///
/// A range whose ends are the wrong way round counts as turned.
#[derive(Debug, Clone)]
pub struct Distributions {
    settings: RandSettings,
    pareto_power: f64,
    zipfian: Zipfian,
}

impl Distributions {
    /// With these parameters.
    #[must_use]
    pub fn new(settings: &RandSettings) -> Self {
        Self {
            settings: *settings,
            pareto_power: settings.pareto_h.ln() / (1.0 - settings.pareto_h).ln(),
            zipfian: Zipfian::new(1, settings.zipfian_exp),
        }
    }

    /// From the distribution of `--rand-type`.
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

    /// Every value alike.
    #[inline]
    pub fn uniform(generator: &mut Generator, low: u32, high: u32) -> u32 {
        let (low, width) = range(low, high);
        low + generator.below(width) as u32
    }

    /// A bell around the middle: the mean of `spec_iter` uniform draws.
    pub fn gaussian(&self, generator: &mut Generator, low: u32, high: u32) -> u32 {
        let (low, width) = range(low, high);
        let draws = self.settings.spec_iter.max(1);
        let sum: f64 = (0..draws).map(|_| generator.next_f64()).sum();
        at_share(low, width, sum / f64::from(draws))
    }

    /// `spec_res` per cent of the draws fall alike on the middle `spec_pct` per cent of the range, the others on a bell.
    pub fn special(&self, generator: &mut Generator, low: u32, high: u32) -> u32 {
        if generator.next_f64() * 100.0 >= self.settings.spec_res {
            return self.gaussian(generator, low, high);
        }
        let (low, width) = range(low, high);
        let band = ((width as f64 * self.settings.spec_pct / 100.0) as u64).clamp(1, width);
        low + ((width - band) / 2 + generator.below(band)) as u32
    }

    /// Low values most: u^p with p = ln h / ln(1-h), so a share h of the range gets a share 1-h of the draws.
    pub fn pareto(&self, generator: &mut Generator, low: u32, high: u32) -> u32 {
        let (low, width) = range(low, high);
        at_share(low, width, generator.next_f64().powf(self.pareto_power))
    }

    /// The k-th value of the range with probability proportional to k^-s.
    pub fn zipfian(&mut self, generator: &mut Generator, low: u32, high: u32) -> u32 {
        let (low, width) = range(low, high);
        if self.zipfian.count != width {
            self.zipfian = Zipfian::new(width, self.settings.zipfian_exp);
        }
        low + (self.zipfian.draw(generator) - 1) as u32
    }
}

/// Lower end and number of values, up to 2^32.
#[inline]
fn range(low: u32, high: u32) -> (u32, u64) {
    let (low, high) = if low <= high { (low, high) } else { (high, low) };
    (low, u64::from(high - low) + 1)
}

fn at_share(low: u32, width: u64, share: f64) -> u32 {
    low + ((width as f64 * share) as u64).min(width - 1) as u32
}

/// Ranks 1..=count with probability proportional to rank^-exponent.
///
/// Rejection from the inverse of the density's integral (Hörmann and Derflinger 1996, "Rejection-inversion to generate
/// variates from monotone discrete distributions"): constant time, at least 0.9 acceptance, no table.
#[derive(Debug, Clone)]
pub struct Zipfian {
    count: u64,
    exponent: f64,
    integral_low: f64,
    integral_high: f64,
    accept_at_once: f64,
}

impl Zipfian {
    /// `count` is at least 1, `exponent` above 0 (smaller ones count as 1e-9, which is uniform).
    #[must_use]
    pub fn new(count: u64, exponent: f64) -> Self {
        let exponent = exponent.max(1e-9);
        let mut zipfian = Self {
            count: count.max(1),
            exponent,
            integral_low: 0.0,
            integral_high: 0.0,
            accept_at_once: 0.0,
        };
        zipfian.integral_low = zipfian.integral(1.5) - 1.0;
        zipfian.integral_high = zipfian.integral(zipfian.count as f64 + 0.5);
        zipfian.accept_at_once = 2.0 - zipfian.inverse(zipfian.integral(2.5) - zipfian.density(2.0));
        zipfian
    }

    /// A rank, 1 the most frequent.
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

    /// The integral of the density from 1 to x: (x^(1-s) - 1) / (1-s), and ln x for s = 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let power = (1.0 - self.exponent) * log;
        if power.abs() < 1e-8 {
            log * (1.0 + power / 2.0)
        } else {
            power.exp_m1() / (1.0 - self.exponent)
        }
    }

    fn inverse(&self, area: f64) -> f64 {
        let power = (area * (1.0 - self.exponent)).max(-1.0);
        let log = if power.abs() < 1e-8 {
            area * (1.0 - power / 2.0)
        } else {
            power.ln_1p() / (1.0 - self.exponent)
        };
        log.exp()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/random_distributions.rs"]
mod tests;
