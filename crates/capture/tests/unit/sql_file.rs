//! Tests of files of SQL.

use super::*;
use crate::slow_log::tests::{Kept, read};

fn statements(text: &str) -> Vec<String> {
    let kept = read(SqlFile::default(), text.as_bytes());
    kept.events.iter().map(|event| String::from_utf8(event.sql.clone()).unwrap()).collect()
}

#[test]
fn statements_end_at_the_delimiter_and_nowhere_else() {
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
fn comments_before_a_statement_are_left_out_and_code_in_comments_stays() {
    assert_eq!(
        statements("-- dump\n--\n# more\n/*!40101 SET NAMES utf8 */;\nSELECT /* a */ 1;\n-- end\n"),
        ["/*!40101 SET NAMES utf8 */", "SELECT /* a */ 1"]
    );
}

#[test]
fn use_needs_no_end_and_sets_the_schema() {
    let kept = read(SqlFile::default(), b"use shop\nSELECT 1;\nUSE `other`; SELECT 2;");
    let schemas: Vec<&[u8]> = kept.events.iter().map(|event| event.schema.as_slice()).collect();
    assert_eq!(schemas, [b"shop".as_slice(), b"shop", b"other", b"other"]);
    assert!(kept.events.iter().all(|event| event.connection == Some(1) && event.weight == 1));
}

#[test]
fn use_with_the_delimiter_behind_it_is_a_statement() {
    let text = b"DELIMITER $$\nUSE `shop`$$\nSELECT 1; SELECT 2$$\nDELIMITER ;\nUSE b\\G\nSELECT 3;";
    let events = read(SqlFile::default(), text).events;
    let texts = |event: &Event| [&event.sql, &event.schema].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let found: Vec<_> = events.iter().map(texts).collect();
    let wanted = [["USE `shop`", "shop"], ["SELECT 1; SELECT 2", "shop"], ["USE b", "b"], ["SELECT 3", "b"]];
    assert_eq!(found, wanted);
}

#[test]
fn a_byte_order_mark_belongs_to_no_statement() {
    for text in ["\u{feff}USE shop\nSELECT 1;", "\u{feff}-- made on Windows\r\nSELECT 1;"] {
        assert!(looks_like_sql(text.as_bytes()));
        assert_eq!(statements(text).last().unwrap(), "SELECT 1");
    }
    assert_eq!(statements("SELECT '\n\u{feff}';"), ["SELECT '\n\u{feff}'"]);
}

#[test]
fn an_unended_text_is_cut() {
    let kept = read(SqlFile::default(), b"SELECT 1; SELECT 'x; SELECT 2;");
    assert_eq!(kept.events.iter().map(|event| event.cut).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn pieces_of_any_size_give_the_same() {
    let text =
        b"SELECT ';''', \"a\\\"\", 1--1 -- x;\n/* ; **/; DELIMITER\nSELECT 2\\G INSERT INTO t VALUES ('\\\\'); # end
/*!1 a '*/;' */;/*M!2 b */ $$; DELIMITER $$
c; d $$ DELIMITER ;
e;";
    let whole = read(SqlFile::default(), text).events;
    for size in 1..40 {
        let (mut reader, mut kept) = (SqlFile::default(), Kept::default());
        let mut begins = true;
        for piece in text.chunks(size) {
            for part in piece.split_inclusive(|byte| *byte == b'\n') {
                reader.piece(part, begins, &mut kept);
                begins = part.ends_with(b"\n");
            }
        }
        reader.finish(&mut kept);
        assert_eq!(kept.events, whole, "pieces of {size}");
    }
}

#[test]
fn delimiters_follow_white_space_of_any_kind_and_statements() {
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
fn code_in_comments_has_quotes_and_comments() {
    let trigger = "/*!50003 CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET NEW.a = '*/ it''s; ' */";
    let other = "/*M!100100 SELECT \"*/;\" /* in; */ , 2 */";
    assert_eq!(statements(&format!("{trigger};{other};\nSELECT 2 */ 3;")), [trigger, other, "SELECT 2 */ 3"]);
    assert!(read(SqlFile::default(), b"/*!50003 CREATE TRIGGER x").events[0].cut);
}

#[test]
fn many_lines_of_comments_are_read_once() {
    let mut reader = SqlFile::default();
    let mut kept = Kept::default();
    for _ in 0..1000 {
        reader.piece(b"-- INSERT INTO t VALUES (1);\n", true, &mut kept);
        assert!(reader.event.sql.len() < 100);
    }
    reader.piece(b"SELECT 1;\n", true, &mut kept);
    assert_eq!(kept.events[0].sql, b"SELECT 1");
    let comments = |text: &str| text.repeat((1 << 20) / text.len() + 1).into_bytes();
    for head in [comments("-- INSERT INTO t VALUES (1);\n"), [b"/*", comments("a b\n").as_slice()].concat()] {
        assert!(looks_like_sql(&head) && !looks_like_sql(&head[..1000]));
    }
}

#[test]
fn use_of_a_name_that_is_no_plain_word_is_sent_with_quotes() {
    for (line, sql) in [
        ("use my-db;", "USE `my-db`"),
        ("use my-db\n", "USE `my-db`"),
        ("USE 'my db';", "USE `my db`"),
        ("use 2024;", "USE `2024`"),
        ("use shop;", "use shop"),
        ("use `my-db`;", "use `my-db`"),
    ] {
        assert_eq!(statements(line), [sql]);
    }
}
