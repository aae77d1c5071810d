//! Tests of reading logs and detecting their format.

use std::io::Write as _;
use std::path::PathBuf;

use super::slow_log::Kept;
use crate::input::{Error, ReadProgress};
use crate::logs::{Format, detect, read_logs};

const SLOW: &str = "# Time: 2024-11-06T09:57:35.187996Z\n# User@Host: a[a] @ localhost []  Id:     9\n\
    # Query_time: 0.1  Lock_time: 0.0 Rows_sent: 0  Rows_examined: 0\nSET timestamp=1690891200;\nSELECT 'x';\n";
const GENERAL: &str = "2024-11-06T09:57:35.187996Z\t    7 Query\tSELECT 1\n";

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("bakeoff-capture-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn read(paths: &[PathBuf]) -> (Kept, Result<Vec<Format>, Error>) {
    let mut kept = Kept::default();
    let formats = read_logs(paths, None, &ReadProgress::default(), &mut kept);
    (kept, formats)
}

#[test]
fn the_format_is_detected_by_content() {
    assert_eq!(detect(SLOW.as_bytes()), Some(Format::Slow));
    assert_eq!(detect(&SLOW.as_bytes()[60..]), Some(Format::Slow));
    assert_eq!(detect(GENERAL.as_bytes()), Some(Format::General));
    assert_eq!(detect(b"FROM t\n051007 21:55:24\t   42 Connect\troot@localhost on db1\n"), Some(Format::General));
    assert_eq!(detect(b"-- MySQL dump\n\n/*!40101 SET NAMES utf8 */;\nDROP TABLE x;"), Some(Format::Sql));
    assert_eq!(detect(b"/usr/sbin/mysqld, Version: 8.0.33 (x). started with:\nTcp port: 0\n"), Some(Format::Slow));
    assert_eq!(detect(b"Dear reader, this is a letter."), None);
    assert_eq!(detect(&[0x7F, b'E', b'L', b'F', 0, 1, 2]), None);
}

#[test]
fn compression_is_detected_by_content() {
    let folder = Folder::new("compressed");
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(SLOW.as_bytes()).unwrap();
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(SLOW.as_bytes()).unwrap();
    let gz = gz.finish().unwrap();
    let forms =
        [gz.clone(), [gz.clone(), gz].concat(), xz.finish().unwrap(), zstd::encode_all(SLOW.as_bytes(), 1).unwrap()];
    for (form, events) in forms.iter().zip([1, 2, 1, 1]) {
        let (kept, formats) = read(&[folder.file("any-name", form)]);
        assert_eq!((kept.events.len(), formats.unwrap()), (events, vec![Format::Slow]));
    }
    let broken = &forms[0][..forms[0].len() - 12];
    let (_, failed) = read(&[folder.file("broken", broken)]);
    assert!(matches!(failed, Err(Error::Io { doing: "read", .. })), "{failed:?}");
}

#[test]
fn a_log_may_be_split_into_files_anywhere() {
    let folder = Folder::new("cut");
    let log = SLOW.repeat(3);
    for at in 1..log.len() {
        let (one, other) = log.as_bytes().split_at(at);
        let paths = [folder.file("1", one), folder.file("2", other)];
        if detect(one).is_none() {
            continue; // too short to tell
        }
        let (kept, _) = read(&paths);
        assert!(kept.events.iter().all(|event| event.sql == b"SELECT 'x'" && !event.cut), "cut at {at}");
        assert_eq!(kept.events.len(), 3, "cut at {at}");
    }
}

#[test]
fn a_file_that_begins_a_log_does_not_continue_a_cut_line() {
    let folder = Folder::new("joined");
    let (kept, _) = read(&[folder.file("1", &SLOW.as_bytes()[..SLOW.len() - 4]), folder.file("2", SLOW.as_bytes())]);
    assert_eq!(kept.events.len(), 2);
    assert_eq!(kept.events[1].sql, b"SELECT 'x'");
}

#[test]
fn lines_may_exceed_the_buffer_and_formats_may_change() {
    let folder = Folder::new("long");
    let long = SLOW.replace("'x'", &format!("'{}'", "y".repeat(3 << 20)));
    let both = folder.file("slow", format!("{long}{SLOW}").as_bytes());
    let general = folder.file("general", GENERAL.as_bytes());
    let empty = folder.file("empty", b"");
    let (kept, formats) = read(&[empty.clone(), both, general]);
    assert_eq!(kept.events.iter().map(|event| event.sql.len()).collect::<Vec<_>>(), [(3 << 20) + 9, 10, 8]);
    assert_eq!(formats.unwrap(), [Format::Slow, Format::General]);
    assert!(read(&[empty]).1.unwrap().is_empty());
    let letter = folder.file("letter", b"Dear reader");
    assert!(matches!(read(&[letter]).1, Err(Error::Unknown { .. })));
    assert!(matches!(read(&[PathBuf::from("/nowhere/x")]).1, Err(Error::Io { doing: "opened", .. })));
}

#[test]
fn logs_edited_on_windows_are_restored() {
    let folder = Folder::new("windows");
    let slow = SLOW.replace("'x'", "'Zoë',\n 1");
    let general = format!("{GENERAL}2024-11-06T09:57:36.187996Z\t    7 Query\tSELECT 2,\n  3\n");
    for (log, texts) in [(slow, vec!["SELECT 'Zoë',\n 1"]), (general, vec!["SELECT 1", "SELECT 2,\n  3"])] {
        for text in [
            log.clone(),
            log.replace('\n', "\r\n"),
            format!("\u{FEFF}{log}"),
            format!("\u{FEFF}{}", log.replace('\n', "\r\n")),
        ] {
            let wide = |bytes: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(bytes).collect::<Vec<u8>>();
            for form in [text.clone().into_bytes(), wide(u16::to_le_bytes), wide(u16::to_be_bytes)] {
                let (kept, formats) = read(&[folder.file("log", &form)]);
                let found: Vec<_> = kept.events.iter().map(|event| std::str::from_utf8(&event.sql).unwrap()).collect();
                assert_eq!(found, texts, "{text:?}");
                assert_eq!((formats.unwrap().len(), kept.skipped), (1, 0), "{text:?}");
                assert!(kept.events[0].start_us.is_some_and(|us| us % 1_000_000 != 0), "the fraction of # Time");
            }
        }
    }
}

#[test]
fn windows_line_endings_within_a_statement_are_kept() {
    let folder = Folder::new("statement");
    let (kept, _) = read(&[folder.file("log", SLOW.replace("'x'", "'x\r\n'").as_bytes())]);
    assert_eq!(kept.events[0].sql, b"SELECT 'x\r\n'");
    let (kept, _) = read(&[folder.file("sql", b"SELECT 'x\r\n';\r\n")]);
    assert_eq!(kept.events[0].sql, b"SELECT 'x\r\n'");
    // With the end of the buffer between the two.
    let long = SLOW.replace("'x'", &format!("'{}'", "y\n".repeat(300_000))).replace('\n', "\r\n");
    let line = SLOW.replace("'x'", &format!("'{}\n'", "y".repeat((256 << 10) - 9))).replace('\n', "\r\n");
    for log in [long, line] {
        let (kept, _) = read(&[folder.file("long", log.as_bytes())]);
        assert!(!kept.events[0].sql.contains(&b'\r'));
    }
}
