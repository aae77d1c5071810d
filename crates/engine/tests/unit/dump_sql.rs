//! Tests of the changes to a dump's statements, and of rows as INSERTs.

use super::*;

fn refusal(code: u16, message: &str) -> SqlError {
    SqlError::client(code, message)
}

fn text(sql: &[u8]) -> String {
    String::from_utf8(sql.to_vec()).unwrap()
}

#[test]
fn definers_are_removed_from_definitions_and_nowhere_else() {
    let changed = |sql: &str| {
        let mut sql = sql.as_bytes().to_vec();
        without_definer(&mut sql, Dialect::default());
        text(&sql)
    };
    assert_eq!(
        changed("CREATE DEFINER=`a b`@`10.%` PROCEDURE p() SELECT 'DEFINER=`x`@`y`'"),
        "CREATE  PROCEDURE p() SELECT 'DEFINER=`x`@`y`'"
    );
    assert_eq!(
        changed(
            "/*!50001 CREATE ALGORITHM=MERGE */\n/*!50013 DEFINER='u'@'%' SQL SECURITY DEFINER */\n/*!50001 VIEW `v` AS select 1 */"
        ),
        "/*!50001 CREATE ALGORITHM=MERGE */\n/*!50013  SQL SECURITY DEFINER */\n/*!50001 VIEW `v` AS select 1 */"
    );
    assert_eq!(
        changed(
            "/*!50003 CREATE*/ /*!50017 DEFINER=root@localhost*/ /*!50003 TRIGGER t BEFORE INSERT ON x FOR EACH ROW SET @a=1 */"
        ),
        "/*!50003 CREATE*/ /*!50017 */ /*!50003 TRIGGER t BEFORE INSERT ON x FOR EACH ROW SET @a=1 */"
    );
    assert_eq!(changed("CREATE DEFINER = admin EVENT e DO SELECT 1"), "CREATE  EVENT e DO SELECT 1");
    for same in [
        "CREATE DEFINER=CURRENT_USER() VIEW v AS SELECT 1",
        "CREATE TABLE t (definer int, a int DEFAULT 1)",
        "CREATE VIEW v AS SELECT definer=`a`@`b` FROM t",
        "INSERT INTO t VALUES ('DEFINER=`a`@`b`')",
        "CREATE DEFINER=",
        "CREATE",
        "",
    ] {
        assert_eq!(changed(same), same);
    }
}

#[test]
fn unknown_collations_are_replaced_but_not_in_strings() {
    let mut sql =
        b"CREATE TABLE t (a text DEFAULT 'see utf8mb4_0900_ai_ci') DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci"
            .to_vec();
    let error = refusal(1273, "Unknown collation: 'utf8mb4_0900_ai_ci'");
    let renamed = translate(&mut sql, Dialect::default(), &error).unwrap();
    assert_eq!(renamed.from, "utf8mb4_0900_ai_ci");
    assert_eq!(renamed.to, "utf8mb4_uca1400_nopad_ai_ci");
    assert_eq!(
        text(&sql),
        "CREATE TABLE t (a text DEFAULT 'see utf8mb4_0900_ai_ci') DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_uca1400_nopad_ai_ci"
    );
    let next = |from: &str| {
        let mut sql = format!("SET collation_connection = '{from}'").into_bytes();
        let found = translate(&mut sql, Dialect::default(), &refusal(1273, &format!("Unknown collation: '{from}'")));
        found.map(|found| found.to)
    };
    assert_eq!(next("utf8mb4_uca1400_nopad_ai_ci").as_deref(), Some("utf8mb4_unicode_520_ci"));
    assert_eq!(next("utf8mb3_bin").as_deref(), Some("utf8_bin"));
    assert_eq!(next("utf8_bin").as_deref(), Some("utf8mb3_bin"));
    // Language-specific collations have no known replacement.
    assert_eq!(next("utf8mb4_ja_0900_as_cs"), None);
    assert_eq!(next("latin9_swedish_ci"), None);
}

