//! MySQL and MariaDB client protocol, sans-IO: bytes in, events out.
//!
//! Logs in ([`Login`]), writes commands ([`command`]), scans replies ([`ReplyScanner`]) in the receive buffer ([`Inbox`]), parses
//! rows ([`row`]), divides SQL text ([`dialect`]) and puts literals into it ([`template`]). It opens no socket and reads no clock.
//! mysql_common provides the cryptography of authentication and the collation numbers.
//!
//! A server may be hostile: a read past the end is [`Malformed`], never a panic (`fuzz/`).

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
pub use packet::{Inbox, Slack};
pub use reply::{Answering, Done, Outcome, Prepared, ReplyScanner, ResultSet, ServerError};

// A dependency only to choose its backend for mysql_common (see Cargo.toml).
use flate2 as _;
