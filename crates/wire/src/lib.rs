//! MySQL and MariaDB client protocol, sans-IO: bytes in, events out. Opens no socket and reads no clock. A server may
//! be hostile: a read past the end is [`Malformed`], never a panic (`fuzz/`).

#![forbid(unsafe_code)]

mod auth;
mod bytes;
pub mod command;
pub mod dialect;
mod login;
pub mod packet;
mod reply;
pub mod row;
pub mod template;

pub use auth::{Channel, LoginError};
pub use bytes::Malformed;
pub use login::{
    Greeting, Login, LoginOptions, LoginStep, Negotiated, TlsWish, UTF8MB4_GENERAL_CI, capability, collation_id,
};
pub use packet::Inbox;
pub use reply::{Answering, Done, Outcome, Prepared, ReplyScanner, ResultSet, ServerError};

// A dependency only to choose its backend for mysql_common (see Cargo.toml).
use flate2 as _;

#[cfg(test)]
#[path = "../tests/unit/mod.rs"]
mod tests;
