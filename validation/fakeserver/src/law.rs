//! The latency law: how long a statement takes, known exactly, so that a measurement can be compared with it.
//!
//! Work of one statement [ns] = draw × slow_factor × instance_factor × Π drift(t), where t is the time since the origin.
//! Work progresses only outside stalls. Pure functions of time and a seeded generator; nothing here waits.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, Exp1, StandardNormal};

const NS_PER_S: f64 = 1e9;

/// Returns the generator of one stream of a seed; different pairs give unrelated latencies.
pub(crate) fn random_stream(seed: u64, stream: u64) -> StdRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&stream.to_le_bytes());
    StdRng::from_seed(bytes)
}

/// The distribution that a statement's work is drawn from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Draw {
    Constant {
        ns: f64,
    },
    Exponential {
        mean_ns: f64,
    },
    /// ln(work) is normal with mean ln(median) and standard deviation sigma; the mean is median × exp(sigma²/2).
    LogNormal {
        median_ns: f64,
        sigma: f64,
    },
}

/// A slow change of the whole law with time, as a factor around 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Drift {
    /// 1 + share × t / period, without end.
    Linear { share: f64, period_s: f64 },
    /// 1 + share × sin(2π t / period).
    Sine { share: f64, period_s: f64 },
    /// 1 before the moment, 1 + share from it on.
    Step { share: f64, at_s: f64 },
}

impl Drift {
    fn factor(&self, now_ns: u64) -> f64 {
        let now_s = now_ns as f64 / NS_PER_S;
        match *self {
            Self::Linear { share, period_s } => 1.0 + share * now_s / period_s,
            Self::Sine { share, period_s } => 1.0 + share * (std::f64::consts::TAU * now_s / period_s).sin(),
            Self::Step { share, at_s } => 1.0 + if now_s >= at_s { share } else { 0.0 },
        }
    }
}

/// A freeze of the whole server: no work progresses in `[k·period, k·period + length)`, k ≥ 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stall {
    pub(crate) length_ns: u64,
    /// Above `length_ns`.
    pub(crate) period_ns: u64,
}

impl Stall {
    fn end_of_stall_at(&self, now_ns: u64) -> Option<u64> {
        let (count, offset) = (now_ns / self.period_ns, now_ns % self.period_ns);
        (count >= 1 && offset < self.length_ns).then(|| count * self.period_ns + self.length_ns)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Law {
    pub(crate) draw: Draw,
    /// An injected slowdown: 1.05 makes every statement take 5 % longer.
    pub(crate) slow_factor: f64,
    /// The factor of this start; real servers have one too.
    pub(crate) instance_factor: f64,
    pub(crate) drifts: Vec<Drift>,
    pub(crate) stall: Option<Stall>,
}

impl Law {
    /// Draws the factor of one start: exp(N(0, sd)), so that sd is a standard deviation of log ratios.
    pub(crate) fn draw_instance_factor(sd: f64, seed: u64) -> f64 {
        // No connection has this stream: their numbers are 32 bits wide.
        let normal: f64 = StandardNormal.sample(&mut random_stream(seed, u64::MAX));
        (sd * normal).exp()
    }

    /// Work of a statement that arrives at `now_ns` (since the origin), in ns; 0 means an answer at once.
    pub(crate) fn work_ns(&self, now_ns: u64, random: &mut StdRng) -> u64 {
        let drawn = match self.draw {
            Draw::Constant { ns } => ns,
            Draw::Exponential { mean_ns } => mean_ns * Distribution::<f64>::sample(&Exp1, random),
            Draw::LogNormal { median_ns, sigma } => {
                let normal: f64 = StandardNormal.sample(random);
                median_ns * (sigma * normal).exp()
            }
        };
        let drift: f64 = self.drifts.iter().map(|drift| drift.factor(now_ns)).product();
        // A float-to-integer cast saturates: a drift below zero gives no work, never a wrap.
        (drawn * self.slow_factor * self.instance_factor * drift).round() as u64
    }

    /// Returns when work that begins at `start_ns` is done, stalls included.
    pub(crate) fn finish_ns(&self, start_ns: u64, work_ns: u64) -> u64 {
        let Some(stall) = self.stall else { return start_ns.saturating_add(work_ns) };
        let (mut now, mut left) = (start_ns, work_ns);
        loop {
            now = stall.end_of_stall_at(now).unwrap_or(now);
            let until_stall = (now / stall.period_ns + 1) * stall.period_ns - now;
            if left <= until_stall {
                return now + left;
            }
            now += until_stall;
            left -= until_stall;
        }
    }
}

#[cfg(test)]
#[path = "../tests/unit/law.rs"]
mod tests;
