//! A capture as the workload of an arm: each worker is a session and runs its part of the chunk. Failed statements are
//! counted and do not end a slice. If the server stays away, the request fails.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use bakeoff_capture::lexer::{code_tokens, is_word};
use bakeoff_capture::session::SessionState;
use bakeoff_capture::{Dialect, Effect, effect, used_schema};
use bakeoff_script::host::{ConnectTarget, Connection, EventEnd, Events as _, Host as _, SqlError, reconnect};
use serde::Serialize;

use crate::arm_workers::Workload;
use crate::failure::Failure;
use crate::host::SliceHost;
use crate::lock;
use crate::replay::stream::{Block, State, Statement, Transaction};

const DEADLOCK: u16 = 1213;
const READ_ONLY: &[u8] = b"SET SESSION TRANSACTION READ ONLY";
/// Errors of servers before MySQL 5.6 and MariaDB 10.0, which do not know `READ_ONLY`: syntax, unknown variable.
const NO_READ_ONLY: [u16; 2] = [1064, 1193];
const WAIT_MAX_NS: u64 = 300_000_000_000;
/// Waits for table locks end after 50 s, the default for row locks, not a year: a later chunk may have the unlock.
const LOCK_WAIT: &[u8] = b"SET SESSION lock_wait_timeout = 50";
const CHARSET: [&str; 6] = [
    "character_set",
    "character_set_client",
    "character_set_connection",
    "character_set_results",
    "collation_connection",
    "names",
];

const AROUND_LITERALS: [(&str, &str); 4] = [
    ("near '", "' at line"),
    ("Duplicate entry '", "' for key"),
    (" value: '", "' for column"),
    ("partition for value ", ""),
];

#[derive(Debug)]
pub struct ReplayWorkload {
    pub block: Arc<Block>,
    pub operations: Arc<Vec<String>>,
    /// Replay speed relative to the captured timing (1 = real time). None for as fast as possible.
    pub speed: Option<f64>,
    pub read_only: bool,
    pub home_schema: String,
    /// What `SET NAMES` takes for the character set of the arm.
    pub home_names: String,
    pub failures: Failures,
}

impl Workload for ReplayWorkload {
    fn work(&self, host: Rc<SliceHost>) -> Result<(), Failure> {
        let failed = |error: SqlError| Failure::connecting(&error);
        let mut connection = host.thread_host.connect(&ConnectTarget::default()).map_err(failed)?;
        self.begin(&mut *connection).map_err(failed)?;
        let mut session = ReplaySession {
            plan: self,
            host: &host,
            connection,
            numbers: vec![None; self.operations.len()],
            schema: self.home_schema.clone(),
            set: SessionState::default(),
            state: Arc::default(),
            second: 0,
        };
        session.quietly(LOCK_WAIT)?;
        while host.rest() {
            let (turn, start_ns) = host.place();
            let chunk = self.block.chunk(turn);
            for transaction in &chunk.sessions[host.thread as usize] {
                if !session.run(transaction, start_ns, chunk.clock_us)? {
                    break;
                }
            }
        }
        Ok(())
    }
}

impl ReplayWorkload {
    fn begin(&self, connection: &mut dyn Connection) -> Result<(), SqlError> {
        if !self.read_only {
            return Ok(());
        }
        match connection.query(READ_ONLY) {
            Err(error) if !NO_READ_ONLY.contains(&error.code) => Err(SqlError { fatal: true, ..error }),
            _ => Ok(()),
        }
    }
}

/// Returns the statement, or what a read-only session runs in place of one that would let it write.
fn still_read_only(sql: &[u8]) -> &[u8] {
    let first = code_tokens(sql).next();
    let begins = |word: &str| first.is_some_and(|token| is_word(sql, token, word));
    let has = |name: &[u8]| sql.windows(name.len()).any(|part| part.eq_ignore_ascii_case(name));
    let read_write = || has(b"TRANSACTION") && has(b"WRITE");
    if begins("SET") && (read_write() || has(b"_READ_ONLY")) {
        READ_ONLY
    } else if begins("START") && read_write() {
        b"START TRANSACTION"
    } else {
        sql
    }
}

struct ReplaySession<'a> {
    plan: &'a ReplayWorkload,
    host: &'a SliceHost,
    connection: Box<dyn Connection>,
    numbers: Vec<Option<usize>>,
    schema: String,
    set: SessionState,
    state: Arc<State>,
    /// Seconds since 1970 that `NOW()` returns. 0 for the server's clock.
    second: u64,
}

