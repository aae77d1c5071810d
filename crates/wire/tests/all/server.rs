//! The server's side of the protocol, as far as the tests need it.

use bakeoff_wire::{Answering, packet};

/// A value of a text row.
pub(crate) type Value = Option<Vec<u8>>;

/// A server's reply.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// An OK packet.
    Done { affected_rows: u64, last_insert_id: u64 },
    /// A text result set.
    Rows { columns: Vec<String>, rows: Vec<Vec<Value>> },
    /// A result set that ends with an error after its rows.
    BrokenRows { columns: Vec<String>, rows: Vec<Vec<Value>>, code: u16 },
    /// An ERR packet.
    Failed { code: u16, message: String },
    /// A prepared statement.
    Prepared { statement: u32, columns: u16, parameters: u16 },
}

/// Writes replies with consecutive sequence numbers.
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
    pub(crate) deprecate_eof: bool,
    sequence: u8,
}

impl Writer {
    /// The first packet gets sequence number 1.
    pub(crate) fn new(deprecate_eof: bool) -> Self {
        Self { bytes: Vec::new(), deprecate_eof, sequence: 1 }
    }

    /// Begins the reply to another command.
    pub(crate) fn next_command(&mut self) {
        self.sequence = 1;
    }

    fn packet(&mut self, payload: &[u8]) {
        self.sequence = packet::encode(&mut self.bytes, payload, self.sequence);
    }

    fn eof(&mut self, status: u16) {
        let [low, high] = status.to_le_bytes();
        self.packet(&[0xfe, 3, 0, low, high]);
    }

    fn end_of_rows(&mut self, status: u16) {
        if self.deprecate_eof {
            let [low, high] = status.to_le_bytes();
            self.packet(&[0xfe, 0, 0, low, high, 3, 0]);
        } else {
            self.eof(status);
        }
    }

    fn definitions(&mut self, names: &[String]) {
        for name in names {
            let mut payload = b"\x03def\x01d\x01t\x01t".to_vec();
            put_string(&mut payload, name.as_bytes());
            payload.extend_from_slice(b"\x01o\x0c\x2d\x00\x00\x01\x00\x00\xfd\x00\x00\x1f\x00\x00");
            self.packet(&payload);
        }
        if !self.deprecate_eof {
            self.eof(2);
        }
    }

    fn failed(&mut self, code: u16, message: &str) {
        let mut payload = vec![0xff];
        payload.extend_from_slice(&code.to_le_bytes());
        payload.extend_from_slice(b"#42000");
        payload.extend_from_slice(message.as_bytes());
        self.packet(&payload);
    }

    /// Appends `reply`. `more`: another result follows.
    pub(crate) fn reply(&mut self, reply: &Reply, more: bool) {
        let status = if more { 2 | 8 } else { 2 };
        match reply {
            Reply::Done { affected_rows, last_insert_id } => {
                let mut payload = vec![0];
                put_integer(&mut payload, *affected_rows);
                put_integer(&mut payload, *last_insert_id);
                payload.extend_from_slice(&[status as u8, 0, 1, 0]);
                payload.extend_from_slice(b"info");
                self.packet(&payload);
            }
            Reply::Rows { columns, rows } => {
                self.rows(columns, rows);
                self.end_of_rows(status);
            }
            Reply::BrokenRows { columns, rows, code } => {
                self.rows(columns, rows);
                self.failed(*code, "broken off");
            }
            Reply::Failed { code, message } => self.failed(*code, message),
            Reply::Prepared { statement, columns, parameters } => {
                let mut payload = vec![0];
                payload.extend_from_slice(&statement.to_le_bytes());
                payload.extend_from_slice(&columns.to_le_bytes());
                payload.extend_from_slice(&parameters.to_le_bytes());
                payload.extend_from_slice(&[0, 0, 0]);
                self.packet(&payload);
                for count in [parameters, columns] {
                    if *count > 0 {
                        self.definitions(&vec!["?".to_owned(); usize::from(*count)]);
                    }
                }
            }
        }
    }

    fn rows(&mut self, columns: &[String], rows: &[Vec<Value>]) {
        let mut payload = Vec::new();
        put_integer(&mut payload, columns.len() as u64);
        self.packet(&payload);
        self.definitions(columns);
        for row in rows {
            payload.clear();
            for value in row {
                match value {
                    Some(bytes) => put_string(&mut payload, bytes),
                    None => payload.push(0xfb),
                }
            }
            self.packet(&payload);
        }
    }
}

impl Reply {
    /// The command that it answers.
    pub(crate) fn answering(&self) -> Answering {
        match self {
            Reply::Prepared { .. } => Answering::Prepare,
            _ => Answering::Statement,
        }
    }
}

fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    put_integer(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_integer(out: &mut Vec<u8>, value: u64) {
    let bytes = value.to_le_bytes();
    match value {
        0..=0xfa => out.push(bytes[0]),
        0xfb..=0xffff => out.extend_from_slice(&[0xfc, bytes[0], bytes[1]]),
        0x1_0000..=0xff_ffff => out.extend_from_slice(&[0xfd, bytes[0], bytes[1], bytes[2]]),
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&bytes);
        }
    }
}
