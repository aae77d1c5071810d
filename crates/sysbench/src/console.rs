//! What a person sees: log lines by verbosity, the script's own lines, and where they go.
//!
//! As with sysbench, everything but mistakes on the command line goes to standard output, unbuffered; and a message that comes again
//! at once is shown once, with a count.

use std::io::{Write, stderr, stdout};
use std::sync::{Mutex, PoisonError};

use bakeoff_script::ScriptError;
use bakeoff_script::host::LogLevel;

/// Where all threads write.
#[derive(Debug)]
pub(crate) struct Console {
    /// Messages of a higher number are not shown.
    verbosity: i64,
    /// Everything goes to standard error, because standard output carries the JSON result.
    aside: bool,
    last: Mutex<Last>,
}

/// The last message, and how often it came again.
#[derive(Debug, Default)]
struct Last {
    text: String,
    again: u32,
}

impl Console {
    pub(crate) fn new(verbosity: i64, aside: bool) -> Self {
        Self {
            verbosity,
            aside,
            last: Mutex::default(),
        }
    }

    /// Would a message of this level be shown?
    pub(crate) fn shows(&self, level: LogLevel) -> bool {
        level as i64 <= self.verbosity
    }

    /// A message; severe ones are marked as such. A newline is added.
    pub(crate) fn log(&self, level: LogLevel, message: &str) {
        if !self.shows(level) {
            return;
        }
        let mark = match level {
            LogLevel::Fatal => "FATAL: ",
            LogLevel::Alert => "ALERT: ",
            LogLevel::Warning => "WARNING: ",
            LogLevel::Notice | LogLevel::Info => "",
            LogLevel::Debug => "DEBUG: ",
        };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.text == message {
            last.again += 1;
            return;
        }
        self.end_repetition(&mut last);
        message.clone_into(&mut last.text);
        self.write(&format!("{mark}{message}\n"));
    }

    /// Ends the run of equal messages, if there is one.
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

    /// A line of the script's own: always shown, never collapsed.
    pub(crate) fn print(&self, line: &str) {
        self.end_repetition(&mut self.last.lock().unwrap_or_else(PoisonError::into_inner));
        self.write(&format!("{line}\n"));
    }

    /// Writes what was held back.
    pub(crate) fn finish(&self) {
        self.end_repetition(&mut self.last.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// A script's line: a notice is its own line, what is more or less severe goes by verbosity.
    pub(crate) fn script_line(&self, level: LogLevel, message: &str) {
        match level {
            LogLevel::Notice => self.print(message),
            _ => self.log(level, message),
        }
    }

    /// Reports an error that ended one of the script's functions, in sysbench's words. `function` is empty for the file's body.
    pub(crate) fn script_failed(&self, function: &str, error: &ScriptError) {
        if let ScriptError::Sql {
            errno, message, query, ..
        } = error
            && !query.is_empty()
        {
            self.fatal(&format!(
                "mysql_drv_query() returned error {errno} ({message}) for query '{query}'"
            ));
        }
        match (function, error) {
            ("", _) | (_, ScriptError::NoEvent { .. }) => self.fatal(&error.to_string()),
            _ => self.fatal(&format!("`{function}' function failed: {error}")),
        }
        if let ScriptError::Lua { traceback, .. } = error
            && !traceback.is_empty()
        {
            self.log(LogLevel::Debug, traceback.trim());
        }
    }

    /// One write a message, so that lines of threads do not mix. A reader that has gone away is its own choice.
    fn write(&self, text: &str) {
        if self.aside {
            let _ = stderr().lock().write_all(text.as_bytes());
        } else {
            let mut out = stdout().lock();
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
    }
}
