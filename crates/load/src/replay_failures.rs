//! Statements of a replay that failed: by operation and error number, with the server's message without its literals.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// What messages have before and after a literal, which may hold quotes itself; an empty end: up to the message's end.
const AROUND_LITERALS: [(&str, &str); 4] = [
    ("near '", "' at line"),
    ("Duplicate entry '", "' for key"),
    (" value: '", "' for column"),
    ("partition for value ", ""),
];

/// Statements that failed: by operation and error number, how many, and the server's first message without literals.
#[derive(Debug, Default)]
pub struct Failures(Mutex<BTreeMap<(usize, u16), (u64, String)>>);

impl Failures {
    /// Counts one.
    pub fn add(&self, operation: usize, errno: u16, message: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry((operation, errno)).or_insert_with(|| (0, without_literals(message))).0 += 1;
    }

    /// All of them: operation, error number, count, message.
    pub fn list(&self) -> Vec<(usize, u16, u64, String)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let each = all.iter();
        each.map(|(&(operation, errno), (count, message))| (operation, errno, *count, message.clone())).collect()
    }
}

/// A message with `?` in place of literals and of what is quoted.
///
/// A literal is taken to go on up to the last place at which it can end; without one, as far as the message.
fn without_literals(message: &str) -> String {
    let places = AROUND_LITERALS.iter();
    let found = places.filter_map(|&(before, after)| Some((message.find(before)? + before.len(), after)));
    let Some((from, after)) = found.min() else {
        return without_quoted(message);
    };
    let literal = &message[from..];
    let end = literal.rfind(after).map(|at| &literal[at..]);
    // `Truncated incorrect DOUBLE value: 'x'` has nothing behind it.
    let rest = end.map_or("", |end| end.strip_prefix('\'').unwrap_or(end));
    let head = &message[..from];
    without_quoted(head.strip_suffix('\'').unwrap_or(head)) + "?" + &without_quoted(rest)
}

/// A text with `?` in place of what is quoted; an apostrophe within a word (`doesn't`) is no quote.
fn without_quoted(text: &str) -> String {
    let is_word = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let mut kept = String::new();
    let mut begin = Some(0); // of what is kept; None: within quotes
    for (at, _) in text.match_indices('\'') {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        let after = bytes.get(at + 1);
        match begin {
            Some(from) if !is_word(before) => {
                kept.push_str(&text[from..at]);
                kept.push('?');
                begin = None;
            }
            None if !is_word(after) => begin = Some(at + 1),
            _ => {}
        }
    }
    kept.push_str(begin.map_or("", |from| &text[from..]));
    kept
}

#[cfg(test)]
#[path = "../tests/unit/replay_failures.rs"]
mod tests;