impl ReplaySession<'_> {
    fn run(&mut self, transaction: &Transaction, start_ns: u64, clock_us: u64) -> Result<bool, Failure> {
        let mut repeated: Option<&Statement> = None;
        for (index, statement) in transaction.statements.iter().enumerate() {
            let mut lost = self.prepare(statement)?;
            if lost.as_ref().is_some_and(|error| error.fatal) && index == 0 {
                lost = self.prepare(statement)?; // on the new connection
            }
            if let Some(error) = lost {
                if !error.fatal {
                    self.skip(&transaction.statements[index..=index], &error);
                    continue;
                }
                self.skip(&transaction.statements[index..], &error);
                return Ok(true);
            }
            let intended_ns = self
                .plan
                .speed
                .and_then(|speed| wait_ns(statement.offset_us, clock_us, speed))
                .map(|wait_ns| start_ns + wait_ns);
            loop {
                if !self.host.next_statement(intended_ns) {
                    return Ok(false);
                }
                if !self.host.is_injected() {
                    break;
                }
                self.host.event_start();
                if let Some(read) = Some(statement).filter(|each| each.reads).or(repeated) {
                    let _ = self.query(&read.sql, false);
                }
                self.host.event_stop(EventEnd::Done);
            }
            repeated = Some(statement).filter(|each| each.reads).or(repeated);
            if let Err(error) = self.event(transaction, index)? {
                self.skip(&transaction.statements[index + 1..], &error);
                return Ok(true);
            }
        }
        if transaction.abandoned {
            self.quietly(b"ROLLBACK")?;
            self.quietly(b"UNLOCK TABLES")?;
        }
        Ok(true)
    }

    /// Restores the session state in which the statement began in the log. Returns the error that lost the connection
    /// meanwhile, or that refused the statement's schema (not fatal).
    fn prepare(&mut self, statement: &Statement) -> Result<Option<SqlError>, Failure> {
        match self.switch(&statement.state)? {
            Some(error) if error.fatal || needs_schema(&statement.sql) => Ok(Some(error)),
            _ => self.set_time(statement.second),
        }
    }

    fn skip(&self, statements: &[Statement], error: &SqlError) {
        for skipped in statements {
            self.host.count_unsent(error.code);
            self.plan.failures.add(skipped.operation, error.code, &error.message);
        }
    }

    /// Runs one counted statement. The inner error means that the connection was lost and has been replaced.
    fn event(&mut self, transaction: &Transaction, index: usize) -> Result<Result<(), SqlError>, Failure> {
        let statement = &transaction.statements[index];
        self.host.event_start();
        let mut outcome = self.query(&statement.sql, true);
        let mut renewed = false;
        while let Err(error) = &outcome
            && error.code == DEADLOCK
            && self.host.event_restart()
        {
            self.count(statement, error);
            (outcome, renewed) = self.repeat(&transaction.statements[..=index])?;
        }
        match &outcome {
            Ok(()) => self.follow(&statement.sql),
            Err(error) => {
                self.count(statement, error);
                if error.fatal && !renewed {
                    self.reconnect(error)?;
                }
            }
        }
        // Last, since a restart forgets the operation.
        self.host.operation_is(self.number(statement.operation));
        self.host.event_stop(EventEnd::Done);
        Ok(outcome.or_else(|error| if error.fatal { Err(error) } else { Ok(()) }))
    }

    /// Runs the statements of a transaction again. Returns the outcome of the last, the only one that counts, and
    /// whether its error lost the connection, which has been replaced.
    fn repeat(&mut self, statements: &[Statement]) -> Result<(Result<(), SqlError>, bool), Failure> {
        // COMMIT AND CHAIN ended what came before it, unless it is what failed.
        let before = &statements[..statements.len() - 1];
        let ended = before.iter().rposition(|statement| effect(&statement.sql) == Effect::Chain);
        if ended.is_some()
            && let Err(error) = self.query(b"START TRANSACTION", false)
        {
            return Ok((Err(error), false));
        }
        let (mut outcome, mut renewed) = (Ok(()), false);
        for (index, statement) in statements.iter().enumerate().skip(ended.map_or(0, |at| at + 1)) {
            outcome = match self.prepare(statement)? {
                Some(error) => {
                    renewed = error.fatal;
                    Err(error)
                }
                None => self.query(&statement.sql, index == before.len()),
            };
            if outcome.as_ref().is_err_and(|error| error.fatal || error.code == DEADLOCK) {
                break;
            }
        }
        Ok((outcome, renewed))
    }

    fn query(&mut self, sql: &[u8], counted: bool) -> Result<(), SqlError> {
        let mut reply = self.connection.query(if self.plan.read_only { still_read_only(sql) } else { sql })?;
        loop {
            if counted {
                self.host.count_reply(&reply);
            }
            if !reply.more_results {
                return Ok(());
            }
            match self.connection.next_result()? {
                Some(next) => reply = next,
                None => return Ok(()),
            }
        }
    }

    /// Runs a statement of our own, which may fail. Returns the error if it lost the connection, which was replaced.
    fn quietly(&mut self, sql: &[u8]) -> Result<Option<SqlError>, Failure> {
        match self.query(sql, false) {
            Err(error) if error.fatal => self.reconnect(&error).map(|()| Some(error)),
            _ => Ok(None),
        }
    }

    fn count(&self, statement: &Statement, error: &SqlError) {
        // A connection cut at the end of the request is not a failed statement.
        if !self.host.thread_host.aborted() {
            self.host.count_error(error.code);
            self.plan.failures.add(statement.operation, error.code, &error.message);
        }
    }

    fn number(&mut self, operation: usize) -> usize {
        let name = &self.plan.operations[operation];
        *self.numbers[operation].get_or_insert_with(|| self.host.latencies.operation(name))
    }

    fn reconnect(&mut self, lost: &SqlError) -> Result<(), Failure> {
        let connection = &mut *self.connection;
        let mut connect = || connection.reconnect().and_then(|()| self.plan.begin(connection)).is_ok();
        if !reconnect(&*self.host.thread_host, self.host, &mut connect) {
            return Err(Failure::running(lost));
        }
        let _ = self.query(LOCK_WAIT, false); // if it fails, so does the next statement
        self.schema.clone_from(&self.plan.home_schema);
        self.set = SessionState::default();
        self.state = Arc::default();
        self.second = 0;
        Ok(())
    }

    fn follow(&mut self, sql: &[u8]) {
        if code_tokens(sql).next().is_some_and(|first| is_word(sql, first, "SET")) {
            self.set.set(sql);
        } else if let Some(schema) = used_schema(sql, Dialect::default()) {
            self.schema = String::from_utf8_lossy(&schema).into_owned();
        } else {
            return;
        }
        self.state = Arc::default();
    }

    /// Sets `NOW()` to the second in which a statement began in the log, so that it finds the same rows.
    fn set_time(&mut self, second: Option<u64>) -> Result<Option<SqlError>, Failure> {
        let Some(second) = second.filter(|second| *second != self.second) else {
            return Ok(None);
        };
        let lost = self.quietly(format!("SET timestamp = {second}").as_bytes())?;
        self.host.look_at_clock();
        if lost.is_none() {
            self.second = second;
        }
        Ok(lost)
    }

    fn switch(&mut self, wanted: &Arc<State>) -> Result<Option<SqlError>, Failure> {
        if Arc::ptr_eq(&self.state, wanted) {
            return Ok(None);
        }
        let schema = if wanted.schema.is_empty() { &self.plan.home_schema } else { &wanted.schema };
        if self.schema != *schema && !schema.is_empty() {
            if let Err(error) = self.query(format!("USE `{}`", schema.replace('`', "``")).as_bytes(), false) {
                if error.fatal {
                    self.plan.failures.add(self.plan.operations.len() - 1, error.code, &error.message);
                    self.reconnect(&error)?;
                }
                self.host.look_at_clock();
                return Ok(Some(error));
            }
            self.schema.clone_from(schema);
        }
        let needed = settings(&self.set, &wanted.session, &self.plan.home_names);
        self.set = wanted.session.clone();
        self.state = Arc::clone(wanted);
        for sql in needed {
            if let Err(error) = self.query(sql.as_bytes(), false) {
                self.plan.failures.add(self.plan.operations.len() - 1, error.code, &error.message);
                if error.fatal {
                    self.reconnect(&error)?;
                    return Ok(Some(error));
                }
            }
        }
        self.host.look_at_clock();
        Ok(None)
    }
}

