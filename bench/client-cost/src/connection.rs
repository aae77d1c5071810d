//! One connection: log in without a password, prepare, and the round trip that everything here is about.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

const BUFFER_BYTES: usize = 256 << 10;
const LONG: Timespec = Timespec { tv_sec: 600, tv_nsec: 0 };

const CONNECT_WITH_DB: u32 = 1 << 3;
const PROTOCOL_41: u32 = 1 << 9;
const TRANSACTIONS: u32 = 1 << 13;
const SECURE_CONNECTION: u32 = 1 << 15;
const PLUGIN_AUTH: u32 = 1 << 19;
const DEPRECATE_EOF: u32 = 1 << 24;

/// What a server refused, or what broke.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An ERR packet.
    Sql {
        code: u16,
        message: String,
    },
    Io(io::Error),
    /// Bytes that are not the protocol, or a part of it that is not needed here.
    Protocol(&'static str),
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sql { code, message } => write!(out, "server error {code}: {message}"),
            Self::Io(error) => write!(out, "connection: {error}"),
            Self::Protocol(what) => out.write_str(what),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<rustix::io::Errno> for Failure {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Io(error.into())
    }
}

/// How the client waits for a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Wait {
    /// poll, then read: one wake-up a reply.
    Poll,
    /// As poll, with a limit of ten minutes: the kernel sets and clears a timer for each reply.
    PollTimed,
    /// A blocking read.
    Block,
    /// As poll, by threads of the scheduling policy SCHED_BATCH, which a wake-up never lets in before another.
    PollBatch,
    /// One thread for many connections: epoll, then read those that are ready.
    Epoll,
    /// io_uring: one system call for write, wait and read.
    Uring,
    /// io_uring, one thread for many connections: one system call for all writes and reads that are due.
    UringMany,
}

impl Wait {
    /// Do a few threads share all connections?
    pub(crate) fn shares_threads(self) -> bool {
        matches!(self, Self::Epoll | Self::UringMany)
    }
}

#[derive(Debug)]
pub(crate) struct Connection {
    socket: OwnedFd,
    wait: Wait,
    deprecate_eof: bool,
    buffer: Box<[u8]>,
    reply: Reply,
}

impl Connection {
    pub(crate) fn unix(path: &Path, wait: Wait) -> Result<Self, Failure> {
        Ok(Self::new(OwnedFd::from(UnixStream::connect(path)?), wait))
    }

    pub(crate) fn tcp(host: &str, port: u16, wait: Wait) -> Result<Self, Failure> {
        let stream = TcpStream::connect((host, port))?;
        stream.set_nodelay(true)?;
        Ok(Self::new(OwnedFd::from(stream), wait))
    }

    fn new(socket: OwnedFd, wait: Wait) -> Self {
        Self { socket, wait, deprecate_eof: false, buffer: vec![0; BUFFER_BYTES].into(), reply: Reply::default() }
    }

    /// Reads the greeting and logs in as a user without a password.
    pub(crate) fn log_in(&mut self, user: &str, database: &str) -> Result<(), Failure> {
        let greeting = self.one_packet()?;
        check_error(&greeting)?;
        let offered = offered_capabilities(&greeting).ok_or(Failure::Protocol("the greeting is not protocol 10"))?;
        let wanted = PROTOCOL_41 | TRANSACTIONS | SECURE_CONNECTION | PLUGIN_AUTH | CONNECT_WITH_DB | DEPRECATE_EOF;
        let capabilities = wanted & offered;
        self.deprecate_eof = capabilities & DEPRECATE_EOF != 0;
        let mut hello = capabilities.to_le_bytes().to_vec();
        hello.extend_from_slice(&(1u32 << 24).to_le_bytes());
        hello.push(45);
        hello.extend_from_slice(&[0; 23]);
        // No password: an empty answer in any plugin.
        for text in [user.as_bytes(), b"", database.as_bytes(), b"mysql_native_password"] {
            hello.extend_from_slice(text);
            hello.push(0);
        }
        self.send_payload(&hello, 1)?;
        let mut answer = self.one_packet()?;
        if answer.first() == Some(&0xFE) {
            // caching_sha2_password reads one zero byte as an empty password, mysql_native_password an empty packet.
            let empty: &[u8] = if answer[1..].starts_with(b"caching_sha2_password") { &[0] } else { &[] };
            self.send_payload(empty, 3)?;
            answer = self.one_packet()?;
        }
        check_error(&answer)?;
        if answer.first() != Some(&0) {
            return Err(Failure::Protocol("the server asks for a password; the bare loop has none"));
        }
        Ok(())
    }

