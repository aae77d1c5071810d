//! The error of making or reading a capture.

use std::path::PathBuf;

/// Why a capture cannot be made or read.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant has the file and what the system or decompressor says")]
pub enum Error {
    /// There is no such file, or no permission to read it.
    #[error("{}: cannot be opened: {reason}", path.display())]
    Open { path: PathBuf, reason: String },
    /// Reading fails, usually because a compressed file is damaged.
    #[error("{}: cannot be read: {reason}", path.display())]
    Read { path: PathBuf, reason: String },
    /// The content has no known format.
    #[error("{}: not a slow log, a general log or a file of SQL", path.display())]
    Unknown { path: PathBuf },
    /// All logs are empty files.
    #[error("the logs are empty")]
    Empty,
    /// The capture cannot be written.
    #[error("{}: cannot be written: {reason}", path.display())]
    Write { path: PathBuf, reason: String },
    /// The file is not a capture.
    #[error("{}: not a capture", path.display())]
    NotACapture { path: PathBuf },
    /// The capture is damaged, incomplete or of another version.
    #[error("{}: {reason}", path.display())]
    Capture { path: PathBuf, reason: String },
}
