//! What a script is run with: its settings, and sysbench's general options as `sysbench.opt` shows them.

use std::collections::BTreeMap;

use OptionType::{Bool, Double, Int, List, Size, String as Text};

use crate::options::{OptionDecl, OptionType, OptionValue};
use crate::random::{RandSettings, UniquePlace};

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
    /// A value of the wrong form is an error; else it is read as sysbench reads it ([`OptionDecl::fit_as_sysbench`]).
    pub strict: bool,
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
            strict: true,
            command: None,
        }
    }
}

/// Name, type and default of general, random, log, database and MySQL options, of both dialects.
const GENERAL: &[(&str, OptionType, &str)] = &[
    ("threads", Int, "1"),
    ("events", Int, "0"),
    ("time", Int, "10"),
    ("warmup_time", Int, "0"),
    ("forced_shutdown", Text, "off"),
    ("thread_stack_size", Size, "64K"),
    ("thread_init_timeout", Int, "30"),
    ("rate", Int, "0"),
    ("report_interval", Int, "0"),
    ("report_checkpoints", List, ""),
    ("debug", Bool, "off"),
    ("validate", Bool, "off"),
    ("help", Bool, "off"),
    ("version", Bool, "off"),
    ("luajit_cmd", Text, ""),
    ("tx_rate", Int, "0"),
    ("max_requests", Int, "0"),
    ("max_time", Int, "0"),
    ("num_threads", Int, "1"),
    ("rand_type", Text, "uniform"),
    ("rand_seed", Int, "0"),
    ("rand_spec_iter", Int, "12"),
    ("rand_spec_pct", Int, "1"),
    ("rand_spec_res", Int, "75"),
    ("rand_pareto_h", Double, "0.2"),
    ("rand_zipfian_exp", Double, "0.8"),
    ("verbosity", Int, "3"),
    ("percentile", Int, "95"),
    ("histogram", Bool, "off"),
    ("db_driver", Text, "mysql"),
    ("db_ps_mode", Text, "auto"),
    ("db_debug", Bool, "off"),
    ("mysql_host", List, "localhost"),
    ("mysql_port", List, "3306"),
    ("mysql_socket", List, ""),
    ("mysql_user", Text, "sbtest"),
    ("mysql_password", Text, ""),
    ("mysql_db", Text, "sbtest"),
    ("mysql_ssl", Text, "off"),
    ("mysql_ssl_key", Text, ""),
    ("mysql_ssl_ca", Text, ""),
    ("mysql_ssl_cert", Text, ""),
    ("mysql_ssl_cipher", Text, ""),
    ("mysql_compression", Bool, "off"),
    ("mysql_compression_algorithms", Text, "zlib"),
    ("mysql_debug", Bool, "off"),
    ("mysql_ignore_errors", List, "1213,1020,1205"),
    ("mysql_dry_run", Bool, "off"),
];

/// Names of all general options.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    GENERAL.iter().map(|(name, ..)| *name)
}

/// Every general option with its value. A value that does not fit its type is passed on as it is: the engine has accepted it.
pub(crate) fn values(settings: &Settings) -> BTreeMap<String, OptionValue> {
    let mut values = BTreeMap::new();
    for (name, kind, default) in GENERAL {
        let default = OptionValue::Text((*default).to_owned());
        values.insert((*name).to_owned(), decl(name, *kind, Some(default)).default_value());
    }
    let threads = OptionValue::Int(i64::from(settings.threads));
    values.insert("threads".to_owned(), threads.clone());
    values.insert("num_threads".to_owned(), threads);
    values.insert(
        "rand_type".to_owned(),
        OptionValue::Text(settings.rand.kind.name().to_owned()),
    );
    values.insert("rand_seed".to_owned(), OptionValue::Double(settings.seed as f64));
    for (name, given) in &settings.general {
        let name = name.replace('-', "_");
        let fitted = GENERAL
            .iter()
            .find(|(known, ..)| *known == name)
            .and_then(|(_, kind, _)| decl(&name, *kind, None).fit(given).ok());
        values.insert(name, fitted.unwrap_or_else(|| given.clone()));
    }
    values
}

fn decl(name: &str, kind: OptionType, default: Option<OptionValue>) -> OptionDecl {
    OptionDecl {
        name: name.to_owned(),
        written: name.to_owned(),
        description: String::new(),
        default,
        kind,
    }
}

#[cfg(test)]
#[path = "../tests/unit/settings.rs"]
mod tests;
