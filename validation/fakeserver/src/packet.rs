//! Packets of the client/server protocol, the server's side: framing, and the few number and text forms it needs.
//!
//! Source: "Protocol Basics" of the MySQL Internals manual. A packet is a 3-byte length, a sequence number and a payload;
//! a payload of 2^24-1 bytes goes on in the next packet.

use std::borrow::Cow;

pub(crate) const MAX_ALLOWED_PACKET_BYTES: usize = 64 << 20;

const MAX_PAYLOAD: usize = 0xFF_FFFF;
const HEADER: usize = 4;

/// The start of the bytes received so far.
#[derive(Debug, PartialEq)]
pub(crate) enum Front<'a> {
    /// A payload, borrowed if it is one packet; the sequence number is that of its last packet.
    Whole {
        sequence: u8,
        payload: Cow<'a, [u8]>,
        taken: usize,
    },
    Incomplete,
    TooLarge,
}

pub(crate) fn front(bytes: &[u8]) -> Front<'_> {
    let Some((sequence, payload)) = one_packet(bytes) else { return Front::Incomplete };
    if payload.len() < MAX_PAYLOAD {
        return Front::Whole { sequence, payload: payload.into(), taken: HEADER + payload.len() };
    }
    let mut joined = payload.to_vec();
    let mut taken = HEADER + payload.len();
    loop {
        let Some((sequence, payload)) = one_packet(&bytes[taken..]) else { return Front::Incomplete };
        joined.extend_from_slice(payload);
        taken += HEADER + payload.len();
        if joined.len() > MAX_ALLOWED_PACKET_BYTES {
            return Front::TooLarge;
        }
        if payload.len() < MAX_PAYLOAD {
            return Front::Whole { sequence, payload: joined.into(), taken };
        }
    }
}

fn one_packet(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let &[a, b, c, sequence] = bytes.first_chunk::<HEADER>()?;
    let length = usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
    Some((sequence, bytes.get(HEADER..HEADER + length)?))
}

/// Appends packets with rising sequence numbers to a buffer.
pub(crate) struct PacketWriter<'a> {
    out: &'a mut Vec<u8>,
    sequence: u8,
}

impl<'a> PacketWriter<'a> {
    /// The first packet gets `sequence`: one more than that of the client's packet.
    pub(crate) fn new(out: &'a mut Vec<u8>, sequence: u8) -> Self {
        Self { out, sequence }
    }

    /// Appends one payload, split into packets as needed.
    pub(crate) fn packet(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        let start = self.out.len();
        self.out.extend_from_slice(&[0; HEADER]);
        fill(self.out);
        let length = self.out.len() - start - HEADER;
        if length < MAX_PAYLOAD {
            self.put_header(start, length);
        } else {
            let payload = self.out.split_off(start + HEADER);
            self.out.truncate(start);
            let mut rest = payload.as_slice();
            loop {
                let (now, later) = rest.split_at(rest.len().min(MAX_PAYLOAD));
                let start = self.out.len();
                self.out.extend_from_slice(&[0; HEADER]);
                self.out.extend_from_slice(now);
                self.put_header(start, now.len());
                if now.len() < MAX_PAYLOAD {
                    break;
                }
                rest = later;
            }
        }
    }

    fn put_header(&mut self, start: usize, length: usize) {
        self.out[start..start + 3].copy_from_slice(&(length as u32).to_le_bytes()[..3]);
        self.out[start + 3] = self.sequence;
        self.sequence = self.sequence.wrapping_add(1);
    }
}

pub(crate) fn put_lenenc(out: &mut Vec<u8>, value: u64) {
    let (mark, length) = match value {
        0..=250 => (None, 1),
        251..=0xFFFF => (Some(0xFC), 2),
        0x1_0000..=0xFF_FFFF => (Some(0xFD), 3),
        _ => (Some(0xFE), 8),
    };
    out.extend(mark);
    out.extend_from_slice(&value.to_le_bytes()[..length]);
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put_lenenc(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Reads a client's payload; every method returns `None` if the payload ends too early.
pub(crate) struct PayloadReader<'a> {
    rest: &'a [u8],
}

impl<'a> PayloadReader<'a> {
    pub(crate) fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload }
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (now, later) = self.rest.split_at_checked(count)?;
        self.rest = later;
        Some(now)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.bytes(1).map(|b| b[0])
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.bytes(2)?.try_into().ok().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.bytes(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    pub(crate) fn lenenc(&mut self) -> Option<u64> {
        match self.u8()? {
            value @ 0..=250 => Some(u64::from(value)),
            0xFC => self.u16().map(u64::from),
            0xFD => self.bytes(3).map(|b| u64::from(b[0]) | u64::from(b[1]) << 8 | u64::from(b[2]) << 16),
            0xFE => self.bytes(8)?.try_into().ok().map(u64::from_le_bytes),
            _ => None,
        }
    }

    pub(crate) fn text(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.lenenc()?).ok()?;
        self.bytes(length)
    }

    /// Reads up to and including a zero byte, which may be missing at the payload's end.
    pub(crate) fn until_zero(&mut self) -> &'a [u8] {
        let end = self.rest.iter().position(|&byte| byte == 0);
        let text = &self.rest[..end.unwrap_or(self.rest.len())];
        self.rest = &self.rest[(text.len() + 1).min(self.rest.len())..];
        text
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

#[cfg(test)]
#[path = "../tests/unit/packet.rs"]
mod tests;
