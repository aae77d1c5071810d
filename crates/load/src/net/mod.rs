//! Connections to servers: sockets, TLS and the blocking exchange of statements for replies.
//!
//! Owns: everything between a [`ServerAddress`] and the bytes on a socket. The protocol itself is `bakeoff-wire`'s; what a
//! script may ask is `bakeoff_script::host`'s. A [`Client`] belongs to one thread; nothing here is shared or locked.

mod address;
mod client;
mod errors;
mod exchange;
mod socket;
mod statement;
mod tls;
mod tls_dhe;
mod transport;

pub use address::{Endpoint, PrepareMode, Secret, ServerAddress, TlsMode, TlsOptions};
pub use client::Client;
pub use socket::Traffic;
