//! `open`: how an arm is written, and what must be true of it.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

use bakeoff_load::failure::Failure;

/// A server's address and account, and how to speak with it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "docs/engine.md explains the fields")]
pub struct Arm {
    pub name: String,
    pub address: Address,
    pub user: String,
    #[serde(default)]
    pub password: Password,
    pub database: Option<String>,
    pub charset: String,
    pub collation: Option<String>,
    #[serde(default)]
    pub tls: ArmTls,
    #[serde(default)]
    pub prepare_mode: ArmPrepareMode,
    pub server_pid: Option<i32>,
    #[serde(default)]
    pub slowdown_percent: f64,
    #[serde(default)]
    pub ignore_errors: Vec<u16>,
}

/// A password as it came; `Debug` does not show it.
#[derive(Clone, Default)]
pub struct Password(pub String);

impl<'de> Deserialize<'de> for Password {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(password) => Ok(Self(password)),
            // serde's own words would repeat the value.
            _ => Err(serde::de::Error::custom("password must be a string")),
        }
    }
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// Where a server listens.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
#[allow(missing_docs, reason = "docs/engine.md explains the fields")]
pub enum Address {
    Socket { socket: PathBuf },
    Tcp { host: String, port: u16 },
}

/// TLS mode and files.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "docs/engine.md explains the fields")]
pub struct ArmTls {
    #[serde(default)]
    pub mode: ArmTlsMode,
    pub ca: Option<PathBuf>,
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

/// MySQL's `--ssl-mode`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the contract's")]
pub enum ArmTlsMode {
    #[default]
    Disabled,
    Preferred,
    Required,
    VerifyCa,
    VerifyIdentity,
}

/// How statements are prepared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the contract's")]
pub enum ArmPrepareMode {
    #[default]
    Server,
    #[serde(alias = "text")]
    Client,
}

/// Refuses lists of arms that cannot be opened.
pub(super) fn checked_arms(arms: Vec<Arm>) -> Result<Vec<Arm>, Failure> {
    if arms.is_empty() {
        return Err(Failure::bad_request(
            "open: arms must name at least one arm",
        ));
    }
    for (index, arm) in arms.iter().enumerate() {
        if arms[..index].iter().any(|earlier| earlier.name == arm.name) {
            return Err(Failure::bad_request(format!(
                "open: two arms have the name {:?}",
                arm.name
            )));
        }
        if !(0.0..=10_000.0).contains(&arm.slowdown_percent) {
            return Err(
                Failure::bad_request("open: slowdown_percent must be from 0 to 10000")
                    .on_arm(&arm.name),
            );
        }
        if arm.server_pid.is_some_and(|pid| pid <= 1) {
            return Err(Failure::bad_request(
                "open: server_pid must be a process id above 1, or null",
            )
            .on_arm(&arm.name));
        }
    }
    Ok(arms)
}
