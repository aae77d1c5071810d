//! The command line, and the small languages of its values.

use std::path::PathBuf;

use clap::Parser;

use crate::fault::Fault;
use crate::law::{Draw, Drift, Law, Stall};
use crate::server::Config;

/// A MySQL-speaking server with a known latency law, for tests of bakeoff. Answers every statement with injected rows.
///
/// Prints one JSON line when it is ready and one when it ends; ends with its parent and on SIGTERM.
#[derive(Debug, Parser)]
#[command(name = "bakeoff-fakeserver", version)]
pub(crate) struct Options {
    /// Unix socket to listen on.
    #[arg(long)]
    pub(crate) socket: PathBuf,
    /// Threads that serve.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: u16,
    /// What the server says it is.
    #[arg(long, default_value = "8.0.99-bakeoff-fake")]
    server_version: String,
    /// Password of every user (mysql_native_password); without it anyone comes in.
    #[arg(long)]
    password: Option<String>,

    /// Latency of each statement: constant:50us, exp:MEAN or lognormal:MEDIAN,SIGMA. Setting up a session is free of it.
    #[arg(long, default_value = "constant:0us", value_parser = read_draw)]
    latency: Draw,
    /// An injected slowdown: 1.05 makes each latency 5 % longer.
    #[arg(long, default_value_t = 1.0, value_parser = read_factor)]
    slow_factor: f64,
    /// A periodic freeze, as 200ms/10s: 200 ms at each full 10 s since the origin.
    #[arg(long, value_parser = read_stall)]
    stall: Option<Stall>,
    /// Drift of the latency: linear:0.1/60s, sin:0.1/60s or step:0.2@30s. May be given several times.
    #[arg(long, value_parser = read_drift)]
    drift: Vec<Drift>,
    /// This start's own factor is exp(N(0, SD)), drawn from --seed.
    #[arg(long, default_value_t = 0.0)]
    instance_sd: f64,
    /// Seed of all latencies and of the instance factor; without it the clock's.
    #[arg(long)]
    seed: Option<u64>,
    /// Origin of time for drifts and stalls, in ns of CLOCK_MONOTONIC, so that two servers can share them; without it the start.
    #[arg(long)]
    pub(crate) origin_ns: Option<u64>,

    /// Every n-th statement fails: CODE/N, as 1213/1000.
    #[arg(long, value_parser = read_injected_error)]
    error: Option<(u16, u64)>,
    /// Misbehaviour at the server's N-th statement: close@N closes its connection, exit@N ends the server. May be given
    /// several times.
    #[arg(long)]
    fault: Vec<Fault>,
    /// Go on when the parent process ends.
    #[arg(long)]
    pub(crate) detached: bool,
}

impl Options {
    /// The part that all connections share. `clock_seed` is the seed when none was given.
    pub(crate) fn config(&self, clock_seed: u64) -> Config {
        let seed = self.seed.unwrap_or(clock_seed);
        Config {
            version: self.server_version.clone(),
            password: self.password.clone(),
            law: Law {
                draw: self.latency,
                slow_factor: self.slow_factor,
                instance_factor: Law::draw_instance_factor(self.instance_sd, seed),
                drifts: self.drift.clone(),
                stall: self.stall,
            },
            injected_error: self.error,
            faults: self.fault.clone(),
            seed,
        }
    }
}

/// The configuration of a server started without options.
#[cfg(test)]
pub(crate) fn default_config() -> Config {
    Options::parse_from(["bakeoff-fakeserver", "--socket", "unused"]).config(1)
}

/// 24 hours: longer is a typing error.
const LONGEST_NS: f64 = 24.0 * 3600.0 * 1e9;

/// `250ns`, `50us`, `1.5ms`, `2s` in ns.
fn read_duration_ns(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a duration: write 250ns, 50us, 1.5ms or 2s");
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let ns = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    if number < 0.0 || number * ns > LONGEST_NS {
        return Err(format!("'{text}' is outside 0 to 24 hours"));
    }
    Ok((number * ns).round() as u64)
}

fn read_number(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(|| format!("'{text}' is not a number"))
}

fn read_factor(text: &str) -> Result<f64, String> {
    read_number(text).and_then(
        |factor| {
            if factor > 0.0 { Ok(factor) } else { Err(format!("'{text}' must be above 0")) }
        },
    )
}

fn read_draw(text: &str) -> Result<Draw, String> {
    let wrong = || format!("'{text}' is not a latency: write constant:50us, exp:50us or lognormal:50us,0.5");
    let (name, values) = text.split_once(':').ok_or_else(wrong)?;
    let ns = |text: &str| read_duration_ns(text).map(|ns| ns as f64);
    match name {
        "constant" => Ok(Draw::Constant { ns: ns(values)? }),
        "exp" => Ok(Draw::Exponential { mean_ns: ns(values)? }),
        "lognormal" => {
            let (median, sigma) = values.split_once(',').ok_or_else(wrong)?;
            Ok(Draw::LogNormal { median_ns: ns(median)?, sigma: read_number(sigma)? })
        }
        _ => Err(wrong()),
    }
}

fn read_stall(text: &str) -> Result<Stall, String> {
    let (length, period) = text.split_once('/').ok_or_else(|| format!("'{text}' is not a stall: write 200ms/10s"))?;
    let stall = Stall { length_ns: read_duration_ns(length)?, period_ns: read_duration_ns(period)? };
    if stall.length_ns >= stall.period_ns {
        return Err(format!("'{text}': the stall must be shorter than its period"));
    }
    Ok(stall)
}

fn read_drift(text: &str) -> Result<Drift, String> {
    let wrong = || format!("'{text}' is not a drift: write linear:0.1/60s, sin:0.1/60s or step:0.2@30s");
    let seconds = |text: &str| read_duration_ns(text).map(|ns| ns as f64 / 1e9);
    let (name, values) = text.split_once(':').ok_or_else(wrong)?;
    let (share, time) = values.split_once(['/', '@']).ok_or_else(wrong)?;
    let (share, time_s) = (read_number(share)?, seconds(time)?);
    match name {
        "step" => Ok(Drift::Step { share, at_s: time_s }),
        "linear" | "sin" if time_s <= 0.0 => Err(format!("'{text}': the period must be above 0")),
        "linear" => Ok(Drift::Linear { share, period_s: time_s }),
        "sin" => Ok(Drift::Sine { share, period_s: time_s }),
        _ => Err(wrong()),
    }
}

fn read_injected_error(text: &str) -> Result<(u16, u64), String> {
    let wrong = || format!("'{text}' is not an error and a period: write 1213/1000");
    let (code, every) = text.split_once('/').ok_or_else(wrong)?;
    let every = every.parse().ok().filter(|&every| every > 0).ok_or_else(wrong)?;
    Ok((code.parse().map_err(|_| wrong())?, every))
}

#[cfg(test)]
#[path = "../tests/unit/options.rs"]
mod tests;
