//! Scans replies in place in the receive buffer: reads packet headers and the first byte of each row, counts rows and
//! remembers where they begin. [`crate::row`] parses only the rows that a script reads.

use crate::bytes::{Malformed, Reader};
use crate::packet::{HEADER_BYTES, Header, MAX_PAYLOAD_BYTES};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answering {
    Prepare,
    Statement,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    First,
    Definitions,
    DefinitionsEof,
    Rows,
}

#[derive(Debug)]
pub struct ReplyScanner {
    answering: Answering,
    deprecate_eof: bool,
    phase: Phase,
    /// Offset of the next packet header. May be beyond what has been received.
    at: usize,
    sequence: u8,
    continued: bool,
    definitions_left: u32,
    result: ResultSet,
    prepared: Prepared,
}

const MAX_COLUMNS: u64 = 65_535;

impl ReplyScanner {
    pub fn new(answering: Answering, deprecate_eof: bool) -> Self {
        Self::with_sequence(answering, deprecate_eof, 1)
    }

    /// Expects the reply to a command that took several packets. `sequence` is the reply's first sequence number.
    #[inline]
    pub fn with_sequence(answering: Answering, deprecate_eof: bool, sequence: u8) -> Self {
        Self {
            answering,
            deprecate_eof,
            phase: Phase::First,
            at: 0,
            sequence,
            continued: false,
            definitions_left: 0,
            result: ResultSet::default(),
            prepared: Prepared::default(),
        }
    }

    #[inline]
    pub fn reply_bytes(&self) -> usize {
        self.at
    }

    /// Returns a scanner for the next result of the same command. Its offsets count from the end of this one.
    pub fn follow(&self) -> Self {
        Self::with_sequence(Answering::Statement, self.deprecate_eof, self.sequence)
    }

    /// Continues scanning. `bytes` is this reply as received so far. Returns None if more must be received.
    #[inline]
    pub fn scan(&mut self, bytes: &[u8]) -> Result<Option<Outcome>, Malformed> {
        if bytes.is_empty() {
            return Ok(None);
        }
        loop {
            self.skip_ordinary(bytes);
            let Some(packet) = bytes.get(self.at..) else { return Ok(None) };
            let Some(header) = Header::decode(packet) else { return Ok(None) };
            if header.sequence != self.sequence {
                return self.out_of_order(header, packet);
            }
            if self.continued {
                self.step(header);
                continue;
            }
            match self.phase {
                Phase::Rows => {
                    if header.payload_bytes == 0 {
                        return Err(malformed("a row is empty"));
                    }
                    let Some(&kind) = packet.get(HEADER_BYTES) else { return Ok(None) };
                    if !self.ends_rows(header, kind) {
                        self.step(header);
                        self.result.rows += 1;
                        continue;
                    }
                }
                // An error can replace a definition, as it can replace a row.
                Phase::Definitions if packet.get(HEADER_BYTES) != Some(&0xff) => {
                    // The last definition may end the reply, so it must be complete.
                    if packet.len() < HEADER_BYTES + header.payload_bytes {
                        return Ok(None);
                    }
                    self.step(header);
                    self.definitions_left -= 1;
                    if let Some(outcome) = self.defined() {
                        return Ok(Some(outcome));
                    }
                    continue;
                }
                _ => {}
            }
            if header.payload_bytes == MAX_PAYLOAD_BYTES {
                return Err(malformed("a packet other than a row has 16 MiB"));
            }
            let Some(payload) = packet.get(HEADER_BYTES..HEADER_BYTES + header.payload_bytes) else { return Ok(None) };
            self.step(header);
            match self.read(payload) {
                Ok(None) => {}
                // Returning it as it is saves a copy.
                outcome_or_error => return outcome_or_error,
            }
        }
    }

