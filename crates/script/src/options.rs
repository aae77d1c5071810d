//! Options that scripts declare: types, defaults, and parsing of given values.

use crate::error::ScriptError;

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

#[cfg(test)]
#[path = "../tests/unit/options.rs"]
mod tests;
