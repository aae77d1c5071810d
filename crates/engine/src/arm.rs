//! The arms that `open` named: where they are, and what their servers report of themselves.

use std::sync::Arc;
use std::time::Duration;

use bakeoff_load::failure::{Code, Failure};
use bakeoff_load::net::{Client, ServerAddress, UNREAD_REPLY_BYTES};

use crate::answer::OpenedArm;
use crate::request::Arm;

const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Longest wait within a measured event, the contract's limit for a drain.
const REPLY_LIMIT: Duration = Duration::from_secs(60);
/// Longest wait within a statement of a replay, which can be any user's.
const STATEMENT_LIMIT: Duration = Duration::from_secs(600);
/// Longest wait within a command: an index over a big table takes as long as it takes.
const COMMAND_REPLY_LIMIT: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, Clone)]
pub struct OpenArm {
    pub name: String,
    pub address: Arc<ServerAddress>,
    pub server_pid: Option<i32>,
    pub slowdown_percent: f64,
    pub read_only: bool,
    pub ignore_errors: Vec<u16>,
}

impl OpenArm {
    pub fn command_address(&self, kept_reply_bytes: usize) -> Arc<ServerAddress> {
        self.address_with(COMMAND_REPLY_LIMIT, kept_reply_bytes)
    }

    #[must_use]
    pub fn for_replay(&self) -> Self {
        Self { address: self.address_with(STATEMENT_LIMIT, UNREAD_REPLY_BYTES), ..self.clone() }
    }

    fn address_with(&self, read_timeout: Duration, kept_reply_bytes: usize) -> Arc<ServerAddress> {
        Arc::new(ServerAddress { read_timeout, kept_reply_bytes, ..ServerAddress::clone(&self.address) })
    }

    fn look(&self) -> Result<OpenedArm, Failure> {
        let client = Client::connect(&self.address).map_err(|error| Failure::connecting(&error).on_arm(&self.name))?;
        Ok(OpenedArm { name: self.name.clone(), server: client.facts().clone() })
    }
}

impl From<Arm> for OpenArm {
    fn from(arm: Arm) -> Self {
        let address = ServerAddress {
            endpoint: arm.address,
            user: arm.user,
            password: arm.password,
            database: arm.database,
            charset: arm.charset,
            collation: arm.collation,
            tls: arm.tls,
            prepare_mode: arm.prepare_mode,
            connect_timeout: CONNECT_LIMIT,
            read_timeout: REPLY_LIMIT,
            ..ServerAddress::default()
        };
        Self {
            name: arm.name,
            address: Arc::new(address),
            server_pid: arm.server_pid,
            slowdown_percent: arm.slowdown_percent,
            read_only: arm.read_only,
            ignore_errors: arm.ignore_errors,
        }
    }
}

pub fn open(arms: Vec<Arm>) -> Result<(Vec<OpenArm>, Vec<OpenedArm>), Failure> {
    let arms: Vec<OpenArm> = arms.into_iter().map(OpenArm::from).collect();
    let found: Result<Vec<OpenedArm>, Failure> = std::thread::scope(|scope| {
        let looks: Vec<_> = arms.iter().map(|arm| scope.spawn(|| arm.look())).collect();
        let panicked = || Err(Failure::new(Code::Internal, "a bug in the engine: panic while connecting"));
        looks.into_iter().map(|look| look.join().unwrap_or_else(|_| panicked())).collect()
    });
    Ok((arms, found?))
}