/// Whether a statement needs the default schema: not if it sets it, controls a transaction or is about a schema.
fn needs_schema(sql: &[u8]) -> bool {
    let mut tokens = code_tokens(sql);
    let mut next_is =
        |any: [&str; 2]| tokens.next().is_some_and(|token| any.iter().any(|word| is_word(sql, token, word)));
    let is_about_schema = next_is(["CREATE", "DROP"]) && next_is(["DATABASE", "SCHEMA"]);
    let is_of_transaction = matches!(effect(sql), Effect::Begin | Effect::Unlock | Effect::End | Effect::Chain);
    !is_about_schema && !is_of_transaction && used_schema(sql, Dialect::default()).is_none()
}

fn settings(from: &SessionState, to: &SessionState, home_names: &str) -> Vec<String> {
    let (from, to) = (from.values(), to.values());
    let names: BTreeSet<&str> = from.keys().chain(to.keys()).copied().collect();
    let differs = |name: &&str| from.get(*name) != to.get(*name);
    let mut all = Vec::new();
    if names.iter().filter(|name| CHARSET.contains(name)).any(differs) {
        let wanted = to.get("names").filter(|names| names.bytes().all(is_plain));
        all.push(format!("SET NAMES {}", wanted.map_or(home_names, String::as_str)));
        all.extend(to.get("character_set").map(|value| format!("SET CHARACTER SET {}", literal(value))));
        let others = CHARSET.iter().filter(|name| !matches!(**name, "names" | "character_set"));
        all.extend(others.filter_map(|name| Some(format!("SET {name} = {}", literal(to.get(name)?)))));
    }
    let others = names.iter().filter(|name| !CHARSET.contains(name) && differs(name));
    all.extend(
        others
            .map(|name| format!("SET {name} = {}", to.get(name).map_or("DEFAULT".to_owned(), |value| literal(value)))),
    );
    all
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b' ')
}

