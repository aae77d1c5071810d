//! Writes commands into the caller's buffer. Every function appends to `out`, so a COM_STMT_CLOSE can travel in front
//! of the next command. Functions whose argument may fill several packets return the sequence number of the reply's
//! first packet.

use crate::bytes::put_lenenc;
use crate::packet;

const COM_QUIT: u8 = 0x01;
const COM_QUERY: u8 = 0x03;
const COM_PING: u8 = 0x0e;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;
const COM_STMT_CLOSE: u8 = 0x19;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Parameter<'a> {
    Null,
    Int(i64),
    Double(f64),
    Bytes(&'a [u8]),
}

const TYPE_DOUBLE: u8 = 5;
const TYPE_NULL: u8 = 6;
const TYPE_LONGLONG: u8 = 8;
const TYPE_VAR_STRING: u8 = 253;

/// The parameter types that the server knows for one statement. They are sent again only when they change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BoundTypes {
    codes: Vec<u8>,
    known_to_server: bool,
}

impl BoundTypes {
    pub fn forget(&mut self) {
        self.known_to_server = false;
    }

    #[inline]
    fn expect(&mut self, parameters: usize) {
        if self.codes.len() != parameters {
            self.codes.clear();
            self.codes.resize(parameters, TYPE_NULL);
            self.known_to_server = false;
        }
    }

    #[inline]
    fn bind(&mut self, index: usize, code: u8) {
        if let Some(known) = self.codes.get_mut(index)
            && *known != code
        {
            *known = code;
            self.known_to_server = false;
        }
    }
}

fn command(out: &mut Vec<u8>, code: u8, argument: &[u8]) -> u8 {
    let header_at = packet::begin(out);
    out.push(code);
    out.extend_from_slice(argument);
    packet::finish(out, header_at, 0)
}

#[inline]
pub fn query(out: &mut Vec<u8>, sql: &[u8]) -> u8 {
    command(out, COM_QUERY, sql)
}

#[inline]
pub fn query_with(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> u8 {
    let header_at = packet::begin(out);
    out.push(COM_QUERY);
    write(out);
    packet::finish(out, header_at, 0)
}

pub fn prepare(out: &mut Vec<u8>, sql: &[u8]) -> u8 {
    command(out, COM_STMT_PREPARE, sql)
}

/// COM_STMT_EXECUTE without a cursor. `values` has one value for each parameter of the statement.
#[inline]
pub fn execute<'a>(
    out: &mut Vec<u8>,
    statement: u32,
    values: impl ExactSizeIterator<Item = Parameter<'a>>,
    types: &mut BoundTypes,
) -> u8 {
    let header_at = out.len();
    let [a, b, c, d] = statement.to_le_bytes();
    // Header (filled in later), command, statement, no cursor, iteration count 1.
    let head = [0, 0, 0, 0, COM_STMT_EXECUTE, a, b, c, d, 0, 1, 0, 0, 0];
    out.extend_from_slice(&head);
    if values.len() > 0 {
        let nulls_at = out.len();
        for _ in 0..values.len().div_ceil(8) {
            out.push(0);
        }
        let types_at = out.len();
        out.push(0);
        types.expect(values.len());
        for (index, value) in values.enumerate() {
            match value {
                // NULL is only a bit and leaves the type unchanged.
                Parameter::Null => out[nulls_at + index / 8] |= 1 << (index % 8),
                Parameter::Int(integer) => {
                    types.bind(index, TYPE_LONGLONG);
                    out.extend_from_slice(&integer.to_le_bytes());
                }
                Parameter::Double(float) => {
                    types.bind(index, TYPE_DOUBLE);
                    out.extend_from_slice(&float.to_le_bytes());
                }
                Parameter::Bytes(bytes) => {
                    types.bind(index, TYPE_VAR_STRING);
                    put_lenenc(out, bytes.len() as u64);
                    out.extend_from_slice(bytes);
                }
            }
        }
        // Rare, so the types are inserted in front of the values afterwards.
        if !std::mem::replace(&mut types.known_to_server, true) {
            out[types_at] = 1;
            // The second byte marks unsigned integers.
            let types = types.codes.iter().flat_map(|&code| [code, 0]);
            out.splice(types_at + 1..=types_at, types);
        }
    }
    packet::finish(out, header_at, 0)
}

pub fn close_statement(out: &mut Vec<u8>, statement: u32) {
    command(out, COM_STMT_CLOSE, &statement.to_le_bytes());
}

pub fn ping(out: &mut Vec<u8>) {
    command(out, COM_PING, &[]);
}

pub fn quit(out: &mut Vec<u8>) {
    command(out, COM_QUIT, &[]);
}

#[cfg(test)]
#[path = "../tests/unit/command.rs"]
mod tests;
