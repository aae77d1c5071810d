//! Tests of `src/template.rs`.

use super::*;
use crate::dialect::{MultiByte, Opaque};
use proptest::prelude::*;

const PLAIN: Dialect = Dialect { no_backslash_escapes: false, ansi_quotes: false, multi_byte: MultiByte::Safe };

fn rendered(sql: &str, values: &[Parameter<'_>], dialect: Dialect) -> String {
    let template = Template::new(sql.as_bytes(), dialect);
    assert_eq!(template.parameters(), values.len(), "{sql}");
    let mut out = Vec::new();
    template.render(values.iter().copied(), dialect, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

#[test]
fn only_parameters_in_code_are_replaced() {
    let sql = "SELECT '?', \"?\", `?`, 'it''s ?', 'a\\'?', ? -- ?\n, ? # ?\n, /* ? */ ?, 1--?, /*! ? */ 2";
    let numbers = [1, 2, 3, 4, 5].map(Parameter::Int);
    assert_eq!(
        rendered(sql, &numbers, PLAIN),
        "SELECT '?', \"?\", `?`, 'it''s ?', 'a\\'?', 1 -- ?\n, 2 # ?\n, /* ? */ 3, 1--4, /*! 5 */ 2"
    );
    assert_eq!(rendered("/*!50003 ? */ /*!99999 ? */ ?", &numbers[..2], PLAIN), "/*!50003 1 */ /*!99999 ? */ 2");
    let no_escapes = Dialect { no_backslash_escapes: true, ..PLAIN };
    assert_eq!(rendered("SELECT 'a\\', ?", &[Parameter::Int(1)], no_escapes), "SELECT 'a\\', 1");
}

#[test]
fn unterminated_strings_and_comments_extend_to_the_end() {
    for sql in ["SELECT '?", "SELECT '\\", "/* ?", "/*", "-- ?", "--", "`?", "/*/ ?"] {
        assert_eq!(Template::new(sql.as_bytes(), PLAIN).parameters(), 0, "{sql}");
    }
}

#[test]
fn literals_keep_their_type_and_stay_separate_tokens() {
    assert_eq!(rendered("LIMIT?", &[Parameter::Int(-5)], PLAIN), "LIMIT -5");
    assert_eq!(rendered("x=?and y", &[Parameter::Null], PLAIN), "x=NULL and y");
    assert_eq!(rendered("?", &[Parameter::Double(1.5)], PLAIN), "1.5e0");
    assert_eq!(rendered("?", &[Parameter::Int(i64::MIN)], PLAIN), "-9223372036854775808");
}

#[test]
fn a_backslash_within_a_character_does_not_escape() {
    let sjis = Dialect { multi_byte: MultiByte::Sjis, ..PLAIN };
    let mut out = Vec::new();
    put_escaped(b"\x83\x5c'\\", sjis, &mut out);
    assert_eq!(out, b"\x83\x5c''\\\\");
    let gbk = Dialect { multi_byte: MultiByte::Gbk, ..PLAIN };
    out.clear();
    put_escaped(b"\xbf'", gbk, &mut out);
    assert_eq!(out, b"\\\xbf''", "a lone lead byte cannot swallow the quote");
    assert_eq!(Template::new(b"SELECT '\x83\x5c', ?", sjis).parameters(), 1);
    assert_eq!(Template::new(b"SELECT '\x83\x5c', ?", PLAIN).parameters(), 0);
}

/// The inverse of `put_escaped`: reads a literal as the server does.
fn unescaped(literal: &[u8], dialect: Dialect) -> Option<Vec<u8>> {
    let inside = literal.strip_prefix(b"'")?.strip_suffix(b"'")?;
    let mut bytes = Vec::new();
    let mut at = 0;
    while let Some(&byte) = inside.get(at) {
        if let Some(length) = dialect.multi_byte.character_bytes(&inside[at..]) {
            bytes.extend_from_slice(&inside[at..at + length]);
            at += length;
        } else if byte == b'\'' {
            if inside.get(at + 1) != Some(&b'\'') {
                return None;
            }
            bytes.push(b'\'');
            at += 2;
        } else if byte == b'\\' && !dialect.no_backslash_escapes {
            bytes.push(match inside.get(at + 1)? {
                b'0' => 0,
                &other => other,
            });
            at += 2;
        } else {
            bytes.push(byte);
            at += 1;
        }
    }
    Some(bytes)
}

fn dialects() -> impl Strategy<Value = Dialect> {
    const SETS: &[MultiByte] = &[MultiByte::Safe, MultiByte::Sjis, MultiByte::Gbk, MultiByte::Big5, MultiByte::Gb18030];
    (any::<bool>(), prop::sample::select(SETS)).prop_map(|(no_backslash_escapes, multi_byte)| Dialect {
        no_backslash_escapes,
        ansi_quotes: false,
        multi_byte,
    })
}

fn nasty_bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(b'\''), Just(b'\\'), Just(0), Just(0x83), Just(0xbf), Just(b'0'), any::<u8>()];
    // Long stretches of plain bytes, as of real text, between the nasty ones.
    let plain = prop::collection::vec(b'a'..=b'z', 0..40);
    let some = prop::collection::vec(byte, 0..40);
    (plain.clone(), some, plain).prop_map(|parts| [parts.0, parts.1, parts.2].concat())
}

proptest! {
    #[test]
    fn escaped_string_literals_round_trip(bytes in nasty_bytes(), dialect in dialects()) {
        let mut literal = Vec::new();
        put_literal(Parameter::Bytes(&bytes), dialect, &mut literal);
        prop_assert_eq!(unescaped(&literal, dialect), Some(bytes));
        prop_assert_eq!(dialect.end_of(Opaque::Quoted(b'\''), &literal, 1), Some(literal.len()));
    }

    #[test]
    fn arbitrary_text_does_not_panic(sql in nasty_bytes(), dialect in dialects()) {
        let template = Template::new(&sql, dialect);
        let values = std::iter::repeat(Parameter::Null);
        template.render(values, dialect, &mut Vec::new());
    }
}
