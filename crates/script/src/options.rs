//! Options: those that scripts declare (types, defaults, parsing), sysbench's general ones, and all that a script is run with.

use std::collections::BTreeMap;

use OptionType::{Bool, Double, Int, List, Size, String as Text};

use crate::error::ScriptError;
use crate::random::{RandSettings, UniquePlace};

/// An option's type, sysbench's `sysbench.cmdline.ARG_*` with its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs, reason = "the names are sysbench's")]
pub enum OptionType {
    Null = 0,
    Bool = 1,
    Int = 2,
    Size = 3,
    Double = 4,
    String = 5,
    List = 6,
    File = 7,
}

impl OptionType {
    /// By its number in Lua.
    #[must_use]
    pub fn from_number(number: i64) -> Option<Self> {
        use OptionType::{Bool, Double, File, Int, List, Null, Size, String};
        [Null, Bool, Int, Size, Double, String, List, File]
            .into_iter()
            .find(|kind| *kind as i64 == number)
    }

    /// What such an option takes, for messages.
    #[must_use]
    pub fn expected(self) -> &'static str {
        match self {
            Self::Bool => "on or off",
            Self::Int => "a whole number, with K, M, G or T if need be",
            Self::Size => "a number of bytes, with K, M, G or T if need be",
            Self::Double => "a number, with K, M, G or T if need be",
            Self::List => "values with commas between them",
            Self::Null | Self::String | Self::File => "a text",
        }
    }
}

/// An option's value: as given (any form), or after [`OptionDecl::fit`] (the form of its type).
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum OptionValue {
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(String),
    List(Vec<String>),
}

impl OptionValue {
    /// The value as one would type it.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            Self::Bool(true) => "on".to_owned(),
            Self::Bool(false) => "off".to_owned(),
            Self::Int(number) => number.to_string(),
            Self::Double(number) => number.to_string(),
            Self::Text(text) => text.clone(),
            Self::List(items) => items.join(","),
        }
    }
}

/// An option that a script declares in `sysbench.cmdline.options`.
#[derive(Debug, Clone, PartialEq)]
pub struct OptionDecl {
    /// With underscores.
    pub name: String,
    /// As the script writes it, for its help.
    pub written: String,
    /// The script's words.
    pub description: String,
    /// Value when none is given; `None`: on, 0, an empty text or list, as in sysbench.
    pub default: Option<OptionValue>,
    /// Its type.
    pub kind: OptionType,
}

impl OptionDecl {
    /// A given value in the form of this option's type.
    ///
    /// # Errors
    /// [`ScriptError::BadOption`].
    pub fn fit(&self, given: &OptionValue) -> Result<OptionValue, ScriptError> {
        fit(self.kind, given).ok_or_else(|| self.bad(given, self.kind.expected()))
    }

    /// As [`Self::fit`], but as sysbench reads a command line: a number ends where its digits end, and what is no number is 0. Only
    /// whole numbers and flags can be wrong. A flag alone is [`OptionValue::Bool`], another option without a value 0 or empty.
    ///
    /// # Errors
    /// [`ScriptError::BadOption`].
    pub fn fit_as_sysbench(&self, given: &OptionValue) -> Result<OptionValue, ScriptError> {
        let text = match given {
            OptionValue::Bool(true) if self.kind != OptionType::Bool => "",
            OptionValue::Text(text) => text,
            other => return self.fit(other),
        };
        let fitted = fit(self.kind, &OptionValue::Text(text.to_owned()));
        match self.kind {
            OptionType::Bool if !FLAGS.contains(&text) => None,
            OptionType::Int if text.is_empty() => Some(OptionValue::Int(0)),
            OptionType::Size => fitted.or(Some(OptionValue::Int(0))),
            OptionType::Double => fitted.or_else(|| Some(OptionValue::Double(leading_number(text)))),
            _ => fitted,
        }
        .ok_or_else(|| self.bad(given, self.kind.expected()))
    }

    /// The value when none is given.
    #[must_use]
    pub fn default_value(&self) -> OptionValue {
        let empty = match self.kind {
            OptionType::Bool => OptionValue::Bool(true),
            OptionType::Int | OptionType::Size => OptionValue::Int(0),
            OptionType::Double => OptionValue::Double(0.0),
            OptionType::List => OptionValue::List(Vec::new()),
            OptionType::Null | OptionType::String | OptionType::File => OptionValue::Text(String::new()),
        };
        self.default
            .as_ref()
            .and_then(|default| fit(self.kind, default))
            .unwrap_or(empty)
    }

    pub(crate) fn bad(&self, given: &OptionValue, expected: &str) -> ScriptError {
        ScriptError::BadOption {
            name: self.name.clone(),
            value: given.to_text(),
            expected: expected.to_owned(),
        }
    }

