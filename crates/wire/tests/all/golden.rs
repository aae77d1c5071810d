//! Replays the recordings of real servers (`tests/golden/*.capture`).
//!
//! The client must send the same bytes and understand the replies as it did then. For a new server version, make a recording first
//! (`cargo run -p bakeoff-wire --example record`).

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use crate::conversation::{Peer, Script, converse};
use bakeoff_wire::{Answering, Greeting, Login, LoginOptions, LoginStep, ReplyScanner, UTF8MB4_GENERAL_CI};

/// Sends the server's lines in turn, `chunk` bytes at a time.
struct Recording {
    turns: VecDeque<Vec<u8>>,
    chunk: usize,
}

impl Recording {
    fn new(text: &str, chunk: usize) -> Self {
        let mut turns: VecDeque<Vec<u8>> = VecDeque::new();
        let mut client_spoke = true;
        for line in text.lines() {
            if let Some(hex) = line.strip_prefix("S ") {
                if client_spoke {
                    turns.push_back(Vec::new());
                }
                turns.back_mut().expect("a turn").extend(unhex(hex));
                client_spoke = false;
            } else if line.starts_with("C ") || line.starts_with("C~ ") {
                client_spoke = true;
            }
        }
        Self { turns, chunk }
    }
}

impl Peer for Recording {
    fn send(&mut self, _bytes: &[u8]) {}

    fn receive(&mut self) -> Vec<u8> {
        while self.turns.front().is_some_and(Vec::is_empty) {
            self.turns.pop_front();
        }
        let Some(turn) = self.turns.front_mut() else {
            return Vec::new();
        };
        turn.drain(..self.chunk.min(turn.len())).collect()
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().map(|byte| (byte as char).to_digit(16).expect("hex") as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn recordings() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let recordings: Vec<_> = entries
        .map(|entry| entry.expect("a folder entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "capture"))
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("a readable recording");
            (path, text)
        })
        .collect();
    assert!(recordings.len() >= 10, "too few recordings in {}", folder.display());
    recordings
}

fn without_comments(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with('#')).collect()
}

#[test]
fn every_recording_replays_exactly() {
    for (path, text) in recordings() {
        for chunk in [usize::MAX, 1, 7] {
            let played = converse(&Script::parse(&text), &mut Recording::new(&text, chunk));
            for (played, recorded) in without_comments(&played).iter().zip(without_comments(&text)) {
                assert_eq!(*played, recorded, "{} in chunks of {chunk}", path.display());
            }
            assert_eq!(without_comments(&played).len(), without_comments(&text).len(), "{}", path.display());
        }
    }
}

/// Truncates and changes what real servers sent. Nothing may panic, loop or use more bytes than were received.
#[test]
fn damaged_recordings_do_not_panic() {
    for (_, text) in recordings() {
        let server = text.lines().filter_map(|line| line.strip_prefix("S ")).map(unhex);
        for bytes in server {
            for at in 0..bytes.len().min(400) {
                let mut spoilt = bytes.clone();
                for change in [0, 1, 0x7f, 0x80, 0xfb, 0xfe, 0xff] {
                    spoilt[at] = change;
                    offer(&spoilt);
                }
                offer(&bytes[..at]);
            }
        }
    }
}

fn offer(bytes: &[u8]) {
    let _ = Greeting::parse(bytes.get(4..).unwrap_or_default());
    let options = LoginOptions {
        user: "user".into(),
        password: "secret".into(),
        database: None,
        collation: UTF8MB4_GENERAL_CI,
        tls: bakeoff_wire::TlsWish::Never,
        channel: bakeoff_wire::Channel::Plain,
        fewer_capabilities: 0,
    };
    let mut login = Login::new(options);
    let mut rest = bytes;
    while let Ok((used, step)) = login.receive(rest, &mut Vec::new()) {
        rest = &rest[used..];
        if used == 0 || matches!(step, LoginStep::Done(_)) {
            break;
        }
    }
    for answering in [Answering::Statement, Answering::Prepare] {
        for deprecate_eof in [false, true] {
            let _ = ReplyScanner::new(answering, deprecate_eof).scan(bytes);
        }
    }
}
