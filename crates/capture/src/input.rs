//! Opens logs, plain or compressed, and undoes what Windows tools do to them.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::read::MultiGzDecoder;
use liblzma::read::XzDecoder;

const BUFFER: usize = 64 << 10;

pub(crate) const MARK: &[u8] = "\u{FEFF}".as_bytes();

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: cannot be {doing}: {reason}", path.display())]
    Io { path: PathBuf, doing: &'static str, reason: io::Error },
    #[error("{}: not a slow log, a general log or a file of SQL", path.display())]
    Unknown { path: PathBuf },
    #[error("the logs are empty")]
    Empty,
    #[error("{}: not a capture", path.display())]
    NotACapture { path: PathBuf },
    #[error("{}: {reason}", path.display())]
    Capture { path: PathBuf, reason: String },
}

impl Error {
    /// `doing`: `opened`, `read` or `written`.
    pub(crate) fn io(path: &Path, doing: &'static str) -> impl Fn(io::Error) -> Self {
        move |reason| Self::Io { path: path.to_owned(), doing, reason }
    }
}

/// Bytes read so far, before decompression.
pub type ReadProgress = Arc<AtomicU64>;

struct Counted<R> {
    inner: R,
    progress: ReadProgress,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.progress.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

pub fn open(path: &Path, progress: &ReadProgress) -> io::Result<Box<dyn Read + Send>> {
    let raw: Box<dyn Read + Send> =
        if path == Path::new("-") { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
    let mut raw = Counted { inner: raw, progress: progress.clone() };
    let mut head = Vec::new();
    raw.by_ref().take(6).read_to_end(&mut head)?;
    let whole = BufReader::with_capacity(BUFFER, Cursor::new(head.clone()).chain(raw));
    Ok(match head.as_slice() {
        [0x1F, 0x8B, ..] => Box::new(MultiGzDecoder::new(whole)),
        // A zstd file may begin with a skippable frame.
        [0x28, 0xB5, 0x2F, 0xFD, ..] | [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..] => {
            Box::new(zstd::Decoder::with_buffer(whole)?)
        }
        [0xFD, b'7', b'z', b'X', b'Z', 0] => Box::new(XzDecoder::new_multi_decoder(whole)),
        _ => Box::new(whole),
    })
}

type Unit = fn([u8; 2]) -> u16;

/// Drops a byte order mark and decodes UTF-16, which PowerShell writes. Only UTF-16 is read into memory as a whole.
pub(crate) fn as_utf8(mut input: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let mut head = Vec::new();
    input.by_ref().take(4).read_to_end(&mut head)?;
    let (mark, unit): (usize, Option<Unit>) = match head.as_slice() {
        [0xFF, 0xFE, ..] => (2, Some(u16::from_le_bytes)),
        [0xFE, 0xFF, ..] => (2, Some(u16::from_be_bytes)),
        [one, 0, other, 0] if *one != 0 && *other != 0 => (0, Some(u16::from_le_bytes)),
        [0, one, 0, other] if *one != 0 && *other != 0 => (0, Some(u16::from_be_bytes)),
        head if head.starts_with(MARK) => (MARK.len(), None),
        _ => (0, None),
    };
    let mut whole = Cursor::new(head.split_off(mark)).chain(input);
    let Some(unit) = unit else { return Ok(Box::new(whole)) };
    let mut bytes = Vec::new();
    whole.read_to_end(&mut bytes)?;
    let units = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    let text: String = char::decode_utf16(units).map(|each| each.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    Ok(Box::new(Cursor::new(text.into_bytes())))
}

pub(crate) fn has_windows_lines(head: &[u8]) -> bool {
    let mut ends = memchr::memchr_iter(b'\n', head).peekable();
    ends.peek().is_some() && ends.all(|end| end > 0 && head[end - 1] == b'\r')
}
