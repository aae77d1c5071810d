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

fn divided(sql: &str) -> Vec<&str> {
    statements(sql.as_bytes()).into_iter().map(|each| std::str::from_utf8(each).unwrap()).collect()
}

#[test]
fn a_text_is_divided_into_its_statements() {
    assert_eq!(
        divided("BEGIN; INSERT INTO t VALUES (';');; COMMIT;"),
        ["BEGIN", "INSERT INTO t VALUES (';')", "COMMIT"]
    );
    assert_eq!(
        divided("SELECT 1 -- a;\n; /* b; */ SELECT ';', `;` # c;"),
        ["SELECT 1 -- a;", "/* b; */ SELECT ';', `;` # c;"]
    );
    assert_eq!(divided("CREATE TABLE t (event INT); BEGIN WORK; ALTER TABLE t ADD event INT; SHUTDOWN").len(), 4);
    assert_eq!(divided("; -- nothing\n;"), [""; 0]);
}

#[test]
fn what_may_hold_statements_goes_on_to_the_end() {
    for sql in [
        "CREATE OR REPLACE DEFINER = `a`@`h` PROCEDURE p() BEGIN SELECT 1; SELECT 2; END",
        "/*!50003 CREATE*/ /*!50017 DEFINER=CURRENT_USER()*/ /*!50003 TRIGGER t BEFORE INSERT ON a \
         FOR EACH ROW BEGIN SET @a = 1; END */",
        "ALTER EVENT e DO BEGIN DELETE FROM t; END; SELECT 2",
        "BEGIN NOT ATOMIC SELECT 1; SELECT 2; END",
        "IF @a THEN SELECT 1; END IF",
        "l: LOOP LEAVE l; END LOOP",
        "/*!50000 SELECT 1; SELECT 2 */",
    ] {
        assert_eq!(divided(sql), [sql]);
        let behind = format!("SELECT 0; {sql}");
        assert_eq!(divided(&behind), ["SELECT 0", sql]);
    }
}
