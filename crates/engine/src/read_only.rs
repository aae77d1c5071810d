//! Connections whose server refuses what writes: for captures on running servers, beside the look at every statement.

use bakeoff_capture::lexer::{code_tokens, is_word};
use bakeoff_load::connector::Connector;
use bakeoff_load::worker_host::Environment;
use bakeoff_script::host::{ConnectTarget, Connection, LogLevel, Reply, SqlError, StatementId, Value};

use crate::answer::MessageWriter;

const READ_ONLY: &[u8] = b"SET SESSION TRANSACTION READ ONLY";
/// Errors of servers that do not know it, before MySQL 5.6 and `MariaDB` 10.0: syntax, or a variable that is not there.
const NOT_KNOWN: [u16; 2] = [1064, 1193];

/// The environment of workers whose connections are such.
pub(crate) struct ReadOnly(pub(crate) MessageWriter);

impl Environment for ReadOnly {
    fn connect(&self, connector: &Connector, target: &ConnectTarget) -> Result<Box<dyn Connection>, SqlError> {
        let mut connection = connector.connect(target)?;
        refuse_writes(&mut *connection)?;
        Ok(Box::new(Refusing(connection)))
    }

    fn log(&self, level: LogLevel, message: &str) {
        self.0.log(level, message);
    }
}

fn refuse_writes(connection: &mut dyn Connection) -> Result<(), SqlError> {
    match connection.query(READ_ONLY) {
        Err(error) if !NOT_KNOWN.contains(&error.code) => Err(SqlError { fatal: true, ..error }),
        _ => Ok(()),
    }
}

/// What is sent in the place of a statement, so that the session stays as it is.
fn kept(sql: &[u8]) -> &[u8] {
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

struct Refusing(Box<dyn Connection>);

impl Connection for Refusing {
    fn query(&mut self, sql: &[u8]) -> Result<Reply, SqlError> {
        self.0.query(kept(sql))
    }

    fn prepare(&mut self, sql: &[u8]) -> Result<StatementId, SqlError> {
        self.0.prepare(sql)
    }

    fn execute(&mut self, statement: StatementId, values: &[Value<'_>]) -> Result<Reply, SqlError> {
        self.0.execute(statement, values)
    }

    fn close_statement(&mut self, statement: StatementId) {
        self.0.close_statement(statement);
    }

    fn next_result(&mut self) -> Result<Option<Reply>, SqlError> {
        self.0.next_result()
    }

    fn fetch_row(&mut self, row: &mut Vec<Option<Vec<u8>>>) -> Result<bool, SqlError> {
        self.0.fetch_row(row)
    }

    fn column_name(&self, index: u32) -> Option<&str> {
        self.0.column_name(index)
    }

    fn reconnect(&mut self) -> Result<(), SqlError> {
        self.0.reconnect()?;
        refuse_writes(&mut *self.0)
    }

    fn charset(&self) -> (&str, &str) {
        self.0.charset()
    }
}

#[cfg(test)]
#[path = "../tests/unit/read_only.rs"]
mod tests;
