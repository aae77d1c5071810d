//! Outcomes of replies: OK packets, result sets, prepared statements and server errors.
//!
//! Source: MySQL internals manual, "Protocol::OK_Packet", "Protocol::EOF_Packet", "Protocol::ERR_Packet", "COM_STMT_PREPARE Response".

use crate::bytes::{Malformed, Reader};

/// What a reply, complete, turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A statement without a result set.
    Done(Done),
    /// A result set.
    ResultSet(ResultSet),
    /// The answer to COM_STMT_PREPARE.
    Prepared(Prepared),
    /// The server asks for a file (LOAD DATA LOCAL INFILE): send [`crate::command::refuse_local_infile`] with this sequence number
    /// and scan on.
    LocalInfile {
        /// Sequence number of the packet to send.
        sequence: u8,
    },
    /// The server refused or broke off the statement.
    Failed(Box<ServerError>),
}

/// An OK packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// Rows changed.
    pub affected_rows: u64,
    /// AUTO_INCREMENT value generated, or 0.
    pub last_insert_id: u64,
    /// Flags of [`crate::capability`].
    pub status: u16,
    /// Number of warnings.
    pub warnings: u16,
}

/// A result set and where its parts lie, counted from the first byte of the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultSet {
    /// Number of columns, at least 1.
    pub columns: u32,
    /// Number of rows.
    pub rows: u64,
    /// Where the column definitions begin.
    pub columns_at: usize,
    /// Where the rows begin.
    pub rows_at: usize,
    /// False when rows were dropped by [`crate::ReplyScanner::forget_rows`].
    pub rows_kept: bool,
    /// Flags of [`crate::capability`].
    pub status: u16,
    /// Number of warnings.
    pub warnings: u16,
}

/// A statement prepared by the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prepared {
    /// The server's number for it.
    pub statement: u32,
    /// Columns of its result set; 0 for none.
    pub columns: u16,
    /// Number of `?`.
    pub parameters: u16,
}

impl Done {
    /// From an OK packet, whatever its first byte.
    #[inline]
    pub(crate) fn from_ok(payload: &[u8]) -> Result<Self, Malformed> {
        // The commonest form of all, without reading it piece by piece: two integers of one byte each.
        if let &[_, affected_rows @ 0..=0xfa, last_insert_id @ 0..=0xfa, s0, s1, w0, w1, ..] = payload {
            return Ok(Self {
                affected_rows: affected_rows.into(),
                last_insert_id: last_insert_id.into(),
                status: u16::from_le_bytes([s0, s1]),
                warnings: u16::from_le_bytes([w0, w1]),
            });
        }
        Self::from_ok_at_length(payload)
    }

    #[cold]
    fn from_ok_at_length(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload, "OK packet");
        reader.u8()?;
        Ok(Self {
            affected_rows: reader.lenenc()?,
            last_insert_id: reader.lenenc()?,
            status: reader.u16()?,
            warnings: reader.u16()?,
        })
    }

    /// From an EOF packet.
    pub(crate) fn from_eof(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload, "EOF packet");
        if reader.u8()? != 0xfe || reader.remaining() != 4 {
            return Err(reader.malformed("another packet stands in its place"));
        }
        let warnings = reader.u16()?;
        Ok(Self { affected_rows: 0, last_insert_id: 0, status: reader.u16()?, warnings })
    }
}

/// An ERR packet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code} ({sqlstate}): {message}")]
pub struct ServerError {
    /// The server's error number.
    pub code: u16,
    /// Five characters; `HY000` where the server gave none.
    pub sqlstate: String,
    /// The server's words; bytes that are not UTF-8 are replaced.
    pub message: String,
}

impl ServerError {
    /// Parses an ERR packet's payload, with or without SQLSTATE (there is none before the login).
    ///
    /// # Errors
    /// The packet is no ERR packet or ends before the error number.
    pub fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload, "error packet");
        if reader.u8()? != 0xff {
            return Err(reader.malformed("it does not begin with 0xff"));
        }
        let code = reader.u16()?;
        let text = reader.rest();
        let (sqlstate, message) = match text.split_at_checked(6) {
            Some(([b'#', state @ ..], message)) => (String::from_utf8_lossy(state).into_owned(), message),
            _ => ("HY000".to_owned(), text),
        };
        Ok(Self { code, sqlstate, message: String::from_utf8_lossy(message).into_owned() })
    }
}

#[cfg(test)]
#[path = "../tests/unit/outcome.rs"]
mod tests;
