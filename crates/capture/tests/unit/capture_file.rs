//! Tests of the capture file.

use std::fs::File;
use std::io::{self, BufRead, Write};

use crate::capture_file::{
    DigestTotals, EventLine, Header, Line, Overall, PartialFile, VERSION, Writer, open, read_summary,
};
use crate::event::Event;

fn header() -> Header {
    Header { r#type: "bakeoff-capture".to_owned(), version: VERSION, redacted: false }
}

fn path(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("bakeoff-capture-file-{name}-{}", std::process::id()))
}

#[test]
fn events_round_trip_byte_for_byte() {
    let path = path("same");
    let statements: [&[u8]; 4] = [b"SELECT 'Gr\xC3\xBC\xC3\x9Fe'", b"SELECT '\xFF\x00\xFE'", b"SELECT '\0\n\\\"'", b""];
    let mut writer = Writer::new(File::create(&path).unwrap(), &header()).unwrap();
    for sql in statements {
        let event = Event { connection: Some(7), weight: 3, ..Event::default() };
        writer.line(&Line { event: &event, sql, session: None, digest: None, not_replayable: None });
    }
    let overall = Overall { events: 4, ..Overall::default() };
    let digests = [DigestTotals { text: "SELECT ?".to_owned(), ..DigestTotals::default() }];
    writer.finish(&digests, &overall).unwrap();

    let mut read = Vec::new();
    for line in open(&path).unwrap().1.lines() {
        let line = line.unwrap();
        let event: EventLine = serde_json::from_str(&line).unwrap();
        assert_eq!(event.connection, Some(7));
        let all: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(all["weight"] == 3 && all.get("errno").is_none());
        read.push(event.statement());
    }
    assert_eq!(read, statements);
    let summary = read_summary(&path).unwrap();
    assert_eq!((summary.overall, summary.digests.as_slice()), (overall, digests.as_slice()));
    let all = String::from_utf8(zstd::decode_all(File::open(&path).unwrap()).unwrap()).unwrap();
    assert_eq!(all.lines().count(), 1 + 4 + 1 + 1, "zstdcat reads all frames");
    assert!(all.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_damaged_or_foreign_file_is_reported() {
    let path = path("broken");
    let message = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        read_summary(&path).unwrap_err().to_string()
    };
    assert!(message(b"SELECT 1").contains("not a capture"));
    assert!(message(b"").contains("not a capture"));
    assert!(message(&zstd::encode_all(&b"{}"[..], 1).unwrap()).contains("not a capture"));
    let newer = serde_json::to_vec(&Header { version: 99, ..header() }).unwrap();
    assert!(message(&zstd::encode_all(&newer[..], 1).unwrap()).contains("capture format 99"));
    let whole = Writer::new(io::Cursor::new(Vec::new()), &header()).unwrap().finish(&[], &Overall::default()).unwrap();
    let whole = whole.into_inner();
    assert!(message(&whole[..whole.len() - 1]).contains("incomplete"));
    std::fs::remove_file(&path).unwrap();
}

/// A file that cannot be synced: writing to /dev/null succeeds, syncing it does not.
#[test]
fn a_file_that_cannot_be_synced_is_not_renamed() {
    let kept = path("durable");
    std::os::unix::fs::symlink("/dev/null", kept.with_extension("partial")).unwrap();
    let (partial, mut file) = PartialFile::create(&kept).unwrap();
    file.write_all(b"all of it").unwrap();
    assert!(partial.keep(&file, &kept).is_err());
    assert!(!std::fs::exists(&kept).unwrap());
}

#[test]
fn a_kept_file_is_renamed_and_leaves_no_partial_file() {
    let kept = path("kept");
    let (partial, mut file) = PartialFile::create(&kept).unwrap();
    file.write_all(b"all of it").unwrap();
    partial.keep(&file, &kept).unwrap();
    assert_eq!(std::fs::read(&kept).unwrap(), b"all of it");
    assert!(!std::fs::exists(kept.with_extension("partial")).unwrap());
    std::fs::remove_file(&kept).unwrap();
}