    #[inline]
    fn skip_ordinary(&mut self, bytes: &[u8]) {
        if self.continued {
            return;
        }
        if self.phase == Phase::Definitions && self.answering == Answering::Statement {
            let skipped = self.skip_at_most(bytes, self.definitions_left.into());
            self.definitions_left -= skipped as u32;
            self.defined();
        }
        if self.phase == Phase::Rows {
            self.result.rows += self.skip_at_most(bytes, u64::MAX);
        }
    }

    #[inline]
    fn ends_rows(&self, header: Header, kind: u8) -> bool {
        // A row whose first value has 16 MiB or more also begins with 0xfe.
        let row_bytes = if self.deprecate_eof { MAX_PAYLOAD_BYTES } else { 9 };
        kind == 0xff || kind == 0xfe && header.payload_bytes < row_bytes
    }

    /// Skips at most `limit` ordinary rows or definitions, up to the first packet of another kind. Returns how many.
    #[inline]
    fn skip_at_most(&mut self, bytes: &[u8], limit: u64) -> u64 {
        let mut at = self.at;
        let mut sequence = u32::from(self.sequence) << 24;
        let mut skipped = 0;
        while skipped < limit
            && let Some(&[a, b, c, d, kind]) = bytes.get(at..).and_then(<[u8]>::first_chunk)
        {
            // One comparison checks sequence number and length: a wrong sequence number leaves high bits set.
            let payload_bytes = u32::from_le_bytes([a, b, c, d]) ^ sequence;
            if !(1..MAX_PAYLOAD_BYTES as u32).contains(&payload_bytes) || kind >= 0xfe {
                break;
            }
            at += HEADER_BYTES + payload_bytes as usize;
            sequence = sequence.wrapping_add(1 << 24);
            skipped += 1;
        }
        self.at = at;
        self.sequence = (sequence >> 24) as u8;
        skipped
    }

    /// Drops the rows received so far, which may be huge. Returns the offset and the length to remove.
    pub fn forget_rows(&mut self, received_bytes: usize) -> (usize, usize) {
        if self.phase != Phase::Rows {
            return (self.at, 0);
        }
        // 0 while the last definition is incomplete.
        let dropped = self.at.min(received_bytes).saturating_sub(self.result.rows_at);
        self.at -= dropped;
        self.result.rows_dropped = true;
        (self.result.rows_at, dropped)
    }

    #[inline]
    fn step(&mut self, header: Header) {
        self.at += HEADER_BYTES + header.payload_bytes;
        self.sequence = self.sequence.wrapping_add(1);
        self.continued = header.payload_bytes == MAX_PAYLOAD_BYTES;
    }

    /// Only an error may be out of order: a server that ends a connection (idle too long, shutting down) numbers its
    /// packet 0, and one that gets too large a command may answer before the last packet.
    #[cold]
    fn out_of_order(&mut self, header: Header, packet: &[u8]) -> Result<Option<Outcome>, Malformed> {
        if self.phase != Phase::First {
            return Err(malformed("packets are out of order"));
        }
        match packet.get(HEADER_BYTES..HEADER_BYTES + header.payload_bytes) {
            None => Ok(None),
            Some(payload) if payload.first() == Some(&0xff) => {
                self.step(header);
                Ok(Some(Outcome::Failed(ServerError::parse(payload)?.into())))
            }
            Some(_) => Err(malformed("packets are out of order")),
        }
    }

    #[inline]
    fn read(&mut self, payload: &[u8]) -> Result<Option<Outcome>, Malformed> {
        if payload.first() == Some(&0xff) {
            return Ok(Some(Outcome::Failed(ServerError::parse(payload)?.into())));
        }
        match self.phase {
            Phase::First => self.first(payload),
            Phase::DefinitionsEof => {
                Done::from_eof(payload)?;
                Ok(self.definitions_over())
            }
            Phase::Rows => {
                let end = if self.deprecate_eof { Done::from_ok(payload)? } else { Done::from_eof(payload)? };
                (self.result.status, self.result.warnings) = (end.status, end.warnings);
                Ok(Some(Outcome::ResultSet(self.result)))
            }
            Phase::Definitions => Err(malformed("a column definition is missing")),
        }
    }

