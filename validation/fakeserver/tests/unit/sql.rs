//! Tests of `src/sql.rs`.

use std::sync::Arc;

use super::*;
use crate::scanner;
use crate::server::Server;

fn facts() -> SessionFacts {
    SessionFacts {
        server: Arc::new(Server {
            config: crate::options::default_config(),
            counters: crate::server::Counters::default(),
        }),
        connection_id: 1,
        user: "root".to_owned(),
        database: None,
        charset: "utf8mb4".to_owned(),
        collation: "utf8mb4_general_ci".to_owned(),
        autocommit: true,
    }
}

fn read_one(text: &str) -> Statement {
    read(text, &facts())
}

fn table(text: &str) -> Table {
    match read_one(text).action {
        Action::Rows(table) => table,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn schema_tables_are_counted_without_simulated_latency() {
    let asked = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'sbtest'";
    assert!(!read_one(asked).timed);
    assert_eq!(table(asked).columns[0].kind, Kind::Integer);
    let bytes = table("SELECT COALESCE(SUM(data_length), 0) FROM information_schema.tables");
    assert_eq!(bytes.columns[0].kind, Kind::Decimal);
}

#[test]
fn sysbench_reads_have_the_right_shape() {
    let shapes = [
        ("SELECT c FROM sbtest1 WHERE id=?", 1, Kind::Text),
        ("SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ?", 100, Kind::Text),
        ("SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN ? AND ?", 1, Kind::Decimal),
        ("SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c", 100, Kind::Text),
        ("select count(k) from sbtest1 where k between 1 and 2", 1, Kind::Integer),
    ];
    for (text, rows, kind) in shapes {
        let table = table(text);
        assert_eq!((table.repeat, table.columns[0].kind), (rows, kind), "{text}");
        assert!(read_one(text).timed, "{text}");
    }
    assert_eq!(table("SELECT c FROM t WHERE id BETWEEN 1 AND 9 LIMIT 3").repeat, 3);
    assert_eq!(table("SELECT id, k, c, pad FROM sbtest1 WHERE k IN (1, 2)").columns.len(), 4);
}

#[test]
fn writes_report_their_rows() {
    assert_eq!(read_one("INSERT INTO t (a, b) VALUES (1, 'x),(y'), (2, f(3))").action, Action::Done { affected: 2 });
    assert_eq!(read_one("UPDATE t SET k=k+1 WHERE id=3").action, Action::Done { affected: 1 });
}

#[test]
fn session_setup_has_no_simulated_latency() {
    let names = |charset: &str, collation: &str| Action::Names { charset: charset.into(), collation: collation.into() };
    assert_eq!(read_one("/*!40101 SET NAMES latin1 */").action, names("latin1", "latin1_swedish_ci"));
    assert_eq!(read_one("SET NAMES 'utf8mb4' COLLATE 'utf8mb4_bin'").action, names("utf8mb4", "utf8mb4_bin"));
    assert_eq!(read_one("SET AUTOCOMMIT = 0").action, Action::Autocommit(false));
    assert_eq!(read_one("set @@session.autocommit=ON").action, Action::Autocommit(true));
    assert!(!read_one("SELECT @@version").timed);
}

#[test]
fn an_unknown_statement_is_refused() {
    assert!(matches!(read_one("SELEC 1").action, Action::Fail(SqlError { code: 1064, .. })));
}

#[test]
fn any_bytes_are_read_without_panic() {
    for text in
        ["", ";", "/*", "/*!", "'", "SELECT", "SELECT ,", "SET", "SHOW", "CALL p(", "é", "SELECT é FROM é", "\\"]
    {
        let _ = read_one(text);
        let _ = scanner::parameters(text);
    }
}