    /// Prepares a statement: its id.
    pub(crate) fn prepare(&mut self, sql: &str) -> Result<u32, Failure> {
        self.send_payload(&[&[0x16], sql.as_bytes()].concat(), 0)?;
        let head = self.one_packet()?;
        check_error(&head)?;
        let &[0, a, b, c, d, c0, c1, p0, p1, ..] = head.as_slice() else {
            return Err(Failure::Protocol("malformed answer to a prepare"));
        };
        for count in [u16::from_le_bytes([p0, p1]), u16::from_le_bytes([c0, c1])] {
            let ends = u16::from(count > 0 && !self.deprecate_eof);
            for _ in 0..count + ends {
                self.one_packet()?;
            }
        }
        Ok(u32::from_le_bytes([a, b, c, d]))
    }

    /// Asks for one number; `None` when the answer has no row, or something else in it.
    pub(crate) fn number(&mut self, sql: &str) -> Result<Option<u64>, Failure> {
        self.send_payload(&[&[0x03], sql.as_bytes()].concat(), 0)?;
        check_error(&self.one_packet()?)?;
        let ends = u16::from(!self.deprecate_eof);
        for _ in 0..=ends {
            self.one_packet()?;
        }
        let row = self.one_packet()?;
        check_error(&row)?;
        if row.first() == Some(&0xFE) {
            return Ok(None);
        }
        check_error(&self.one_packet()?)?;
        let digits = row.get(1..).unwrap_or_default();
        Ok(std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok()))
    }

    /// Sends a packet and makes ready for its reply.
    pub(crate) fn send(&mut self, packet: &[u8]) -> Result<(), Failure> {
        // A short write cannot be here: packets are far smaller than a socket's buffer, and it is empty.
        rustix::io::write(&self.socket, packet)?;
        self.expect_reply();
        Ok(())
    }

    /// Makes ready for the reply to a packet that is sent by somebody else.
    pub(crate) fn expect_reply(&mut self) {
        self.reply = Reply::default();
    }

    /// Sends a packet and reads its reply to the last byte: the floor of a query's cost.
    pub(crate) fn round_trip(&mut self, packet: &[u8]) -> Result<(), Failure> {
        self.send(packet)?;
        loop {
            match self.wait {
                Wait::Poll | Wait::PollBatch => {
                    poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], None)?;
                }
                Wait::PollTimed => {
                    poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&LONG))?;
                }
                Wait::Block | Wait::Epoll | Wait::Uring | Wait::UringMany => {}
            }
            if self.receive()? {
                return Ok(());
            }
        }
    }

    /// Reads once; true when the reply is whole.
    pub(crate) fn receive(&mut self) -> Result<bool, Failure> {
        self.room()?;
        let count = rustix::io::read(&self.socket, &mut self.buffer[self.reply.filled..])?;
        self.received(count)
    }

    /// Room for more of the reply.
    pub(crate) fn room(&mut self) -> Result<&mut [u8], Failure> {
        let reply = &mut self.reply;
        if reply.filled == self.buffer.len() {
            // A reply larger than the buffer: what was walked over makes room.
            if reply.position == 0 {
                return Err(Failure::Protocol("a packet larger than the bare loop's buffer"));
            }
            self.buffer.copy_within(reply.position..reply.filled, 0);
            (reply.filled, reply.position) = (reply.filled - reply.position, 0);
        }
        Ok(&mut self.buffer[reply.filled..])
    }

    /// So many bytes have been put into [`Connection::room`]; true when the reply is whole.
    pub(crate) fn received(&mut self, count: usize) -> Result<bool, Failure> {
        if count == 0 {
            return Err(Failure::Protocol("the server closed the connection"));
        }
        self.reply.filled += count;
        self.reply.walk(&self.buffer, self.deprecate_eof)
    }

    fn send_payload(&mut self, payload: &[u8], sequence: u8) -> Result<(), Failure> {
        let mut header = (payload.len() as u32).to_le_bytes();
        header[3] = sequence;
        self.stream().write_all(&[&header, payload].concat())?;
        Ok(())
    }

    fn one_packet(&mut self) -> Result<Vec<u8>, Failure> {
        let mut header = [0; 4];
        self.stream().read_exact(&mut header)?;
        let mut payload = vec![0; usize::from(header[0]) | usize::from(header[1]) << 8 | usize::from(header[2]) << 16];
        self.stream().read_exact(&mut payload)?;
        Ok(payload)
    }

    fn stream(&self) -> Stream<'_> {
        Stream(self.socket.as_fd())
    }
}