    #[inline]
    fn first(&mut self, payload: &[u8]) -> Result<Option<Outcome>, Malformed> {
        match (payload, self.answering) {
            ([0, ..], Answering::Statement) => Ok(Some(Outcome::Done(Done::from_ok(payload)?))),
            (_, Answering::Statement) => {
                // This also refuses 0xfb, a request for a LOAD DATA LOCAL INFILE file, which the login never offers.
                let mut reader = Reader::new(payload, "result set header");
                let columns = reader.lenenc()?;
                if columns == 0 || columns > MAX_COLUMNS || !reader.is_empty() {
                    return Err(reader.malformed("the number of columns is invalid"));
                }
                self.result.columns = columns as u32;
                self.result.columns_at = self.at;
                self.definitions_left = self.result.columns;
                self.phase = Phase::Definitions;
                Ok(None)
            }
            ([0, definitions @ ..], Answering::Prepare) => {
                let mut reader = Reader::new(definitions, "answer to a prepare");
                self.prepared =
                    Prepared { statement: reader.u32()?, columns: reader.u16()?, parameters: reader.u16()? };
                self.definitions_left = self.prepared.parameters.into();
                self.phase = Phase::Definitions;
                if self.definitions_left > 0 { Ok(None) } else { Ok(self.definitions_over()) }
            }
            _ => Err(malformed("its first packet has an unknown type")),
        }
    }

    #[inline]
    fn defined(&mut self) -> Option<Outcome> {
        if self.definitions_left == 0 && self.deprecate_eof {
            return self.definitions_over();
        }
        if self.definitions_left == 0 {
            self.phase = Phase::DefinitionsEof;
        }
        None
    }

    #[inline]
    fn definitions_over(&mut self) -> Option<Outcome> {
        if self.answering == Answering::Statement {
            self.result.rows_at = self.at;
            self.phase = Phase::Rows;
            return None;
        }
        // `result.columns` is 0 until the parameters are over.
        if self.result.columns == 0 && self.prepared.columns > 0 {
            self.result.columns = self.prepared.columns.into();
            self.definitions_left = self.result.columns;
            self.phase = Phase::Definitions;
            return None;
        }
        Some(Outcome::Prepared(self.prepared))
    }
}

fn malformed(why: &'static str) -> Malformed {
    Malformed { what: "reply", why }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Done(Done),
    ResultSet(ResultSet),
    Prepared(Prepared),
    Failed(Box<ServerError>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    pub affected_rows: u64,
    /// AUTO_INCREMENT value generated, or 0.
    pub last_insert_id: u64,
    pub status: u16,
    pub warnings: u16,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResultSet {
    pub columns: u32,
    pub rows: u64,
    pub columns_at: usize,
    pub rows_at: usize,
    /// True if [`ReplyScanner::forget_rows`] dropped rows.
    pub rows_dropped: bool,
    pub status: u16,
    pub warnings: u16,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Prepared {
    pub statement: u32,
    pub columns: u16,
    pub parameters: u16,
}

impl Done {
    #[inline]
    pub(crate) fn from_ok(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload, "OK packet");
        reader.u8()?;
        Ok(Self {
            affected_rows: reader.lenenc()?,
            last_insert_id: reader.lenenc()?,
            status: reader.u16()?,
            warnings: reader.u16()?,
        })
    }

    pub(crate) fn from_eof(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload, "EOF packet");
        if reader.u8()? != 0xfe || payload.len() != 5 {
            return Err(reader.malformed("it is another type of packet"));
        }
        let warnings = reader.u16()?;
        Ok(Self { affected_rows: 0, last_insert_id: 0, status: reader.u16()?, warnings })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code} ({sqlstate}): {message}")]
pub struct ServerError {
    pub code: u16,
    /// Five characters; `HY000` if the server gave none.
    pub sqlstate: String,
    pub message: String,
}

impl ServerError {
    /// Parses an ERR packet's payload, with or without SQLSTATE (there is none before the login).
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
