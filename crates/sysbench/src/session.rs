//! Opens the connections of a run and routes its messages.

use std::sync::{Arc, OnceLock};

use bakeoff_load::connector::{Connector, Rotation};
use bakeoff_load::host::{Environment, ThreadHost};
use bakeoff_load::net::{Client, ConnectionCanceller, Endpoint, ServerAddress, ServerFacts};
use bakeoff_load::start_gate::Barrier;
use bakeoff_script::host::{
    ConnectTarget, Connection, HostRef, LogLevel, QueryClass, Reply, SqlError, StatementId, Value, known_driver,
};
use bakeoff_script::{ScriptError, SqlCall};

use crate::console::Console;
use crate::server::MySqlOptions;

pub(crate) const CALL_COMMAND: &str = "sysbench.cmdline.call_command";

#[derive(Debug)]
pub(crate) struct SysbenchSession {
    pub(crate) console: Arc<Console>,
    pub(crate) rotation: Arc<Rotation>,
    /// Character set and collation, as asked for.
    pub(crate) charset: (String, Option<String>),
    pub(crate) dry_run: bool,
    driver_failure: Option<String>,
    server: OnceLock<ServerFacts>,
}

impl SysbenchSession {
    pub(crate) fn new(console: &Arc<Console>, mysql: &MySqlOptions<'_>, dry_run: bool) -> Result<Arc<Self>, String> {
        Ok(Arc::new(Self {
            console: Arc::clone(console),
            rotation: Arc::new(mysql.rotation()?),
            charset: mysql.charset(),
            dry_run,
            driver_failure: mysql.driver_failure(),
            server: OnceLock::new(),
        }))
    }

    pub(crate) fn server(&self) -> Option<&ServerFacts> {
        self.server.get()
    }

    pub(crate) fn connector(&self, canceller: Arc<ConnectionCanceller>) -> Connector {
        Connector::rotating(Arc::clone(&self.rotation), canceller)
    }

    pub(crate) fn command_host(self: &Arc<Self>) -> HostRef {
        let environment = Arc::clone(self) as Arc<dyn Environment>;
        let host = ThreadHost::new(environment, self.connector(Arc::default()), Arc::new(Barrier::new(1)));
        HostRef::without_events(host)
    }

    /// Opens `--idle-connections`, distributed over the servers like all others.
    pub(crate) fn idle_connections(&self, count: u32) -> Result<Vec<Client>, String> {
        let count = if self.dry_run { 0 } else { count };
        let connector = self.connector(Arc::default());
        let connect = |_| connector.connect_to(&connector.next_address(&ConnectTarget::default()));
        let words = |error: SqlError| format!("idle connections: error {}: {}", error.code, error.message);
        (0..count).map(connect).collect::<Result<_, _>>().map_err(words)
    }

    fn report_refusal(&self, address: &ServerAddress, error: &SqlError) {
        let place = match &address.endpoint {
            Endpoint::Unix(path) => format!("socket '{}'", path.display()),
            Endpoint::Tcp { host, port } => format!("host '{host}', port {port}"),
        };
        self.console.fatal(&format!("unable to connect to MySQL server on {place}, aborting..."));
        self.console.fatal(&format!("error {}: {}", error.code, error.message));
    }
}

impl Environment for SysbenchSession {
    fn connect(&self, connector: &Connector, target: &ConnectTarget) -> Result<Box<dyn Connection>, SqlError> {
        if self.dry_run {
            self.server.get_or_init(|| ServerFacts {
                server_version: "none (dry run)".to_owned(),
                charset: String::new(),
                collation: String::new(),
                tls_cipher: None,
            });
            return Ok(Box::new(DryRun));
        }
        let address = connector.next_address(target);
        let client = connector
            .connect_to(&address)
            .map_err(|error| as_client_library(&address.endpoint, error))
            .inspect_err(|error| self.report_refusal(&address, error))?;
        self.server.get_or_init(|| client.facts().clone());
        Ok(Box::new(client))
    }

    fn driver(&self, name: &str) -> Result<(), String> {
        self.driver_failure.clone().map_or(Ok(()), Err)?;
        known_driver(name)
    }

    fn log(&self, level: LogLevel, message: &str) {
        self.console.script_line(level, message);
    }

    fn statement_failed(&self, call: SqlCall, error: &SqlError, query: &[u8]) {
        self.console.statement_failed(call, error, query);
    }

    fn ignored_error(&self, code: u16) {
        if self.console.shows(LogLevel::Debug) {
            self.console.log(LogLevel::Debug, &format!("Ignoring error {code}"));
        }
    }

    fn command_failed(&self, error: &ScriptError) {
        self.console.script_failed(CALL_COMMAND, error);
    }
}

/// Rewords a failed connection as the client library that Debian's sysbench is linked with.
fn as_client_library(endpoint: &Endpoint, error: SqlError) -> SqlError {
    let (code, message) = match (endpoint, error.io_errno) {
        (Endpoint::Tcp { host, .. }, _) if error.code == 2005 => (2005, format!("Unknown server host '{host}' (-2)")),
        (Endpoint::Unix(path), Some(number)) => {
            (2002, format!("Can't connect to local server through socket '{}' ({number})", path.display()))
        }
        (Endpoint::Tcp { host, .. }, Some(number)) => {
            // The library connects without blocking.
            let number = if number == libc::ECONNREFUSED { libc::EINPROGRESS } else { number };
            (2002, format!("Can't connect to server on '{host}' ({number})"))
        }
        _ => return error,
    };
    SqlError { code, message, ..error }
}

#[derive(Debug)]
struct DryRun;

const DONE: Reply =
    Reply { class: QueryClass::Other, columns: 0, rows: 0, affected_rows: 0, last_insert_id: 0, more_results: false };

impl Connection for DryRun {
    fn query(&mut self, _sql: &[u8]) -> Result<Reply, SqlError> {
        Ok(DONE)
    }

    fn prepare(&mut self, _sql: &[u8]) -> Result<StatementId, SqlError> {
        Ok(StatementId(0))
    }

    fn execute(&mut self, _statement: StatementId, _values: &[Value<'_>]) -> Result<Reply, SqlError> {
        Ok(DONE)
    }

    fn close_statement(&mut self, _statement: StatementId) {}

    fn next_result(&mut self) -> Result<Option<Reply>, SqlError> {
        Ok(None)
    }

    fn fetch_row(&mut self, _row: &mut Vec<Option<Vec<u8>>>) -> Result<bool, SqlError> {
        Ok(false)
    }

    fn column_name(&self, _index: u32) -> Option<&str> {
        None
    }

    fn reconnect(&mut self) -> Result<(), SqlError> {
        Ok(())
    }

    fn charset(&self) -> (&str, &str) {
        ("", "")
    }
}
