//! One connection to a server, as a script sees it.

use std::rc::Rc;
use std::sync::Arc;

use bakeoff_script::host::{Connection, Reply, SqlError, StatementId, Value};

use super::address::ServerAddress;
use crate::lifeline::{Lifeline, Traffic};

/// A blocking connection to one server.
#[derive(Debug)]
pub struct Client {
    address: Arc<ServerAddress>,
    lifeline: Option<Arc<Lifeline>>,
    traffic: Rc<Traffic>,
}

impl Client {
    /// Connects, logs in and sets the character set.
    ///
    /// # Errors
    /// A fatal [`SqlError`]: 2002 (unix) and 2003 (TCP) unreachable, 2005 unknown host, 2026 TLS, 2059 unknown authentication
    /// plugin, 2013 lost during the login, or the server's own (1045 access denied, 1049 unknown database, 1040 too many connections).
    pub fn connect(address: &Arc<ServerAddress>) -> Result<Client, SqlError> {
        Err(not_yet(address))
    }

    /// As [`Client::connect`], for a worker: the socket (and each later one) hangs on `lifeline`, and its bytes are added to `traffic`.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_attached(
        address: &Arc<ServerAddress>,
        lifeline: Arc<Lifeline>,
        traffic: Rc<Traffic>,
    ) -> Result<Client, SqlError> {
        let _ = (lifeline, traffic);
        Err(not_yet(address))
    }

    /// As the greeting told it, e.g. `8.0.15` or `10.11.19-MariaDB-0+deb12u1`.
    pub fn server_version(&self) -> &str {
        ""
    }

    /// TLS version and cipher suite, e.g. `TLSv1.2 ECDHE-RSA-AES128-GCM-SHA256`; `None` without TLS.
    pub fn tls_cipher(&self) -> Option<&str> {
        None
    }

    /// Bytes sent and received so far, shared with the worker where one was named.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }
}

fn not_yet(address: &ServerAddress) -> SqlError {
    SqlError {
        code: 2003,
        sqlstate: "HY000".into(),
        message: format!("{}: being written", address.endpoint),
        fatal: true,
    }
}

impl Connection for Client {
    fn query(&mut self, _sql: &[u8]) -> Result<Reply, SqlError> {
        Err(not_yet(&self.address))
    }

    fn prepare(&mut self, _sql: &[u8]) -> Result<StatementId, SqlError> {
        Err(not_yet(&self.address))
    }

    fn execute(
        &mut self,
        _statement: StatementId,
        _values: &[Value<'_>],
    ) -> Result<Reply, SqlError> {
        Err(not_yet(&self.address))
    }

    fn close_statement(&mut self, _statement: StatementId) {}

    fn next_result(&mut self) -> Result<Option<Reply>, SqlError> {
        Err(not_yet(&self.address))
    }

    fn fetch_row(&mut self, _row: &mut Vec<Option<Vec<u8>>>) -> Result<bool, SqlError> {
        Err(not_yet(&self.address))
    }

    fn column_name(&self, _index: u32) -> Option<&str> {
        None
    }

    fn reconnect(&mut self) -> Result<(), SqlError> {
        Err(not_yet(&self.address))
    }

    fn charset(&self) -> (&str, &str) {
        ("", "")
    }
}
