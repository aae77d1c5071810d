//! What all scripts of one invocation share: the console, the way to the servers, and what the servers said of themselves.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::OnceLock;

use bakeoff_script::host::{
    ConnectTarget, Connection, Counter, EventEnd, Host, LogLevel, Reply, SqlError,
};

use super::console::Console;
use super::dry_run::DryRun;
use crate::barrier::Barrier;
use crate::connector::{Connector, Rotation};
use crate::canceller::Canceller;
use crate::net::{Endpoint, ServerAddress};

/// What the first connection found.
#[derive(Debug, Clone)]
pub(super) struct ServerFacts {
    pub(super) version: String,
    pub(super) charset: String,
    pub(super) collation: String,
    pub(super) tls_cipher: Option<String>,
}

/// Shared by all threads.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) console: Arc<Console>,
    pub(super) rotation: Arc<Rotation>,
    pub(super) dry_run: bool,
    server: OnceLock<ServerFacts>,
}

impl Session {
    pub(super) fn new(console: Arc<Console>, rotation: Rotation, dry_run: bool) -> Self {
        Self {
            console,
            rotation: Arc::new(rotation),
            dry_run,
            server: OnceLock::new(),
        }
    }

    /// What the first connection found; `None`: the script has not connected.
    pub(super) fn server(&self) -> Option<&ServerFacts> {
        self.server.get()
    }

    /// A connector of one thread.
    pub(super) fn connector(&self, canceller: Arc<Canceller>) -> Connector {
        Connector::rotating(Arc::clone(&self.rotation), canceller)
    }

    /// Connects; a refusal is told as sysbench tells it.
    pub(super) fn connect(
        &self,
        connector: &Connector,
        target: &ConnectTarget,
    ) -> Result<Box<dyn Connection>, SqlError> {
        if self.dry_run {
            self.server.get_or_init(DryRun::facts);
            return Ok(Box::new(DryRun::default()));
        }
        let address = connector.next_address(target);
        let client = connector
            .connect_to(&address)
            .inspect_err(|error| self.tell_refusal(&address, error))?;
        self.server.get_or_init(|| {
            let (charset, collation) = client.charset();
            ServerFacts {
                version: client.server_version().to_owned(),
                charset: charset.to_owned(),
                collation: collation.to_owned(),
                tls_cipher: client.tls_cipher().map(str::to_owned),
            }
        });
        Ok(Box::new(client))
    }

    fn tell_refusal(&self, address: &ServerAddress, error: &SqlError) {
        let place = match &address.endpoint {
            Endpoint::Unix(path) => format!("socket '{}'", path.display()),
            Endpoint::Tcp { host, port } => format!("host '{host}', port {port}"),
        };
        self.console.fatal(&format!(
            "unable to connect to MySQL server on {place}, aborting..."
        ));
        self.console
            .fatal(&format!("error {}: {}", error.code, error.message));
    }
}

/// The world of a script that runs no events: commands, `init()`, `done()`, reports.
pub(super) struct PlainHost {
    session: Arc<Session>,
    connector: Connector,
    /// Shared by the threads of a parallel command.
    barrier: Option<Arc<Barrier>>,
    /// For scripts that count in commands, too; nobody is told.
    counters: RefCell<[u64; 8]>,
}

impl PlainHost {
    pub(super) fn new(session: &Arc<Session>) -> Rc<Self> {
        Self::in_parallel(session, Arc::default(), None)
    }

    pub(super) fn in_parallel(
        session: &Arc<Session>,
        canceller: Arc<Canceller>,
        barrier: Option<Arc<Barrier>>,
    ) -> Rc<Self> {
        Rc::new(Self {
            session: Arc::clone(session),
            connector: session.connector(canceller),
            barrier,
            counters: RefCell::default(),
        })
    }
}

impl Host for PlainHost {
    fn connect(&self, target: &ConnectTarget) -> Result<Box<dyn Connection>, SqlError> {
        self.session.connect(&self.connector, target)
    }

    fn more_events(&self) -> bool {
        false
    }

    fn event_start(&self) {}

    fn event_stop(&self, _end: EventEnd) {}

    fn count_reply(&self, _reply: &Reply) {}

    fn count_error(&self, _code: u16) {}

    fn count(&self, counter: Counter, amount: u64) {
        self.counters.borrow_mut()[counter as usize] += amount;
    }

    fn counter(&self, counter: Counter) -> u64 {
        self.counters.borrow()[counter as usize]
    }

    fn operation(&self, _name: &str) {}

    fn barrier(&self) {
        if let Some(barrier) = &self.barrier {
            barrier.wait();
        }
    }

    fn aborted(&self) -> bool {
        self.barrier
            .as_ref()
            .is_some_and(|barrier| barrier.is_broken())
    }

    /// The script says what it does in lines, as sysbench's do.
    fn progress(&self, _label: &str, _done: u64, _total: u64) {}

    fn log(&self, level: LogLevel, message: &str) {
        tell(&self.session.console, level, message);
    }
}

/// A notice is the script's own line; what is more or less severe goes by verbosity.
pub(super) fn tell(console: &Console, level: LogLevel, message: &str) {
    match level {
        LogLevel::Notice => console.print(message),
        _ => console.log(level, message),
    }
}
