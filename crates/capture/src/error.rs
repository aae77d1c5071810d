use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: cannot be opened: {reason}", path.display())]
    Open { path: PathBuf, reason: String },
    /// Reading fails, usually because a compressed file is damaged.
    #[error("{}: cannot be read: {reason}", path.display())]
    Read { path: PathBuf, reason: String },
    #[error("{}: not a slow log, a general log or a file of SQL", path.display())]
    Unknown { path: PathBuf },
    #[error("the logs are empty")]
    Empty,
    #[error("{}: cannot be written: {reason}", path.display())]
    Write { path: PathBuf, reason: String },
    #[error("{}: not a capture", path.display())]
    NotACapture { path: PathBuf },
    #[error("{}: {reason}", path.display())]
    Capture { path: PathBuf, reason: String },
}

impl Error {
    pub(crate) fn open(path: &Path) -> impl Fn(io::Error) -> Self {
        move |error| Self::Open { path: path.to_owned(), reason: error.to_string() }
    }

    pub(crate) fn read(path: &Path) -> impl Fn(io::Error) -> Self {
        move |error| Self::Read { path: path.to_owned(), reason: error.to_string() }
    }
}