#[test]
fn unknown_sql_modes_are_removed_from_the_list() {
    let mut sql = b"/*!50003 SET sql_mode = 'STRICT_TRANS_TABLES,NO_AUTO_CREATE_USER,ANSI_QUOTES' */".to_vec();
    let error = refusal(1231, "Variable 'sql_mode' can't be set to the value of 'NO_AUTO_CREATE_USER'");
    assert!(translate(&mut sql, Dialect::default(), &error).is_some());
    assert_eq!(text(&sql), "/*!50003 SET sql_mode = 'STRICT_TRANS_TABLES,ANSI_QUOTES' */");
    assert!(translate(&mut sql, Dialect::default(), &error).is_none(), "it is not there any more");
    let other = refusal(1231, "Variable 'time_zone' can't be set to the value of 'Mars'");
    assert!(translate(&mut b"SET time_zone = 'Mars'".to_vec(), Dialect::default(), &other).is_none());
}

#[test]
fn accounts_replication_and_system_schemas_are_left_out() {
    let reason = |sql: &str, schema: &str| left_out(sql.as_bytes(), schema.as_bytes());
    assert_eq!(reason("GRANT ALL ON *.* TO a", "shop"), Some("accounts"));
    assert_eq!(reason("CREATE USER a IDENTIFIED BY 'x'", ""), Some("accounts"));
    assert_eq!(reason("SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ 'a:1-5'", ""), Some("replication"));
    assert_eq!(reason("CHANGE MASTER TO MASTER_LOG_FILE='x'", ""), Some("replication"));
    assert_eq!(reason("DROP TABLE IF EXISTS `user`", "mysql"), Some("system schemas"));
    assert_eq!(reason("CREATE DATABASE /*!32312 IF NOT EXISTS*/ `mysql`", ""), Some("system schemas"));
    assert_eq!(reason("DROP DATABASE IF EXISTS mysql", ""), Some("system schemas"));
    assert_eq!(reason("ALTER SCHEMA sys CHARACTER SET utf8", ""), Some("system schemas"));
    assert_eq!(reason("CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop`", "mysql"), None);
    assert_eq!(reason("CREATE DATABASE if_exists", "mysql"), None);
    assert_eq!(reason("USE `shop`", "mysql"), None);
    assert_eq!(reason("INSERT INTO `user` VALUES (1)", "shop"), None);
}

#[test]
fn errors_show_no_value() {
    let shown = beginning(b"INSERT INTO t VALUES (1,'secret'),(2,'other')", Dialect::default());
    assert_eq!(shown, "INSERT INTO `t` VALUES (...) /* , ... */");
}

fn inserts(rows: &[u8], functions: &[&str]) -> Result<Vec<(String, u64)>, String> {
    let form = DumpRows {
        insert: "INSERT INTO t VALUES ".into(),
        functions: functions.iter().map(|&name| name.to_owned()).collect(),
    };
    let mut found = Vec::new();
    read_rows(&mut &rows[..], &form, &mut |sql, line| {
        found.push((text(sql), line));
        true
    })
    .map_err(|error| error.to_string())?;
    Ok(found)
}

#[test]
fn rows_become_inserts() {
    let rows = b"1\tO'Brien\\\\\tAP8=\n\\N\ttab\\\tin\\\nside \\0\t\\N\n";
    let expected = "INSERT INTO t VALUES ('1','O''Brien\\\\',FROM_BASE64('AP8=')),(NULL,'tab\\\tin\\\nside \\0',NULL)";
    assert_eq!(inserts(rows, &["", "", "FROM_BASE64"]), Ok(vec![(expected.to_owned(), 1)]));
    assert_eq!(inserts(b"", &["", ""]), Ok(vec![]));
    assert_eq!(inserts(b"\n", &[""]), Ok(vec![("INSERT INTO t VALUES ('')".to_owned(), 1)]));
}

