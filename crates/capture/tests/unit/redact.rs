//! Tests of removing passwords and of redaction.

use bakeoff_wire::dialect::Dialect;
use bakeoff_wire::dialect::MultiByte;

use crate::digest::Digester;
use crate::facts::mentions;
use crate::redact::{Redactor, strike_out, without_comments};

const WITH_PASSWORD: &[&str] = &[
    "SET PASSWORD = 's3cret'",
    "SET PASSWORD FOR 'a'@'b' = PASSWORD('s3cret')",
    "set /* x */ password='s3cret'",
    "CREATE USER a IDENTIFIED BY 's3cret'",
    "CREATE OR REPLACE USER a IDENTIFIED VIA mysql_native_password USING 's3cret'",
    "ALTER USER a@localhost IDENTIFIED WITH caching_sha2_password AS 's3cret'",
    "/* app */ CREATE /*!50000 USER */ a IDENTIFIED BY \"s3cret\"",
    "/*!99999 CREATE USER a IDENTIFIED BY 's3cret' */",
    "/*M!100100 ALTER USER a IDENTIFIED BY 's3cret' */",
    "GRANT ALL ON *.* TO a IDENTIFIED BY 's3cret'",
    "GRANT ALL ON *.* TO a IDENTIFIED BY PASSWORD 's3cret'",
    "CHANGE MASTER TO MASTER_HOST='h', MASTER_PASSWORD='s3cret'",
    "CHANGE MASTER 'x' TO MASTER_PASSWORD = 's3cret'",
    "CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD = 's3cret'",
    "START SLAVE USER='u' PASSWORD='s3cret'",
    "START REPLICA USER='u' PASSWORD = 's3cret'",
    "START GROUP_REPLICATION USER='u', PASSWORD='s3cret'",
    "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (USER 'u', PASSWORD 's3cret')",
    "ALTER SERVER s OPTIONS (PASSWORD 's3cret')",
    "CREATE TABLE f (a INT) ENGINE=FEDERATED CONNECTION='mysql://u:s3cret@h/db/t'",
    "CREATE PROCEDURE p() BEGIN CREATE USER a IDENTIFIED BY 's3cret'; END",
    "SELECT PASSWORD('s3cret')",
    "SELECT OLD_PASSWORD ('s3cret')",
    "SET GLOBAL my_password = 's3cret'",
    "PREPARE p FROM 'CREATE USER a IDENTIFIED BY ''s3cret'''",
    "EXECUTE IMMEDIATE 'SET PASSWORD = ''s3cret'''",
    "SET @q = \"ALTER USER a IDENTIFIED BY 's3cret'\"",
    "CLONE INSTANCE FROM u@h:3306 IDENTIFIED BY 's3cret'",
    "UPDATE mysql.user SET authentication_string = 's3cret' WHERE user = 'a'",
    "CREATE TABLE f (a INT) ENGINE=SPIDER COMMENT='wrapper \"mysql\", host \"h\", password \"s3cret\"'",
    "CREATE TABLE f (a INT) ENGINE=CONNECT TABLE_TYPE=ODBC OPTION_LIST='User=u,Password=s3cret'",
    "CALL mysql.rds_set_external_master('h', 3306, 'u', 's3cret', 'b', 4, 0)",
    "SET GLOBAL wsrep_sst_auth = 'u:s3cret'",
    "SET @app_password = 's3cret'",
    "SET @a = 1, @Password := 's3cret'",
    "SET @`my password` = 's3cret'",
    "CALL mysql.az_replication_change_master('h', 'u', 's3cret', 3306, 'b', 4, '')",
    "call mysql.`AZ_replication_change_master_with_gtid`('h', 'u', 's3cret', 3306, '')",
    "CALL mysql.setupExternalSource('h', 3306, 'u', 's3cret', 'b', 4, FALSE)",
    "SELECT audit_log_encryption_password_set('s3cret')",
    "CREATE USER a IDENTIFIED BY 's3cret",
    "CREATE USER a IDENTIFIED BY 's3cret' /* s3cret */ -- s3cret",
];

