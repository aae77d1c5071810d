//! Tests of files of SQL.

use super::*;
use crate::tests::slow_log::{Kept, read};

fn statements(text: &str) -> Vec<String> {
    let kept = read(SqlFile::default(), text.as_bytes());
    kept.events.iter().map(|event| String::from_utf8(event.sql.clone()).unwrap()).collect()
}

#[test]
fn statements_end_only_at_the_delimiter() {
    assert_eq!(statements("SELECT 1; SELECT 2;\nSELECT 3"), ["SELECT 1", "SELECT 2", "SELECT 3"]);
    assert_eq!(
        statements("SELECT ';', \";\", `;`, '\\';', ''';';SELECT 2;"),
        ["SELECT ';', \";\", `;`, '\\';', ''';'", "SELECT 2"]
    );
    assert_eq!(statements("SELECT 1 /* ; */ -- ; \n + 2 # ;\n;"), ["SELECT 1 /* ; */ -- ; \n + 2 # ;"]);
    assert_eq!(statements("SELECT 1\\G\nSELECT 2\\g"), ["SELECT 1", "SELECT 2"]);
    assert_eq!(statements("SELECT 5--1; SELECT 2;"), ["SELECT 5--1", "SELECT 2"]);
    assert_eq!(
        statements("DELIMITER //\nCREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END//\nDELIMITER ;\nCALL p();"),
        ["CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END", "CALL p()"]
    );
}

#[test]
fn delimiters_may_follow_comments() {
    assert_eq!(
        statements(
            "-- routines\n--\nDELIMITER ;;\nCREATE PROCEDURE p() BEGIN SELECT 1; END ;;\n# more\nDELIMITER ;\nSELECT 2;"
        ),
        ["CREATE PROCEDURE p() BEGIN SELECT 1; END", "SELECT 2"]
    );
}

#[test]
fn leading_comments_are_dropped_but_code_in_comments_stays() {
    assert_eq!(
        statements("-- dump\n--\n# more\n/*!40101 SET NAMES utf8 */;\nSELECT /* a */ 1;\n-- end\n"),
        ["/*!40101 SET NAMES utf8 */", "SELECT /* a */ 1"]
    );
}

#[test]
fn use_needs_no_delimiter_and_sets_the_schema() {
    let kept = read(SqlFile::default(), b"use shop\nSELECT 1;\nUSE `other`; SELECT 2;");
    let schemas: Vec<&[u8]> = kept.events.iter().map(|event| event.schema.as_slice()).collect();
    assert_eq!(schemas, [b"shop".as_slice(), b"shop", b"other", b"other"]);
    assert!(kept.events.iter().all(|event| event.connection == Some(1) && event.weight == 1));
}

#[test]
fn use_with_a_delimiter_is_a_statement() {
    let text = b"DELIMITER $$\nUSE `shop`$$\nSELECT 1; SELECT 2$$\nDELIMITER ;\nUSE b\\G\nSELECT 3;";
    let events = read(SqlFile::default(), text).events;
    let texts = |event: &Event| [&event.sql, &event.schema].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let found: Vec<_> = events.iter().map(texts).collect();
    let wanted = [["USE `shop`", "shop"], ["SELECT 1; SELECT 2", "shop"], ["USE b", "b"], ["SELECT 3", "b"]];
    assert_eq!(found, wanted);
}

#[test]
fn a_byte_order_mark_is_removed() {
    for text in ["\u{feff}USE shop\nSELECT 1;", "\u{feff}-- made on Windows\r\nSELECT 1;"] {
        assert!(looks_like_sql(text.as_bytes(), false));
        assert_eq!(statements(text).last().unwrap(), "SELECT 1");
    }
    assert_eq!(statements("SELECT '\n\u{feff}';"), ["SELECT '\n\u{feff}'"]);
}

