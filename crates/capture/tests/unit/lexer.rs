//! Tests of the lexer: where tokens begin and end.

use bakeoff_wire::dialect::{Dialect, MultiByte};

use crate::lexer::{Kind, Lexer, ending_texts};

fn tokens(sql: &str) -> Vec<(Kind, &str)> {
    Lexer::new(sql.as_bytes()).map(|token| (token.kind, &sql[token.start..token.end])).collect()
}

#[test]
fn quotes_end_where_the_server_ends_them() {
    use Kind::{Cut, Quoted, Symbol, Text, Word};
    assert_eq!(tokens(r"'it''s' 'a\'b'"), [(Text, "'it''s'"), (Text, r"'a\'b'")]);
    assert_eq!(tokens(r#""a""b" x'1f' N'n'"#), [(Text, r#""a""b""#), (Text, "x'1f'"), (Text, "N'n'")]);
    assert_eq!(tokens("`a``b`.c"), [(Quoted, "`a``b`"), (Symbol, "."), (Word, "c")]);
    assert_eq!(tokens("a 'never ended"), [(Word, "a"), (Cut, "'never ended")]);
    assert_eq!(tokens(r"'\"), [(Cut, r"'\")]);
}

#[test]
fn numbers_are_distinguished_from_names() {
    use Kind::{Number, Symbol, Word};
    assert_eq!(
        tokens("1.5e-3 .5 0x1F 1e5 2."),
        [(Number, "1.5e-3"), (Number, ".5"), (Number, "0x1F"), (Number, "1e5"), (Number, "2.")]
    );
    assert_eq!(tokens("1a 0xZZ"), [(Word, "1a"), (Word, "0xZZ")]);
    assert_eq!(tokens("t.1a"), [(Word, "t"), (Symbol, "."), (Word, "1a")]);
    assert_eq!(tokens("a-1"), [(Word, "a"), (Symbol, "-"), (Number, "1")]);
}

#[test]
fn comments_and_hints_are_distinguished() {
    use Kind::{Comment, HintBegin, HintEnd, Number, Symbol, Word};
    assert_eq!(tokens("1 -- x\n2"), [(Number, "1"), (Comment, "-- x"), (Number, "2")]);
    assert_eq!(tokens("1--2"), [(Number, "1"), (Symbol, "-"), (Symbol, "-"), (Number, "2")]);
    assert_eq!(tokens("/* ' */ 1 # '"), [(Comment, "/* ' */"), (Number, "1"), (Comment, "# '")]);
    assert_eq!(tokens("/*!50000 a */ b"), [(Comment, "/*!50000"), (Word, "a"), (Comment, "*/"), (Word, "b")]);
    assert_eq!(tokens("/*!99999 a */ b"), [(Comment, "/*!99999 a */"), (Word, "b")]);
    assert_eq!(tokens("SELECT /*+ x */ 1")[1..4], [(HintBegin, "/*+"), (Word, "x"), (HintEnd, "*/")]);
    assert_eq!(tokens("a /*+ x */"), [(Word, "a"), (Comment, "/*+ x */")]);
}

#[test]
fn names_after_an_at_sign_are_hosts() {
    use Kind::{Host, Symbol, Text, Word};
    assert_eq!(tokens("@a.b$ @'c'"), [(Symbol, "@"), (Host, "a.b$"), (Symbol, "@"), (Text, "'c'")]);
    assert_eq!(tokens("@@sql_mode"), [(Symbol, "@@"), (Word, "sql_mode")]);
}

#[test]
fn comments_that_any_flavour_runs_are_code() {
    use Kind::{Comment, Word};
    let word = |text| (Word, text);
    for (sql, begins) in [
        ("/*M!100616 a */", "/*M!100616"),
        ("/*M! a */", "/*M!"),
        ("/*M!50701 a */", "/*M!50701"),
        ("/*!100616 a */", "/*!100616"),
        ("/*!80013 a */", "/*!80013"),
        ("/*! a */", "/*!"),
        ("/*!123 a */", "/*!"),
    ] {
        let code: Vec<_> = tokens(sql).into_iter().filter(|token| !token.1.starts_with(char::is_numeric)).collect();
        assert_eq!(code, [(Comment, begins), word("a"), (Comment, "*/")], "{sql}");
    }
    for sql in [
        "/*M!999999\\- enable the sandbox mode */",
        "/*!999999 it's */",
        "/*!99999 it's */",
        "/*M a */",
        "/*m!100100 a */",
    ] {
        assert_eq!(tokens(sql), [(Comment, sql)]);
    }
    for sql in ["/*!", "/*M!", "/*M", "/*"] {
        assert!(Lexer::new(sql.as_bytes()).count() == 1, "{sql}");
    }
}

fn texts(sql: &[u8], multi_byte: MultiByte) -> Vec<(Kind, Vec<u8>)> {
    let dialect = Dialect { multi_byte, ..Dialect::default() };
    Lexer::in_dialect(sql, dialect).map(|token| (token.kind, sql[token.start..token.end].to_vec())).collect()
}

#[test]
fn the_second_byte_of_a_character_is_not_a_backslash_or_backtick() {
    use Kind::{Quoted, Symbol, Text, Word};
    let comma = || (Symbol, b",".to_vec());
    for set in [MultiByte::Sjis, MultiByte::Gbk, MultiByte::Gb18030] {
        let found = texts(b"'\x95\x5c','a' `\x83\x60``b` \x95\x5c\x83\x7c.c", set);
        let names = [(Quoted, b"`\x83\x60``b`".to_vec()), (Word, b"\x95\x5c\x83\x7c".to_vec())];
        let rest = [(Symbol, b".".to_vec()), (Word, b"c".to_vec())];
        assert_eq!(found[..3], [(Text, b"'\x95\x5c'".to_vec()), comma(), (Text, b"'a'".to_vec())]);
        assert_eq!(found[3..], [names.as_slice(), &rest].concat());
    }
    assert_eq!(texts(b"'\xa5\x5c',@\xa5\x5c", MultiByte::Big5).len(), 4);
    // A backslash escapes the first byte of a character; one after a character is a backslash.
    assert_eq!(texts(b"'\\\x95\x5c''", MultiByte::Sjis), [(Text, b"'\\\x95\x5c''".to_vec())]);
    assert_eq!(texts(b"'\xe0\x95\x5c''", MultiByte::Sjis), [(Text, b"'\xe0\x95\x5c''".to_vec())]);
}

#[test]
fn an_unknown_character_set_is_guessed_if_a_text_would_not_end() {
    let guess = |sql: &[u8]| ending_texts(sql, Dialect::default());
    assert_eq!(guess(b"VALUES ('\x95\x5c','a')").multi_byte, MultiByte::Sjis);
    assert_eq!(guess(b"VALUES ('\xd5\x5c','a')").multi_byte, MultiByte::Gbk);
    for sql in ["SELECT '\u{306f}\\'", "SELECT 'a\\'b"] {
        assert_eq!(guess(sql.as_bytes()).multi_byte, MultiByte::Unknown, "valid UTF-8 is never guessed");
    }
    let known = Dialect { multi_byte: MultiByte::Safe, ..Dialect::default() };
    assert_eq!(ending_texts(b"'\x95\x5c\\''", known), known);
}
