use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use bakeoff_load::connector::{Connector, Rotation};
use bakeoff_load::host::{Environment, ThreadHost};
use bakeoff_load::net::{ConnectionCanceller, Endpoint, ServerAddress, ServerFacts};
use bakeoff_load::start_gate::Barrier;
use bakeoff_load::worker_pool::spawn;
use bakeoff_script::host::{
    ConnectTarget, Connection, HostRef, LogLevel, QueryClass, Reply, SqlError, StatementId, Value, known_driver,
};
use bakeoff_script::{ScriptError, SqlCall};

use crate::console::Console;

/// sysbench's name for the function that runs a declared command.
pub(crate) const CALL_COMMAND: &str = "sysbench.cmdline.call_command";

#[derive(Debug)]
pub(crate) struct SysbenchSession {
    pub(crate) console: Arc<Console>,
    pub(crate) rotation: Arc<Rotation>,
    pub(crate) dry_run: bool,
    driver_failure: Option<String>,
    server: OnceLock<ServerFacts>,
}

impl SysbenchSession {
    pub(crate) fn new(
        console: Arc<Console>,
        rotation: Rotation,
        dry_run: bool,
        driver_failure: Option<String>,
    ) -> Self {
        Self { console, rotation: Arc::new(rotation), dry_run, driver_failure, server: OnceLock::new() }
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
            return Ok(Box::new(DryRun::default()));
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
    /// ECONNREFUSED, and EINPROGRESS, which the library reports instead because it connects without blocking.
    const REFUSED: (i32, i32) = (111, 115);
    let (code, message) = match (endpoint, error.io_errno) {
        (Endpoint::Tcp { host, .. }, _) if error.code == 2005 => (2005, format!("Unknown server host '{host}' (-2)")),
        (Endpoint::Unix(path), Some(number)) => {
            (2002, format!("Can't connect to local server through socket '{}' ({number})", path.display()))
        }
        (Endpoint::Tcp { host, .. }, Some(number)) => {
            let number = if number == REFUSED.0 { REFUSED.1 } else { number };
            (2002, format!("Can't connect to server on '{host}' ({number})"))
        }
        _ => return error,
    };
    SqlError { code, message, ..error }
}

/// `--mysql-dry-run`: a connection to nowhere, where every statement succeeds at once and returns nothing.
#[derive(Debug, Default)]
struct DryRun {
    statements: u32,
}

const DONE: Reply =
    Reply { class: QueryClass::Other, columns: 0, rows: 0, affected_rows: 0, last_insert_id: 0, more_results: false };

impl Connection for DryRun {
    fn query(&mut self, _sql: &[u8]) -> Result<Reply, SqlError> {
        Ok(DONE)
    }

    fn prepare(&mut self, _sql: &[u8]) -> Result<StatementId, SqlError> {
        self.statements += 1;
        Ok(StatementId(self.statements))
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

const HOLDERS: u32 = 16;
const STACK_BYTES: usize = 256 * 1024;

/// `--idle-connections`: connections held open and idle while the workers run, by a few threads. Dropping it closes
/// them.
pub(crate) struct IdleConnections {
    release: Arc<Barrier>,
    holders: Vec<JoinHandle<()>>,
}

impl IdleConnections {
    /// Opens `count` connections, distributed over the servers like all others. Fails with the first that could not be opened.
    pub(crate) fn open(session: &Arc<SysbenchSession>, count: u32) -> Result<Self, String> {
        let holders = HOLDERS.min(count);
        let release = Arc::new(Barrier::new(holders as usize + 1));
        let mut idle = Self { release, holders: Vec::with_capacity(holders as usize) };
        let (opened, results) = channel();
        for holder in 0..holders {
            let share = count / holders + u32::from(holder < count % holders);
            let (session, opened, release) = (Arc::clone(session), opened.clone(), Arc::clone(&idle.release));
            let body = move || hold(&session, share, opened, &release);
            let handle = spawn("sb", &format!("idle{holder}"), STACK_BYTES, body).map_err(|failure| failure.message)?;
            idle.holders.push(handle);
        }
        drop(opened); // a holder that panicked sends nothing
        let failed = results.iter().take(holders as usize).find_map(Result::err);
        failed.map_or(Ok(idle), |error| Err(format!("idle connections: error {}: {}", error.code, error.message)))
    }
}

impl Drop for IdleConnections {
    fn drop(&mut self) {
        self.release.break_up();
        for handle in self.holders.drain(..) {
            let _ = handle.join();
        }
    }
}

fn hold(session: &SysbenchSession, share: u32, opened: Sender<Result<(), SqlError>>, release: &Barrier) {
    let connector = session.connector(Arc::default());
    let connect = |_| connector.connect_to(&connector.next_address(&ConnectTarget::default()));
    let clients: Result<Vec<_>, SqlError> = (0..share).map(connect).collect();
    match clients {
        Ok(clients) => {
            let _ = opened.send(Ok(()));
            drop(opened); // else `open` would wait for ever for the result of a thread that panicked
            release.wait();
            drop(clients);
        }
        Err(error) => {
            let _ = opened.send(Err(error));
        }
    }
}
