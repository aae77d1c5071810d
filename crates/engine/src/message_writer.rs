//! Writes messages: whole JSON lines to standard output, from any thread.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use bakeoff_load::worker_host::Environment;
use bakeoff_script::host::LogLevel;

use crate::contract::Answer;

/// Writes answers, one JSON object a line, each flushed. Clones write to the same place.
#[derive(Clone)]
pub struct MessageWriter {
    out: Arc<Mutex<Box<dyn Write + Send>>>,
}

impl std::fmt::Debug for MessageWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MessageWriter")
    }
}

impl MessageWriter {
    /// Writes to `out`.
    pub fn new(out: impl Write + Send + 'static) -> Self {
        Self { out: Arc::new(Mutex::new(Box::new(out))) }
    }

    /// Sends one answer. A reader that has gone away is noticed by the end of standard input, so a failed write is let pass.
    ///
    /// # Panics
    /// Never: every answer has a JSON form.
    pub fn send(&self, answer: &Answer) {
        let mut line = serde_json::to_vec(answer).expect("answers hold nothing that JSON cannot write");
        line.push(b'\n');
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }
}

impl Environment for MessageWriter {
    /// Sends a line for the person.
    fn log(&self, level: LogLevel, message: &str) {
        let level = match level {
            LogLevel::Fatal => "fatal",
            LogLevel::Alert => "alert",
            LogLevel::Warning => "warning",
            LogLevel::Notice => "notice",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
        };
        self.send(&Answer::Log { level, message: message.to_owned() });
    }
}
