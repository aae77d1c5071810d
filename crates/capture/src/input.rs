//! Opens files, plain or compressed.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::read::MultiGzDecoder;
use liblzma::read::XzDecoder;

const BUFFER: usize = 64 << 10;

#[derive(Debug, Clone, Default)]
pub struct ReadProgress(Arc<AtomicU64>);

impl ReadProgress {
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

struct Counted<R> {
    inner: R,
    progress: ReadProgress,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.progress.0.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

pub fn open(path: &Path, progress: &ReadProgress) -> io::Result<Box<dyn Read + Send>> {
    let raw: Box<dyn Read + Send> =
        if path == Path::new("-") { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
    let mut raw = Counted { inner: raw, progress: progress.clone() };
    let mut head = Vec::new();
    raw.by_ref().take(6).read_to_end(&mut head)?;
    let whole = BufReader::with_capacity(BUFFER, io::Cursor::new(head.clone()).chain(raw));
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