const WITHOUT: &[&str] = &[
    "SELECT password FROM users WHERE id = 5",
    "UPDATE users SET password = 'hash' WHERE id = 5",
    "INSERT INTO users (name, password) VALUES ('a', 'hash')",
    "CREATE TABLE users (id INT, password VARCHAR(64), KEY password (password))",
    "CREATE TABLE users (id INT, hash VARCHAR(64) COMMENT 'the password, as a hash')",
    "CREATE TABLE users (id INT, hash VARCHAR(64) COMMENT 'hashed password', salt INT COMMENT \"of the password\")",
    "SELECT 1 FROM t WHERE note = 'identified by whom'",
    "START TRANSACTION",
    "CHANGE x",
    "DROP USER a",
    "SELECT user, server FROM t",
    "SET SESSION sql_mode = 'ANSI'",
    "SET @app_pass = 'x', a = b",
    "SELECT @app_password",
];

#[test]
fn passwords_are_found_and_removed() {
    let mut kept = Vec::new();
    for sql in WITH_PASSWORD {
        assert!(Digester::default().read(sql.as_bytes(), Dialect::default()).secret, "{sql}");
        strike_out(sql.as_bytes(), Dialect::default(), &mut kept);
        assert!(!mentions(&kept, b"s3cret"), "{sql} -> {}", String::from_utf8_lossy(&kept));
    }
}

#[test]
fn statements_without_passwords_are_unchanged() {
    for sql in WITHOUT {
        assert!(!Digester::default().read(sql.as_bytes(), Dialect::default()).secret, "{sql}");
    }
}

#[test]
fn only_the_comment_goes_if_it_mentions_passwords() {
    let sql = b"SELECT 1 /* IDENTIFIED BY 's3cret' */ + 2";
    let facts = Digester::default().read(sql, Dialect::default());
    assert!(facts.secret_comment && !facts.secret);
    let mut kept = Vec::new();
    without_comments(sql, Dialect::default(), &mut kept);
    assert_eq!(kept, b"SELECT 1  + 2");
}

