//! Tests of what statements do.

use bakeoff_wire::dialect::Dialect;

use crate::class::{Class, Effect, class, effect, used_schema};

const READS: &[&str] = &[
    "SELECT 1",
    "select * from t where a = 1 limit 5",
    "(SELECT 1) UNION (SELECT 2)",
    "((SELECT a FROM t ORDER BY a LIMIT 1))",
    "WITH c AS (SELECT 1 AS a) SELECT * FROM c",
    "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 5) SELECT * FROM c",
    "VALUES ROW(1, 2), ROW(3, 4)",
    "TABLE t ORDER BY a",
    "SHOW TABLES",
    "SHOW CREATE TABLE t",
    "SHOW GLOBAL STATUS LIKE 'Com_insert'",
    "SHOW FULL COLUMNS FROM `delete`",
    "EXPLAIN SELECT * FROM t",
    "DESC t",
    "EXPLAIN FORMAT=JSON SELECT * FROM t JOIN u USING (id)",
    "EXPLAIN ANALYZE SELECT 1",
    "SELECT `update`, t.delete FROM t",
    "SELECT 'FOR UPDATE', \"INTO OUTFILE '/x'\"",
    "SELECT 1 -- FOR UPDATE",
    "SELECT 1 /* INTO OUTFILE 'x' */",
    "SELECT 1;",
    "SELECT COUNT(*), SUM(a), GROUP_CONCAT(b ORDER BY b SEPARATOR ',') FROM t GROUP BY c HAVING MAX(a) > 1",
    "SELECT INSERT('abc', 1, 1, 'x'), REPLACE('a', 'b', 'c')",
    "SELECT CAST(a AS DECIMAL(10, 2)), CONVERT(a, CHAR(10)) FROM t",
    "SELECT a FROM t USE INDEX FOR JOIN (i) WHERE a IN (1, 2) AND (b = 1 OR NOT (c = 2))",
    "SELECT SUBSTRING(a FROM 1 FOR 2) FROM t",
    "SELECT * FROM (SELECT 1 AS a) AS d (b)",
    "SELECT * FROM (SELECT 1) d(b)",
    "SELECT ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) FROM t",
    "SELECT /*+ MAX_EXECUTION_TIME(100) */ * FROM t",
    "SELECT /*!40001 SQL_NO_CACHE */ * FROM t",
    "/*!50000 SELECT */ /*!50000 1 */",
    "SELECT @@global.sql_mode, @@version",
    "SELECT @a, COALESCE(@b, 1)",
    "SELECT 'it\\'s', 'a\\\\b' FROM t",
    "SELECT 'it\\'s', \"say \\\"x\\\"\" FROM t",
    "SELECT JSON_EXTRACT(a, '$.b'), a->>'$.c' FROM t WHERE MATCH (d) AGAINST ('x' IN BOOLEAN MODE)",
    "SELECT * FROM t PARTITION (p0) WHERE d > NOW() - INTERVAL (1 + 1) DAY",
    "SELECT LAST_INSERT_ID()",
    "SELECT EXISTS(SELECT 1), CASE WHEN (a) THEN (1) ELSE (2) END FROM t",
    "SELECT * FROM t AS OF TIMESTAMP (NOW())",
    "SELECT * FROM t FOR SYSTEM_TIME ALL",
];

const SESSIONS: &[&str] = &[
    "SET NAMES utf8mb4",
    "SET autocommit=0",
    "SET SESSION sql_mode = 'ANSI'",
    "SET @a = 1, @b := 2",
    "SET @@session.time_zone = '+00:00'",
    "SET @old = @@GLOBAL.sql_mode",
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "USE shop",
    "BEGIN",
    "begin work;",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    "COMMIT",
    "ROLLBACK TO SAVEPOINT a",
    "SAVEPOINT a",
    "RELEASE SAVEPOINT a",
    "/*!40101 SET NAMES utf8 */",
    "/*M!100616 SET @old = @@note_verbosity, note_verbosity = 0 */",
    "SET SESSION a = 1 /*!50708 , max_execution_time = 1 */ /*M!100101 , max_statement_time = 1 */",
    "-- nothing",
    "",
];

