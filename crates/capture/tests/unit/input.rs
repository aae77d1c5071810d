//! Tests of decoding.

use std::io::{self, Cursor, Read};

use crate::input::{as_utf8, has_windows_lines};

/// Returns one byte at a time.
struct Slow(Cursor<Vec<u8>>);

impl Read for Slow {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let one = buffer.len().min(1);
        self.0.read(&mut buffer[..one])
    }
}

fn decoded(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    as_utf8(Box::new(Slow(Cursor::new(bytes.to_vec())))).unwrap().read_to_end(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn utf16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(bytes).collect()
}

#[test]
fn utf_16_is_decoded_with_and_without_a_byte_order_mark() {
    // Longer than a piece, with a surrogate pair across its end.
    for text in [
        "SELECT 'Zoë 😀'".to_owned(),
        format!("SELECT '{}'", "😀é".repeat(30_000)),
        format!("SEL{}", "😀".repeat(40_000)),
    ] {
        for mark in ["", "\u{FEFF}"] {
            let marked = format!("{mark}{text}");
            assert!(decoded(&utf16(&marked, u16::to_le_bytes)) == text, "little-endian");
            assert!(decoded(&utf16(&marked, u16::to_be_bytes)) == text, "big-endian");
        }
    }
}

#[test]
fn invalid_utf_16_is_replaced() {
    let mut cut = utf16("\u{FEFF}ab😀", u16::to_le_bytes);
    cut.pop();
    assert_eq!(decoded(&cut), "ab\u{FFFD}");
    cut.truncate(3);
    assert_eq!(decoded(&cut), "");
}

#[test]
fn utf_8_only_loses_its_byte_order_mark() {
    assert_eq!(decoded("\u{FEFF}Zoë".as_bytes()), "Zoë");
    for text in ["", "#", "Zoë", "\u{FEFE}", "a\0\0b"] {
        assert_eq!(decoded(text.as_bytes()), text);
    }
}

#[test]
fn windows_line_endings_must_be_on_every_line() {
    assert!(has_windows_lines(b"a\r\n\r\nb\r\nc"));
    for text in ["", "a", "a\r", "a\n", "a\r\nb\n", "\nb\r\n"] {
        assert!(!has_windows_lines(text.as_bytes()), "{text:?}");
    }
}
