//! What the user sees: log lines by verbosity and the script's own lines. As in sysbench everything except mistakes on
//! the command line goes to standard output, and a repeated message is shown once, with a count.

use std::io::{Write, stderr, stdout};
use std::sync::Mutex;

use bakeoff_load::lock;
use bakeoff_script::host::{LogLevel, SqlError};
use bakeoff_script::{ScriptError, SqlCall};

#[derive(Debug)]
pub(crate) struct Console {
    verbosity: i64,
    aside: bool,
    text_statements: bool,
    last: Mutex<Last>,
}

#[derive(Debug, Default)]
struct Last {
    text: String,
    again: u32,
}

impl Console {
    pub(crate) fn new(verbosity: i64, aside: bool, text_statements: bool) -> Self {
        Self { verbosity, aside, text_statements, last: Mutex::default() }
    }

    pub(crate) fn shows(&self, level: LogLevel) -> bool {
        level as i64 <= self.verbosity
    }

    pub(crate) fn log(&self, level: LogLevel, message: &str) {
        if !self.shows(level) {
            return;
        }
        let prefix = match level {
            LogLevel::Fatal => "FATAL: ",
            LogLevel::Alert => "ALERT: ",
            LogLevel::Warning => "WARNING: ",
            LogLevel::Notice | LogLevel::Info => "",
            LogLevel::Debug => "DEBUG: ",
        };
        let mut last = lock(&self.last);
        if last.text == message {
            last.again += 1;
            return;
        }
        self.end_repetition(&mut last);
        message.clone_into(&mut last.text);
        self.write(&format!("{prefix}{message}\n"));
    }

    fn end_repetition(&self, last: &mut Last) {
        if last.again > 0 {
            self.write(&format!("(last message repeated {} times)\n", last.again));
        }
        last.again = 0;
        last.text.clear();
    }

    pub(crate) fn fatal(&self, message: &str) {
        self.log(LogLevel::Fatal, message);
    }

    pub(crate) fn notice(&self, message: &str) {
        self.log(LogLevel::Notice, message);
    }

    pub(crate) fn print(&self, line: &str) {
        self.write(&format!("{line}\n"));
    }

    pub(crate) fn finish(&self) {
        self.end_repetition(&mut lock(&self.last));
    }

    pub(crate) fn script_line(&self, level: LogLevel, message: &str) {
        match level {
            LogLevel::Notice => self.print(message),
            _ => self.log(level, message),
        }
    }

    /// Reports an error that ended a function of the script, in sysbench's words. `function` is empty for the body.
    pub(crate) fn script_failed(&self, function: &str, error: &ScriptError) {
        let mut words = error.to_string();
        if let ScriptError::Sql { place, call, error: SqlError { code: errno, sqlstate, message, .. }, .. } = error {
            let known = as_client_library(*errno);
            let (sqlstate, message) = known.map_or((sqlstate.as_str(), message.as_str()), |known| ("HY000", known));
            words = match call.message() {
                Some(raised) => format!("{place}{raised}"),
                None => format!("{place}SQL error, errno = {errno}, state = '{sqlstate}': {message}"),
            };
        }
        let is_whole = function.is_empty() || words.starts_with('`') || matches!(error, ScriptError::NoEvent { .. });
        self.fatal(&if is_whole { words } else { format!("`{function}' function failed: {words}") });
        if let ScriptError::Lua { traceback, .. } = error
            && !traceback.is_empty()
        {
            self.log(LogLevel::Debug, traceback.trim());
        }
    }

    pub(crate) fn statement_failed(&self, call: SqlCall, error: &SqlError, query: &[u8]) {
        let (errno, query) = (error.code, String::from_utf8_lossy(query));
        let message = as_client_library(errno).unwrap_or(&error.message);
        let function = match call {
            SqlCall::Connect => return,
            SqlCall::Prepare if !self.text_statements => {
                self.fatal("mysql_stmt_prepare() failed");
                self.fatal(&format!("MySQL error: {errno} \"{message}\""));
                return;
            }
            SqlCall::Execute if !self.text_statements => "mysql_stmt_execute()",
            _ => "mysql_drv_query()",
        };
        if !query.is_empty() {
            self.fatal(&format!("{function} returned error {errno} ({message}) for query '{query}'"));
        }
    }

    /// Writes a message at once, so that lines of threads do not mix. A reader that has gone away does not matter.
    fn write(&self, text: &str) {
        if self.aside {
            let _ = stderr().lock().write_all(text.as_bytes());
        } else {
            let mut out = stdout().lock();
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
    }
}

/// Messages of the client library that Debian's sysbench is linked with, for a broken connection.
fn as_client_library(errno: u16) -> Option<&'static str> {
    match errno {
        2006 => Some("Server has gone away"),
        2013 => Some("Lost connection to server during query"),
        _ => None,
    }
}
