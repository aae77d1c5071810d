//! A world in memory: a host that allows so many events, and connections that write down what they are asked.

#![allow(dead_code, unreachable_pub, reason = "each test program uses its part")]

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use bakeoff_script::host::{
    ConnectTarget, Connection, Counter, EventEnd, Events, Host, HostRef, LogLevel, QueryClass, Reply, SqlError,
    StatementId, Value, known_driver,
};
use bakeoff_script::{OptionValue, Script, ScriptError, ScriptSource, Settings, SqlCall};

/// Rows of one result: NULL is `None`.
pub type Rows = Vec<Vec<Option<String>>>;

/// An answer prepared by a test.
#[derive(Clone)]
pub enum Answer {
    Fails(u16, bool),
    Rows(Rows),
    /// Several results of one command.
    Many(Vec<Rows>),
    /// No row, and then an error of another statement of the same command.
    FailsLater(u16),
    Changes(u64),
}

/// Is given the number of events left.
pub type OnMoreEvents = Box<dyn Fn(u64)>;

/// What the connections of a world share.
#[derive(Default)]
pub struct Journal {
    /// Statements in order, parameters put into the text.
    pub statements: RefCell<Vec<String>>,
    /// Answers to be given once, by beginning of the statement.
    pub answers: RefCell<Vec<(String, VecDeque<Answer>)>>,
    pub open_connections: Cell<i32>,
    pub open_statements: Cell<i32>,
    pub reconnects: Cell<u32>,
    pub targets: RefCell<Vec<ConnectTarget>>,
}

/// The world of one thread.
pub struct World {
    pub journal: Rc<Journal>,
    pub events_left: Cell<u64>,
    pub calls: RefCell<Vec<String>>,
    pub lines: RefCell<Vec<String>>,
    pub replies: RefCell<BTreeMap<&'static str, u64>>,
    pub errors: RefCell<Vec<u16>>,
    pub counters: RefCell<BTreeMap<i32, u64>>,
    pub restarts: Cell<u32>,
    pub restarts_allowed: Cell<u32>,
    pub progress: RefCell<BTreeMap<String, (u64, u64)>>,
    pub refuse_connections: Cell<Option<u16>>,
    pub aborted: Cell<bool>,
    /// Called at each `more_events`.
    pub on_more_events: RefCell<Option<OnMoreEvents>>,
}

impl World {
    pub fn host(self: &Rc<Self>) -> HostRef {
        HostRef::new(Rc::clone(self), Rc::clone(self))
    }

    pub fn new(events: u64) -> Rc<Self> {
        Rc::new(Self {
            journal: Rc::default(),
            events_left: Cell::new(events),
            calls: RefCell::default(),
            lines: RefCell::default(),
            replies: RefCell::default(),
            errors: RefCell::default(),
            counters: RefCell::default(),
            restarts: Cell::new(0),
            restarts_allowed: Cell::new(u32::MAX),
            progress: RefCell::default(),
            refuse_connections: Cell::new(None),
            aborted: Cell::new(false),
            on_more_events: RefCell::default(),
        })
    }

    /// The next statement that begins so gets this answer; several are given in turn.
    pub fn answer(&self, beginning: &str, answer: Answer) {
        let mut answers = self.journal.answers.borrow_mut();
        match answers.iter_mut().find(|(known, _)| known == beginning) {
            Some((_, queue)) => queue.push_back(answer),
            None => answers.push((beginning.to_owned(), VecDeque::from([answer]))),
        }
    }

    pub fn statements(&self) -> Vec<String> {
        self.journal.statements.borrow().clone()
    }

    pub fn take_statements(&self) -> Vec<String> {
        self.journal.statements.take()
    }

    pub fn lines(&self) -> Vec<String> {
        self.lines.borrow().clone()
    }

    pub fn replies(&self, class: &str) -> u64 {
        self.replies.borrow().get(class).copied().unwrap_or(0)
    }
}

impl Host for World {
    fn connect(&self, target: &ConnectTarget) -> Result<Box<dyn Connection>, SqlError> {
        self.journal.targets.borrow_mut().push(target.clone());
        if let Some(code) = self.refuse_connections.get() {
            return Err(error(code, true));
        }
        self.journal.open_connections.set(self.journal.open_connections.get() + 1);
        Ok(Box::new(Line {
            journal: Rc::clone(&self.journal),
            prepared: Vec::new(),
            rows: VecDeque::new(),
            results: VecDeque::new(),
            failure: None,
        }))
    }

    fn driver(&self, name: &str) -> Result<(), String> {
        known_driver(name)
    }

