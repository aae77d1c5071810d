//! What the outside may do to a running request: end it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// One request's switch. Set by the reader of standard input, looked at by whoever carries the request out.
#[derive(Debug, Default)]
pub struct Control {
    cancelled: AtomicBool,
}

impl Control {
    /// Asks the request to end at its next boundary.
    pub fn cancel(&self) {
        self.cancelled.store(true, Relaxed);
    }

    /// Has it been asked to end?
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Relaxed)
    }
}
