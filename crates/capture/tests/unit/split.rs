//! Tests of splitting a text into statements.

use super::*;

fn split(sql: &str) -> Vec<&str> {
    statements(sql.as_bytes(), SessionState::default())
        .into_iter()
        .map(|each| std::str::from_utf8(each).unwrap())
        .collect()
}

#[test]
fn a_text_is_split_into_statements() {
    assert_eq!(split("BEGIN; INSERT INTO t VALUES (';');; COMMIT;"), ["BEGIN", "INSERT INTO t VALUES (';')", "COMMIT"]);
    assert_eq!(
        split("SELECT 1 -- a;\n; /* b; */ SELECT ';', `;` # c;"),
        ["SELECT 1 -- a;", "/* b; */ SELECT ';', `;` # c;"]
    );
    assert_eq!(split("CREATE TABLE t (event INT); BEGIN WORK; ALTER TABLE t ADD event INT; SHUTDOWN").len(), 4);
    assert_eq!(split("; -- nothing\n;"), [""; 0]);
}

#[test]
fn a_statement_that_may_contain_others_extends_to_the_end() {
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
        assert_eq!(split(sql), [sql]);
        let behind = format!("SELECT 0; {sql}");
        assert_eq!(split(&behind), ["SELECT 0", sql]);
    }
}

#[test]
fn a_text_is_split_by_the_character_set_it_sets() {
    let sql = b"SET NAMES sjis; SELECT '\x95\x5c'; SELECT ';'; SET NAMES latin1; SELECT '\x95\x5c';'; SELECT 1";
    assert_eq!(statements(sql, SessionState::default()).len(), 6);
    let mut session = SessionState::default();
    session.set(b"SET NAMES gbk");
    assert_eq!(statements(b"SELECT '\xd5\x5c;', 1; SELECT ';\xd5\x5c'", session).len(), 2);
}
