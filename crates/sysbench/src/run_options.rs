//! The general options, parsed: numbers in range, durations, a seed.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bakeoff_load::failure::Failure;
use bakeoff_load::machine::placement::Placement;
use bakeoff_script::RandSettings;

use crate::command_line::CommandLine;

const MOST_THREADS: i64 = 100_000;
pub(crate) const STANDARD_OUTPUT: [&str; 2] = ["", "-"];
const MOST_CHECKPOINTS: usize = 256;
const ENDLESS: &str = "WARNING: Both event and time limits are disabled, running an endless test";
/// Smallest C stack of a worker. LuaJIT's own data is on the heap, but its parser and connecting need this much.
const LEAST_STACK_BYTES: usize = 256 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    V1_0,
    V1_1,
}

impl Dialect {
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::V1_0 => "1.0.20",
            Self::V1_1 => "1.1.0",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Percentile {
    pub(crate) per_cent: f64,
    pub(crate) label: String,
}

#[derive(Debug, Clone)]
pub(crate) struct RunOptions {
    pub(crate) threads: u32,
    pub(crate) events: Option<u64>,
    pub(crate) time: Option<Duration>,
    pub(crate) warmup: Duration,
    pub(crate) forced_shutdown: Option<Duration>,
    pub(crate) stack_bytes: usize,
    pub(crate) thread_init_timeout: Duration,
    pub(crate) idle_connections: u32,
    pub(crate) placement: Placement,
    pub(crate) rate_per_s: Option<u32>,
    pub(crate) report_interval_s: Option<u64>,
    /// Seconds since the start, sorted, without duplicates.
    pub(crate) checkpoints_s: Vec<u64>,
    pub(crate) debug: bool,
    pub(crate) validate: bool,
    pub(crate) remarks: bool,
    /// Intermediate lines and hooks show the first. Empty for none.
    pub(crate) percentiles: Vec<Percentile>,
    pub(crate) histogram: bool,
    pub(crate) verbosity: i64,
    pub(crate) dialect: Dialect,
    /// A file, or one of [`STANDARD_OUTPUT`].
    pub(crate) json: Option<String>,
    pub(crate) hdr_log: Option<String>,
    /// As given, for the preamble. None if from the clock.
    pub(crate) given_seed: Option<i64>,
    pub(crate) seed: u64,
    pub(crate) rand: RandSettings,
}

impl RunOptions {
    /// Reads the general options in sysbench's order. Passes its warnings to `warn` and fails with its fatal message.
    pub(crate) fn read(line: &CommandLine, warn: impl Fn(&str)) -> Result<Self, String> {
        let number = |name: &str, old_name: &str| {
            if !replaces(old_name, line.int(old_name)) {
                return line.int(name);
            }
            warn(&format!("WARNING: --{} is deprecated, use --{name} instead", old_name.replace('_', "-")));
            line.int(old_name)
        };
        let threads = number("threads", "num_threads");
        let threads = in_range("threads", threads, 1..=MOST_THREADS).map_err(|words| format!("{words}.\n"))?;
        let seconds = |name: &str, number: i64| Ok::<_, String>(bounded_seconds(in_range(name, number, 0..=i64::MAX)?));
        let events = number("events", "max_requests");
        let time = number("time", "max_time");
        if events == 0 && time == 0 {
            warn(ENDLESS);
        }
        let time = seconds("time", time.max(0))?;
        let forced_shutdown = match line.text("forced_shutdown") {
            _ if time.is_zero() => None,
            text => forced_shutdown(text, time)?,
        };
        let stack_bytes = stack_bytes(line.int("thread_stack_size"))?;
        let rand = rand_settings(line)?;
        let rate = number("rate", "tx_rate");
        let checkpoints_s = checkpoints(&line.list("report_checkpoints"))?;
        let given_seed = Some(line.int("rand_seed")).filter(|seed| *seed != 0);
        let interval = seconds("report-interval", line.int("report_interval"))?.as_secs();
        Ok(Self {
            threads: threads as u32,
            events: Some(events).filter(|events| *events > 0).map(i64::cast_unsigned),
            time: Some(time).filter(|time| !time.is_zero()),
            warmup: seconds("warmup-time", line.int("warmup_time"))?,
            forced_shutdown,
            stack_bytes,
            thread_init_timeout: seconds("thread-init-timeout", line.int("thread_init_timeout"))?,
            placement: placement(line.text("placement"))?,
            idle_connections: in_range("idle-connections", line.int("idle_connections"), 0..=MOST_THREADS)? as u32,
            rate_per_s: Some(in_range("rate", rate, 0..=u32::MAX.into())? as u32).filter(|rate| *rate > 0),
            report_interval_s: Some(interval).filter(|interval| *interval > 0),
            checkpoints_s,
            debug: line.is_on("debug"),
            validate: line.is_on("validate"),
            remarks: line.is_on("remarks"),
            percentiles: percentiles(line)?,
            histogram: line.is_on("histogram"),
            verbosity: if line.is_on("debug") { 5 } else { verbosity(line) },
            dialect: dialect(line.text("dialect"))?,
            json: line.has("json").then(|| line.text("json").to_owned()),
            hdr_log: Some(line.text("hdr_log").to_owned()).filter(|file| !file.is_empty()),
            given_seed,
            seed: given_seed.map_or_else(seed_of_clock, i64::cast_unsigned),
            rand,
        })
    }

