//! Unix and TCP sockets, with time limits and a way to end them from another thread.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, RawFd};
use std::rc::Rc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bakeoff_metrics::Sum;
use bakeoff_script::host::SqlError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags};
use socket2::{Domain, SockAddr, Type};

use super::errors::{cannot_connect, unknown_host};
use super::{Endpoint, ServerAddress};
use crate::lock;

pub(super) struct Socket {
    socket: socket2::Socket,
    canceller: Arc<ConnectionCanceller>,
    traffic: Rc<Traffic>,
    read_limit: ReadLimit,
}

/// Bytes over one worker's connections, including TLS and packet headers. Only the worker's own thread touches it.
#[derive(Debug, Default)]
pub struct Traffic {
    pub sent_bytes: Sum,
    pub received_bytes: Sum,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum ReadLimit {
    Until(Instant),
    Silence(Timespec),
}

impl ReadLimit {
    pub(super) fn silence(longest: Duration) -> Self {
        Self::Silence(timespec(longest))
    }

    fn timeout(self) -> Timespec {
        match self {
            Self::Until(end) => timespec(end.saturating_duration_since(Instant::now())),
            Self::Silence(longest) => longest,
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX), tv_nsec: duration.subsec_nanos().into() }
}

impl Socket {
    pub(super) fn connect(
        address: &ServerAddress,
        deadline: Instant,
        canceller: Arc<ConnectionCanceller>,
        traffic: Rc<Traffic>,
    ) -> Result<Self, SqlError> {
        let endpoint = &address.endpoint;
        let failed = |error: io::Error| cannot_connect(endpoint, &error);
        let socket = match endpoint {
            Endpoint::Unix(path) => connect_unix(path, deadline).map_err(failed)?,
            Endpoint::Tcp { host, port } => connect_tcp((host, *port), endpoint, deadline, &address.learned.resolved)?,
        };
        socket.set_write_timeout(Some(address.read_timeout)).map_err(failed)?;
        // SAFETY: `drop` detaches the socket, and closes it afterwards.
        unsafe { canceller.attach(socket.as_fd()) };
        Ok(Self { socket, canceller, traffic, read_limit: ReadLimit::Until(deadline) })
    }

    pub(super) fn shut_down(&self) {
        shut_down(self.socket.as_fd());
    }

    pub(super) fn set_read_limit(&mut self, read_limit: ReadLimit) {
        self.read_limit = read_limit;
    }

    #[inline]
    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        self.send_with(bytes, SendFlags::NOSIGNAL)
    }

    /// Sends `bytes` if the kernel takes them at once. Nobody waits for a goodbye.
    pub(super) fn send_without_waiting(&self, bytes: &[u8]) -> io::Result<()> {
        self.send_with(bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
    }

    #[inline]
    fn send_with(&self, mut bytes: &[u8], flags: SendFlags) -> io::Result<()> {
        while !bytes.is_empty() {
            match rustix::net::send(&self.socket, bytes, flags) {
                Ok(sent) => {
                    self.traffic.sent_bytes.add(sent as u64);
                    bytes = &bytes[sent..];
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Receives what there is into `into`, waiting for at least one byte. Returns 0 if the server closed the
    /// connection. Polls before it reads: a reader blocked in `read` on a unix socket also wakes when the server takes
    /// the request.
    #[inline]
    pub(super) fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut waiting = [PollFd::new(&self.socket, PollFlags::IN)];
            match poll(&mut waiting, Some(&self.read_limit.timeout())) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            match rustix::net::recv(&self.socket, &mut *into, RecvFlags::DONTWAIT) {
                Ok((received, _)) => {
                    self.traffic.received_bytes.add(received as u64);
                    return Ok(received);
                }
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.canceller.detach(self.socket.as_fd());
    }
}

impl io::Read for &Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.receive(into)
    }
}

impl io::Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn connect_unix(path: &std::path::Path, deadline: Instant) -> io::Result<socket2::Socket> {
    let address = SockAddr::unix(path)?;
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // The kernel applies the send timeout to a connect that waits in the server's queue.
    let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    socket.set_write_timeout(Some(left))?;
    match socket.connect(&address) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(io::ErrorKind::TimedOut.into()),
        other => other.map(|()| socket),
    }
}

/// Connects to what the name resolves to. `resolved` keeps the addresses until no connection can be made to them.
fn connect_tcp(
    name: (&str, u16),
    endpoint: &Endpoint,
    deadline: Instant,
    resolved: &Mutex<Option<Arc<[SocketAddr]>>>,
) -> Result<socket2::Socket, SqlError> {
    let known = lock(resolved).clone();
    let addresses = known.map_or_else(|| resolve(name, deadline), Ok).map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => cannot_connect(endpoint, &error),
        _ => unknown_host(endpoint, &error),
    })?;
    let connected = connect_any(&addresses, deadline);
    *lock(resolved) = connected.is_ok().then_some(addresses);
    connected.map_err(|error| cannot_connect(endpoint, &error))
}

