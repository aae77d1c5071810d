//! The interface between scripts and the engine: traits for connections, events, counters and messages.
//!
//! The engine implements these traits over real sockets, the tests over memory. All methods are called from the worker's own
//! thread; none needs to be `Send`. Buffers belong to the connection and live until its next command, so that the hot path
//! (query, prepare, execute) neither copies nor allocates.

use std::rc::Rc;
use std::time::{Duration, Instant};

/// The value of one bound parameter at the moment of execution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// SQL NULL.
    Null,
    /// Any integer type.
    Int(i64),
    /// FLOAT and DOUBLE.
    Double(f64),
    /// CHAR and VARCHAR, in the connection's character set.
    Bytes(&'a [u8]),
}

/// A statement prepared on one connection: a number of that connection's own, not the server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatementId(pub u32);

/// What a statement did, as sysbench counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryClass {
    /// It returned a result set.
    Read,
    /// It changed at least one row.
    Write,
    /// Neither (BEGIN, COMMIT, an UPDATE that matched nothing).
    Other,
}

/// A successful reply, complete: every byte of it has been received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// How sysbench counts it.
    pub class: QueryClass,
    /// Columns in the result set; 0 when there is none.
    pub columns: u32,
    /// Rows in the result set; 0 when there is none.
    pub rows: u64,
    /// Rows changed, for a statement without a result set.
    pub affected_rows: u64,
    /// AUTO_INCREMENT value generated, or 0.
    pub last_insert_id: u64,
    /// More results follow; fetch them with [`Connection::next_result`].
    pub more_results: bool,
}

/// An error from the server or the connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code} ({sqlstate}): {message}")]
pub struct SqlError {
    /// Server error number (1213), or a client one (2000-2999: 2002 cannot connect, 2006 server gone, 2013 lost, 2014 out of sync).
    pub code: u16,
    /// Five characters, `HY000` if the server gave none.
    pub sqlstate: String,
    /// The server's message. Never holds a password.
    pub message: String,
    /// The connection is unusable.
    pub fatal: bool,
    /// The system error with which connecting failed.
    pub io_errno: Option<i32>,
}

impl SqlError {
    /// Creates an error of the client's own, with a number from 2000 to 2999.
    pub fn client(code: u16, message: impl Into<String>) -> Self {
        Self { code, sqlstate: "HY000".to_owned(), message: message.into(), fatal: false, io_errno: None }
    }
}

/// The client library call that sysbench would have made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
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

/// One connection to a server. Dropping it sends COM_QUIT and closes it.
pub trait Connection {
    /// Sends one text statement and receives its whole reply.
    ///
    /// Rows stay in the connection's buffer, unparsed, for [`Connection::fetch_row`], until the next command.
    ///
    /// # Errors
    /// [`SqlError`] as answered by the server, or a fatal one when the connection broke.
    fn query(&mut self, sql: &[u8]) -> Result<Reply, SqlError>;

    /// Prepares a statement in this connection's prepare mode (server: COM_STMT_PREPARE; client: kept as a template).
    ///
    /// A server that cannot prepare this kind of statement (error 1295) makes it a text statement, silently.
    ///
    /// # Errors
    /// As [`Connection::query`].
    fn prepare(&mut self, sql: &[u8]) -> Result<StatementId, SqlError>;

    /// Executes a prepared statement; `values` holds one value for each `?`.
    ///
    /// # Errors
    /// As [`Connection::query`]; code 2031 when the number of values is not the number of parameters.
    fn execute(&mut self, statement: StatementId, values: &[Value<'_>]) -> Result<Reply, SqlError>;

    /// Forgets a prepared statement, whose number may be given out again. Never waits for the server.
    fn close_statement(&mut self, statement: StatementId);

    /// Receives the next result of a multi-statement or a procedure; `None` when there is none.
    ///
    /// # Errors
    /// As [`Connection::query`].
    fn next_result(&mut self) -> Result<Option<Reply>, SqlError>;

    /// Parses the next unread row of the last reply into `row`: one entry a column, `None` for NULL, text as the text protocol
    /// would show it, for text and binary replies alike. Returns false after the last row.
    ///
    /// # Errors
    /// A fatal [`SqlError`] (2027) when the row is malformed.
    fn fetch_row(&mut self, row: &mut Vec<Option<Vec<u8>>>) -> Result<bool, SqlError>;

    /// Name of column `index`, from 0, of the last reply; `None` when there is no such column.
    fn column_name(&self, index: u32) -> Option<&str>;

    /// Closes the socket and connects anew to the same server; prepared statements are prepared again on first use.
    ///
    /// # Errors
    /// As [`Host::connect`].
    fn reconnect(&mut self) -> Result<(), SqlError>;

    /// The connection's character set and collation as the server confirmed them, e.g. `utf8mb4`, `utf8mb4_general_ci`.
    fn charset(&self) -> (&str, &str);
}

/// Where a script's `drv:connect{…}` goes when it names a server of its own; unset fields are the arm's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the options'")]
pub struct ConnectTarget {
    pub host: Option<String>,
    pub port: Option<u16>,
    pub socket: Option<String>,
    pub user: Option<String>,
    pub password: Option<String>,
    pub database: Option<String>,
}

/// What is counted besides the replies; sysbench's `sb_counter_type`, with its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs, reason = "the names are sysbench's")]
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

/// How an event ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventEnd {
    /// `event()` returned: it is counted, and its latency recorded.
    Done,
    /// `event()` asked the thread to stop (returned a true value): not counted.
    Stop,
}

/// Severity of [`Host::log`], sysbench's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i32)]
#[allow(missing_docs, reason = "the names are sysbench's")]
pub enum LogLevel {
    Fatal = 0,
    Alert = 1,
    Warning = 2,
    Notice = 3,
    Info = 4,
    Debug = 5,
}

/// What surrounds one worker thread: its server, its events and its counters.
///
/// Interior mutability is the implementer's: `Lua` callbacks are re-entrant, so every method takes `&self`. All methods but
/// [`Host::connect`] have a default for a script that runs no events; most of these do nothing.
pub trait Host {
    /// Opens a connection to the worker's server, or to the one the script names.
    ///
    /// # Errors
    /// A fatal [`SqlError`]: 2002/2003 unreachable, 1045 refused, 2026 TLS, 1049 unknown database.
    fn connect(&self, target: &ConnectTarget) -> Result<Box<dyn Connection>, SqlError>;