#[test]
fn long_files_become_many_inserts() {
    let row = [b"x".repeat(1000), b"\n".to_vec()].concat();
    let found = inserts(&row.repeat(1000), &[""]).unwrap();
    assert_eq!(found.len(), 4);
    assert_eq!(found.iter().map(|(_, line)| *line).collect::<Vec<_>>(), [1, 262, 523, 784]);
    let rows: usize = found.iter().map(|(sql, _)| sql.matches("('x").count()).sum();
    assert_eq!(rows, 1000);
}

#[test]
fn malformed_rows_are_refused() {
    assert_eq!(inserts(b"1\t2\n1\n", &["", ""]), Err("row 2 does not have 2 values".to_owned()));
    assert_eq!(inserts(b"1\t2\t3\n", &["", ""]), Err("row 1 does not have 2 values".to_owned()));
    assert_eq!(inserts(b"1\t2", &["", ""]), Err("it ends within a row".to_owned()));
    assert_eq!(inserts(b"1\t2\\", &["", ""]), Err("it ends within a row".to_owned()));
    assert_eq!(
        inserts(b"1\t2\\\n", &["", ""]),
        Err("it ends within a row".to_owned()),
        "the line feed is part of a value"
    );
}

proptest::proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(sql: Vec<u8>, begins in "(CREATE |SET |/\\*!50013 DEFINER=`|USE |)", message in "\\PC*", code in 1100u16..1300) {
        let mut sql = [begins.into_bytes(), sql].concat();
        left_out(&sql, b"mysql");
        beginning(&sql, Dialect::default());
        let kept = sql.clone();
        without_definer(&mut sql, Dialect::default());
        proptest::prop_assert!(sql.len() <= kept.len());
        translate(&mut sql, Dialect::default(), &refusal(code, &message));
        translate(&mut sql, Dialect::default(), &refusal(NO_COLLATION, &message));
    }

    #[test]
    fn row_values_round_trip(values in proptest::collection::vec(proptest::collection::vec("[a-c'\\\\\t\n\\PC]{0,6}", 3), 0..20)) {
        let escaped = |value: &String| value.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n");
        let rows: String = values.iter().map(|row| row.iter().map(escaped).collect::<Vec<_>>().join("\t") + "\n").collect();
        let quoted = |value: &String| format!("'{}'", escaped(value).replace('\'', "''"));
        let expected: Vec<String> = values.iter().map(|row| format!("({})", row.iter().map(quoted).collect::<Vec<_>>().join(","))).collect();
        let found = inserts(rows.as_bytes(), &["", "", ""]).unwrap();
        let sql: String = found.iter().map(|(sql, _)| sql.as_str()).collect();
        let wanted = if expected.is_empty() { String::new() } else { format!("INSERT INTO t VALUES {}", expected.join(",")) };
        proptest::prop_assert_eq!(sql, wanted);
    }
}

#[test]
fn statements_are_classified_for_resuming_a_load() {
    let effects = |statements: &[&str]| statements.iter().map(|sql| effect(sql.as_bytes())).collect::<Vec<_>>();
    let session =
        ["/*!40101 SET NAMES utf8 */", "USE `a`", "SELECT COUNT(*) INTO @a FROM t", "/*!50112 PREPARE s FROM @a */"];
    assert_eq!(effects(&session), [Effect::Session; 4]);
    let data = [
        "-- rows\nINSERT INTO t VALUES (1)",
        "/*!50003 CREATE*/ /*!50017 DEFINER=`a`@`b`*/ /*!50003 TRIGGER t */",
        "DO 1",
    ];
    assert_eq!(effects(&data), [Effect::Data; 3]);
    assert_eq!(effects(&["LOCK TABLES `t` WRITE", "UNLOCK TABLES"]), [Effect::Lock; 2]);
    assert_eq!(effects(&["BEGIN", "START TRANSACTION", "COMMIT"]), [Effect::Transaction; 3]);
}

