//! Tests of digests against texts of MySQL 9.7 (tests/replay compares hundreds more).

use bakeoff_wire::dialect::Dialect;

use crate::digest::{Digester, name_of, text_of};

fn text(sql: &str) -> String {
    let mut digester = Digester::default();
    digester.read(sql.as_bytes(), Dialect::default());
    text_of(digester.key())
}

#[test]
fn digest_texts_match_the_servers() {
    for (sql, expected) in [
        ("select a from T t1 Where A=1", "SELECT `a` FROM `T` `t1` WHERE `A` = ?"),
        ("SELECT * FROM t WHERE a IN (1,2,3)", "SELECT * FROM `t` WHERE `a` IN (...)"),
        ("SELECT * FROM t WHERE a IN (b,1,2)", "SELECT * FROM `t` WHERE `a` IN ( `b` , ?, ... )"),
        ("INSERT INTO t VALUES (1,NULL),(2,NULL)", "INSERT INTO `t` VALUES (...) /* , ... */"),
        ("INSERT INTO t VALUES (1),(2)", "INSERT INTO `t` VALUES (?) /* , ... */"),
        ("INSERT INTO t VALUES (1,NOW())", "INSERT INTO `t` VALUES ( ? , NOW ( ) )"),
        ("SELECT a IS NOT NULL, NULL FROM t", "SELECT `a` IS NOT NULL , ? FROM `t`"),
        ("SELECT a-1, -1, (-1), a = -1 FROM t", "SELECT `a` - ?, ... , (?) , `a` = ? FROM `t`"),
        ("SELECT @a, @`b`, @@session.sql_mode", "SELECT @? , @`b` , @@SESSION . `sql_mode`"),
        ("SELECT name, t.name FROM t", "SELECT NAME , `t` . `name` FROM `t`"),
        ("SELECT count(*), count (a) FROM t", "SELECT COUNT ( * ) , `count` ( `a` ) FROM `t`"),
        ("SELECT _utf8mb4'x', a <> b FROM t; ", "SELECT (_charset) ? , `a` != `b` FROM `t`"),
        (
            "SELECT /*+ MAX_EXECUTION_TIME(9) BKA(t a) */ a FROM t",
            "SELECT /*+ MAX_EXECUTION_TIME (?) BKA ( `t` `a` ) */ `a` FROM `t`",
        ),
        ("SELECT /*+ */ 1", "SELECT ?"),
        ("SELECT 1 /* c */ -- d", "SELECT ?"),
    ] {
        assert_eq!(text(sql), expected, "{sql}");
    }
}

#[test]
fn names_that_are_not_utf_8_stay_apart() {
    let texts = [&b"\xc8\xd5"[..], b"\xca\xfd"].map(|name| {
        let mut digester = Digester::default();
        digester.read(&[b"SELECT ", name, b" FROM t"].concat(), Dialect::default());
        text_of(digester.key())
    });
    assert_eq!(texts, [r"SELECT `\xc8\xd5` FROM `t`", r"SELECT `\xca\xfd` FROM `t`"]);
}

#[test]
fn the_name_depends_only_on_the_text() {
    assert_eq!(name_of("SELECT ?"), "66cbb3a40d4bbd15", "sha256sum of the text");
    assert_ne!(name_of("SELECT ?"), name_of("SELECT ?, ..."));
}

#[test]
fn facts_are_found_along_with_the_digest() {
    let read = |sql: &str| Digester::default().read(sql.as_bytes(), Dialect::default());
    assert!(read("SELECT a FROM t WHERE a = ?").parameter);
    assert!(read("SELECT 'a").cut && read("SELECT /* a").cut);
    assert!(read("LOAD DATA LOCAL INFILE 'x' INTO TABLE t").local_file);
    assert!(!read("LOAD DATA INFILE 'x' INTO TABLE t").local_file);
    for sql in [
        "shutdown",
        "RESTART",
        "KILL 5",
        "/* x */ kill query 7",
        "KILL @id",
        "KILL USER bob",
        "RESET MASTER",
        "/*!50000 RESET QUERY CACHE */",
        "PURGE BINARY LOGS TO 'x'",
        "STOP REPLICA",
        "START SLAVE",
        "INSTALL PLUGIN a SONAME 'a.so'",
        "UNINSTALL PLUGIN a",
        "CLONE LOCAL DATA DIRECTORY '/x'",
    ] {
        assert!(read(sql).for_server, "{sql}");
    }
    for sql in ["SELECT 5", "START TRANSACTION", "kill connection_id()", "SELECT reset FROM t", "START"] {
        assert!(!read(sql).for_server, "{sql}");
    }
    for sql in [
        "SELECT GET_LOCK('a', -1)",
        "DO release_lock ('a')",
        "SET @a = RELEASE_ALL_LOCKS()",
        "FLUSH TABLES WITH READ LOCK",
        "flush local tables a, b with read lock",
        "FLUSH TABLES a FOR EXPORT",
        "LOCK INSTANCE FOR BACKUP",
        "BACKUP STAGE START",
    ] {
        assert!(read(sql).locks, "{sql}");
    }
    for sql in ["LOCK TABLES t READ", "FLUSH TABLES", "SELECT get_lock FROM t", "SELECT IS_FREE_LOCK('a')"] {
        assert!(!read(sql).locks, "{sql}");
    }
    assert!(read("COMMIT").ends_transaction && read("ROLLBACK").ends_transaction);
    assert!(!read("ROLLBACK TO SAVEPOINT a").ends_transaction);
    assert!(read("-- nothing").empty && !read(";").empty);
}