    /// Is there a driver of that name, and can it be used? An empty name is the default.
    ///
    /// # Errors
    /// Why not.
    fn driver(&self, name: &str) -> Result<(), String> {
        match name {
            "" | "mysql" => Ok(()),
            other => Err(format!("invalid database driver name: '{other}'")),
        }
    }

    /// How long a lost connection is made again when its error is ignored; at least one attempt.
    fn reconnect_for(&self) -> Duration {
        Duration::from_secs(10)
    }

    /// Tries `connect`, ever more slowly, for [`Host::reconnect_for`] or until the command is given up; true when it has succeeded,
    /// which is counted.
    fn reconnect(&self, connect: &mut dyn FnMut() -> bool) -> bool {
        let until = Instant::now() + self.reconnect_for();
        let mut pause = Duration::from_millis(10);
        while !connect() {
            if Instant::now() + pause > until || self.aborted() {
                return false;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_secs(1));
        }
        self.count(Counter::Reconnect, 1);
        true
    }

    /// May the worker start another event? Blocks while its arm is paused and, in an open loop, until the next intended start.
    fn more_events(&self) -> bool {
        false
    }

    /// An event starts now (closed loop) or started at its intended time (open loop).
    fn event_start(&self) {}

    /// The event ended; its time since [`Host::event_start`] is its latency.
    fn event_stop(&self, _end: EventEnd) {}

    /// The event failed with an ignored error, which has just been counted. True: it runs again, within the same latency.
    /// False: the run is over; the event is given up ([`EventEnd::Stop`] follows) and the thread ends.
    fn event_restart(&self) -> bool {
        true
    }

    /// The reply of every statement that a script runs is reported here, once.
    fn count_reply(&self, _reply: &Reply) {}

    /// An error that the script survived (retried or ignored), by server error number.
    fn count_error(&self, _code: u16) {}

    /// A statement failed, and its error is not ignored; the script may still survive it.
    fn statement_failed(&self, _call: SqlCall, _error: &SqlError, _query: &[u8]) {}

    /// Adds to a counter on the script's behalf (`ffi.C.sb_counter_inc` and friends).
    fn count(&self, _counter: Counter, _amount: u64) {}

    /// A counter's present value for this worker.
    fn counter(&self, _counter: Counter) -> u64 {
        0
    }

    /// Names an operation that the current event turned out to be ("new_order"); its latency is also recorded under that name.
    ///
    /// An event may have several names ("new_order" and "new_order.rollback"): it is recorded under each.
    fn operation(&self, _name: &str) {}

    /// Keying and thinking time: waits between two events, or within one. Part of no event's latency; ends early with the slice.
    fn think(&self, duration_ns: u64) {
        std::thread::sleep(Duration::from_nanos(duration_ns));
    }

    /// Waits until every thread of the running command is here. Returns at once when there is one thread.
    fn barrier(&self) {}

    /// Has another thread of the running command failed? Then [`Host::barrier`] returns at once and the script gives up.
    fn aborted(&self) -> bool {
        false
    }

    /// `done` of `total` units of `label` (rows, indexes) have been finished by this thread since its last call.
    fn progress(&self, _label: &str, _done: u64, _total: u64) {}

    /// One line for the user: `print` of a script reaches standard output through the engine.
    fn log(&self, _level: LogLevel, _message: &str) {}
}

/// Shared by the Lua state and the C symbols.
pub type HostRef = Rc<dyn Host>;

/// The host of a script that is only described: no server, no events.
#[derive(Debug)]
pub struct NullHost;

impl Host for NullHost {
    fn connect(&self, _target: &ConnectTarget) -> Result<Box<dyn Connection>, SqlError> {
        let error = SqlError::client(2002, "the script is only described: there is no server to connect to");
        Err(SqlError { fatal: true, ..error })
    }
}
