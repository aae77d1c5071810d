//! What a script is run with: options, seed, distribution, number of threads.

use std::collections::BTreeMap;

use crate::options::OptionValue;
use crate::random::UniquePlace;

/// Server errors after which an event is run again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IgnoreErrors {
    /// Every error (`--mysql-ignore-errors=all`).
    All,
    /// Just these numbers.
    Codes(Vec<u16>),
}

impl Default for IgnoreErrors {
    /// Deadlock, record changed since last read, lock wait timeout: sysbench's default.
    fn default() -> Self {
        Self::Codes(vec![1213, 1020, 1205])
    }
}

impl IgnoreErrors {
    /// Is this error one of them?
    #[must_use]
    pub fn contains(&self, code: u16) -> bool {
        match self {
            Self::All => true,
            Self::Codes(codes) => codes.contains(&code),
        }
    }
}

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
    /// By its name in `--rand-type`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "uniform" => Self::Uniform,
            "gaussian" => Self::Gaussian,
            "special" => Self::Special,
            "pareto" => Self::Pareto,
            "zipfian" => Self::Zipfian,
            _ => return None,
        })
    }

    /// Its name in `--rand-type`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Gaussian => "gaussian",
            Self::Special => "special",
            Self::Pareto => "pareto",
            Self::Zipfian => "zipfian",
        }
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

/// Everything that a script is run with; the same for every thread.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Values of the script's own options, by name, `-` and `_` alike. A name that the script does not declare is an error,
    /// except in a script that declares none: there it becomes a global, as sysbench 1.0 has it.
    pub options: BTreeMap<String, OptionValue>,
    /// Values of sysbench's general and driver options (`threads`, `mysql_user`), shown to the script in `sysbench.opt`;
    /// those left out have sysbench's defaults, or the value of the field here that says the same.
    pub general: BTreeMap<String, OptionValue>,
    /// Worker threads.
    pub threads: u32,
    /// Everything random follows from it.
    pub seed: u64,
    /// Where `sysbench.rand.unique` goes on, for a run after others on the same tables; `None`: at the first of `seed`.
    pub unique_from: Option<UniquePlace>,
    /// Random distributions.
    pub rand: RandSettings,
    /// Server errors after which an event is run again.
    pub ignore_errors: IgnoreErrors,
    /// Command line, program first, for `sysbench.cmdline.argv`; may be empty.
    pub argv: Vec<String>,
    /// Command of the command line, for `sysbench.cmdline.command`.
    pub command: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            options: BTreeMap::new(),
            general: BTreeMap::new(),
            threads: 1,
            seed: 0,
            unique_from: None,
            rand: RandSettings::default(),
            ignore_errors: IgnoreErrors::default(),
            argv: Vec::new(),
            command: None,
        }
    }
}
