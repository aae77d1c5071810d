//! Reads general query logs, which have every command as it arrives but not its duration. A line with a time (or two
//! tabs), a number and the name of a command begins an event. All other lines continue the statement.

use std::collections::HashMap;

use crate::class::used_schema;
use crate::event::{
    Event, LogCommand, LogReader, Sink, before_file_header, handles_prepared, is_file_header, is_file_header_rest,
    moment, number, without_line_end,
};
use crate::lexer::{Kind, Lexer, Token, ending_texts, is_word};
use crate::session::SessionState;

/// Names of commands. A line with any other name does not begin an event. `Reset connection` is MariaDB's.
#[rustfmt::skip]
const COMMANDS: [&str; 36] = [
    "Sleep", "Quit", "Init DB", "Query", "Field List", "Create DB", "Drop DB", "Refresh", "Shutdown", "Statistics",
    "Processlist", "Connect", "Kill", "Debug", "Ping", "Time", "Delayed insert", "Change user", "Binlog Dump",
    "Binlog Dump GTID", "Table Dump", "Connect Out", "Register Slave", "Register Replica", "Prepare", "Execute",
    "Long Data", "Close stmt", "Reset stmt", "Set option", "Fetch", "Reset Connection", "Reset connection", "Daemon",
    "clone", "Group Replication Data Stream subscription",
];

#[derive(Debug, Default)]
struct Connection {
    schema: Vec<u8>,
    user: Vec<u8>,
    session: SessionState,
}

#[derive(Debug, Default)]
pub struct GeneralLog {
    event: Event,
    in_event: bool,
    time_us: Option<i64>,
    connections: HashMap<u64, Connection>,
}

pub(crate) struct Prefix<'a> {
    time_us: Option<i64>,
    connection: u64,
    command: &'a [u8],
    text: &'a [u8],
}

pub(crate) fn prefix(line: &[u8]) -> Option<Prefix<'_>> {
    let (time_us, rest) = if let Some(rest) = line.strip_prefix(b"\t\t") {
        (None, rest)
    } else {
        let time = moment(line)?;
        (Some(time.us), line.get(time.len..).filter(|rest| matches!(rest.first(), Some(b'\t' | b' ')))?)
    };
    let rest = rest.trim_ascii_start();
    let connection = number(rest)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = rest.get(digits..).filter(|rest| matches!(rest.first(), Some(b'\t' | b' ')))?.trim_ascii_start();
    let ends = |name: &&str| match rest.get(name.len()) {
        None | Some(b'\t' | b'\n' | b'\r') => true,
        Some(b' ') => time_us.is_some() || without_line_end(&rest[name.len()..]).trim_ascii_end().is_empty(),
        Some(_) => false,
    };
    let found = COMMANDS.iter().copied().filter(|name| rest.starts_with(name.as_bytes()) && ends(name));
    let (command, text) = rest.split_at(found.map(str::len).max()?);
    let text =
        text.strip_prefix(b"\t").unwrap_or_else(|| &text[text.iter().take_while(|byte| **byte == b' ').count()..]);
    Some(Prefix { time_us, connection, command, text })
}

impl LogReader for GeneralLog {
    fn line(&mut self, line: &[u8], sink: &mut dyn Sink) {
        if is_file_header(line) {
            let left = before_file_header(line);
            if !left.is_empty() {
                self.line(left, sink);
            }
            self.finish(sink);
        } else if let Some(found) = prefix(line) {
            self.end_event(false, sink);
            self.begin_event(&found);
        } else if self.in_event {
            self.event.add_sql(line);
        } else if !is_file_header_rest(line) {
            sink.skipped(line.len() as u64);
        }
    }

    fn finish(&mut self, sink: &mut dyn Sink) {
        let begin = memchr::memrchr(b'\n', &self.event.sql).map_or(0, |end| end + 1);
        let is_next = begin > 0 && is_begun_prefix(&self.event.sql[begin..]);
        if is_next {
            sink.skipped((self.event.sql.len() - begin) as u64);
            self.event.sql.truncate(begin);
        }
        let complete = self.event.sql.ends_with(b"\n");
        self.end_event(!complete, sink);
    }
}

impl GeneralLog {
    fn begin_event(&mut self, found: &Prefix) {
        self.time_us = found.time_us.or(self.time_us);
        self.event.clear();
        self.event.connection = Some(found.connection);
        self.event.start_us = self.time_us;
        self.event.command = LogCommand::from_name(found.command);
        if self.event.command == LogCommand::Other {
            self.event.add_sql(found.command);
            self.event.add_sql(b" ");
        }
        self.event.add_sql(found.text);
        self.in_event = true;
    }

