//! Errors of a script, with the place in it.

use crate::host::{SqlCall, SqlError};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    #[error("script {name}: no bundled script and no file has this name.{}", did_you_mean(.suggestion, ""))]
    NotFound { name: String, suggestion: Option<String> },
    #[error("{message}")]
    Lua { message: String, traceback: String },
    /// `place` is the `file:line: ` in front of the message, or empty.
    #[error("{place}SQL error, errno = {}, state = '{}': {}", .error.code, .error.sqlstate, .error.message)]
    Sql { place: String, call: SqlCall, error: SqlError },
    #[error("invalid option: --{name}.{}", did_you_mean(.suggestion, "--"))]
    UnknownOption { name: String, suggestion: Option<String> },
    #[error("invalid value for option --{name}: {value:?}. It takes {expected}.")]
    BadOption { name: String, value: String, expected: String },
    #[error("script {script} has no command {command}. It has: {}.", .known.join(", "))]
    NoCommand { script: String, command: String, known: Vec<String> },
    #[error("cannot find the event() function in {script}")]
    NoEvent { script: String },
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
        let message = match error {
            mlua::Error::SyntaxError { message, .. } | mlua::Error::RuntimeError(message) => message,
            other => other.to_string(),
        };
        Self::Lua { message, traceback: String::new() }
    }
}

/// Returns the `file:line: ` at the start of a message, or an empty text.
pub(crate) fn place_of(text: &str) -> &str {
    let is_place =
        |part: &str| part.rsplit_once(':').is_some_and(|(file, line)| !file.is_empty() && line.parse::<u32>().is_ok());
    text.match_indices(": ").find(|(at, _)| is_place(&text[..*at])).map_or("", |(at, _)| &text[..at + 2])
}
