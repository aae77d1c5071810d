//! The servers under test, and shorthands for talking with them.

use std::path::PathBuf;
use std::sync::Arc;

use bakeoff_load::net::{Client, Endpoint, PrepareMode, ServerAddress};
use bakeoff_script::host::{Connection as _, SqlError};

/// Rows as text.
pub(crate) type Rows = Vec<Vec<Option<String>>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavour {
    MySql57,
    MySql80,
    MariaDb,
}

pub(crate) struct Server {
    pub(crate) flavour: Flavour,
    pub(crate) socket: PathBuf,
    pub(crate) port: Option<u16>,
    pub(crate) ca: Option<PathBuf>,
}

/// The servers that the environment names; panics when there are none.
pub(crate) fn servers() -> Vec<Server> {
    let known = [(Flavour::MySql57, "MYSQL57"), (Flavour::MySql80, "MYSQL80"), (Flavour::MariaDb, "MARIADB")];
    let servers: Vec<Server> = known
        .into_iter()
        .filter_map(|(flavour, name)| {
            let variable = |what: &str| std::env::var(format!("BAKEOFF_TEST_{name}_{what}")).ok();
            let Some(socket) = variable("SOCKET") else {
                eprintln!("{flavour:?} is not tested: BAKEOFF_TEST_{name}_SOCKET is not set");
                return None;
            };
            let port = variable("PORT").map(|port| port.parse().expect("a port"));
            Some(Server { flavour, socket: socket.into(), port, ca: variable("CA").map(PathBuf::from) })
        })
        .collect();
    assert!(!servers.is_empty(), "no server is named in the environment: see the top of tests/main.rs");
    servers
}

impl Server {
    /// root over the unix socket.
    pub(crate) fn address(&self) -> ServerAddress {
        ServerAddress { endpoint: Endpoint::Unix(self.socket.clone()), ..ServerAddress::default() }
    }

    pub(crate) fn account(&self, user: &str, password: &str) -> ServerAddress {
        ServerAddress { user: user.into(), password: password.into(), ..self.address() }
    }

    /// The same address over TCP, or `None` (with a note on stderr) if no port is set.
    pub(crate) fn tcp(&self, address: ServerAddress) -> Option<ServerAddress> {
        let Some(port) = self.port else {
            eprintln!("{:?} is not tested over TCP: no …_PORT is set", self.flavour);
            return None;
        };
        Some(ServerAddress { endpoint: Endpoint::Tcp { host: "127.0.0.1".into(), port }, ..address })
    }

    pub(crate) fn root(&self) -> Client {
        connect(self.address()).unwrap_or_else(|error| panic!("{:?}: {error}", self.flavour))
    }

    pub(crate) fn root_in(&self, mode: PrepareMode, charset: &str) -> Client {
        let address = ServerAddress { prepare_mode: mode, charset: charset.into(), ..self.address() };
        connect(address).unwrap_or_else(|error| panic!("{:?}: {error}", self.flavour))
    }
}

pub(crate) fn connect(address: ServerAddress) -> Result<Client, SqlError> {
    Client::connect(&Arc::new(address))
}

/// Runs statements that must succeed.
pub(crate) fn run(client: &mut Client, statements: &[&str]) {
    for sql in statements {
        client.query(sql.as_bytes()).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

/// The rows of a statement that must succeed.
pub(crate) fn rows(client: &mut Client, sql: &str) -> Rows {
    client.query(sql.as_bytes()).unwrap_or_else(|error| panic!("{sql}: {error}"));
    fetch_all(client)
}

pub(crate) fn fetch_all(client: &mut Client) -> Rows {
    let mut all = Vec::new();
    let mut row = Vec::new();
    while client.fetch_row(&mut row).expect("a row") {
        let text = |value: &Option<Vec<u8>>| value.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        all.push(row.iter().map(text).collect());
    }
    all
}

/// The only value of a statement.
pub(crate) fn value(client: &mut Client, sql: &str) -> String {
    rows(client, sql).remove(0).remove(0).unwrap_or_else(|| panic!("{sql} is NULL"))
}