    fn reconnect_for(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn statement_failed(&self, _call: SqlCall, _error: &SqlError, _query: &[u8]) {}

    fn barrier(&self) {
        self.calls.borrow_mut().push("barrier".to_owned());
    }

    fn aborted(&self) -> bool {
        self.aborted.get()
    }

    fn progress(&self, label: &str, done: u64, total: u64) {
        let mut progress = self.progress.borrow_mut();
        let entry = progress.entry(label.to_owned()).or_default();
        *entry = (entry.0 + done, total);
    }

    fn log(&self, level: LogLevel, message: &str) {
        assert!(matches!(level, LogLevel::Notice | LogLevel::Fatal));
        self.lines.borrow_mut().push(message.to_owned());
    }
}

impl Events for World {
    fn more_events(&self) -> bool {
        let left = self.events_left.get();
        if let Some(call) = self.on_more_events.borrow().as_ref() {
            call(left);
        }
        self.events_left.set(left.saturating_sub(1));
        left > 0
    }

    fn event_start(&self) {
        self.calls.borrow_mut().push("start".to_owned());
    }

    fn event_stop(&self, end: EventEnd) {
        self.calls.borrow_mut().push(format!("{end:?}"));
    }

    fn event_restart(&self) -> bool {
        self.restarts.set(self.restarts.get() + 1);
        self.restarts.get() <= self.restarts_allowed.get()
    }

    fn count_reply(&self, reply: &Reply) {
        let class = match reply.class {
            QueryClass::Read => "read",
            QueryClass::Write => "write",
            QueryClass::Other => "other",
        };
        *self.replies.borrow_mut().entry(class).or_default() += 1;
    }

    fn count_error(&self, code: u16) {
        self.errors.borrow_mut().push(code);
    }

    fn count(&self, counter: Counter, amount: u64) {
        *self.counters.borrow_mut().entry(counter as i32).or_default() += amount;
    }

    fn counter(&self, counter: Counter) -> u64 {
        self.counters.borrow().get(&(counter as i32)).copied().unwrap_or(0)
    }

    fn operation(&self, name: &str) {
        self.calls.borrow_mut().push(format!("operation {name}"));
    }

    fn think(&self, duration_ns: u64) {
        self.calls.borrow_mut().push(format!("think {duration_ns}"));
    }
}

struct Line {
    journal: Rc<Journal>,
    prepared: Vec<String>,
    rows: VecDeque<Vec<Option<String>>>,
    results: VecDeque<Rows>,
    /// What comes after the results.
    failure: Option<SqlError>,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.journal.open_connections.set(self.journal.open_connections.get() - 1);
    }
}

fn error(code: u16, fatal: bool) -> SqlError {
    SqlError { sqlstate: "42000".to_owned(), fatal, ..SqlError::client(code, format!("error {code} of the fake")) }
}

impl Line {
    fn run(&mut self, sql: String) -> Result<Reply, SqlError> {
        let answer = {
            let mut answers = self.journal.answers.borrow_mut();
            answers.iter_mut().find(|(start, _)| sql.starts_with(start)).and_then(|(_, queue)| queue.pop_front())
        };
        let read = sql.starts_with("SELECT") || sql.starts_with("ANALYZE");
        let write = ["INSERT", "UPDATE", "DELETE"].iter().any(|word| sql.starts_with(word));
        self.journal.statements.borrow_mut().push(sql);
        let mut results = match answer {
            Some(Answer::Fails(code, fatal)) => return Err(error(code, fatal)),
            Some(Answer::Changes(rows)) => return Ok(reply(QueryClass::Write, 0, 0, rows)),
            Some(Answer::Rows(rows)) => VecDeque::from([rows]),
            Some(Answer::Many(results)) => VecDeque::from(results),
            Some(Answer::FailsLater(code)) => {
                self.failure = Some(error(code, false));
                VecDeque::new()
            }
            None if read => VecDeque::from([vec![vec![Some("1".to_owned())]]]),
            None if write => return Ok(reply(QueryClass::Write, 0, 0, 1)),
            None => return Ok(reply(QueryClass::Other, 0, 0, 0)),
        };
        let first = results.pop_front().unwrap_or_default();
        self.results = results;
        Ok(self.result(first))
    }

    fn result(&mut self, rows: Rows) -> Reply {
        let columns = rows.first().map_or(1, Vec::len) as u32;
        let count = rows.len() as u64;
        self.rows = rows.into();
        Reply {
            more_results: !self.results.is_empty() || self.failure.is_some(),
            ..reply(QueryClass::Read, columns, count, 0)
        }
    }
}

