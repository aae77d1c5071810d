//! Why a capture cannot be made or read.

use std::path::PathBuf;

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
