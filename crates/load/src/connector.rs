//! How one worker connects to its arm's server.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bakeoff_script::host::{ConnectTarget, Connection, SqlError};

use crate::machine::placement::{PairedWorker, Pairing};
use crate::net::{Client, ConnectionCanceller, Endpoint, Secret, ServerAddress, Traffic};

/// The only `thread_handling` in which a connection keeps its thread.
const ONE_THREAD_EACH: &str = "one-thread-per-connection";

#[derive(Debug)]
pub struct Rotation {
    addresses: Vec<Arc<ServerAddress>>,
    next: AtomicUsize,
}

impl Rotation {
    pub fn new(addresses: Vec<Arc<ServerAddress>>) -> Self {
        Self { addresses, next: AtomicUsize::new(0) }
    }

    pub fn only(&self) -> Option<&Arc<ServerAddress>> {
        self.addresses.first().filter(|_| self.addresses.len() == 1)
    }

    fn next(&self) -> Arc<ServerAddress> {
        Arc::clone(&self.addresses[self.next.fetch_add(1, Relaxed) % self.addresses.len()])
    }
}

#[derive(Debug)]
pub struct Connector {
    rotation: Arc<Rotation>,
    canceller: Arc<ConnectionCanceller>,
    traffic: Rc<Traffic>,
    paired: Option<PairedWorker>,
}

impl Connector {
    pub fn new(address: Arc<ServerAddress>, canceller: Arc<ConnectionCanceller>) -> Self {
        Self::rotating(Arc::new(Rotation::new(vec![address])), canceller)
    }

    pub fn rotating(rotation: Arc<Rotation>, canceller: Arc<ConnectionCanceller>) -> Self {
        Self { rotation, canceller, traffic: Rc::default(), paired: None }
    }

    #[must_use]
    pub fn paired(self, paired: Option<PairedWorker>) -> Self {
        Self { paired, ..self }
    }

    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    pub fn next_address(&self, target: &ConnectTarget) -> Arc<ServerAddress> {
        let address = self.rotation.next();
        if *target == ConnectTarget::default() { address } else { Arc::new(redirected(&address, target)) }
    }

    pub fn connect(&self, target: &ConnectTarget) -> Result<Box<dyn Connection>, SqlError> {
        self.connect_to(&self.next_address(target)).map(|client| Box::new(client) as Box<dyn Connection>)
    }

    pub fn connect_to(&self, address: &Arc<ServerAddress>) -> Result<Client, SqlError> {
        Client::connect_attached(address, Arc::clone(&self.canceller), Rc::clone(&self.traffic), self.paired.clone())
    }
}

/// Prepares to pair the connections to a server. If `server_pid` is None, its process is found by its `pid_file`.
pub fn pairing(address: &Arc<ServerAddress>, server_pid: Option<i32>) -> Result<Arc<Pairing>, String> {
    if let Endpoint::Tcp { host, .. } = &address.endpoint
        && server_pid.is_none()
        && !is_loopback(host)
    {
        return Err(format!("the server runs on another host ({host})"));
    }
    let [handling, pid_file, datadir] = Client::connect(address)
        .and_then(|mut client| client.texts(b"SELECT @@thread_handling, @@pid_file, @@datadir"))
        .map_err(|error| format!("cannot ask the server: {}", error.message))?;
    if handling != ONE_THREAD_EACH {
        return Err(format!("the server has thread_handling={handling}"));
    }
    let server_pid = server_pid
        .or_else(|| std::fs::read_to_string(Path::new(&datadir).join(pid_file)).ok()?.trim().parse().ok())
        .ok_or("the server's process was not found on this machine")?;
    Pairing::new(server_pid)
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Applies what the script set to the arm's address. A socket takes precedence over a host, as in sysbench.
fn redirected(arm: &ServerAddress, target: &ConnectTarget) -> ServerAddress {
    let endpoint = match (&target.socket, &target.host, target.port, &arm.endpoint) {
        (Some(socket), ..) => Endpoint::Unix(socket.into()),
        (None, None, None, endpoint) => endpoint.clone(),
        (None, host, port, Endpoint::Tcp { host: arm_host, port: arm_port }) => {
            Endpoint::Tcp { host: host.clone().unwrap_or_else(|| arm_host.clone()), port: port.unwrap_or(*arm_port) }
        }
        (None, host, port, Endpoint::Unix(_)) => {
            Endpoint::Tcp { host: host.clone().unwrap_or_else(|| "127.0.0.1".into()), port: port.unwrap_or(3306) }
        }
    };
    ServerAddress {
        endpoint,
        user: target.user.clone().unwrap_or_else(|| arm.user.clone()),
        password: target.password.as_deref().map_or_else(|| arm.password.clone(), Secret::from),
        database: target.database.clone().or_else(|| arm.database.clone()),
        ..arm.clone()
    }
}

#[cfg(test)]
#[path = "../tests/unit/connector.rs"]
mod tests;
