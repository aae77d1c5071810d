//! Errors of a script, with the place in it.

use std::fmt;

use crate::host::{SqlCall, SqlError};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    pub file: String,
    pub line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    #[error("script {name}: no bundled script and no file has this name.{}", did_you_mean(.suggestion, ""))]
    NotFound { name: String, suggestion: Option<String> },
    #[error("{}{message}", prefix(.place))]
    Lua { place: Option<Place>, message: String, traceback: String },
    #[error("{}SQL error, errno = {}, state = '{}': {}", prefix(.place), .error.code, .error.sqlstate, .error.message)]
    Sql { place: Option<Place>, call: SqlCall, error: SqlError, query: Box<str> },
    #[error("invalid option: --{name}.{}", did_you_mean(.suggestion, "--"))]
    UnknownOption { name: String, suggestion: Option<String> },
    #[error("invalid value for option --{name}: {value:?}. It takes {expected}.")]
    BadOption { name: String, value: String, expected: String },
    #[error("script {script} has no command {command}. It has: {}.", .known.join(", "))]
    NoCommand { script: String, command: String, known: Vec<String> },
    #[error("cannot find the event() function in {script}")]
    NoEvent { script: String },
}

fn prefix(place: &Option<Place>) -> String {
    place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default()
}

fn did_you_mean(suggestion: &Option<String>, prefix: &str) -> String {
    suggestion.as_ref().map(|name| format!(" Did you mean {prefix}{name}?")).unwrap_or_default()
}

pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let limit = (name.chars().count() / 3).max(2);
    candidates
        .into_iter()
        .map(|candidate| (strsim::levenshtein(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate.to_owned())
}

impl From<mlua::Error> for ScriptError {
    fn from(error: mlua::Error) -> Self {
        let text = match error {
            mlua::Error::SyntaxError { message, .. } | mlua::Error::RuntimeError(message) => message,
            other => other.to_string(),
        };
        let (place, message) = split_place(&text);
        Self::Lua { place, message, traceback: String::new() }
    }
}

/// Splits `file:line: message`.
pub(crate) fn split_place(text: &str) -> (Option<Place>, String) {
    let parts = text.match_indices(':').filter(|(colon, _)| *colon > 0).find_map(|(colon, _)| {
        let (line, message) = text[colon + 1..].split_once(": ")?;
        Some((Place { file: text[..colon].to_owned(), line: line.parse().ok()? }, message))
    });
    match parts {
        Some((place, message)) => (Some(place), message.to_owned()),
        None => (None, text.to_owned()),
    }
}

#[cfg(test)]
#[path = "../tests/unit/error.rs"]
mod tests;
