//! Reads MySQL and MariaDB query logs, writes a compact capture: events, digests, totals (docs/reference/capture.md).
//!
//! Everything but UTF-16 streams: memory grows with the number of connections and digests, not with the log.
//! Nothing here opens a connection to a server or runs a script.
//!
//! ```text
//! input ─► logs (slow_log, general_log, sql_file) ─► recorder ─► capture_file
//!                                                      │ digest, facts, redact, session ─► lexer, keywords
//! ```

#![forbid(unsafe_code)]

pub mod capture_file;
pub mod class;
pub mod digest;
pub mod event;
mod facts;
pub mod general_log;
pub mod input;
mod keywords;
pub mod lexer;
pub mod logs;
pub mod recorder;
pub mod redact;
pub mod session;
pub mod slow_log;
pub mod sql_file;

pub use bakeoff_wire::dialect::{Dialect, MultiByte};
pub use capture_file::{EventLine, Summary, read_summary};
pub use class::{Class, Effect, Statement, TransactionState, class, effect, used_schema};
pub use facts::Facts;
pub use input::{Error, ReadProgress};
pub use logs::Format;
pub use recorder::{CaptureJob, capture};

#[cfg(test)]
#[path = "../tests/unit/mod.rs"]
mod tests;
