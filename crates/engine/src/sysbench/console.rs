//! What a person sees: log lines by verbosity, the script's own lines, and where they go.
//!
//! As with sysbench, everything but slips on the command line goes to standard output, unbuffered; and a message that comes again
//! at once is told once, with a count.

use std::io::{Write, stderr, stdout};
use std::sync::{Mutex, PoisonError};

use bakeoff_script::host::LogLevel;

/// The way out for all threads.
#[derive(Debug)]
pub(super) struct Console {
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
    pub(super) fn new(verbosity: i64, aside: bool) -> Self {
        Self {
            verbosity,
            aside,
            last: Mutex::default(),
        }
    }

    /// Would a message of this level be shown?
    pub(super) fn shows(&self, level: LogLevel) -> bool {
        level as i64 <= self.verbosity
    }

    /// A message; severe ones are marked as such. A newline is added.
    pub(super) fn log(&self, level: LogLevel, message: &str) {
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
        self.tell_again(&mut last);
        message.clone_into(&mut last.text);
        self.write(&format!("{mark}{message}\n"));
    }

    /// Ends the run of equal messages, if there is one.
    fn tell_again(&self, last: &mut Last) {
        if last.again > 0 {
            self.write(&format!("(last message repeated {} times)\n", last.again));
        }
        last.again = 0;
        last.text.clear();
    }

    pub(super) fn fatal(&self, message: &str) {
        self.log(LogLevel::Fatal, message);
    }

    pub(super) fn notice(&self, message: &str) {
        self.log(LogLevel::Notice, message);
    }

    /// A line of the script's own: always shown, never collapsed.
    pub(super) fn print(&self, line: &str) {
        self.tell_again(&mut self.last.lock().unwrap_or_else(PoisonError::into_inner));
        self.write(&format!("{line}\n"));
    }

    /// What was held back.
    pub(super) fn finish(&self) {
        self.tell_again(&mut self.last.lock().unwrap_or_else(PoisonError::into_inner));
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
