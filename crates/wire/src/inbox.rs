//! The receive buffer: grows to the largest reply seen, is never given back, and holds one exchange from its first byte.

/// Bytes received and not yet done with.
#[derive(Debug)]
pub struct Inbox {
    /// Always initialised throughout, so that handing out spare room costs nothing.
    data: Vec<u8>,
    start: usize,
    end: usize,
}

/// Room at the beginning: more than the replies of most statements need.
const INITIAL_BYTES: usize = 16 * 1024;

impl Default for Inbox {
    fn default() -> Self {
        Self {
            data: vec![0; INITIAL_BYTES],
            start: 0,
            end: 0,
        }
    }
}

impl Inbox {
    /// Everything received and not yet consumed.
    #[inline]
    pub fn unread(&self) -> &[u8] {
        &self.data[self.start..self.end]
    }

    /// Room to receive into, at least one byte; call [`Inbox::received`] with how much of it was used.
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

    /// The first `bytes` of [`Inbox::spare`] have been filled.
    #[inline]
    pub fn received(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.data.len() - self.end);
        self.end = (self.end + bytes).min(self.data.len());
    }

    /// Appends bytes; for tests and captures.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let spare = self.spare();
            let some = spare.len().min(bytes.len());
            spare[..some].copy_from_slice(&bytes[..some]);
            self.received(some);
            bytes = &bytes[some..];
        }
    }

    /// The first `bytes` of [`Inbox::unread`] are done with.
    #[inline]
    pub fn consume(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.end);
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Takes `bytes` out of the middle of [`Inbox::unread`], from `at` on; what follows moves up.
    pub fn remove(&mut self, at: usize, bytes: usize) {
        let from = (self.start + at + bytes).min(self.end);
        let to = (self.start + at).min(from);
        self.data.copy_within(from..self.end, to);
        self.end -= from - to;
    }
}

#[cfg(test)]
#[path = "../tests/unit/inbox.rs"]
mod tests;
