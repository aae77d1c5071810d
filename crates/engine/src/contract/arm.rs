//! `open`: how an arm is written, and what must be true of it.

use std::path::PathBuf;

use bakeoff_load::failure::Failure;
use bakeoff_load::net::{PrepareMode, Secret, TlsOptions};
use serde::Deserialize;

/// A server's address and account, and how to speak with it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "docs/engine.md explains the fields")]
pub struct Arm {
    pub name: String,
    pub address: Address,
    pub user: String,
    #[serde(default)]
    pub password: Secret,
    pub database: Option<String>,
    pub charset: String,
    pub collation: Option<String>,
    #[serde(default)]
    pub tls: TlsOptions,
    #[serde(default)]
    pub prepare_mode: PrepareMode,
    pub server_pid: Option<i32>,
    #[serde(default)]
    pub slowdown_percent: f64,
    #[serde(default)]
    pub read_only: bool,
    #[serde(default)]
    pub ignore_errors: Vec<u16>,
}

/// Where a server listens.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
#[allow(missing_docs, reason = "docs/engine.md explains the fields")]
pub enum Address {
    Socket { socket: PathBuf },
    Tcp { host: String, port: u16 },
}

/// Refuses lists of arms that cannot be opened.
pub(super) fn checked_arms(arms: Vec<Arm>) -> Result<Vec<Arm>, Failure> {
    if arms.is_empty() {
        return Err(Failure::bad_request("open: arms must name at least one arm"));
    }
    for (index, arm) in arms.iter().enumerate() {
        if arms[..index].iter().any(|earlier| earlier.name == arm.name) {
            return Err(Failure::bad_request(format!("open: two arms have the name {:?}", arm.name)));
        }
        if !(0.0..=10_000.0).contains(&arm.slowdown_percent) {
            return Err(Failure::bad_request("open: slowdown_percent must be from 0 to 10000").on_arm(&arm.name));
        }
        if arm.server_pid.is_some_and(|pid| pid <= 1) {
            return Err(
                Failure::bad_request("open: server_pid must be a process id above 1, or null").on_arm(&arm.name)
            );
        }
    }
    Ok(arms)
}
