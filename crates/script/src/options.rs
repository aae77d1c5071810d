//! Options that scripts declare (types, defaults, parsing), sysbench's general options, and a run's settings.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Serialize;
use strum::{EnumString, FromRepr, IntoStaticStr};

use crate::error::ScriptError;
use crate::random::{RandSettings, UniquePlace};

/// An option's type, sysbench's `sysbench.cmdline.ARG_*` with its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, FromRepr, IntoStaticStr)]
#[repr(i32)]
#[strum(serialize_all = "lowercase", ascii_case_insensitive)]
pub enum OptionType {
    #[strum(to_string = "none")]
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
    pub fn expected(self) -> &'static str {
        match self {
            Self::Bool => "on or off",
            Self::Int => "a whole number, with K, M, G or T if need be",
            Self::Size => "a number of bytes, with K, M, G or T if need be",
            Self::Double => "a number, with K, M, G or T if need be",
            Self::List => "comma-separated values",
            Self::Null | Self::String | Self::File => "a text",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum OptionValue {
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(String),
    List(Vec<String>),
}

impl OptionValue {
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

#[derive(Debug, Clone, PartialEq)]
pub struct OptionDecl {
    pub name: String,
    pub written: String,
    pub description: String,
    /// None is on, 0, or an empty string or list, as in sysbench.
    pub default: Option<OptionValue>,
    pub kind: OptionType,
}

impl OptionDecl {
    pub fn fit(&self, given: &OptionValue) -> Result<OptionValue, ScriptError> {
        fit(self.kind, given).ok_or_else(|| self.bad(given, self.kind.expected()))
    }

    /// Like [`Self::fit`], but reads a value as sysbench does: a number ends where its digits end, any other text is 0.
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

    pub fn default_value(&self) -> OptionValue {
        let empty = match self.kind {
            OptionType::Bool => OptionValue::Bool(true),
            OptionType::Int | OptionType::Size => OptionValue::Int(0),
            OptionType::Double => OptionValue::Double(0.0),
            OptionType::List => OptionValue::List(Vec::new()),
            OptionType::Null | OptionType::String | OptionType::File => OptionValue::Text(String::new()),
        };
        self.default.as_ref().and_then(|default| fit(self.kind, default)).unwrap_or(empty)
    }

    pub(crate) fn bad(&self, given: &OptionValue, expected: &str) -> ScriptError {
        ScriptError::BadOption { name: self.name.clone(), value: given.to_text(), expected: expected.to_owned() }
    }

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

const FLAGS: [&str; 6] = ["on", "off", "true", "false", "1", "0"];

/// Parses the number at the start of a text, else 0. A whole number may be hexadecimal.
fn leading_number(text: &str) -> f64 {
    if let Some(number) = leading_hex(text.trim_start()) {
        return number;
    }
    let mut ends = (0..=text.len()).rev().filter_map(|end| text.get(..end));
    ends.find_map(|start| start.trim_start().parse().ok()).unwrap_or(0.0)
}

fn leading_hex(text: &str) -> Option<f64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1.0, digits),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"))?;
    let number =
        digits.chars().map_while(|digit| digit.to_digit(16)).fold(0.0, |sum, digit| sum * 16.0 + f64::from(digit));
    Some(sign * number)
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

/// Parses a number. The suffixes K, M, G and T are powers of 1024, so `1M` is 1,048,576.
fn parse_scaled(text: &str) -> Option<f64> {
    let text = text.trim();
    let power = "KMGT".find(text.chars().last()?.to_ascii_uppercase()).map_or(0, |at| at + 1);
    let digits = if power > 0 { &text[..text.len() - 1] } else { text };
    Some(digits.trim_end().parse::<f64>().ok()? * 1024_f64.powi(power as i32))
}

fn split_list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IgnoreErrors {
    All,
    Codes(Vec<u16>),
}

impl Default for IgnoreErrors {
    /// sysbench's default: deadlock, record changed since last read, lock wait timeout.
    fn default() -> Self {
        Self::Codes(vec![1213, 1020, 1205])
    }
}

impl IgnoreErrors {
    pub fn contains(&self, code: u16) -> bool {
        match self {
            Self::All => true,
            Self::Codes(codes) => codes.contains(&code),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The script's own options, with `-` or `_`. An undeclared name is an error, unless the script declares none at
    /// all: then it becomes a global, as in sysbench 1.0.
    pub options: BTreeMap<String, OptionValue>,
    /// sysbench's general and driver options for `sysbench.opt`. Missing ones have sysbench's defaults.
    pub general: BTreeMap<String, OptionValue>,
    pub threads: u32,
    pub seed: u64,
    /// Where `sysbench.rand.unique` continues after runs on the same tables. None starts with `seed`'s first number.
    pub unique_from: Option<UniquePlace>,
    pub rand: RandSettings,
    pub ignore_errors: IgnoreErrors,
    pub argv: Vec<String>,
    /// Refuse values of the wrong form. Otherwise they are read as in sysbench ([`OptionDecl::fit_as_sysbench`]).
    pub strict: bool,
    /// Command for `sysbench.cmdline.command`. Many scripts refuse to load without one.
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
            command: Some("run".to_owned()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    General,
    Random,
    Log,
    Database,
    MySql,
    Ours,
    Refused,
}

impl Section {
    pub const ALL: [(Self, &str); 7] = [
        (Self::General, "General options:"),
        (Self::Random, "Pseudo-Random Numbers Generator options:"),
        (Self::Log, "Log options:"),
        (Self::Database, "General database options:\n"),
        (Self::MySql, "mysql options:"),
        (Self::Ours, "Options that sysbench does not have:"),
        (Self::Refused, "Options that are refused here:"),
    ];
}

#[derive(Debug, Clone, Copy)]
pub struct OptionSpec {
    pub name: &'static str,
    pub kind: OptionType,
    /// Type in `sysbench.opt`. None if scripts do not see it.
    in_scripts: Option<OptionType>,
    pub default: &'static str,
    pub words: &'static str,
    pub section: Section,
}

impl OptionSpec {
    pub fn dashed(&self) -> String {
        self.name.replace('_', "-")
    }

    pub fn decl(&self) -> OptionDecl {
        OptionDecl {
            name: self.name.to_owned(),
            written: self.dashed(),
            description: self.words.to_owned(),
            default: Some(OptionValue::Text(self.default.to_owned())),
            kind: self.kind,
        }
    }
}

pub fn general_option(name: &str) -> Option<&'static OptionSpec> {
    let name = name.replace('-', "_");
    OPTIONS.iter().find(|option| option.name == name)
}

/// Every option of both sysbench dialects and of our own, in the order of `--help`. The command line, `--help`,
/// `sysbench.opt` and the check of `docs/reference/sysbench.md` use this table. A line of `options.txt` has an option's
/// name, type, type in scripts, default and description.
pub static OPTIONS: LazyLock<Vec<OptionSpec>> = LazyLock::new(|| {
    let mut section = Section::General;
    let mut options = Vec::new();
    for line in include_str!("options.txt").lines().filter(|line| !line.is_empty()) {
        if let [name, kind, in_scripts, default, words] = line.split(" | ").collect::<Vec<_>>()[..] {
            let kind = kind.parse().unwrap_or_else(|_| unreachable!("in options.txt: {line}"));
            options.push(OptionSpec { name, kind, in_scripts: in_scripts.parse().ok(), default, words, section });
        } else {
            let named = Section::ALL.iter().find(|(_, heading)| heading.trim_end() == line);
            section = named.unwrap_or_else(|| unreachable!("in options.txt: {line}")).0;
        }
    }
    options
});

pub(crate) fn general_names() -> impl Iterator<Item = &'static str> {
    OPTIONS.iter().filter(|spec| spec.in_scripts.is_some()).map(|spec| spec.name)
}

/// Returns every general option's value. Keeps a value that does not fit its type: the engine has accepted it.
pub(crate) fn general_values(settings: &Settings) -> BTreeMap<String, OptionValue> {
    let seen = |spec: &OptionSpec| Some((spec.name, OptionDecl { kind: spec.in_scripts?, ..spec.decl() }));
    let decls: BTreeMap<&str, OptionDecl> = OPTIONS.iter().filter_map(seen).collect();
    let threads = OptionValue::Int(settings.threads.into());
    let of_settings = [
        ("threads", threads.clone()),
        ("num_threads", threads),
        ("rand_type", OptionValue::Text(settings.rand.kind.to_string())),
        ("rand_seed", OptionValue::Double(settings.seed as f64)),
    ];
    let defaults = decls.iter().map(|(name, decl)| (*name, decl.default_value()));
    let mut values: BTreeMap<String, OptionValue> =
        defaults.chain(of_settings).map(|(name, value)| (name.to_owned(), value)).collect();
    for (name, given) in &settings.general {
        let name = name.replace('-', "_");
        let fitted = decls.get(name.as_str()).and_then(|decl| decl.fit(given).ok());
        values.insert(name, fitted.unwrap_or_else(|| given.clone()));
    }
    // A flag in sysbench 1.0, a mode in its master.
    if let Some(is_on) = values.get("mysql_ssl").and_then(|mode| match mode.to_text().as_str() {
        "off" | "false" | "0" => Some(false),
        "on" | "true" | "1" => Some(true),
        _ => None,
    }) {
        values.insert("mysql_ssl".to_owned(), OptionValue::Bool(is_on));
    }
    values
}
