//! Query logs of MySQL and MariaDB in, one compact capture file out: events, digests, totals (docs/capture.md).
//!
//! Everything streams: memory grows with the number of connections and digests, not with the log. The crate knows nothing of
//! connections to servers, of scripts or of load.
//!
//! ```text
//! input ─► slow_log, general_log, sql_file ─► recorder ─► capture_file
//!                                              │ digest (lexer, keywords), secrets, session
//! ```

use std::path::PathBuf;

pub mod capture_file;
pub mod class;
pub mod digest;
mod encoding;
pub mod event;
pub mod general_log;
pub mod input;
mod keywords;
pub mod lexer;
pub mod recorder;
pub mod secrets;
pub mod session;
pub mod slow_log;
pub mod sql_file;

pub use bakeoff_wire::dialect::{Dialect, MultiByte};
pub use capture_file::{EventLine, Summary, read_summary};
pub use class::{Class, Effect, Statement, class, effect, used_schema};
pub use input::{Format, ReadProgress};
pub use recorder::{CaptureJob, capture};

/// Why a capture cannot be made or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such file, or no right to read it.
    #[error("{}: cannot be opened: {reason}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// Reading fails, mostly because a compressed file is damaged.
    #[error("{}: cannot be read: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system or the decompressor says.
        reason: String,
    },
    /// The content has the marks of no format.
    #[error("{}: it is no slow log, general log or file of SQL", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
    },
    /// All logs are empty files.
    #[error("the logs are empty")]
    Empty,
    /// The capture cannot be written.
    #[error("{}: cannot be written: {reason}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// A capture that cannot be read.
    #[error("{}: {reason}", path.display())]
    Capture {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}
