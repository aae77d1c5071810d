//! A client of a few lines, and the server's process: only what the tests need, and nothing of either side's code.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// What a server that should have answered, or ended, may take; far above what it takes.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct FakeServer {
    pub(crate) child: Child,
    pub(crate) socket: PathBuf,
    pub(crate) ready: String,
    lines: BufReader<ChildStdout>,
}

impl FakeServer {
    pub(crate) fn start(options: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("bakeoff-fake-{}-{}.sock", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let socket = std::env::temp_dir().join(name);
        let mut child = Command::new(env!("CARGO_BIN_EXE_bakeoff-fakeserver"))
            // The test harness ends each test's thread, and with it a server that it started.
            .args(["--detached", "--socket"])
            .arg(&socket)
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped"));
        let mut ready = String::new();
        lines.read_line(&mut ready).expect("a line");
        assert!(ready.contains("\"ready\""), "{ready}");
        Self { child, socket, ready, lines }
    }

    pub(crate) fn connect(&self) -> Client {
        self.try_connect("root", &[]).expect("connects")
    }

    /// Connects and logs in; the payload that ended the attempt otherwise.
    pub(crate) fn try_connect(&self, user: &str, auth_answer: &[u8]) -> Result<Client, Vec<u8>> {
        let mut client = self.raw();
        let greeting = client.payload();
        if greeting.first() != Some(&10) {
            return Err(greeting);
        }
        client.log_in(user, auth_answer);
        let answer = client.payload();
        if answer.first() == Some(&0) { Ok(client) } else { Err(answer) }
    }

    /// Connected, nothing read.
    pub(crate) fn raw(&self) -> Client {
        let stream = UnixStream::connect(&self.socket).expect("connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("sets");
        Client { stream, sequence: 0 }
    }

    /// Sends SIGTERM; the last line and the exit code.
    pub(crate) fn terminate(mut self) -> (String, Option<i32>) {
        let pid = i32::try_from(self.child.id()).expect("fits");
        // SAFETY: plain system call on a child that has not been waited for.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
        let mut last = String::new();
        self.lines.read_line(&mut last).expect("a line");
        (last, self.child.wait().expect("waited").code())
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        // It may have ended by itself; the path is only left behind by a kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

pub(crate) struct Client {
    stream: UnixStream,
    sequence: u8,
}

impl Client {
    fn log_in(&mut self, user: &str, auth_answer: &[u8]) {
        // PROTOCOL_41 and SECURE_CONNECTION; not DEPRECATE_EOF.
        let mut hello = (1u32 << 9 | 1 << 15).to_le_bytes().to_vec();
        hello.extend_from_slice(&(1u32 << 24).to_le_bytes());
        hello.push(45);
        hello.extend_from_slice(&[0; 23]);
        hello.extend_from_slice(user.as_bytes());
        hello.push(0);
        hello.push(u8::try_from(auth_answer.len()).expect("short"));
        hello.extend_from_slice(auth_answer);
        self.send_with_sequence(&hello, self.sequence);
    }

    pub(crate) fn send(&mut self, payload: &[u8]) {
        self.send_with_sequence(payload, 0);
    }

    pub(crate) fn send_with_sequence(&mut self, payload: &[u8], sequence: u8) {
        let mut packet = u32::try_from(payload.len()).expect("short").to_le_bytes();
        packet[3] = sequence;
        self.stream.write_all(&[&packet, payload].concat()).expect("written");
        self.sequence = sequence.wrapping_add(1);
    }

    /// The next payload; panics at the end of the stream or of patience.
    pub(crate) fn payload(&mut self) -> Vec<u8> {
        self.try_payload().expect("a payload")
    }

    pub(crate) fn try_payload(&mut self) -> std::io::Result<Vec<u8>> {
        let mut header = [0; 4];
        self.stream.read_exact(&mut header)?;
        assert_eq!(header[3], self.sequence, "sequence number");
        self.sequence = self.sequence.wrapping_add(1);
        let mut payload = vec![0; usize::from(header[0]) | usize::from(header[1]) << 8 | usize::from(header[2]) << 16];
        self.stream.read_exact(&mut payload)?;
        Ok(payload)
    }

    pub(crate) fn query(&mut self, text: &str) -> Answer {
        self.send(&[&[3], text.as_bytes()].concat());
        self.answer()
    }

    pub(crate) fn prepare(&mut self, text: &str) -> u32 {
        self.send(&[&[0x16], text.as_bytes()].concat());
        let head = self.payload();
        assert_eq!(head[0], 0, "prepare refused: {}", String::from_utf8_lossy(&head));
        let (columns, parameters) = (u16::from_le_bytes([head[5], head[6]]), u16::from_le_bytes([head[7], head[8]]));
        for definitions in [parameters, columns].into_iter().filter(|&count| count > 0) {
            for _ in 0..definitions {
                self.payload();
            }
            assert_eq!(self.payload()[0], 0xFE);
        }
        u32::from_le_bytes([head[1], head[2], head[3], head[4]])
    }

    pub(crate) fn execute(&mut self, id: u32) -> Answer {
        self.send(&[&[0x17], &id.to_le_bytes()[..], &[0, 1, 0, 0, 0]].concat());
        self.answer()
    }

    pub(crate) fn answer(&mut self) -> Answer {
        let first = self.payload();
        match first[0] {
            0x00 => Answer::Ok { status: u16::from_le_bytes([first[3], first[4]]) },
            0xFF => Answer::Error {
                code: u16::from_le_bytes([first[1], first[2]]),
                text: String::from_utf8_lossy(&first[3..]).into_owned(),
            },
            columns => {
                for _ in 0..columns {
                    self.payload();
                }
                assert_eq!(self.payload()[0], 0xFE);
                let mut rows = Vec::new();
                loop {
                    let row = self.payload();
                    if row[0] == 0xFE && row.len() < 9 {
                        return Answer::Rows { rows, status: u16::from_le_bytes([row[3], row[4]]) };
                    }
                    rows.push(row);
                }
            }
        }
    }

    /// Whether the server has closed the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0]), Ok(0) | Err(_))
    }
}

#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    Ok { status: u16 },
    Error { code: u16, text: String },
    Rows { rows: Vec<Vec<u8>>, status: u16 },
}

impl Answer {
    pub(crate) fn rows(self) -> Vec<Vec<u8>> {
        match self {
            Self::Rows { rows, .. } => rows,
            other => panic!("no rows: {other:?}"),
        }
    }

    pub(crate) fn error_code(&self) -> Option<u16> {
        match self {
            Self::Error { code, .. } => Some(*code),
            _ => None,
        }
    }
}
