//! Injected faults, to test runs that lose a connection or a server.

use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// The connection is closed instead of an answer.
    Close,
    Exit,
}

/// A fault, and the timed statement of the server (counted from 1) that it hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    pub(crate) at: u64,
}

impl FromStr for Fault {
    type Err = String;

    /// `close@5`: at the server's fifth timed statement.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a fault at a statement: write close@5 or exit@5");
        let (name, at) = text.split_once('@').ok_or_else(wrong)?;
        let kind = match name {
            "close" => FaultKind::Close,
            "exit" => FaultKind::Exit,
            _ => return Err(wrong()),
        };
        let at = at.parse().ok().filter(|&at| at > 0).ok_or_else(wrong)?;
        Ok(Self { kind, at })
    }
}

#[cfg(test)]
#[path = "../tests/unit/fault.rs"]
mod tests;