    /// The option in `help`, `--tables=N`, and what stands beside it: `Number of tables [1]`.
    #[must_use]
    pub fn help(&self) -> (String, String) {
        let form = match self.kind {
            OptionType::Bool => "[=on|off]",
            OptionType::Int | OptionType::Double => "=N",
            OptionType::Size => "=SIZE",
            OptionType::List => "=[LIST,...]",
            OptionType::File => "=FILENAME",
            OptionType::Null | OptionType::String => "=STRING",
        };
        let default = self.default.as_ref().map(|value| format!(" [{}]", value.to_text()));
        let words = format!("{}{}", self.description, default.unwrap_or_default());
        (format!("--{}{form}", self.written), words)
    }
}

fn fit(kind: OptionType, given: &OptionValue) -> Option<OptionValue> {
    Some(match kind {
        OptionType::Bool => OptionValue::Bool(as_bool(given)?),
        OptionType::Int | OptionType::Size => OptionValue::Int(as_whole(given)?),
        OptionType::Double => OptionValue::Double(as_number(given)?),
        OptionType::List => match given {
            OptionValue::List(items) => OptionValue::List(items.clone()),
            other => OptionValue::List(split_list(&other.to_text())),
        },
        OptionType::Null | OptionType::String | OptionType::File => OptionValue::Text(given.to_text()),
    })
}

fn as_bool(given: &OptionValue) -> Option<bool> {
    match given {
        OptionValue::Bool(value) => Some(*value),
        OptionValue::Int(0) => Some(false),
        OptionValue::Int(1) => Some(true),
        OptionValue::Text(text) => match text.to_ascii_lowercase().as_str() {
            "" | "on" | "true" | "1" | "yes" => Some(true),
            "off" | "false" | "0" | "no" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// What sysbench takes for a flag.
const FLAGS: [&str; 6] = ["on", "off", "true", "false", "1", "0"];

/// The number that a text begins with, or 0.
fn leading_number(text: &str) -> f64 {
    let ends = (0..=text.len()).rev().filter_map(|end| text.get(..end));
    ends.filter_map(|start| start.trim_start().parse().ok())
        .next()
        .unwrap_or(0.0)
}

fn as_number(given: &OptionValue) -> Option<f64> {
    let number = match given {
        OptionValue::Int(number) => *number as f64,
        OptionValue::Double(number) => *number,
        OptionValue::Bool(value) => f64::from(u8::from(*value)),
        OptionValue::Text(text) => parse_scaled(text)?,
        OptionValue::List(_) => return None,
    };
    number.is_finite().then_some(number)
}

fn as_whole(given: &OptionValue) -> Option<i64> {
    if let OptionValue::Int(number) = given {
        return Some(*number);
    }
    let number = as_number(given)?;
    (number.fract() == 0.0 && number.abs() < 9.2e18).then_some(number as i64)
}

/// `1M` is 1,048,576: the suffixes K, M, G and T stand for powers of 1024, for every kind of number.
fn parse_scaled(text: &str) -> Option<f64> {
    let text = text.trim();
    let (digits, scale) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 1024_f64),
        (at, 'm' | 'M') => (&text[..at], 1024_f64.powi(2)),
        (at, 'g' | 'G') => (&text[..at], 1024_f64.powi(3)),
        (at, 't' | 'T') => (&text[..at], 1024_f64.powi(4)),
        _ => (text, 1.0),
    };
    digits.trim_end().parse::<f64>().ok().map(|number| number * scale)
}

fn split_list(text: &str) -> Vec<String> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(str::to_owned)
        .collect()
}

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
pub(crate) fn general_names() -> impl Iterator<Item = &'static str> {
    GENERAL.iter().map(|(name, ..)| *name)
}

/// Every general option with its value. A value that does not fit its type is passed on as it is: the engine has accepted it.
pub(crate) fn general_values(settings: &Settings) -> BTreeMap<String, OptionValue> {
    let mut values = BTreeMap::new();
    for (name, kind, default) in GENERAL {
        let default = OptionValue::Text((*default).to_owned());
        values.insert(
            (*name).to_owned(),
            general_decl(name, *kind, Some(default)).default_value(),
        );
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
            .and_then(|(_, kind, _)| general_decl(&name, *kind, None).fit(given).ok());
        values.insert(name, fitted.unwrap_or_else(|| given.clone()));
    }
    values
}

fn general_decl(name: &str, kind: OptionType, default: Option<OptionValue>) -> OptionDecl {
    OptionDecl {
        name: name.to_owned(),
        written: name.to_owned(),
        description: String::new(),
        default,
        kind,
    }
}

#[cfg(test)]
#[path = "../tests/unit/options.rs"]
mod tests;