const WRITES: &[(&str, &str)] = &[
    ("INSERT INTO t VALUES (1)", "INSERT"),
    ("  /* x */ insert into t select 1", "INSERT"),
    ("UPDATE t SET a = 1", "UPDATE"),
    ("DELETE FROM t", "DELETE"),
    ("REPLACE INTO t VALUES (1)", "REPLACE"),
    ("CREATE TABLE t (a INT)", "CREATE"),
    ("DROP TABLE t", "DROP"),
    ("ALTER TABLE t ADD b INT", "ALTER"),
    ("TRUNCATE TABLE t", "TRUNCATE"),
    ("CALL p()", "CALL"),
    ("DO SLEEP(1)", "DO"),
    ("LOCK TABLES t READ", "LOCK"),
    ("KILL 5", "KILL"),
    ("FLUSH TABLES", "FLUSH"),
    ("ANALYZE TABLE t", "ANALYZE"),
    ("ANALYZE FORMAT=JSON SELECT 1", "ANALYZE"),
    ("GRANT ALL ON *.* TO u", "GRANT"),
    ("XA BEGIN 'x'", "XA"),
    ("START REPLICA", "START"),
    ("BEGIN NOT ATOMIC DELETE FROM t; END", "several statements"),
    ("BEGIN NOT ATOMIC", "BEGIN"),
    ("HANDLER t OPEN", "HANDLER"),
    ("SELECT * FROM t FOR UPDATE", "FOR UPDATE"),
    ("SELECT * FROM t FOR SHARE", "FOR SHARE"),
    ("SELECT * FROM t FOR /* */ UPDATE SKIP LOCKED", "FOR UPDATE"),
    ("SELECT * FROM t LOCK IN SHARE MODE", "LOCK IN SHARE MODE"),
    ("SELECT 1 INTO OUTFILE '/tmp/x'", "INTO OUTFILE"),
    ("SELECT 1 INTO DUMPFILE '/tmp/x'", "INTO OUTFILE"),
    ("SELECT 1 INTO @a", "INTO"),
    ("SELECT @a := 1", ":="),
    ("SELECT SLEEP(5)", "SLEEP"),
    ("SELECT sleep (5)", "SLEEP"),
    ("SELECT `sleep`(5)", "SLEEP"),
    ("SELECT \"sleep\"(5)", "SLEEP"),
    ("SHOW TABLES WHERE SLEEP(1)", "SLEEP"),
    ("SELECT BENCHMARK(1e9, 1)", "BENCHMARK"),
    ("SELECT GET_LOCK('a', 1)", "GET_LOCK"),
    ("SELECT RELEASE_LOCK('a')", "RELEASE_LOCK"),
    ("SELECT pay(1)", "function"),
    ("SELECT shop.pay(1)", "stored function"),
    ("SELECT `shop`.`pay` (1)", "stored function"),
    ("SELECT shop.count(1)", "stored function"),
    ("SELECT sum (a) FROM t", "function"),
    ("SELECT `and`(1)", "function"),
    ("SELECT NEXTVAL(s)", "NEXTVAL"),
    ("SELECT s.nextval", "NEXTVAL"),
    ("SELECT NEXT VALUE FOR s", "NEXTVAL"),
    ("WITH c AS (SELECT 1) DELETE FROM t", "DELETE"),
    ("WITH c AS (SELECT 1) UPDATE t SET a = 1", "UPDATE"),
    ("EXPLAIN UPDATE t SET a = 1", "UPDATE"),
    ("EXPLAIN ANALYZE DELETE FROM t", "DELETE"),
    ("EXPLAIN REPLACE INTO t VALUES (1)", "REPLACE"),
    ("SELECT 1; DELETE FROM t", "several statements"),
    ("/*!50000 DELETE FROM t */", "DELETE"),
    ("SELECT 1 /*!50000 FOR UPDATE */", "FOR UPDATE"),
    ("/*!80000 SELECT 1 FROM ( */ DELETE FROM t", "DELETE"),
    ("SELECT 1 /*!100100 INTO OUTFILE 'x' */", "comment"),
    ("SELECT 1 /*M! FOR UPDATE */", "FOR UPDATE"),
    ("SELECT 1 /*!50000 FROM t */ /*M!100101 FOR UPDATE */", "FOR UPDATE"),
    ("SET SESSION a = 1 /*!50708 , GLOBAL b = 2 */ /*M!100101 , c = 3 */", "SET GLOBAL"),
    ("/*M!999999 DELETE FROM t */", "comment"),
    ("SELECT 1 /*!50001 + 1 */ /*!50002 + 1 */ /*!50003 + 1 */ /*!50004 + 1 */", "comment"),
    ("SELECT 1 /*!99997 '*/' */ FOR UPDATE */", "comment"),
    ("SELECT 'a\\' FOR UPDATE -- '", "FOR UPDATE"),
    ("SELECT \"a\\\" FOR UPDATE -- \"", "FOR UPDATE"),
    ("SET GLOBAL x = 1", "SET GLOBAL"),
    ("SET a = 1, @@global.x = 1", "SET GLOBAL"),
    ("SET PERSIST x = 1", "SET GLOBAL"),
    ("SET STATEMENT max_statement_time = 1 FOR DELETE FROM t", "SET"),
    ("SET @a = pay(1)", "function"),
    ("SET @a = SLEEP(1)", "SLEEP"),
    ("SELECT 'never ended", "cut"),
    ("FOO BAR", "other"),
];