#[test]
fn an_unterminated_text_is_cut() {
    let kept = read(SqlFile::default(), b"SELECT 1; SELECT 'x; SELECT 2;");
    assert_eq!(kept.events.iter().map(|event| event.cut).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn delimiter_commands_may_follow_any_white_space_or_statement() {
    let routine = "CREATE PROCEDURE p() BEGIN SELECT 1; END";
    for text in [
        format!("DELIMITER\t//\n{routine}//\nDELIMITER ;\nSELECT 2;"),
        format!("DELIMITER $$\n{routine} $$ delimiter ;\nSELECT 2;"),
        format!("DELIMITER $$\n{routine} $$\tDELIMITER\t;\r\nSELECT 2;"),
        format!("/* routines */\nDELIMITER $$\n{routine} $$ DELIMITER ;\nSELECT 2;"),
    ] {
        assert_eq!(statements(&text), [routine, "SELECT 2"], "{text}");
    }
    assert_eq!(statements("SELECT 1; delimiters\n;"), ["SELECT 1", "delimiters"]);
}

#[test]
fn code_in_comments_may_contain_quotes_and_comments() {
    let trigger = "/*!50003 CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET NEW.a = '*/ it''s; ' */";
    let other = "/*M!100100 SELECT \"*/;\" /* in; */ , 2 */";
    assert_eq!(statements(&format!("{trigger};{other};\nSELECT 2 */ 3;")), [trigger, other, "SELECT 2 */ 3"]);
    assert!(read(SqlFile::default(), b"/*!50003 CREATE TRIGGER x").events[0].cut);
}

#[test]
fn long_runs_of_comments_are_read_only_once() {
    let mut reader = SqlFile::default();
    let mut kept = Kept::default();
    for _ in 0..1000 {
        reader.line(b"-- INSERT INTO t VALUES (1);\n", &mut kept);
        assert!(reader.event.sql.len() < 100);
    }
    reader.line(b"SELECT 1;\n", &mut kept);
    assert_eq!(kept.events[0].sql, b"SELECT 1");
    let comments = |text: &str| text.repeat((1 << 20) / text.len() + 1).into_bytes();
    for head in [comments("-- INSERT INTO t VALUES (1);\n"), [b"/*", comments("a b\n").as_slice()].concat()] {
        assert!(looks_like_sql(&head, true) && !looks_like_sql(&head[..1000], false));
    }
}

fn in_bytes(text: &[u8]) -> Vec<Vec<u8>> {
    read(SqlFile::default(), text).events.into_iter().map(|event| event.sql).collect()
}

#[test]
fn the_sessions_character_set_decides_where_texts_end() {
    let insert = b"INSERT INTO t VALUES ('\x97\\','a;b'),('\x83\\','\xb1\\'')".to_vec();
    let table = [b"CREATE TABLE `\x83`; --` (`;` INT)".to_vec(), b"INSERT INTO \x95\\g VALUES (';\x97\\')".to_vec()];
    for set in
        ["SET NAMES sjis", "/*!40101 SET NAMES sjis */", "SET CHARACTER SET cp932", "SET character_set_client = sjis"]
    {
        let all = [set.as_bytes().to_vec(), insert.clone(), table[0].clone(), table[1].clone(), b"SELECT 1".to_vec()];
        assert_eq!(in_bytes(&all.join(&b";\n"[..])), all, "{set}");
    }
    let other = [
        b"SET NAMES gbk".to_vec(),
        b"SELECT '\xd5\\', ';'".to_vec(),
        b"SET NAMES latin1".to_vec(),
        b"SELECT '\xd5\\';'".to_vec(),
    ];
    assert_eq!(in_bytes(&other.join(&b";"[..])), other);
}

#[test]
fn the_sessions_modes_decide_where_texts_end() {
    let text = "/*!50003 SET sql_mode = 'NO_BACKSLASH_ESCAPES' */ ;\nDELIMITER ;;\nCREATE PROCEDURE p() BEGIN SELECT '\\'; END ;;\n\
        DELIMITER ;\nSET sql_mode = @saved_sql_mode;\nSELECT '\\';';\nSELECT 2;";
    let found = statements(text);
    assert_eq!(
        found[1..],
        ["CREATE PROCEDURE p() BEGIN SELECT '\\'; END", "SET sql_mode = @saved_sql_mode", "SELECT '\\';'", "SELECT 2"]
    );
}

#[test]
fn mariadbs_sandbox_line_is_a_comment() {
    let sandbox = "/*M!999999\\- enable the sandbox mode */ \n";
    assert!(looks_like_sql(format!("{sandbox}/*M!100616 SET a = 1 */;").as_bytes(), false));
    let text = format!("{sandbox}-- MariaDB dump\n/*M!100616 SET a = 1 */;\n");
    assert_eq!(statements(&text), ["/*M!100616 SET a = 1 */"]);
    let routine = "CREATE PROCEDURE p() BEGIN SELECT 1; END";
    for before in [sandbox.to_owned(), format!("{sandbox}\n-- routines\n"), "/*!99999 it's */\n".to_owned()] {
        assert_eq!(
            statements(&format!("{before}DELIMITER ;;\n{routine} ;;\nDELIMITER ;\nSELECT 2;")),
            [routine, "SELECT 2"]
        );
    }
}

#[test]
fn line_numbers_are_where_statements_begin() {
    let lines = |text: &str| {
        let events = read(SqlFile::default(), text.as_bytes()).events;
        events.iter().map(|event| event.line.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(lines("SELECT 1;\n-- a\n\nSELECT\n2;\nSELECT 3\n\n;SELECT 4\n"), [1, 4, 6, 8]);
    assert_eq!(lines("SELECT 1; SELECT\n2; SELECT 3"), [1, 1, 2]);
    assert_eq!(
        lines("/* a\n */ SELECT 1\n;\nDELIMITER //\nSELECT 2\n//\nuse b\n\n\n/*!40101 SET NAMES utf8 */ //"),
        [1, 5, 7, 10]
    );
    assert_eq!(lines("/*M!999999\\- enable the sandbox mode */ \n--\nSELECT 1\n\n\n"), [3]);
}
