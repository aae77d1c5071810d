//! Sessions whose server refuses what writes: for captures on running servers, beside the look at every statement.

use bakeoff_capture::lexer::{code_tokens, is_word};
use bakeoff_script::host::{Connection, SqlError};

const READ_ONLY: &[u8] = b"SET SESSION TRANSACTION READ ONLY";
/// Errors of servers before MySQL 5.6 and `MariaDB` 10.0, which do not know it: syntax, unknown variable.
const NOT_KNOWN: [u16; 2] = [1064, 1193];

pub(crate) fn refuse_writes(connection: &mut dyn Connection) -> Result<(), SqlError> {
    match connection.query(READ_ONLY) {
        Err(error) if !NOT_KNOWN.contains(&error.code) => Err(SqlError { fatal: true, ..error }),
        _ => Ok(()),
    }
}

pub(crate) fn kept(sql: &[u8]) -> &[u8] {
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

#[cfg(test)]
#[path = "../../tests/unit/read_only.rs"]
mod tests;
