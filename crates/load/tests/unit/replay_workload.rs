//! Tests of how a session switches from one state to another.

use std::cell::RefCell;
use std::collections::VecDeque;

use bakeoff_script::SqlCall;
use bakeoff_script::host::{Counter, LogLevel, QueryClass, Reply, StatementId, Value};

use super::*;
use crate::connector::Connector;
use crate::host::{Environment, SlicePlan, ThreadHost};
use crate::net::ServerAddress;
use crate::start_gate::{Barrier, Slice, StartGate};
use crate::worker_pool::WorkerContext;
use crate::worker_stats::LatencyStore;

/// Records what is sent. Returns the given errors in order, each for the next statement with its text.
/// The schema `gone` does not exist.
#[derive(Clone, Default)]
struct Line {
    sent: Rc<RefCell<Vec<String>>>,
    failing: Rc<RefCell<VecDeque<(&'static str, SqlError)>>>,
}

impl Connection for Line {
    fn query(&mut self, sql: &[u8]) -> Result<Reply, SqlError> {
        let sql = String::from_utf8_lossy(sql).into_owned();
        self.sent.borrow_mut().push(sql.clone());
        let mut failing = self.failing.borrow_mut();
        if failing.front().is_some_and(|(text, _)| *text == sql)
            && let Some((_, error)) = failing.pop_front()
        {
            return Err(error);
        }
        if sql == "USE `gone`" {
            return Err(error(1049, "Unknown database 'gone'", false));
        }
        let class = if sql.starts_with("UPDATE") { QueryClass::Write } else { QueryClass::Other };
        Ok(Reply { class, columns: 0, rows: 0, affected_rows: 0, last_insert_id: 0, more_results: false })
    }

    fn prepare(&mut self, _sql: &[u8]) -> Result<StatementId, SqlError> {
        unimplemented!()
    }

    fn execute(&mut self, _statement: StatementId, _values: &[Value<'_>]) -> Result<Reply, SqlError> {
        unimplemented!()
    }

    fn close_statement(&mut self, _statement: StatementId) {}

    fn next_result(&mut self) -> Result<Option<Reply>, SqlError> {
        Ok(None)
    }

    fn fetch_row(&mut self, _row: &mut Vec<Option<Vec<u8>>>) -> Result<bool, SqlError> {
        Ok(false)
    }

    fn column_name(&self, _index: u32) -> Option<&str> {
        None
    }

    fn reconnect(&mut self) -> Result<(), SqlError> {
        self.sent.borrow_mut().push("(reconnect)".to_owned());
        Ok(())
    }

    fn charset(&self) -> (&str, &str) {
        ("utf8mb4", "utf8mb4_bin")
    }
}

fn error(code: u16, message: &str, fatal: bool) -> SqlError {
    SqlError { fatal, ..SqlError::client(code, message) }
}

struct Silent;

impl Environment for Silent {
    fn log(&self, _level: LogLevel, _message: &str) {}

