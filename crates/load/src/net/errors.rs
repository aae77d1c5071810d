use std::io;

use bakeoff_script::host::SqlError;
use bakeoff_wire::{LoginError, Malformed, ServerError};

use super::Endpoint;

pub(super) const CANNOT_CONNECT_UNIX: u16 = 2002;
pub(super) const CANNOT_CONNECT_TCP: u16 = 2003;
pub(super) const SERVER_GONE: u16 = 2006;
pub(super) const SERVER_LOST: u16 = 2013;
pub(super) const TLS: u16 = 2026;
const PARAMETERS: u16 = 2031;

/// Server errors after which the server closes the connection: shutdown, net errors, aborted, killed, idle too long.
const SERVER_CLOSES: [u16; 15] =
    [1053, 1152, 1153, 1154, 1155, 1156, 1157, 1158, 1159, 1160, 1161, 1184, 1927, 3169, 4031];

pub(super) fn fatal(code: u16, message: impl Into<String>) -> SqlError {
    let mut error = SqlError { fatal: true, ..SqlError::client(code, message) };
    if matches!(code, SERVER_GONE | SERVER_LOST | CANNOT_CONNECT_TCP) {
        error.sqlstate = "08S01".into();
    }
    error
}

pub(super) fn cannot_connect(endpoint: &Endpoint, error: &io::Error) -> SqlError {
    let code = match endpoint {
        Endpoint::Unix(_) => CANNOT_CONNECT_UNIX,
        Endpoint::Tcp { .. } => CANNOT_CONNECT_TCP,
    };
    connecting(code, endpoint, error)
}

pub(super) fn unknown_host(endpoint: &Endpoint, error: &io::Error) -> SqlError {
    connecting(2005, endpoint, error)
}

fn connecting(code: u16, endpoint: &Endpoint, error: &io::Error) -> SqlError {
    let message = format!("cannot connect to the server at {endpoint}: {error}");
    SqlError { io_errno: error.raw_os_error(), ..fatal(code, message) }
}

pub(super) fn lost(why: impl std::fmt::Display) -> SqlError {
    fatal(SERVER_LOST, format!("lost connection to the server during query: {why}"))
}

pub(super) fn gone(why: impl std::fmt::Display) -> SqlError {
    fatal(SERVER_GONE, format!("the server has gone away: {why}"))
}

pub(super) fn tls(why: impl std::fmt::Display) -> SqlError {
    fatal(TLS, format!("TLS connection error: {why}"))
}

pub(super) fn malformed(malformed: Malformed) -> SqlError {
    fatal(2027, malformed.to_string())
}

pub(super) fn bad_row(error: Malformed, kept: bool) -> SqlError {
    SqlError { fatal: kept, ..malformed(error) }
}

pub(super) fn out_of_sync() -> SqlError {
    SqlError::client(
        2014,
        "commands out of sync: more results of the last statement wait; fetch them with next_result first",
    )
}

pub(super) fn parameters(given: usize, expected: usize) -> SqlError {
    SqlError::client(PARAMETERS, format!("the statement has {expected} parameters and was given {given} values"))
}

pub(super) fn no_such_statement() -> SqlError {
    SqlError::client(PARAMETERS, "the statement was closed, or belongs to another connection")
}

pub(super) fn unsupported_value() -> SqlError {
    SqlError::client(2036, "a DOUBLE parameter is infinite or not a number, which SQL cannot hold")
}

pub(super) fn server(error: ServerError) -> SqlError {
    let fatal = SERVER_CLOSES.contains(&error.code);
    SqlError { code: error.code, sqlstate: error.sqlstate, message: error.message, fatal, io_errno: None }
}

pub(super) fn login(error: LoginError) -> SqlError {
    match error {
        LoginError::Server(error) => SqlError { fatal: true, ..server(error) },
        LoginError::TlsNotOffered { .. } => tls(error),
        LoginError::UnknownPlugin(_) | LoginError::ClearTextRefused => fatal(2059, error.to_string()),
        LoginError::Malformed(error) => malformed(error),
    }
}