fn redacted(redactor: &Redactor, sql: &str) -> String {
    let mut out = Vec::new();
    redactor.redact(sql.as_bytes(), &Digester::default().read(sql.as_bytes(), Dialect::default()), &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn redaction_keeps_type_length_and_equality() {
    let redactor = Redactor::new().unwrap();
    let sql = "SELECT * FROM t WHERE mail = 'Bob.Smith@example.org' AND born = '1985-11-23 10:20:30' AND id = 48151 /* Bob */ \
        AND s IN (N'Bob', x'0fFf', 0x1F, 'Grüße', '世界') LIMIT 10";
    let out = redacted(&redactor, sql);
    let without_comment = sql.replace("/* Bob */", "");
    assert_eq!(out.len(), without_comment.len());
    for word in ["Bob", "Smith", "example", "48151", "1985-11", "0fFf", "Grü", "世界"] {
        assert!(!out.contains(word), "{word} in {out}");
    }
    assert!(out.ends_with("LIMIT 10") && out.contains('@'), "{out}");
    assert_eq!(out, redacted(&redactor, sql), "equal values have equal replacements");
    assert_ne!(out, redacted(&Redactor::new().unwrap(), sql), "every capture has its own key");
    let again = redacted(&redactor, "SELECT '48151'");
    assert!(
        out.contains(again.trim_start_matches("SELECT '").trim_end_matches('\'')),
        "a number and its text stay equal"
    );
}

#[test]
fn redaction_keeps_what_the_statement_needs() {
    let redactor = Redactor::new().unwrap();
    for sql in [
        "SET NAMES 'utf8mb4'",
        "SET SESSION sql_mode = 'STRICT_ALL_TABLES', autocommit = 0",
        "CREATE TABLE t (a VARCHAR(255), b DECIMAL(10,2))",
        "CREATE TABLE t (a INT) PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (10))",
        "ALTER TABLE t AUTO_INCREMENT = 77",
        "SELECT a FROM t LIMIT 10 OFFSET 20",
        "SELECT '0000-00-00', '0000-00-00 00:00:00.000', '%', 0",
        "SELECT /*+ MAX_EXECUTION_TIME(5000) SET_VAR(optimizer_switch = 'mrr=on') */ a FROM t",
    ] {
        assert_eq!(redacted(&redactor, sql), sql);
    }
    assert!(redacted(&redactor, "CREATE TABLE t (a VARCHAR(255)) AS SELECT 48151 AS a").contains("(255)"));
}

#[test]
fn a_backslash_may_end_a_string_that_would_not_end_otherwise() {
    let redactor = Redactor::new().unwrap();
    let out = redacted(&redactor, r"SELECT 1 FROM t WHERE path = 'C:\' AND name = 'Miller'");
    assert!(out.contains("AND name = '") && !out.contains("Miller"), "{out}");
    let mut out = Vec::new();
    let sql = br"CREATE USER a IDENTIFIED BY 'p\', b IDENTIFIED BY 'geheim'";
    strike_out(sql, Digester::default().read(sql, Dialect::default()).dialect, &mut out);
    assert_eq!(out, b"CREATE USER a IDENTIFIED BY '***', b IDENTIFIED BY '***'");
}

#[test]
fn code_in_comments_stays_in_comments() {
    let sql = "SELECT /*M!100100 48151, */ /*!50000 'Bob' */ /*!99999 Bob */ /* Bob */ FROM t";
    let out = redacted(&Redactor::new().unwrap(), sql);
    assert!(
        out.starts_with("SELECT /*M!100100 ") && out.contains("*/ /*!50000 '") && out.ends_with("' */   FROM t"),
        "{out}"
    );
    assert!(!out.contains("Bob") && !out.contains("48151"), "{out}");
    let mut kept = Vec::new();
    strike_out(b"/*M!100100 ALTER USER a IDENTIFIED BY 'x' */ /* y */", Dialect::default(), &mut kept);
    assert_eq!(kept, b"/*M!100100 ALTER USER a IDENTIFIED BY '***' */ ");
}

#[test]
fn redaction_leaves_no_value_of_a_query() {
    let redactor = Redactor::new().unwrap();
    for sql in [
        "UPDATE t SET offset = 48151, name = 'Bob'",
        "SELECT 1 FROM t WHERE (SELECT id FROM t LIMIT 1) = 48151 AND name = 'Bob'",
        "SET @name = 'Bob'",
        "SELECT '0000-00-00 Bob', 48151",
        "SELECT /*+ MAX_EXECUTION_TIME(5000) */ 48151, 'Bob'",
        "SELECT /*+ a FROM t WHERE b = 48151 AND name = 'Bob'",
        "SET sql_mode = '', @name = 'Bob'",
        "SET sql_mode = ''; SELECT 'Bob'",
        "SELECT 'unended Bob",
        "SET STATEMENT max_statement_time = 1 FOR SELECT 'Bob', 48151",
        "set /* x */ statement max_statement_time=1 for update t set a = 'Bob' where b = 48151",
        "CREATE TABLE u (a INT) AS SELECT * FROM t WHERE a = 48151 AND b = 'Bob'",
        "CREATE VIEW v AS SELECT * FROM t WHERE a = 48151",
    ] {
        let out = redacted(&redactor, sql);
        assert!(!out.contains("Bob") && !out.contains("48151"), "{out}");
    }
}

#[test]
fn every_statement_of_a_text_is_examined() {
    let facts = |sql: &str| Digester::default().read(sql.as_bytes(), Dialect::default());
    for sql in [
        "SELECT 1; SHUTDOWN",
        "SELECT 1; SET GLOBAL max_connections = 5",
        "KILL CONNECTION_ID(); KILL 5",
        "KILL 5; KILL CONNECTION_ID()",
        "/*!50000 SELECT 1; RESTART */",
        "SELECT 1; START SLAVE",
        "SELECT 1; DROP USER a",
    ] {
        assert!(facts(sql).for_server, "{sql}");
    }
    assert!(facts("SELECT 1; LOAD DATA LOCAL INFILE 'f' INTO TABLE t").local_file);
    assert!(facts("SELECT 1; LOCK INSTANCE FOR BACKUP").locks);
    assert!(facts("SELECT 1; SET @app_password = 's3cret'").secret);
    assert!(facts("SELECT 1; PREPARE s FROM 'SET PASSWORD = ''s3cret'''").secret);
    assert!(!facts("CREATE PROCEDURE p() BEGIN SELECT 1; SET GLOBAL a = 1; SHUTDOWN; END").for_server);
    assert!(!facts("KILL CONNECTION_ID();").for_server);
}

#[test]
fn redaction_replaces_accounts_and_keeps_variables() {
    let redactor = Redactor::new().unwrap();
    for sql in [
        "GRANT SELECT ON x.* TO bob@db1.internal.corp",
        "GRANT SELECT ON x.* TO bob@'db1.internal.corp', `bob`@`db1.internal.corp`, 'bob'@db1, 'bob'@`db1`",
        "SHOW GRANTS FOR bob@db1",
        "CREATE DEFINER=bob@db1 VIEW v AS SELECT 1",
    ] {
        let out = redacted(&redactor, sql);
        assert!(out.len() == sql.len() && !out.contains("bob") && !out.contains("db1"), "{out}");
        let mut struck = Vec::new();
        strike_out(sql.as_bytes(), Dialect::default(), &mut struck);
        assert!(!mentions(&struck, b"bob") && !mentions(&struck, b"db1"), "{}", String::from_utf8_lossy(&struck));
    }
    for sql in [
        "SELECT @x, @`y z`, a.b@@c FROM t",
        "SELECT@rank := @rank + @x",
        "SET @a = @b, @c := @@sql_mode",
        "SELECT a INTO @x FROM t",
        "SELECT /*+ JOIN_ORDER(t1@q1, t2) */ a FROM t1, t2",
    ] {
        assert_eq!(redacted(&redactor, sql), sql);
    }
}

fn in_set(multi_byte: MultiByte) -> Dialect {
    Dialect { multi_byte, ..Dialect::default() }
}

#[test]
fn a_password_after_a_character_with_a_backslash_byte_is_removed() {
    let mut kept = Vec::new();
    let sql = b"CREATE USER a IDENTIFIED BY '\x95\x5c', b IDENTIFIED BY 's3cret', c IDENTIFIED BY '\x95\x5c'";
    for dialect in [in_set(MultiByte::Sjis), in_set(MultiByte::Gbk)] {
        let facts = Digester::default().read(sql, dialect);
        assert!(facts.secret && !facts.cut);
        strike_out(sql, facts.dialect, &mut kept);
        assert_eq!(kept, b"CREATE USER a IDENTIFIED BY '***', b IDENTIFIED BY '***', c IDENTIFIED BY '***'");
    }
}

#[test]
fn redaction_stays_within_the_character_set() {
    let redactor = Redactor::new().unwrap();
    let sql = b"SELECT '\x97\x5c\x92\xe8\x95\x5c', 'Bob', '\x83\x5c\xb1', '\x81\x30\x81\x30', '\xa5\x5c\xff'";
    for multi_byte in [MultiByte::Sjis, MultiByte::Gbk, MultiByte::Big5, MultiByte::Gb18030] {
        let dialect = in_set(multi_byte);
        let mut digester = Digester::default();
        let facts = digester.read(sql, dialect);
        assert!(!facts.cut);
        let key = digester.key().to_vec();
        let mut out = Vec::new();
        redactor.redact(sql, &facts, &mut out);
        assert_eq!(out.len(), sql.len());
        assert!(!mentions(&out, b"bob") && !mentions(&out, b"\x97\x5c\x92"));
        let again = digester.read(&out, dialect);
        assert_eq!((again, digester.key()), (facts, key.as_slice()), "{multi_byte:?}");
    }
}