/// A reply on its way in.
#[derive(Debug, Default)]
struct Reply {
    /// Bytes in the buffer.
    filled: usize,
    /// Bytes already scanned.
    position: usize,
    progress: Progress,
}

#[derive(Debug, Default)]
enum Progress {
    #[default]
    First,
    /// Column definitions left, with the EOF after them.
    Columns(u16),
    Rows,
}

impl Reply {
    /// Walks over whole packets; true at the reply's end.
    fn walk(&mut self, buffer: &[u8], deprecate_eof: bool) -> Result<bool, Failure> {
        let bytes = &buffer[..self.filled];
        while let Some(&[a, b, c, _, first]) = bytes.get(self.position..).and_then(|rest| rest.first_chunk::<5>()) {
            let length = usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
            let end = self.position + 4 + length;
            if end > self.filled {
                return Ok(false);
            }
            let payload = &bytes[self.position + 4..end];
            self.position = end;
            match &mut self.progress {
                Progress::First => match first {
                    0x00 => return Ok(true),
                    0xFF => return check_error(payload).map(|()| true),
                    columns => self.progress = Progress::Columns(u16::from(columns) + u16::from(!deprecate_eof)),
                },
                Progress::Columns(left) => {
                    *left -= 1;
                    if *left == 0 {
                        self.progress = Progress::Rows;
                    }
                }
                Progress::Rows => match first {
                    0xFE if length < 9 || deprecate_eof => return Ok(true),
                    0xFF => return check_error(payload).map(|()| true),
                    _ => {}
                },
            }
        }
        Ok(false)
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

struct Stream<'a>(BorrowedFd<'a>);

impl Read for Stream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(self.0, buffer)?)
    }
}

impl Write for Stream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(self.0, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn offered_capabilities(greeting: &[u8]) -> Option<u32> {
    let rest = greeting.strip_prefix(&[10])?;
    let after_version = &rest[rest.iter().position(|&byte| byte == 0)? + 1..];
    // Connection id 4, scramble 8, zero 1, lower flags 2, charset 1, status 2, upper flags 2.
    let (lower, upper) = (after_version.get(13..15)?, after_version.get(18..20)?);
    Some(u32::from_le_bytes([lower[0], lower[1], upper[0], upper[1]]))
}

fn check_error(payload: &[u8]) -> Result<(), Failure> {
    match payload {
        [0xFF, low, high, rest @ ..] => Err(Failure::Sql {
            code: u16::from_le_bytes([*low, *high]),
            message: String::from_utf8_lossy(rest).into_owned(),
        }),
        _ => Ok(()),
    }
}