    fn statement_failed(&self, _call: SqlCall, _error: &SqlError, _query: &[u8]) {}
}

/// A host, and its gate.
fn host() -> (SliceHost, Arc<StartGate>) {
    let context = WorkerContext {
        thread: 0,
        gate: Arc::new(StartGate::new(1)),
        barrier: Arc::new(Barrier::new(1)),
        canceller: Arc::default(),
    };
    let connector = Connector::new(Arc::new(ServerAddress::default()), Arc::clone(&context.canceller));
    let plan = SlicePlan { threads: 1, reseed: |_, _, _| {}, key_seed: 1, slowdown_per_event: 0.0 };
    let counted = (Arc::default(), LatencyStore::new(Arc::default(), 1));
    let host = ThreadHost::new(Arc::new(Silent), connector, Arc::clone(&context.barrier));
    (SliceHost::new(plan, &context, host, counted), context.gate)
}

/// A host within a slice.
fn open_host() -> SliceHost {
    let (host, gate) = host();
    let slice = Slice {
        block: 0,
        turn: 0,
        start_ns: 0,
        guard_end_ns: 0,
        deadline_ns: u64::MAX,
        open_windows: 0.into(),
        schedule: None,
    };
    gate.open(Arc::new(slice));
    assert!(host.rest());
    host
}

fn plan() -> ReplayWorkload {
    ReplayWorkload {
        block: Arc::default(),
        operations: Arc::new(vec!["digest".to_owned(), "other".to_owned()]),
        speed: None,
        read_only: false,
        home_schema: "home".to_owned(),
        home_names: String::new(),
        failures: Failures::default(),
    }
}

fn replay_session<'a>(plan: &'a ReplayWorkload, host: &'a SliceHost, line: &Line) -> ReplaySession<'a> {
    ReplaySession {
        plan,
        host,
        connection: Box::new(line.clone()),
        numbers: vec![None; 2],
        schema: "home".to_owned(),
        set: SessionState::default(),
        state: Arc::default(),
        second: 0,
    }
}

fn statement(sql: &str, state: &Arc<State>) -> Statement {
    Statement {
        sql: sql.as_bytes().to_vec(),
        operation: 0,
        state: Arc::clone(state),
        reads: false,
        offset_us: 0,
        second: None,
    }
}

#[test]
fn statements_retried_after_a_deadlock_count_towards_their_digest() {
    let (plan, host, line) = (plan(), open_host(), Line::default());
    line.failing.borrow_mut().push_back(("UPDATE t SET a = 1", error(1213, "Deadlock found", false)));
    let home = Arc::default();
    let statements = ["BEGIN", "UPDATE t SET a = 1"].map(|sql| statement(sql, &home)).into();
    let transaction = Transaction { connection: 1, statements, abandoned: false };
    assert!(replay_session(&plan, &host, &line).run(&transaction, 0, 0).unwrap());
    assert_eq!(*line.sent.borrow(), ["BEGIN", "UPDATE t SET a = 1", "BEGIN", "UPDATE t SET a = 1"]);
    let counts: Vec<_> = host.latencies.shard.with(|latencies| {
        let all = latencies.by_operation().into_iter();
        all.map(|(name, histogram)| (name.to_owned(), histogram.count())).collect()
    });
    assert_eq!(counts, [("event".to_owned(), 2), ("digest".to_owned(), 2)]);
    assert_eq!([Counter::Transactions, Counter::Write, Counter::Other].map(|counter| host.counter(counter)), [2, 1, 1]);
}

#[test]
fn a_connection_lost_during_a_retry_is_reconnected_once() {
    let (plan, host, line) = (plan(), open_host(), Line::default());
    line.failing.borrow_mut().extend([
        ("UPDATE t SET a = 1", error(1213, "Deadlock found", false)),
        ("SET timestamp = 5", error(2013, "Lost connection", true)),
    ]);
    let home = Arc::default();
    let at = |second, sql| Statement { second: Some(second), ..statement(sql, &home) };
    let statements = vec![at(5, "BEGIN"), at(6, "UPDATE t SET a = 1"), at(6, "COMMIT")];
    let transaction = Transaction { connection: 1, statements, abandoned: false };
    assert!(replay_session(&plan, &host, &line).run(&transaction, 0, 0).unwrap());
    let first = ["SET timestamp = 5", "BEGIN", "SET timestamp = 6", "UPDATE t SET a = 1"];
    let again = ["SET timestamp = 5", "(reconnect)", "SET SESSION lock_wait_timeout = 50"];
    assert_eq!(*line.sent.borrow(), [first.as_slice(), &again].concat());
    assert_eq!(host.counter(Counter::Reconnect), 1);
    assert_eq!(host.counter(Counter::Error), 3, "the deadlock, the lost statement, and the rest of the transaction");
}

#[test]
fn statements_for_a_missing_schema_fail_and_run_in_no_other() {
    let (plan, host, line) = (plan(), open_host(), Line::default());
    let state = |schema: &str| Arc::new(State { schema: schema.to_owned(), session: SessionState::default() });
    let (gone, shop) = (state("gone"), state("shop"));
    let statements = vec![
        statement("BEGIN", &gone),
        statement("DELETE FROM t", &gone),
        statement("UPDATE t SET a = 1", &gone),
        statement("INSERT INTO t VALUES (1)", &shop),
        statement("COMMIT", &gone),
        statement("create database gone", &gone),
    ];
    let transaction = Transaction { connection: 1, statements, abandoned: false };
    assert!(replay_session(&plan, &host, &line).run(&transaction, 0, 0).unwrap());
    let refused = "USE `gone`";
    assert_eq!(
        *line.sent.borrow(),
        [
            refused,
            "BEGIN",
            refused,
            refused,
            "USE `shop`",
            "INSERT INTO t VALUES (1)",
            refused,
            "COMMIT",
            refused,
            "create database gone"
        ]
    );
    let failures = plan.failures.list(&plan.operations);
    let counted: Vec<_> = failures.iter().map(|each| (each.operation.as_str(), each.sql_errno, each.count)).collect();
    assert_eq!(counted, [("digest", 1049, 2)]);
    assert_eq!(
        [Counter::Error, Counter::Transactions].map(|counter| host.counter(counter)),
        [2, 4],
        "in the slice, too"
    );
}

#[test]
fn use_and_set_after_a_comment_change_the_session() {
    let (plan, (host, _gate), line) = (plan(), host(), Line::default());
    let state = |schema: &str| Arc::new(State { schema: schema.to_owned(), session: SessionState::default() });
    let (home, shop) = (state("home"), state("shop"));
    let statements = vec![
        statement("/* app */ USE shop", &home),
        statement("/* app */ SET sql_mode='ANSI'", &shop),
        statement("SELECT 1", &home),
    ];
    let transaction = Transaction { connection: 1, statements, abandoned: false };
    assert!(replay_session(&plan, &host, &line).run(&transaction, 0, 0).unwrap());
    assert_eq!(
        *line.sent.borrow(),
        ["/* app */ USE shop", "/* app */ SET sql_mode='ANSI'", "USE `home`", "SET sql_mode = DEFAULT", "SELECT 1"]
    );
    assert!(!needs_schema(b"/* app */ USE shop") && !needs_schema(b"/* app */ DROP /* it */ SCHEMA shop"));
}

#[test]
fn read_only_sessions_stay_read_only_after_set_and_reconnect() {
    let (plan, host, line) = (ReplayWorkload { read_only: true, ..plan() }, open_host(), Line::default());
    line.failing.borrow_mut().push_back(("SELECT 1", error(2013, "Lost connection", true)));
    let home = Arc::default();
    let statements = ["SET SESSION TRANSACTION READ WRITE", "SELECT 1"].map(|sql| statement(sql, &home)).into();
    let transaction = Transaction { connection: 1, statements, abandoned: false };
    assert!(replay_session(&plan, &host, &line).run(&transaction, 0, 0).unwrap());
    let read_only = "SET SESSION TRANSACTION READ ONLY";
    assert_eq!(
        *line.sent.borrow(),
        [read_only, "SELECT 1", "(reconnect)", read_only, "SET SESSION lock_wait_timeout = 50"]
    );
}

fn session(sets: &[&str]) -> SessionState {
    let mut session = SessionState::default();
    for sql in sets {
        session.set(sql.as_bytes());
    }
    session
}

#[test]
fn only_differences_are_set_and_unset_variables_return_to_default() {
    let plain = session(&[]);
    let german = session(&["SET NAMES latin1 COLLATE latin1_german1_ci", "SET autocommit=0, sql_mode='ANSI'"]);
    assert_eq!(settings(&plain, &plain, "utf8mb4"), [""; 0]);
    assert_eq!(settings(&german, &german, "utf8mb4"), [""; 0]);
    assert_eq!(
        settings(&plain, &german, "utf8mb4"),
        ["SET NAMES latin1 COLLATE latin1_german1_ci", "SET autocommit = 0", "SET sql_mode = 'ANSI'"]
    );
    assert_eq!(
        settings(&german, &plain, "utf8mb4 COLLATE utf8mb4_bin"),
        ["SET NAMES utf8mb4 COLLATE utf8mb4_bin", "SET autocommit = DEFAULT", "SET sql_mode = DEFAULT"]
    );
    assert_eq!(
        settings(&session(&["SET foreign_key_checks=0", "SET sql_select_limit = 5"]), &plain, "utf8mb4"),
        ["SET foreign_key_checks = DEFAULT", "SET sql_select_limit = DEFAULT"]
    );
    let results = session(&["SET NAMES utf8mb4", "SET character_set_results = NULL", "SET time_zone = '+00:00'"]);
    assert_eq!(
        settings(&german, &results, "utf8mb4")[1..],
        [
            "SET character_set_results = NULL",
            "SET autocommit = DEFAULT",
            "SET sql_mode = DEFAULT",
            "SET time_zone = '+00:00'"
        ]
    );
}

#[test]
fn timed_waits_never_outlast_the_chunk_or_take_minutes() {
    assert_eq!(wait_ns(2_000_000, 6_000_000, 2.0), Some(1_000_000_000));
    assert_eq!(wait_ns(6_000_001, 6_000_000, 2.0), None);
    assert_eq!(wait_ns(2_000_000, 6_000_000, 0.001), None, "half an hour");
}

#[test]
fn captured_values_cannot_inject_sql() {
    assert_eq!(["1", "DEFAULT", "NULL", "true", "OFF"].map(literal), ["1", "DEFAULT", "NULL", "true", "OFF"]);
    assert_eq!(literal("a'; DROP TABLE t; -- \\"), "'a''; DROP TABLE t; -- \\\\'");
    assert_eq!(settings(&session(&[]), &session(&["SET NAMES 'x; DROP'"]), "utf8mb4"), ["SET NAMES utf8mb4"]);
}

#[test]
fn literals_are_removed_from_error_messages() {
    for (message, expected) in [
        ("Duplicate entry 'a-1' for key 'PRIMARY'", "Duplicate entry ? for key ?"),
        ("Duplicate entry 'O'Brien-77' for key 'name'", "Duplicate entry ? for key ?"),
        ("Duplicate entry 'a' for key 'Bob' for key 't.name'", "Duplicate entry ? for key ?"),
        (
            "check the manual for the right syntax to use near 'x LIKE '%Bob%' AND y' at line 1",
            "check the manual for the right syntax to use near ? at line 1",
        ),
        ("syntax to use near '' at line 1", "syntax to use near ? at line 1"),
        ("near 'Duplicate entry 'Bob' for key x' at line 12", "near ? at line 12"),
        ("near 'a 'Bob", "near ?"),
        ("near 'never ended", "near ?"),
        (
            "Incorrect integer value: 'it's 'Bob' there' for column 'a' at row 1",
            "Incorrect integer value: ? for column ? at row 1",
        ),
        (
            "Incorrect datetime value: 'Bob's 'x' for column `shop`.`t`.`a` at row 1",
            "Incorrect datetime value: ? for column `shop`.`t`.`a` at row 1",
        ),
        ("Truncated incorrect DOUBLE value: 'a 'Bob' c'", "Truncated incorrect DOUBLE value: ?"),
        ("Table has no partition for value 4711", "Table has no partition for value ?"),
        ("Table has no partition for value 'Bob' x", "Table has no partition for value ?"),
        ("Table 'a.b' doesn't exist, or 'it's' (not 'c')", "Table ? doesn't exist, or ? (not ?)"),
    ] {
        assert_eq!(without_literals(message), expected, "{message}");
    }
}

proptest::proptest! {
    #[test]
    fn arbitrary_messages_do_not_panic(message in "(near '|Duplicate entry '| value: '|partition for value |)\\PC*") {
        without_literals(&message);
    }
}

#[test]
fn statements_that_lift_read_only_are_replaced() {
    for lifting in [
        "SET SESSION TRANSACTION READ WRITE",
        " set session transaction isolation level read committed, read write",
        "SET tx_read_only = 0",
        "SET @@session.transaction_read_only=OFF, autocommit = 1",
        "/* app */ SET SESSION TRANSACTION READ WRITE",
        "-- app\nSET tx_read_only = 0",
        "/*!50605 SET tx_read_only = 0 */",
    ] {
        assert_eq!(still_read_only(lifting.as_bytes()), READ_ONLY, "{lifting}");
    }
    assert_eq!(still_read_only(b"start transaction with consistent snapshot, read  write"), b"START TRANSACTION");
    assert_eq!(still_read_only(b"# app\nSTART TRANSACTION READ WRITE"), b"START TRANSACTION");
    for other in ["SET net_write_timeout = 9", "START TRANSACTION", "SELECT 'transaction, write'", "SET NAMES utf8", ""]
    {
        assert_eq!(still_read_only(other.as_bytes()), other.as_bytes());
    }
}