    fn end_event(&mut self, cut: bool, sink: &mut dyn Sink) {
        if !std::mem::take(&mut self.in_event) {
            return;
        }
        let event = &mut self.event;
        event.cut |= cut && !event.sql.is_empty();
        event.sql.truncate(without_line_end(&event.sql).len());
        // MariaDB, and MySQL with `log_raw`, log all statements that a client sends at once as one event.
        if event.command == LogCommand::Query && !event.cut && memchr::memchr(b';', &event.sql).is_some() {
            let text = std::mem::take(&mut event.sql);
            let connection = event.connection.and_then(|id| self.connections.get(&id));
            let found = statements(&text, connection.map(|known| known.session.clone()).unwrap_or_default());
            let all = if found.len() > 1 { found } else { vec![text.as_slice()] };
            for sql in all {
                self.event.command = LogCommand::Query;
                self.event.sql = sql.to_vec();
                self.give_event(sink);
            }
        } else {
            self.give_event(sink);
        }
    }

    fn give_event(&mut self, sink: &mut dyn Sink) {
        let event = &mut self.event;
        let id = event.connection.unwrap_or(0);
        let connection = self.connections.entry(id).or_default();
        match event.command {
            LogCommand::Connect => {
                let (user, schema) = connect(&event.sql);
                *connection =
                    Connection { user: user.to_vec(), schema: schema.to_vec(), session: SessionState::default() };
            }
            LogCommand::InitDb => connection.schema.clone_from(&event.sql),
            LogCommand::Query => {
                connection.session.set(&event.sql);
                if let Some(name) = used_schema(&event.sql, connection.session.dialect()) {
                    connection.schema = name.into_owned();
                }
                if handles_prepared(&event.sql) {
                    event.command = LogCommand::Prepare;
                }
            }
            LogCommand::Reset => connection.session = SessionState::default(),
            LogCommand::Execute | LogCommand::Prepare | LogCommand::Quit | LogCommand::Other => {}
        }
        event.schema.clone_from(&connection.schema);
        event.user.clone_from(&connection.user);
        if event.command == LogCommand::Quit {
            self.connections.remove(&id);
        }
        sink.event(event);
    }
}

fn is_begun_prefix(line: &[u8]) -> bool {
    let is_of_time = |byte: &u8| byte.is_ascii_digit() || b"T:.Z+- \t".contains(byte);
    line.starts_with(b"\t\t") || moment(line).is_some() || line.iter().all(is_of_time)
}

/// Returns user and schema of `root@localhost on db1 using Socket`, or of a proxy's `u@h as role on db1 using Socket`.
fn connect(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
    let rest = memchr::memmem::find(text, b" on ").map_or(&b""[..], |at| &text[at + 4..]);
    let name_end = memchr::memmem::find(rest, b" using ").unwrap_or(rest.len());
    (&text[..end], &rest[..name_end])
}

const WITH_BODY: [&str; 5] = ["PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "PACKAGE"];
const WITHOUT_BODY: [&str; 6] = ["TABLE", "VIEW", "INDEX", "DATABASE", "SCHEMA", "USER"];
const BEGINNING: usize = 16;

/// Splits a text into statements. `session` is the state before it. One that may contain others extends to the end.
pub(crate) fn statements(sql: &[u8], mut session: SessionState) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let (mut from, mut beginning) = (0, Vec::new());
    let mut lexer = Lexer::in_dialect(sql, ending_texts(sql, session.dialect()));
    while let Some(token) = lexer.next() {
        if &sql[token.start..token.end] != b";" || lexer.is_within_comment() {
            if token.kind != Kind::Comment && beginning.len() < BEGINNING {
                beginning.push(token);
            }
            continue;
        }
        if holds_statements(sql, &beginning) {
            break;
        }
        if let Some(first) = beginning.first() {
            let statement = sql[from..token.start].trim_ascii();
            if is_word(sql, *first, "SET") {
                session.set(statement);
                lexer.dialect = ending_texts(&sql[token.end..], session.dialect());
            }
            found.push(statement);
        }
        from = token.end;
        beginning.clear();
    }
    if !beginning.is_empty() {
        found.push(sql[from..].trim_ascii());
    }
    found
}

fn holds_statements(sql: &[u8], beginning: &[Token]) -> bool {
    let is = |at: usize, words: &[&str]| {
        beginning.get(at).is_some_and(|token| words.iter().any(|word| is_word(sql, *token, word)))
    };
    if is(0, &["CREATE", "ALTER"]) {
        let object = (1..beginning.len()).find(|at| is(*at, &WITH_BODY) || is(*at, &WITHOUT_BODY));
        return object.is_some_and(|at| is(at, &WITH_BODY));
    }
    let is_transaction = beginning.len() == 1 || is(1, &["WORK"]);
    is(0, &["BEGIN"]) && !is_transaction
        || is(0, &["DECLARE", "IF", "CASE", "LOOP", "REPEAT", "WHILE", "FOR"])
        || is(1, &[":"])
}