fn reply(class: QueryClass, columns: u32, rows: u64, affected_rows: u64) -> Reply {
    Reply { class, columns, rows, affected_rows, last_insert_id: 0, more_results: false }
}

impl Connection for Line {
    fn query(&mut self, sql: &[u8]) -> Result<Reply, SqlError> {
        assert!(self.results.is_empty() && self.failure.is_none(), "results were left lying");
        self.run(String::from_utf8_lossy(sql).into_owned())
    }

    fn prepare(&mut self, sql: &[u8]) -> Result<StatementId, SqlError> {
        self.journal.open_statements.set(self.journal.open_statements.get() + 1);
        self.prepared.push(String::from_utf8_lossy(sql).into_owned());
        Ok(StatementId(self.prepared.len() as u32 - 1))
    }

    fn execute(&mut self, statement: StatementId, values: &[Value<'_>]) -> Result<Reply, SqlError> {
        let mut parts =
            self.prepared[statement.0 as usize].split('?').map(str::to_owned).collect::<Vec<_>>().into_iter();
        let mut sql = parts.next().unwrap_or_default();
        assert_eq!(parts.len(), values.len(), "parameters of {sql}");
        for (value, rest) in values.iter().zip(parts) {
            sql += &match value {
                Value::Null => "NULL".to_owned(),
                Value::Int(number) => number.to_string(),
                Value::Double(number) => format!("{number:?}"),
                Value::Bytes(bytes) => format!("'{}'", String::from_utf8_lossy(bytes)),
            };
            sql += &rest;
        }
        self.run(sql)
    }

    fn close_statement(&mut self, _statement: StatementId) {
        self.journal.open_statements.set(self.journal.open_statements.get() - 1);
    }

    fn next_result(&mut self) -> Result<Option<Reply>, SqlError> {
        match self.results.pop_front() {
            Some(rows) => Ok(Some(self.result(rows))),
            None => self.failure.take().map_or(Ok(None), Err),
        }
    }

    fn fetch_row(&mut self, row: &mut Vec<Option<Vec<u8>>>) -> Result<bool, SqlError> {
        let Some(next) = self.rows.pop_front() else {
            return Ok(false);
        };
        row.clear();
        row.extend(next.into_iter().map(|field| field.map(String::into_bytes)));
        Ok(true)
    }

    fn column_name(&self, index: u32) -> Option<&str> {
        (index == 0).then_some("first")
    }

    fn reconnect(&mut self) -> Result<(), SqlError> {
        self.journal.reconnects.set(self.journal.reconnects.get() + 1);
        Ok(())
    }

    fn charset(&self) -> (&str, &str) {
        ("utf8mb4", "utf8mb4_general_ci")
    }
}

pub fn settings(options: &[(&str, &str)]) -> Settings {
    let mut settings = Settings { seed: 7, ..Settings::default() };
    for (name, value) in options {
        settings.options.insert((*name).to_owned(), OptionValue::Text((*value).to_owned()));
    }
    settings
}

pub fn load(text: &str, settings: &Settings, world: &Rc<World>) -> Result<Script, ScriptError> {
    Script::load(&ScriptSource::inline("test.lua", text), settings, 0, world.host())
}

pub fn load_bundled(name: &str, settings: &Settings, thread: u32, world: &Rc<World>) -> Script {
    let source = bakeoff_script::find(name).expect("a bundled script");
    Script::load(&source, settings, thread, world.host()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Runs a text in a worker's state with one event, from its `thread_init` to its `thread_done`.
pub fn run(text: &str, world: &Rc<World>) -> Result<(), ScriptError> {
    let script = load(text, &settings(&[]), world)?;
    script.thread_init()?;
    script.run()?;
    script.thread_done()
}

/// What report hooks get: so much in two seconds.
pub const REPORTED: [(&str, f64); 11] = [
    ("threads_running", 4.0),
    ("time_interval", 2.0),
    ("time_total", 10.0),
    ("latency_pct", 0.0125),
    ("events", 100.0),
    ("reads", 1400.0),
    ("writes", 400.0),
    ("other", 200.0),
    ("errors", 2.0),
    ("reconnects", 0.0),
    ("latency_max", 0.5),
];

/// The workloads that work on `sbtest` tables.
pub const OLTP: &[&str] = &[
    "oltp_delete",
    "oltp_insert",
    "oltp_point_select",
    "oltp_read_only",
    "oltp_read_write",
    "oltp_update_index",
    "oltp_update_non_index",
    "oltp_write_only",
    "select_random_points",
    "select_random_ranges",
    "bulk_insert",
];
