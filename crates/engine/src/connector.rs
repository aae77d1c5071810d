//! How one worker connects: to its arm's server, on its lifeline, its bytes counted.

use std::rc::Rc;
use std::sync::Arc;

use bakeoff_script::host::{ConnectTarget, Connection, SqlError};

use crate::lifeline::{Lifeline, Traffic};
use crate::net::{Client, Endpoint, Secret, ServerAddress};

/// Makes a worker's connections.
#[derive(Debug)]
pub struct Connector {
    address: Arc<ServerAddress>,
    lifeline: Arc<Lifeline>,
    traffic: Rc<Traffic>,
}

impl Connector {
    /// Connections to `address` that end when `lifeline` is cut.
    pub fn new(address: Arc<ServerAddress>, lifeline: Arc<Lifeline>) -> Self {
        Self {
            address,
            lifeline,
            traffic: Rc::default(),
        }
    }

    /// Bytes over all connections of this worker.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Connects; fields that the script set go before the arm's.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect(&self, target: &ConnectTarget) -> Result<Box<dyn Connection>, SqlError> {
        let address = if *target == ConnectTarget::default() {
            Arc::clone(&self.address)
        } else {
            Arc::new(redirected(&self.address, target))
        };
        let client = Client::connect_attached(
            &address,
            Arc::clone(&self.lifeline),
            Rc::clone(&self.traffic),
        )?;
        Ok(Box::new(client))
    }
}

/// The arm's address with what the script set; a socket goes before a host, as in sysbench.
fn redirected(arm: &ServerAddress, target: &ConnectTarget) -> ServerAddress {
    let endpoint = match (&target.socket, &target.host, target.port, &arm.endpoint) {
        (Some(socket), ..) => Endpoint::Unix(socket.into()),
        (None, None, None, endpoint) => endpoint.clone(),
        (
            None,
            host,
            port,
            Endpoint::Tcp {
                host: arm_host,
                port: arm_port,
            },
        ) => Endpoint::Tcp {
            host: host.clone().unwrap_or_else(|| arm_host.clone()),
            port: port.unwrap_or(*arm_port),
        },
        (None, host, port, Endpoint::Unix(_)) => Endpoint::Tcp {
            host: host.clone().unwrap_or_else(|| "127.0.0.1".into()),
            port: port.unwrap_or(3306),
        },
    };
    ServerAddress {
        endpoint,
        user: target.user.clone().unwrap_or_else(|| arm.user.clone()),
        password: target
            .password
            .as_deref()
            .map_or_else(|| arm.password.clone(), Secret::from),
        database: target.database.clone().or_else(|| arm.database.clone()),
        ..arm.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_script_leaves_unset_is_the_arms() {
        let arm = ServerAddress {
            user: "bench".into(),
            database: Some("sbtest".into()),
            ..ServerAddress::default()
        };
        let target = ConnectTarget {
            port: Some(3307),
            database: Some("other".into()),
            ..ConnectTarget::default()
        };
        let address = redirected(&arm, &target);
        assert_eq!(
            address.endpoint,
            Endpoint::Tcp {
                host: "127.0.0.1".into(),
                port: 3307
            }
        );
        assert_eq!(
            (address.user.as_str(), address.database.as_deref()),
            ("bench", Some("other"))
        );
        let target = ConnectTarget {
            socket: Some("/tmp/s.sock".into()),
            ..ConnectTarget::default()
        };
        assert_eq!(
            redirected(&arm, &target).endpoint,
            Endpoint::Unix("/tmp/s.sock".into())
        );
    }
}
