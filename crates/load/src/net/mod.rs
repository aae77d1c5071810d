//! Connections to servers: sockets, TLS and the blocking exchange of statements for replies. The protocol itself is in
//! `bakeoff-wire`. A [`Client`] belongs to one thread.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bakeoff_script::host::SqlError;
use rustls::ClientConfig;
use serde::Deserialize;

mod client;
mod connection;
mod errors;
mod socket;
mod tls;

pub use client::{Client, ServerFacts};
pub use socket::{ConnectionCanceller, Traffic};

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "address must be {\"socket\": PATH} or {\"host\": NAME, \"port\": NUMBER}")]
pub enum Endpoint {
    #[serde(rename = "socket")]
    Unix(PathBuf),
    /// `localhost` means TCP too.
    #[serde(untagged)]
    Tcp { host: String, port: u16 },
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

#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
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
        Self(password.to_owned())
    }
}

/// How much TLS to use, in the words of MySQL's `--ssl-mode`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TlsMode {
    #[default]
    Disabled,
    /// Clear text over a unix socket, as in MySQL's client, and over TCP if TLS is not offered or its handshake fails.
    Preferred,
    Required,
    VerifyCa,
    VerifyIdentity,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsOptions {
    #[serde(default)]
    pub mode: TlsMode,
    pub ca: Option<PathBuf>,
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrepareMode {
    #[default]
    Server,
    #[serde(alias = "text")]
    Client,
}

#[derive(Debug, Clone)]
pub struct ServerAddress {
    pub endpoint: Endpoint,
    pub user: String,
    pub password: Secret,
    pub database: Option<String>,
    pub charset: String,
    pub collation: Option<String>,
    pub tls: TlsOptions,
    pub prepare_mode: PrepareMode,
    pub connect_timeout: Duration,
    /// Longest wait for a reply, after which the connection is given up (2013).
    pub read_timeout: Duration,
    /// Rows of a larger reply are dropped as they arrive and cannot be fetched.
    pub kept_reply_bytes: usize,
    pub learned: Learned,
}

pub const FETCHED_REPLY_BYTES: usize = 64 * 1024 * 1024;
pub const UNREAD_REPLY_BYTES: usize = 64 * 1024;

impl Default for ServerAddress {
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

/// `character_set_connection`, `collation_connection`, `character_set_client` and `character_set_results` of a session.
type Names = [String; 4];

/// Shared by all connections to one [`ServerAddress`]. Cloning starts empty, because the copy may be changed.
#[derive(Debug, Default)]
pub struct Learned {
    names: OnceLock<Names>,
    /// Whether a login that announces the collation has the same effect.
    login_sets_names: OnceLock<bool>,
    without_tls: OnceLock<()>,
    tls: OnceLock<Arc<ClientConfig>>,
    resolved: Mutex<Option<Arc<[SocketAddr]>>>,
}

impl Clone for Learned {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Learned {
    fn tls(&self, options: &TlsOptions) -> Result<Arc<ClientConfig>, SqlError> {
        if let Some(config) = self.tls.get() {
            return Ok(Arc::clone(config));
        }
        let config = tls::configuration(options)?;
        Ok(Arc::clone(self.tls.get_or_init(|| config)))
    }
}
