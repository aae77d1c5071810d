//! Packets: a 3-byte length, a sequence number and a payload. Payloads of 2^24 − 1 bytes or more span several packets.

use std::borrow::Cow;

use crate::bytes::Malformed;

pub const HEADER_BYTES: usize = 4;

/// Longest payload of one packet. A packet of exactly this length is always followed by another, perhaps empty one.
pub const MAX_PAYLOAD_BYTES: usize = 0xff_ffff;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub payload_bytes: usize,
    /// Counts the packets of one exchange, in both directions, modulo 256.
    pub sequence: u8,
}

impl Header {
    #[inline]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let header = u32::from_le_bytes(*bytes.first_chunk()?);
        Some(Self { payload_bytes: (header & 0xff_ffff) as usize, sequence: (header >> 24) as u8 })
    }

    #[inline]
    fn encode(self) -> [u8; HEADER_BYTES] {
        let [a, b, c, _] = (self.payload_bytes as u32).to_le_bytes();
        [a, b, c, self.sequence]
    }
}

#[inline]
pub(crate) fn begin(out: &mut Vec<u8>) -> usize {
    let header_at = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    header_at
}

/// Ends the payload begun at `header_at`, split into packets if it is long. Returns the next sequence number.
#[inline]
pub(crate) fn finish(out: &mut Vec<u8>, header_at: usize, sequence: u8) -> u8 {
    let payload_bytes = out.len() - header_at - HEADER_BYTES;
    if payload_bytes < MAX_PAYLOAD_BYTES {
        out[header_at..header_at + HEADER_BYTES].copy_from_slice(&Header { payload_bytes, sequence }.encode());
        return sequence.wrapping_add(1);
    }
    finish_long(out, header_at, sequence)
}

#[cold]
fn finish_long(out: &mut Vec<u8>, header_at: usize, mut sequence: u8) -> u8 {
    let payload = out.split_off(header_at + HEADER_BYTES);
    out.truncate(header_at);
    let mut rest = payload.as_slice();
    loop {
        let (packet, after) = rest.split_at(rest.len().min(MAX_PAYLOAD_BYTES));
        out.extend_from_slice(&Header { payload_bytes: packet.len(), sequence }.encode());
        out.extend_from_slice(packet);
        sequence = sequence.wrapping_add(1);
        rest = after;
        if packet.len() < MAX_PAYLOAD_BYTES {
            return sequence;
        }
    }
}

pub fn encode(out: &mut Vec<u8>, payload: &[u8], sequence: u8) -> u8 {
    let header_at = begin(out);
    out.extend_from_slice(payload);
    finish(out, header_at, sequence)
}

/// Returns the payload at the start of `bytes` and the size of its packets including headers.
pub(crate) fn payload_at(bytes: &[u8]) -> Result<(Cow<'_, [u8]>, usize), Malformed> {
    let truncated = Malformed { what: "packet", why: "it is truncated" };
    let mut payload = Cow::default();
    let mut end = 0;
    loop {
        let header = Header::decode(bytes.get(end..).unwrap_or_default()).ok_or(truncated)?;
        let begin = end + HEADER_BYTES;
        end = begin + header.payload_bytes;
        let packet = bytes.get(begin..end).ok_or(truncated)?;
        if begin == HEADER_BYTES {
            payload = Cow::Borrowed(packet);
        } else {
            payload.to_mut().extend_from_slice(packet);
        }
        if header.payload_bytes < MAX_PAYLOAD_BYTES {
            return Ok((payload, end));
        }
    }
}

#[derive(Debug)]
pub struct Inbox {
    /// Always initialised in full, so handing out spare room is free.
    data: Vec<u8>,
    start: usize,
    end: usize,
}

const INITIAL_BYTES: usize = 16 * 1024;

impl Default for Inbox {
    fn default() -> Self {
        Self { data: vec![0; INITIAL_BYTES], start: 0, end: 0 }
    }
}

impl Inbox {
    #[inline]
    pub fn unread(&self) -> &[u8] {
        &self.data[self.start..self.end]
    }

    #[inline]
    pub fn spare(&mut self) -> &mut [u8] {
        if self.end == self.data.len() {
            self.make_room();
        }
        &mut self.data[self.end..]
    }

    #[cold]
    fn make_room(&mut self) {
        if self.start > self.data.len() / 2 {
            self.data.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        } else {
            self.data.resize(self.data.len() * 2, 0);
        }
    }

    #[inline]
    pub fn received(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.data.len() - self.end);
        self.end = (self.end + bytes).min(self.data.len());
    }

    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let spare = self.spare();
            let some = spare.len().min(bytes.len());
            spare[..some].copy_from_slice(&bytes[..some]);
            self.received(some);
            bytes = &bytes[some..];
        }
    }

    #[inline]
    pub fn consume(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.end);
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    pub fn remove(&mut self, at: usize, bytes: usize) {
        let from = (self.start + at + bytes).min(self.end);
        let to = (self.start + at).min(from);
        self.data.copy_within(from..self.end, to);
        self.end -= from - to;
    }
}
