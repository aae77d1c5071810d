//! Client-side prepared statements: replaces each `?` with a literal that means the same as the parameter.

use std::io::Write as _;

use crate::command::Parameter;
use crate::dialect::{Dialect, opening};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    sql: Box<[u8]>,
    parameters_at: Box<[usize]>,
}

impl Template {
    pub fn new(sql: &[u8], dialect: Dialect) -> Self {
        let mut parameters_at = Vec::new();
        let mut at = 0;
        while let Some(&byte) = sql.get(at) {
            let rest = &sql[at..];
            at += match opening(rest) {
                Some((opaque, from)) => dialect.end_of(opaque, rest, from).unwrap_or(rest.len()),
                None => dialect.multi_byte.character_bytes(rest).unwrap_or(1),
            };
            if byte == b'?' {
                parameters_at.push(at - 1);
            }
        }
        Self { sql: sql.into(), parameters_at: parameters_at.into() }
    }

    pub fn parameters(&self) -> usize {
        self.parameters_at.len()
    }

    /// Appends the statement with a value for each parameter. DOUBLEs must be finite: SQL has no literal for others.
    pub fn render<'a>(&self, values: impl Iterator<Item = Parameter<'a>>, dialect: Dialect, out: &mut Vec<u8>) {
        let mut from = 0;
        for (&at, value) in self.parameters_at.iter().zip(values) {
            out.extend_from_slice(&self.sql[from..at]);
            from = at + 1;
            // `LIMIT?` and `?AND` must stay two tokens each.
            if at > 0 && is_word(self.sql[at - 1]) {
                out.push(b' ');
            }
            put_literal(value, dialect, out);
            if self.sql.get(from).copied().is_some_and(is_word) {
                out.push(b' ');
            }
        }
        out.extend_from_slice(&self.sql[from..]);
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.' | 0x80..)
}

fn put_literal(value: Parameter<'_>, dialect: Dialect, out: &mut Vec<u8>) {
    match value {
        Parameter::Null => out.extend_from_slice(b"NULL"),
        Parameter::Int(integer) => out.extend_from_slice(itoa::Buffer::new().format(integer).as_bytes()),
        // Without an exponent it would be a DECIMAL.
        Parameter::Double(float) => {
            // Writing to a Vec cannot fail.
            let _ = write!(out, "{float:e}");
        }
        Parameter::Bytes(bytes) => {
            out.push(b'\'');
            put_escaped(bytes, dialect, out);
            out.push(b'\'');
        }
    }
}

fn put_escaped(bytes: &[u8], dialect: Dialect, out: &mut Vec<u8>) {
    let set = dialect.multi_byte;
    let mut from = 0;
    let special = |byte| matches!(byte, b'\'' | b'\\' | 0) || set.is_lead(byte);
    while let Some(at) = set.find(bytes, from, special) {
        out.extend_from_slice(&bytes[from..at]);
        from = at + 1;
        match bytes[at] {
            // A doubled quote works with and without backslash escapes.
            b'\'' => out.extend_from_slice(b"''"),
            byte if dialect.no_backslash_escapes => out.push(byte),
            0 => out.extend_from_slice(b"\\0"),
            // A lead byte without its trail byte would swallow the escape that follows it.
            byte => out.extend_from_slice(&[b'\\', byte]),
        }
    }
    out.extend_from_slice(&bytes[from..]);
}

#[cfg(test)]
#[path = "../tests/unit/template.rs"]
mod tests;
