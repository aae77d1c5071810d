//! MySQL and MariaDB client protocol, sans-IO: bytes in, events out.
//!
//! Owns: the greeting and the login ([`Login`]), commands ([`command`]), replies ([`ReplyScanner`]), rows ([`row`]), the receive
//! buffer ([`Inbox`]), how SQL text is read ([`dialect`]), and putting literals into it ([`template`]). Opens no socket, reads
//! no clock, knows nothing of threads, scripts or measurements. mysql_common serves for the arithmetic of authentication and
//! the numbers of collations; packets are parsed here, in place.
//!
//! Every parser takes bytes from a server that may be hostile: a read past the end is [`Malformed`], never a panic (`fuzz/`).

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

// Named so that the choice of its backend, made in Cargo.toml for mysql_common's sake, is seen to be used.
use flate2 as _;
