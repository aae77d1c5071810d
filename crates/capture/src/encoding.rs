//! Undoes what Windows tools do to a log: UTF-16, byte order marks, line ends.

use std::io::{self, Cursor, Read};

pub(crate) const MARK: &[u8] = "\u{FEFF}".as_bytes();

const PIECE: u64 = 64 << 10;

type Unit = fn([u8; 2]) -> u16;

pub(crate) fn as_utf8(mut input: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let mut head = Vec::new();
    input.by_ref().take(4).read_to_end(&mut head)?;
    let (mark, unit): (usize, Option<Unit>) = match head.as_slice() {
        [0xFF, 0xFE, ..] => (2, Some(u16::from_le_bytes)),
        [0xFE, 0xFF, ..] => (2, Some(u16::from_be_bytes)),
        [one, 0, other, 0] if *one != 0 && *other != 0 => (0, Some(u16::from_le_bytes)),
        [0, one, 0, other] if *one != 0 && *other != 0 => (0, Some(u16::from_be_bytes)),
        [0xEF, 0xBB, 0xBF, ..] => (3, None),
        _ => (0, None),
    };
    let whole = Cursor::new(head.split_off(mark)).chain(input);
    Ok(match unit {
        Some(unit) => Box::new(Utf16 { inner: whole, unit, begun: Vec::new(), text: Cursor::default() }),
        None => Box::new(whole),
    })
}

struct Utf16<R> {
    inner: R,
    unit: Unit,
    begun: Vec<u8>,
    text: Cursor<Vec<u8>>,
}

impl<R: Read> Utf16<R> {
    fn fill(&mut self) -> io::Result<bool> {
        let mut bytes = std::mem::take(&mut self.begun);
        let is_last = self.inner.by_ref().take(PIECE).read_to_end(&mut bytes)? == 0;
        let mut units: Vec<u16> = bytes.chunks_exact(2).map(|pair| (self.unit)([pair[0], pair[1]])).collect();
        if !is_last {
            units.pop_if(|unit| (0xD800..0xDC00).contains(unit));
            self.begun = bytes.split_off(2 * units.len());
        }
        let text: String = char::decode_utf16(units).map(|each| each.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
        self.text = Cursor::new(text.into_bytes());
        Ok(!is_last || !self.text.get_ref().is_empty())
    }
}

impl<R: Read> Read for Utf16<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.text.read(buffer)?;
            if count > 0 || buffer.is_empty() || !self.fill()? {
                return Ok(count);
            }
        }
    }
}

pub(crate) fn has_windows_lines(head: &[u8]) -> bool {
    let mut ends = memchr::memchr_iter(b'\n', head).peekable();
    ends.peek().is_some() && ends.all(|end| end > 0 && head[end - 1] == b'\r')
}

#[cfg(test)]
#[path = "../tests/unit/encoding.rs"]
mod tests;
