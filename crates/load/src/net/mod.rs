//! Connections to servers: sockets, TLS and the blocking exchange of statements for replies.
//!
//! Owns: everything between a [`ServerAddress`] and the bytes on a socket. The protocol itself is `bakeoff-wire`'s; what a
//! script may ask is `bakeoff_script::host`'s. A [`Client`] belongs to one thread; only its [`ConnectionCanceller`] is
//! shared and locked.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

mod client;
mod connection;
mod errors;
mod learned;
mod socket;
mod tls;

pub use client::{Client, ServerFacts};
pub use learned::Learned;
pub use socket::{ConnectionCanceller, Traffic};

/// The place where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "address must be {\"socket\": PATH} or {\"host\": NAME, \"port\": NUMBER}")]
pub enum Endpoint {
    /// A unix socket's path (at most 107 bytes on Linux).
    #[serde(rename = "socket")]
    Unix(PathBuf),
    /// A TCP port; `host` is a name or an address, and `localhost` means TCP too.
    #[serde(untagged)]
    Tcp {
        /// Name or address; every address a name resolves to is tried in order.
        host: String,
        /// Port, 1 to 65535.
        port: u16,
    },
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Unix(path) => write!(f, "socket {}", path.display()),
            Endpoint::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Endpoint::Tcp { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// A password: shown by nothing, neither `Debug` nor `Display`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes the password in.
    pub fn new(password: impl Into<String>) -> Self {
        Self(password.into())
    }

    /// Lets the password out, for authentication only.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // serde's own message would repeat the value.
        let refused = |_| serde::de::Error::custom("password must be a string");
        String::deserialize(deserializer).map(Self).map_err(refused)
    }
}

impl From<&str> for Secret {
    fn from(password: &str) -> Self {
        Self::new(password)
    }
}

/// How much TLS is asked for; the words are MySQL's `--ssl-mode`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TlsMode {
    /// Never.
    #[default]
    Disabled,
    /// Over TCP when the server offers it and a handshake succeeds, else in clear text; never over a unix socket (as MySQL's own client).
    Preferred,
    /// Always; the certificate is not checked.
    Required,
    /// Always; the certificate must be signed by `ca`.
    VerifyCa,
    /// As `VerifyCa`, and it must name the host connected to.
    VerifyIdentity,
}

/// TLS mode and files (PEM).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsOptions {
    /// How much TLS is asked for.
    #[serde(default)]
    pub mode: TlsMode,
    /// Certificates that may sign the server's; needed by the two `Verify…` modes.
    pub ca: Option<PathBuf>,
    /// The client's own certificate chain, for accounts that require one; goes with `key`.
    pub cert: Option<PathBuf>,
    /// The client's private key.
    pub key: Option<PathBuf>,
}

/// What `prepare` and `execute` do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrepareMode {
    /// COM_STMT_PREPARE and COM_STMT_EXECUTE.
    #[default]
    Server,
    /// The engine puts literals into the text and sends COM_QUERY; equal meaning.
    #[serde(alias = "text")]
    Client,
}

/// A server, the account and the manner of speaking; shared by all connections of an arm.
#[derive(Debug, Clone)]
pub struct ServerAddress {
    /// Where it listens.
    pub endpoint: Endpoint,
    /// Account name.
    pub user: String,
    /// The account's password; empty for none.
    pub password: Secret,
    /// Default database, if any.
    pub database: Option<String>,
    /// Connection character set, e.g. `utf8mb4`; letters, digits and `_` only.
    pub charset: String,
    /// Connection collation; `None` takes the charset's default on that server.
    pub collation: Option<String>,
    /// TLS mode and files.
    pub tls: TlsOptions,
    /// What `prepare` does.
    pub prepare_mode: PrepareMode,
    /// Longest time for the socket, TLS and the login together.
    pub connect_timeout: Duration,
    /// Longest silence while a reply is awaited; then the connection is given up (2013).
    pub read_timeout: Duration,
    /// Largest reply whose rows are kept. The rows of a larger one are dropped as they arrive, and cannot be fetched.
    pub kept_reply_bytes: usize,
    /// What earlier connections have found out.
    pub learned: Learned,
}

/// [`ServerAddress::kept_reply_bytes`] of connections whose rows a script may fetch.
pub const FETCHED_REPLY_BYTES: usize = 64 * 1024 * 1024;
/// [`ServerAddress::kept_reply_bytes`] of connections whose rows nobody fetches.
pub const UNREAD_REPLY_BYTES: usize = 64 * 1024;

impl Default for ServerAddress {
    /// root without a password at 127.0.0.1:3306, utf8mb4, no TLS, server-side prepare, 10 s to connect, 60 s of silence.
    fn default() -> Self {
        Self {
            endpoint: Endpoint::Tcp { host: "127.0.0.1".into(), port: 3306 },
            user: "root".into(),
            password: Secret::default(),
            database: None,
            charset: "utf8mb4".into(),
            collation: None,
            tls: TlsOptions::default(),
            prepare_mode: PrepareMode::Server,
            connect_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(60),
            kept_reply_bytes: FETCHED_REPLY_BYTES,
            learned: Learned::default(),
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/net_mod.rs"]
mod tests;