#[test]
fn version_comments_and_leading_comments_are_understood() {
    let long = format!("/* {} */ SET NAMES utf8", "a ".repeat(200));
    for sql in ["/*M!100616 SET @a = @@note_verbosity */", "/*!100616 SET a = 1 */", "/*M! SET a = 1 */", &long] {
        assert_eq!(effect(sql.as_bytes()), Effect::Session, "{sql}");
    }
    assert_eq!(effect(b"/*M!100401 INSERT INTO t VALUES (1) */"), Effect::Data);
    assert_eq!(left_out(b"/*M!100005 CREATE ROLE a */", b""), Some("accounts"));
    assert_eq!(beginning(b"/*M!100616 SET a = 'x' */", Dialect::default()), "SET `a` = ?");
}

#[test]
fn multi_byte_strings_do_not_hide_the_rest_of_a_statement() {
    let sjis = Dialect { multi_byte: bakeoff_capture::MultiByte::Sjis, ..Dialect::default() };
    let mut sql = b"CREATE TABLE t (a text COMMENT '\x95\x5c') COLLATE utf8mb4_0900_bin COMMENT '\x95\x5c'".to_vec();
    let error = refusal(1273, "Unknown collation: 'utf8mb4_0900_bin'");
    assert!(translate(&mut sql.clone(), Dialect::default(), &error).is_none());
    assert!(translate(&mut sql, sjis, &error).is_some());
    assert!(sql.windows(18).any(|part| part == b"utf8mb4_nopad_bin "));
    let shown = beginning(b"INSERT INTO t VALUES ('\x95\x5c', 'secret', '\x95\x5c')", sjis);
    assert_eq!(shown, "INSERT INTO `t` VALUES (...)");
}

#[test]
fn created_events_are_disabled() {
    let disabled = |sql: &str| {
        let mut sql = sql.as_bytes().to_vec();
        disable_event(&mut sql, Dialect::default()).then(|| text(&sql))
    };
    let event = "/*!50106 CREATE*/ /*!50117 DEFINER=`a`@`b`*/ /*!50106 EVENT `enable` ON SCHEDULE AT '2030-01-01' ";
    for (end, wanted) in [
        ("ENABLE DO SET @enable = 1 */", "DISABLE DO SET @enable = 1 */"),
        ("ENABLE COMMENT 'ENABLE' DO SELECT 1 */", "DISABLE COMMENT 'ENABLE' DO SELECT 1 */"),
        ("COMMENT 'x' DO SELECT 1 */", "DISABLE COMMENT 'x' DO SELECT 1 */"),
        ("do select 1 */", "DISABLE do select 1 */"),
        ("DISABLE ON SLAVE DO SELECT 1 */", "DISABLE ON SLAVE DO SELECT 1 */"),
    ] {
        assert_eq!(disabled(&format!("{event}{end}")), Some(format!("{event}{wanted}")));
    }
    for sql in
        ["CREATE TABLE event (a INT) COMMENT 'x'", "DROP EVENT e", "CREATE EVENT e", "INSERT INTO t VALUES (1)", ""]
    {
        assert_eq!(disabled(sql), None, "{sql}");
    }
}

#[test]
fn statements_that_set_the_time_zone_are_recognised() {
    for sql in ["SET time_zone = 'x'", "/*!50106 SET TIME_ZONE= @a */", "SET a = 1, @@session.time_zone := SYSTEM"] {
        assert!(sets_time_zone(sql.as_bytes()), "{sql}");
    }
    for sql in [
        "SET @saved_time_zone = @@time_zone",
        "SET @time_zone = 1",
        "SELECT time_zone = 1 FROM t",
        "SET a = 'time_zone ='",
    ] {
        assert!(!sets_time_zone(sql.as_bytes()), "{sql}");
    }
}
