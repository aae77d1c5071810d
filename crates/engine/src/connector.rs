//! How one worker connects: to its arm's server, on its lifeline, its bytes counted.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bakeoff_script::host::{ConnectTarget, Connection, SqlError};

use crate::lifeline::{Lifeline, Traffic};
use crate::net::{Client, Endpoint, Secret, ServerAddress};

/// Addresses that connections are shared out over in turn, by all workers together.
#[derive(Debug)]
pub struct Rotation {
    /// Not empty.
    addresses: Vec<Arc<ServerAddress>>,
    next: AtomicUsize,
}

impl Rotation {
    /// The addresses in turn, beginning with the first.
    ///
    /// # Panics
    /// When there are none.
    pub fn new(addresses: Vec<Arc<ServerAddress>>) -> Self {
        assert!(!addresses.is_empty(), "a rotation has an address");
        Self {
            addresses,
            next: AtomicUsize::new(0),
        }
    }

    fn next(&self) -> Arc<ServerAddress> {
        let turn = self.next.fetch_add(1, Relaxed) % self.addresses.len();
        Arc::clone(&self.addresses[turn])
    }
}

/// Makes a worker's connections.
#[derive(Debug)]
pub struct Connector {
    rotation: Arc<Rotation>,
    lifeline: Arc<Lifeline>,
    traffic: Rc<Traffic>,
}

impl Connector {
    /// Connections to `address` that end when `lifeline` is cut.
    pub fn new(address: Arc<ServerAddress>, lifeline: Arc<Lifeline>) -> Self {
        Self::rotating(Arc::new(Rotation::new(vec![address])), lifeline)
    }

    /// Connections to the rotation's addresses in turn.
    pub fn rotating(rotation: Arc<Rotation>, lifeline: Arc<Lifeline>) -> Self {
        Self {
            rotation,
            lifeline,
            traffic: Rc::default(),
        }
    }

    /// Bytes over all connections of this worker.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Where the next connection goes: fields that the script set go before the worker's own.
    pub fn next_address(&self, target: &ConnectTarget) -> Arc<ServerAddress> {
        let address = self.rotation.next();
        if *target == ConnectTarget::default() {
            address
        } else {
            Arc::new(redirected(&address, target))
        }
    }

    /// Connects to [`Connector::next_address`].
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect(&self, target: &ConnectTarget) -> Result<Box<dyn Connection>, SqlError> {
        self.connect_to(&self.next_address(target))
            .map(|client| Box::new(client) as Box<dyn Connection>)
    }

    /// Connects to this address.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_to(&self, address: &Arc<ServerAddress>) -> Result<Client, SqlError> {
        Client::connect_attached(
            address,
            Arc::clone(&self.lifeline),
            Rc::clone(&self.traffic),
        )
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
    fn addresses_take_turns() {
        let address = |user: &str| {
            Arc::new(ServerAddress {
                user: user.into(),
                ..ServerAddress::default()
            })
        };
        let rotation = Arc::new(Rotation::new(vec![address("a"), address("b")]));
        let workers = [0, 1].map(|_| Connector::rotating(Arc::clone(&rotation), Arc::default()));
        let users: Vec<_> = (0..5)
            .map(|turn| {
                workers[turn % 2]
                    .next_address(&ConnectTarget::default())
                    .user
                    .clone()
            })
            .collect();
        assert_eq!(users, ["a", "b", "a", "b", "a"]);
    }

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
