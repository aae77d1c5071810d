#![no_main]

use std::io::BufRead as _;

use bakeoff_capture::capture_file::{EventLine, Header, VERSION, open};
use bakeoff_capture::session::SessionState;
use bakeoff_capture::{class, read_summary, effect};
use bakeoff_load::replay::stream::{Replay, ReplayOrder};
use libfuzzer_sys::fuzz_target;

/// Blocks of a replay that are read: a capture of reads never ends.
const BLOCKS: usize = 4;

/// The file that these lines make: events, and after an empty line totals; so the fuzzer need not learn to compress.
fn compressed(lines: &[u8]) -> Vec<u8> {
    let frame = |lines: &[u8]| zstd::encode_all(lines, 1).expect("memory");
    let header = Header { r#type: "bakeoff-capture".into(), version: VERSION, redacted: false };
    let header = serde_json::to_vec(&header).expect("a header is JSON");
    let end = lines.windows(2).position(|two| two == b"\n\n").map_or(lines.len(), |at| at + 1);
    let mut file = frame(&[&header, &b"\n"[..], &lines[..end]].concat());
    let place = file.len() as u64;
    file.extend(frame(lines.get(end + 1..).unwrap_or_default()));
    file.extend([0x5B, 0x2A, 0x4D, 0x18, 8, 0, 0, 0]);
    file.extend(place.to_le_bytes());
    file
}

// The first byte says whether the rest is a file or its lines, and how it is replayed.
fuzz_target!(|input: &[u8]| {
    let Some((choice, bytes)) = input.split_first() else { return };
    let path = std::env::temp_dir().join(format!("bakeoff-fuzz-{}.capture", std::process::id()));
    let file = if choice & 1 == 0 { compressed(bytes) } else { bytes.to_vec() };
    std::fs::write(&path, file).expect("a temporary file");
    let _ = read_summary(&path);
    if let Ok((_, lines)) = open(&path) {
        for line in lines.split(b'\n').map_while(Result::ok) {
            let Ok(event) = serde_json::from_slice::<EventLine>(&line) else { break };
            let sql = event.statement();
            let _ = (class(&sql), effect(&sql), SessionState::from_json(event.session));
        }
    }
    let replay = Replay::open(ReplayOrder {
        capture: path,
        sessions: usize::from(choice >> 1 & 3),
        chunk_events: u64::from(choice >> 3 & 3) + 1,
        by_clock: choice & 32 != 0,
        reads_only: choice & 64 != 0,
        begin: u64::from(choice >> 7) * (u64::MAX - 1),
    });
    if let Ok(mut replay) = replay {
        (0..BLOCKS).all(|_| replay.advance().unwrap_or(false));
    }
});
