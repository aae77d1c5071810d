//! Injected misbehaviour, to test that a client says what is wrong and never hangs.

use std::str::FromStr;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::packet::PacketWriter;
use crate::resultset::{Column, STATUS_AUTOCOMMIT, SqlError, put_column, put_eof, put_error};

/// What goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FaultKind {
    /// Half of the greeting, then the connection is closed.
    TruncatedHandshake,
    /// Connected, and not a byte is sent.
    SilentHandshake,
    /// Random bytes for a greeting.
    GarbageHandshake,
    /// ERR 1040 for a greeting.
    TooManyConnections,
    /// Asks the client to authenticate by the plugin named, and takes any answer.
    AuthPlugin(String),
    /// The connection is closed instead of an answer.
    Close,
    /// Half of the answer, then the connection is closed.
    CloseMidReply,
    /// Random bytes for an answer.
    Garbage,
    /// No answer, ever; the connection stays.
    NeverAnswer,
    /// The answer with wrong sequence numbers.
    BadSequence,
    /// A row whose text claims 1 GiB within a packet of a few bytes.
    Oversized,
    /// A right answer, a byte at a time.
    SlowBytes,
    /// Asks the client for /etc/passwd, as a hostile server would.
    LocalInfile,
    /// The whole server is gone.
    Exit,
}

/// Whose statements are counted up to a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The server's: it happens once.
    Server,
    /// Each connection's: it happens once a connection.
    Connection,
}

/// A fault and the timed statement (counted from 1) that it hits; faults of the handshake hit every connection.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    pub(crate) at: u64,
    pub(crate) scope: Scope,
}

impl Fault {
    pub(crate) fn is_of_handshake(&self) -> bool {
        matches!(
            self.kind,
            FaultKind::TruncatedHandshake
                | FaultKind::SilentHandshake
                | FaultKind::GarbageHandshake
                | FaultKind::TooManyConnections
                | FaultKind::AuthPlugin(_)
        )
    }
}

impl FromStr for Fault {
    type Err = String;

    /// `close@5`: the server's fifth timed statement; `close@5/connection`: each connection's; `auth-plugin=NAME`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, place) = text.split_once('@').map_or((text, None), |(name, place)| (name, Some(place)));
        let kind = match name.split_once('=') {
            Some(("auth-plugin", plugin)) if !plugin.is_empty() => FaultKind::AuthPlugin(plugin.to_owned()),
            None => match name {
                "truncated-handshake" => FaultKind::TruncatedHandshake,
                "silent-handshake" => FaultKind::SilentHandshake,
                "garbage-handshake" => FaultKind::GarbageHandshake,
                "too-many-connections" => FaultKind::TooManyConnections,
                "close" => FaultKind::Close,
                "close-mid-reply" => FaultKind::CloseMidReply,
                "garbage" => FaultKind::Garbage,
                "never-answer" => FaultKind::NeverAnswer,
                "bad-sequence" => FaultKind::BadSequence,
                "oversized" => FaultKind::Oversized,
                "slow-bytes" => FaultKind::SlowBytes,
                "local-infile" => FaultKind::LocalInfile,
                "exit" => FaultKind::Exit,
                _ => return Err(format!("unknown fault '{name}'; see --help for the list")),
            },
            Some(_) => {
                return Err(format!("unknown fault '{name}'; only auth-plugin=NAME takes a value"));
            }
        };
        let (at, scope) = match place.map(|place| place.split_once('/').unwrap_or((place, "server"))) {
            None => (0, Scope::Server),
            Some((at, scope)) => {
                let at = at.parse().ok().filter(|&at| at > 0);
                let at = at.ok_or_else(|| format!("fault '{text}': after @ comes a statement's number from 1"))?;
                match scope {
                    "server" => (at, Scope::Server),
                    "connection" => (at, Scope::Connection),
                    _ => {
                        return Err(format!("fault '{text}': after / comes 'server' or 'connection'"));
                    }
                }
            }
        };
        let fault = Self { kind, at, scope };
        match (fault.is_of_handshake(), place.is_some()) {
            (true, true) => Err(format!("fault '{text}': a fault of the handshake has no statement number")),
            (false, false) => Err(format!("fault '{text}' needs the statement that it hits, as in {name}@5")),
            _ => Ok(fault),
        }
    }
}

/// What the connection does with its corrupted answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Whole,
    WholeThenClose,
    ByteByByte,
    Never,
    ExitNow,
}

/// Changes an encoded answer as the fault asks.
pub(crate) fn corrupt(kind: &FaultKind, answer: &mut Vec<u8>) -> Delivery {
    match kind {
        FaultKind::Close => {
            answer.clear();
            Delivery::WholeThenClose
        }
        FaultKind::CloseMidReply | FaultKind::TruncatedHandshake => {
            answer.truncate(answer.len() / 2);
            Delivery::WholeThenClose
        }
        FaultKind::Garbage | FaultKind::GarbageHandshake => {
            StdRng::seed_from_u64(answer.len() as u64).fill_bytes(answer);
            // A length that fits what is sent, so that the client meets the garbage instead of waiting for more.
            let length = (answer.len() - 4).min(255) as u8;
            answer[..4].copy_from_slice(&[length, 0, 0, 1]);
            Delivery::Whole
        }
        FaultKind::BadSequence => {
            answer[3] = answer[3].wrapping_add(7);
            Delivery::Whole
        }
        FaultKind::Oversized => {
            answer.clear();
            let column = Column::text("c");
            let mut writer = PacketWriter::new(answer, 1);
            writer.packet(|out| out.push(1));
            put_column(&mut writer, &column);
            put_eof(&mut writer, STATUS_AUTOCOMMIT);
            // 0xFE and eight bytes: 1 GiB announced, three bytes there.
            writer.packet(|out| out.extend_from_slice(b"\xfe\0\0\0\x40\0\0\0\0abc"));
            Delivery::Whole
        }
        FaultKind::LocalInfile => {
            answer.clear();
            PacketWriter::new(answer, 1).packet(|out| out.extend_from_slice(b"\xfb/etc/passwd"));
            Delivery::Whole
        }
        FaultKind::SlowBytes => Delivery::ByteByByte,
        FaultKind::NeverAnswer | FaultKind::SilentHandshake => Delivery::Never,
        FaultKind::Exit => Delivery::ExitNow,
        FaultKind::TooManyConnections => {
            answer.clear();
            let mut writer = PacketWriter::new(answer, 0);
            put_error(&mut writer, &SqlError::numbered(1040));
            Delivery::WholeThenClose
        }
        FaultKind::AuthPlugin(_) => Delivery::Whole,
    }
}

#[cfg(test)]
#[path = "../tests/unit/fault.rs"]
mod tests;
