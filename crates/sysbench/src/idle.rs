//! `--idle-connections`: connections that are held open while the workers run, and do nothing.
//!
//! What a server does with thousands of connections of which few are active is asked often, and a worker with a Lua state of its own
//! for each would cost a hundred times what the connection costs.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use bakeoff_load::connector::Connector;
use bakeoff_load::net::Client;
use bakeoff_load::worker_pool::spawn;
use bakeoff_script::host::SqlError;

use crate::session::Session;

/// Threads that connect, and then hold what they have connected.
const HOLDERS: u32 = 16;
/// C stack of a holder.
const STACK_BYTES: usize = 256 * 1024;

/// Open connections; dropping it closes them.
pub(crate) struct IdleConnections {
    holders: Vec<(Option<Sender<()>>, JoinHandle<()>)>,
}

impl IdleConnections {
    /// None at all.
    pub(crate) fn none() -> Self {
        Self { holders: Vec::new() }
    }

    /// Opens so many connections, shared out over the servers like all others.
    ///
    /// # Errors
    /// The first that could not be opened, in one line.
    pub(crate) fn open(session: &Arc<Session>, count: u32) -> Result<Self, String> {
        let holders = HOLDERS.min(count);
        let mut idle = Self {
            holders: Vec::with_capacity(holders as usize),
        };
        let (opened, results) = channel();
        for holder in 0..holders {
            let share = count / holders + u32::from(holder < count % holders);
            let (release, released) = channel();
            let (session, opened) = (Arc::clone(session), opened.clone());
            let body = move || hold(&session, share, &opened, &released);
            let handle = spawn("sb", &format!("idle{holder}"), STACK_BYTES, body).map_err(|failure| failure.message)?;
            idle.holders.push((Some(release), handle));
        }
        let failed = results.iter().take(holders as usize).find_map(Result::err);
        failed.map_or(Ok(idle), |error| {
            Err(format!("idle connections: error {}: {}", error.code, error.message))
        })
    }
}

impl Drop for IdleConnections {
    fn drop(&mut self) {
        self.holders.iter_mut().for_each(|(release, _)| drop(release.take()));
        for (_, handle) in self.holders.drain(..) {
            // A holder that panicked holds nothing any more.
            let _ = handle.join();
        }
    }
}

/// Connects, reports the outcome, and holds the connections until it is released.
fn hold(session: &Session, share: u32, opened: &Sender<Result<(), SqlError>>, released: &Receiver<()>) {
    let connector = session.connector(Arc::default());
    let connect = |connector: &Connector| -> Result<Client, SqlError> {
        let address = connector.next_address(&Default::default());
        Client::connect_attached(&address, Arc::default(), Rc::default(), None)
    };
    let clients: Result<Vec<Client>, SqlError> = (0..share).map(|_| connect(&connector)).collect();
    match clients {
        Ok(clients) => {
            let _ = opened.send(Ok(()));
            // Ends when the sender is dropped.
            let _ = released.recv();
            drop(clients);
        }
        Err(error) => {
            let _ = opened.send(Err(error));
        }
    }
}
