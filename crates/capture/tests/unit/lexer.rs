//! Tests of the lexer: where tokens begin and end.

use super::*;

fn tokens(sql: &str) -> Vec<(Kind, &str)> {
    Lexer::new(sql.as_bytes()).map(|token| (token.kind, &sql[token.start..token.end])).collect()
}

#[test]
fn quotes_of_all_kinds_end_where_the_server_ends_them() {
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
fn comments_of_all_kinds_and_hints() {
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
fn what_follows_an_at_sign() {
    use Kind::{Host, Symbol, Text, Word};
    assert_eq!(tokens("@a.b$ @'c'"), [(Symbol, "@"), (Host, "a.b$"), (Symbol, "@"), (Text, "'c'")]);
    assert_eq!(tokens("@@sql_mode"), [(Symbol, "@@"), (Word, "sql_mode")]);
}