#[test]
fn statements_are_classified() {
    let expected = READS.iter().map(|sql| (*sql, Class::Read));
    let expected = expected.chain(SESSIONS.iter().map(|sql| (*sql, Class::Session)));
    let expected = expected.chain(WRITES.iter().map(|(sql, why)| (*sql, Class::Write(why))));
    let others: Vec<_> = expected.filter(|(sql, wanted)| class(sql.as_bytes()) != *wanted).collect();
    let found: Vec<_> = others.iter().map(|(sql, _)| class(sql.as_bytes())).collect();
    assert!(others.is_empty(), "{others:?} are {found:?}");
}

#[test]
fn a_write_stays_a_write_in_every_layout() {
    for (sql, _) in WRITES {
        for changed in [
            format!("/* x */ {sql}"),
            sql.to_lowercase(),
            format!("# c\n{sql} ;"),
            format!("/*!50000 {sql} */"),
            format!("({sql})"),
        ] {
            assert!(matches!(class(changed.as_bytes()), Class::Write(_)), "{changed}");
        }
    }
}

#[test]
fn transactions_begin_and_end_as_on_the_server() {
    for (sql, expected) in [
        ("BEGIN", Effect::Begin),
        ("start transaction read only", Effect::Begin),
        ("START\nTRANSACTION", Effect::Begin),
        (" begin;", Effect::Begin),
        ("BEGINNING", Effect::Inside),
        ("XA START 'x'", Effect::Begin),
        ("XA COMMIT 'x' ONE PHASE", Effect::End),
        ("XA PREPARE 'x'", Effect::Inside),
        ("LOCK TABLES t WRITE", Effect::Lock),
        ("START REPLICA", Effect::Inside),
        ("COMMIT", Effect::End),
        ("/* x */ ROLLBACK WORK", Effect::End),
        ("COMMIT AND NO CHAIN", Effect::End),
        ("COMMIT AND CHAIN", Effect::Chain),
        ("ROLLBACK WORK AND CHAIN NO RELEASE", Effect::Chain),
        ("BEGIN WORK", Effect::Begin),
        ("BEGIN NOT ATOMIC UPDATE t SET a = 1; COMMIT; END", Effect::Inside),
        ("ROLLBACK TO SAVEPOINT a", Effect::Inside),
        ("UNLOCK TABLES", Effect::Unlock),
        ("CREATE TABLE t (a INT)", Effect::Commits),
        ("CREATE TEMPORARY TABLE t (a INT)", Effect::Inside),
        ("/*!50000 DROP TABLE t */", Effect::Commits),
        ("UPDATE t SET a = 1", Effect::Inside),
    ] {
        assert_eq!(effect(sql.as_bytes()), expected, "{sql}");
    }
}

#[test]
fn the_schema_of_use_is_found_in_every_layout() {
    for (sql, name) in [
        ("USE shop", "shop"),
        ("use shop ;", "shop"),
        ("USE\nshop", "shop"),
        ("/* app */ USE shop", "shop"),
        ("USE shop /* app */", "shop"),
        ("-- app\nUSE`sh``op`", "sh`op"),
        ("/*!40000 USE shop */", "shop"),
        ("USE 2024x", "2024x"),
    ] {
        assert_eq!(used_schema(sql.as_bytes(), Dialect::default()).as_deref(), Some(name.as_bytes()), "{sql}");
    }
    for sql in ["", "USE", "USE ;", "USED shop", "SELECT 1 -- USE shop", "/* USE shop */", "SELECT 'use shop'"] {
        assert_eq!(used_schema(sql.as_bytes(), Dialect::default()), None, "{sql}");
    }
}

#[test]
fn a_read_must_be_one_in_every_character_set() {
    for sql in [
        &b"SELECT 'a\\'', '\x95\\', f() -- '"[..],
        b"SELECT '\x95\\' FOR UPDATE -- '",
        b"SELECT '\xa5\\', f(), '\xa5\\'",
        b"SELECT `\x83`, f(), `\x83`",
        b"SELECT `a\x83` /*`*/ FOR UPDATE",
        b"SELECT \x83|count(1)",
        b"SELECT '\xe0\x95\\'', f() -- '",
    ] {
        assert!(matches!(class(sql), Class::Write(_)), "{}", String::from_utf8_lossy(sql));
    }
    for sql in [
        &b"SELECT * FROM goods WHERE name = '\x97\\\x92\xe8\x95\\' AND note = 'x'"[..],
        b"SELECT `\x83\x60`, '\xd5\\' FROM t",
        "SELECT `pr\u{e9}`, '\u{306f}\\'s' FROM `\u{8868}` WHERE `\u{8868}` IN (1)".as_bytes(),
    ] {
        assert_eq!(class(sql), Class::Read, "{}", String::from_utf8_lossy(sql));
    }
}