    pub(crate) fn no_thread(&self, failure: &Failure) -> String {
        let words = &failure.message;
        if self.stack_bytes > LEAST_STACK_BYTES {
            format!("{words}, or a --thread-stack-size below {}", self.stack_bytes)
        } else {
            words.clone()
        }
    }
}

fn invalid(option: &str, value: impl Display) -> String {
    format!("Invalid value for --{}: {value}", option.replace('_', "-"))
}

fn in_range(option: &str, number: i64, range: RangeInclusive<i64>) -> Result<i64, String> {
    if range.contains(&number) { Ok(number) } else { Err(invalid(option, number)) }
}

/// Whether a deprecated option replaces its new name: only if its value is not the default, as in sysbench.
fn replaces(old_name: &str, value: i64) -> bool {
    match old_name {
        "num_threads" => !(0..=1).contains(&value),
        "max_time" => value > 0,
        _ => value != 0,
    }
}

pub(crate) fn verbosity(line: &CommandLine) -> i64 {
    line.int("verbosity") & 0xff
}

fn percentiles(line: &CommandLine) -> Result<Vec<Percentile>, String> {
    let given = line.list("percentile");
    if given.iter().all(|label| label == "0") {
        let needed = line.is_on("histogram");
        return if needed { Err("--histogram cannot be used with --percentile=0".to_owned()) } else { Ok(Vec::new()) };
    }
    let read = |label: String| match label.parse() {
        Ok(per_cent) if per_cent > 0.0 && per_cent <= 100.0 => Ok(Percentile { per_cent, label }),
        _ => Err(invalid("percentile", label)),
    };
    given.into_iter().map(read).collect()
}

fn checkpoints(given: &[String]) -> Result<Vec<u64>, String> {
    let read = |text: &String| text.parse().map_err(|_| invalid("report-checkpoints", format!("'{text}'")));
    let mut seconds = given.iter().map(read).collect::<Result<Vec<u64>, _>>()?;
    if seconds.len() > MOST_CHECKPOINTS {
        return Err(format!("Too many checkpoints in --report-checkpoints (up to {MOST_CHECKPOINTS} can be defined)"));
    }
    seconds.sort_unstable();
    seconds.dedup();
    Ok(seconds)
}

/// Caps seconds at a thousand million, so that neither sums of durations nor their nanoseconds overflow.
fn bounded_seconds(seconds: i64) -> Duration {
    Duration::from_secs(seconds.clamp(0, 1_000_000_000).cast_unsigned())
}

fn forced_shutdown(text: &str, time: Duration) -> Result<Option<Duration>, String> {
    if text.eq_ignore_ascii_case("off") {
        return Ok(None);
    }
    let (number, is_share) = text.strip_suffix('%').map_or((text, false), |number| (number, true));
    let number: u64 = if number.is_empty() { Ok(0) } else { number.parse() }
        .map_err(|_| invalid("forced-shutdown", format!("'{text}'")))?;
    let seconds = if is_share { time.as_secs().saturating_mul(number) / 100 } else { number };
    Ok(Some(bounded_seconds(i64::try_from(seconds).unwrap_or(i64::MAX))))
}

fn stack_bytes(given: i64) -> Result<usize, String> {
    let bytes = usize::try_from(given).ok().filter(|bytes| *bytes > 0);
    let bytes = bytes.ok_or_else(|| format!("Invalid value for thread-stack-size: {given}.\n"))?;
    Ok(bytes.max(LEAST_STACK_BYTES))
}

fn placement(text: &str) -> Result<Placement, String> {
    match text {
        "free" => Ok(Placement::Free),
        "paired" => Ok(Placement::Paired),
        _ => Err(invalid("placement", format!("'{text}'. It is free or paired"))),
    }
}

pub(crate) fn dialect(text: &str) -> Result<Dialect, String> {
    match text {
        "1.0" | "1.0.20" => Ok(Dialect::V1_0),
        "1.1" | "1.1.0" => Ok(Dialect::V1_1),
        _ => Err(invalid("dialect", format!("'{text}'. It is 1.0 or 1.1"))),
    }
}

fn rand_settings(line: &CommandLine) -> Result<RandSettings, String> {
    let kind = line.text("rand_type");
    let share = |name: &str| {
        let number = line.double(name);
        let number = if line.strict || !number.is_finite() { number } else { number.max(0.0) };
        if number.is_finite() && number >= 0.0 { Ok(number) } else { Err(invalid(name, number)) }
    };
    let whole = |name: &str, range: RangeInclusive<i64>| {
        let number = line.int(name);
        let number = if line.strict { number } else { number.clamp(*range.start(), *range.end()) };
        in_range(name, number, range)
    };
    Ok(RandSettings {
        kind: kind.parse().map_err(|_| format!("Invalid random numbers distribution: {kind}."))?,
        spec_iter: whole("rand_spec_iter", 1..=10_000)? as u32,
        spec_pct: whole("rand_spec_pct", 0..=100)? as f64,
        spec_res: whole("rand_spec_res", 0..=100)? as f64,
        pareto_h: share("rand_pareto_h")?,
        zipfian_exp: share("rand_zipfian_exp")?,
    })
}

fn seed_of_clock() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64 & ((1 << 53) - 1)
}

#[cfg(test)]
#[path = "../tests/unit/run_options.rs"]
mod tests;