fn literal(value: &str) -> String {
    let bare = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    if bare || ["default", "null", "true", "false", "on", "off"].iter().any(|word| value.eq_ignore_ascii_case(word)) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "''"))
}

/// How long after its chunk's start a statement begins. None if it follows the one before.
fn wait_ns(offset_us: u64, clock_us: u64, speed: f64) -> Option<u64> {
    let wait_ns = (offset_us as f64 * 1_000.0 / speed) as u64;
    (offset_us <= clock_us && wait_ns < WAIT_MAX_NS).then_some(wait_ns)
}

#[derive(Debug, Clone, Serialize)]
pub struct FailureCount {
    pub operation: String,
    pub sql_errno: u16,
    pub count: u64,
    pub message: String,
}

/// Failed statements by operation and error number, with the server's first message without literals.
#[derive(Debug, Default)]
pub struct Failures(Mutex<BTreeMap<(usize, u16), (u64, String)>>);

impl Failures {
    pub fn add(&self, operation: usize, errno: u16, message: &str) {
        let mut all = lock(&self.0);
        all.entry((operation, errno)).or_insert_with(|| (0, without_literals(message))).0 += 1;
    }

    pub fn list(&self, operations: &[String]) -> Vec<FailureCount> {
        let all = lock(&self.0);
        let each = all.iter().map(|(&(operation, sql_errno), (count, message))| FailureCount {
            operation: operations[operation].clone(),
            sql_errno,
            count: *count,
            message: message.clone(),
        });
        each.collect()
    }
}

/// Replaces literals and quoted parts of a message by `?`. A literal extends to the last place where it can end.
pub fn without_literals(message: &str) -> String {
    let places = AROUND_LITERALS.iter();
    let found = places.filter_map(|&(before, after)| Some((message.find(before)? + before.len(), after)));
    let Some((from, after)) = found.min() else {
        return without_quoted(message);
    };
    let literal = &message[from..];
    let end = literal.rfind(after).map(|at| &literal[at..]);
    // `Truncated incorrect DOUBLE value: 'x'` ends there.
    let rest = end.map_or("", |end| end.strip_prefix('\'').unwrap_or(end));
    let head = &message[..from];
    without_quoted(head.strip_suffix('\'').unwrap_or(head)) + "?" + &without_quoted(rest)
}

fn without_quoted(text: &str) -> String {
    let is_word = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let mut kept = String::new();
    let mut begin = Some(0); // of what is kept; None: within quotes
    for (at, _) in text.match_indices('\'') {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        let after = bytes.get(at + 1);
        match begin {
            Some(from) if !is_word(before) => {
                kept.push_str(&text[from..at]);
                kept.push('?');
                begin = None;
            }
            None if !is_word(after) => begin = Some(at + 1),
            _ => {}
        }
    }
    kept.push_str(begin.map_or("", |from| &text[from..]));
    kept
}

#[cfg(test)]
#[path = "../../tests/unit/replay_workload.rs"]
mod tests;