fn resolve((host, port): (&str, u16), deadline: Instant) -> io::Result<Arc<[SocketAddr]>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok([(address, port).into()].into());
    }
    let name = (host.to_owned(), port);
    within(deadline, "the host name was not resolved in time", move || name.to_socket_addrs().map(Iterator::collect))
}

/// Runs a blocking call that has no timeout on another thread, and abandons that thread at the deadline.
fn within<T: Send + 'static>(
    deadline: Instant,
    too_late: &'static str,
    call: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (sender, result) = channel();
    let thread = std::thread::Builder::new().name("resolver".into());
    thread.spawn(move || sender.send(call()))?;
    match result.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => Err(io::Error::new(io::ErrorKind::TimedOut, too_late)),
        Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("the resolver has panicked")),
    }
}

fn connect_any(addresses: &[SocketAddr], deadline: Instant) -> io::Result<socket2::Socket> {
    let mut first = None;
    for (&address, to_try) in addresses.iter().zip((1..=addresses.len() as u32).rev()) {
        let left = deadline.saturating_duration_since(Instant::now()) / to_try;
        if left.is_zero() {
            first.get_or_insert(io::ErrorKind::TimedOut.into());
            break;
        }
        let connected = socket2::Socket::new(Domain::for_address(address), Type::STREAM, None)
            .and_then(|socket| socket.connect_timeout(&address.into(), left).map(|()| socket));
        match connected {
            Ok(socket) => {
                socket.set_tcp_nodelay(true)?;
                return Ok(socket);
            }
            Err(error) => {
                first.get_or_insert(error);
            }
        }
    }
    Err(first.unwrap_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name resolves to no address")))
}

/// Ends one worker's connections from outside: [`ConnectionCanceller::cut`] makes every blocking call return.
#[derive(Debug, Default)]
pub struct ConnectionCanceller {
    state: Mutex<AttachedSockets>,
}

#[derive(Debug, Default)]
struct AttachedSockets {
    /// Descriptors of the open sockets. Each is detached before it is closed, so none ever names another file.
    sockets: Vec<RawFd>,
    cut: bool,
}

impl ConnectionCanceller {
    /// Registers a new socket. After [`ConnectionCanceller::cut`] it is shut down at once.
    ///
    /// # Safety
    /// The socket stays open until [`ConnectionCanceller::detach`] has been called with it.
    pub unsafe fn attach(&self, socket: BorrowedFd<'_>) {
        let mut state = lock(&self.state);
        if state.cut {
            shut_down(socket);
        }
        state.sockets.push(socket.as_raw_fd());
    }

    pub fn detach(&self, socket: BorrowedFd<'_>) {
        lock(&self.state).sockets.retain(|attached| *attached != socket.as_raw_fd());
    }

    pub fn cut(&self) {
        let mut state = lock(&self.state);
        state.cut = true;
        for &socket in &state.sockets {
            // SAFETY: still open, because closing it needs `detach`, which waits for this lock.
            shut_down(unsafe { BorrowedFd::borrow_raw(socket) });
        }
    }
}

fn shut_down(socket: BorrowedFd<'_>) {
    let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
}

#[cfg(test)]
#[path = "../../tests/unit/net_socket.rs"]
mod tests;
