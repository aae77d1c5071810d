//! The interface between scripts and the engine, which implements these traits over real sockets. All methods are
//! called from the worker's own thread.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use strum::FromRepr;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    Null,
    Int(i64),
    Double(f64),
    Bytes(&'a [u8]),
}

/// A statement prepared on one connection, numbered by the connection, not the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatementId(pub u32);

/// What a statement counts as, with the number of its [`Counter`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum QueryClass {
    Other = 0,
    Read = 1,
    Write = 2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    pub class: QueryClass,
    pub columns: u32,
    pub rows: u64,
    pub affected_rows: u64,
    pub last_insert_id: u64,
    pub more_results: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code} ({sqlstate}): {message}")]
pub struct SqlError {
    /// Server error number (1213) or a client's (2002 cannot connect, 2006 server gone, 2013 lost, 2014 out of sync).
    pub code: u16,
    pub sqlstate: String,
    pub message: String,
    pub fatal: bool,
    /// The system's errno if connecting failed.
    pub io_errno: Option<i32>,
}

impl SqlError {
    pub fn client(code: u16, message: impl Into<String>) -> Self {
        Self { code, sqlstate: "HY000".to_owned(), message: message.into(), fatal: false, io_errno: None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqlCall {
    Connect,
    Prepare,
    Query,
    Execute,
    BulkNext,
    BulkDone,
}

impl SqlCall {
    /// The message that sysbench's API raises when the call fails, or None if it raises the server's.
    pub fn message(self) -> Option<&'static str> {
        match self {
            Self::Connect => Some("connection creation failed"),
            Self::Prepare => Some("SQL API error"),
            Self::BulkNext => Some("db_bulk_insert_next() failed"),
            Self::BulkDone => Some("db_bulk_insert_done() failed"),
            Self::Query | Self::Execute => None,
        }
    }
}

pub trait Connection {
    /// Sends a text statement and receives its whole reply. [`Self::fetch_row`] reads its rows until the next command.
    fn query(&mut self, sql: &[u8]) -> Result<Reply, SqlError>;

    /// Prepares a statement, on the server or as a template. What the server cannot prepare (1295) is sent as text.
    fn prepare(&mut self, sql: &[u8]) -> Result<StatementId, SqlError>;

    fn execute(&mut self, statement: StatementId, values: &[Value<'_>]) -> Result<Reply, SqlError>;

    fn close_statement(&mut self, statement: StatementId);

    fn next_result(&mut self) -> Result<Option<Reply>, SqlError>;

    fn fetch_row(&mut self, row: &mut Vec<Option<Vec<u8>>>) -> Result<bool, SqlError>;

    fn column_name(&self, index: u32) -> Option<&str>;

    /// Closes the socket and reconnects to the same server. Statements are prepared again on first use.
    fn reconnect(&mut self) -> Result<(), SqlError>;

    fn charset(&self) -> (&str, &str);
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectTarget {
    pub host: Option<String>,
    pub port: Option<u16>,
    pub socket: Option<String>,
    pub user: Option<String>,
    pub password: Option<String>,
    pub database: Option<String>,
}

/// sysbench's counters, with the numbers of its `sb_counter_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRepr)]
#[repr(i32)]
pub enum Counter {
    Other = 0,
    Read = 1,
    Write = 2,
    Transactions = 3,
    Error = 4,
    Reconnect = 5,
    BytesRead = 6,
    BytesWritten = 7,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventEnd {
    Done,
    Stop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i32)]
pub enum LogLevel {
    Fatal = 0,
    Alert = 1,
    Warning = 2,
    Notice = 3,
    Info = 4,
    Debug = 5,
}

pub trait Host {
    fn connect(&self, target: &ConnectTarget) -> Result<Box<dyn Connection>, SqlError>;

    fn driver(&self, name: &str) -> Result<(), String> {
        known_driver(name)
    }

    /// How long to try to reconnect after an ignored error. There is always one attempt.
    fn reconnect_for(&self) -> Duration;

    /// A statement failed and its error is not ignored. The script may still survive it.
    fn statement_failed(&self, _call: SqlCall, _error: &SqlError, _query: &[u8]) {}

    fn barrier(&self) {}

    fn aborted(&self) -> bool {
        false
    }

    /// This thread finished `done` more of `total` units of `label` (rows, indexes).
    fn progress(&self, _label: &str, _done: u64, _total: u64) {}

    fn log(&self, level: LogLevel, message: &str);
}

pub trait Events {
    /// Whether to start another event. Blocks while the arm is paused and, in an open loop, until its intended start.
    fn more_events(&self) -> bool;

    /// An event starts now (closed loop) or started at its intended time (open loop).
    fn event_start(&self) {}

    /// The event ended. The time since [`Events::event_start`] is its latency.
    fn event_stop(&self, _end: EventEnd) {}

    /// The event failed with an ignored error. Returns whether to run it again within the same latency.
    fn event_restart(&self) -> bool;

    fn count_reply(&self, _reply: &Reply) {}

    fn count_error(&self, _code: u16) {}

    fn count(&self, counter: Counter, amount: u64);

    fn counter(&self, counter: Counter) -> u64;

    /// Tags the current event with an operation (`new_order`). Each operation has its own latencies.
    fn operation(&self, _name: &str) {}

    /// Waits for a keying or think time, between or within events. Counts towards no latency and ends with the slice.
    fn think(&self, duration_ns: u64);
}

#[derive(Clone)]
pub struct HostRef {
    pub(crate) host: Rc<dyn Host>,
    pub(crate) events: Rc<dyn Events>,
}

impl HostRef {
    pub fn new(host: Rc<impl Host + 'static>, events: Rc<impl Events + 'static>) -> Self {
        Self { host, events }
    }

    pub fn without_events(host: Rc<dyn Host>) -> Self {
        Self { host, events: Rc::new(NoEvents::default()) }
    }
}

/// Calls `connect` with growing pauses until it succeeds, time is up or the command is aborted. Counts a success.
pub fn reconnect(host: &dyn Host, events: &dyn Events, connect: &mut dyn FnMut() -> bool) -> bool {
    let until = Instant::now() + host.reconnect_for();
    let mut pause = Duration::from_millis(10);
    while !connect() {
        if Instant::now() + pause > until || host.aborted() {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_secs(1));
    }
    events.count(Counter::Reconnect, 1);
    true
}

pub fn known_driver(name: &str) -> Result<(), String> {
    match name {
        "" | "mysql" => Ok(()),
        other => Err(format!("invalid database driver name: '{other}'")),
    }
}

#[derive(Default)]
struct NoEvents(RefCell<[u64; 8]>);

impl Events for NoEvents {
    fn more_events(&self) -> bool {
        false
    }

    fn event_restart(&self) -> bool {
        true
    }

    fn count(&self, counter: Counter, amount: u64) {
        self.0.borrow_mut()[counter as usize] += amount;
    }

    fn counter(&self, counter: Counter) -> u64 {
        self.0.borrow()[counter as usize]
    }

    fn think(&self, duration_ns: u64) {
        std::thread::sleep(Duration::from_nanos(duration_ns));
    }
}

pub(crate) struct NullHost;

impl Host for NullHost {
    fn connect(&self, _target: &ConnectTarget) -> Result<Box<dyn Connection>, SqlError> {
        let words = "the script is only being described and cannot connect to a server";
        Err(SqlError { fatal: true, ..SqlError::client(2002, words) })
    }

    fn reconnect_for(&self) -> Duration {
        Duration::ZERO
    }

    fn log(&self, _level: LogLevel, _message: &str) {}
}
