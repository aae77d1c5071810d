//! Ends work from another thread: a whole request ([`CancelToken`]), or one worker's blocked connections ([`ConnectionCanceller`]).
//!
//! The network client calls [`ConnectionCanceller::attach`] whenever it has a new socket. When another thread calls
//! [`ConnectionCanceller::cut`], a blocking `recv` or `poll` returns at once, the script gets a fatal error, and the worker can be
//! joined. So no request waits for ever, and no query needs a timer.

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Says that one request is to end. Set by the reader of standard input, read by whoever carries the request out.
#[derive(Debug, Default)]
pub struct CancelToken {
    cancelled: AtomicBool,
}

impl CancelToken {
    /// Asks the request to end at its next boundary.
    pub fn cancel(&self) {
        self.cancelled.store(true, Relaxed);
    }

    /// Has it been asked to end?
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Relaxed)
    }
}

/// Ends one worker's connections from outside. Shared by the worker, which attaches, and its coordinator, which cuts.
#[derive(Debug, Default)]
pub struct ConnectionCanceller {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Descriptors of the sockets in use. Each is detached before it is closed, so none is ever another file's.
    sockets: Vec<RawFd>,
    cut: bool,
}

impl ConnectionCanceller {
    /// Registers a freshly connected socket; one that is attached after [`ConnectionCanceller::cut`] is shut down at once.
    ///
    /// # Safety
    /// The socket stays open until [`ConnectionCanceller::detach`] has been called with what this returns.
    pub unsafe fn attach(&self, socket: BorrowedFd<'_>) -> Attachment {
        let mut state = self.lock();
        if state.cut {
            shut_down(socket);
        }
        state.sockets.push(socket.as_raw_fd());
        Attachment(socket.as_raw_fd())
    }

    /// Forgets a socket that its connection is about to close.
    pub fn detach(&self, attachment: &Attachment) {
        self.lock().sockets.retain(|socket| *socket != attachment.0);
    }

    /// Shuts down every attached socket, now and from now on.
    pub fn cut(&self) {
        let mut state = self.lock();
        state.cut = true;
        for &socket in &state.sockets {
            // SAFETY: open, for whoever attached it detaches it first, which waits for this lock.
            shut_down(unsafe { BorrowedFd::borrow_raw(socket) });
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // A panic elsewhere leaves the list as valid as before.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Names one attached socket for [`ConnectionCanceller::detach`].
#[derive(Debug, PartialEq, Eq)]
pub struct Attachment(RawFd);

fn shut_down(socket: BorrowedFd<'_>) {
    // The peer may be gone already; then there is nothing left to end.
    let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
}

#[cfg(test)]
#[path = "../tests/unit/cancel.rs"]
mod tests;
