//! The driver and connections. A connection's memory stays valid until its session ends, so a stale pointer in a script
//! finds a closed connection.

use std::ffi::{c_char, c_int};
use std::ptr;

use super::text_of;
use crate::host::{ConnectTarget, Connection, Counter, LogLevel, Reply, SqlCall, SqlError, reconnect};
use crate::session::{
    Bulk, FATAL, IGNORABLE, NONE, RowBuffer, ScriptSession, SqlConnection, SqlDriver, c_text, shielded, with_current,
};

impl SqlConnection {
    /// Runs one command on the link, counts its reply and keeps its error for Lua. A panic counts as an error.
    pub(super) fn run(
        &mut self,
        query: &[u8],
        call: SqlCall,
        command: impl FnOnce(&mut dyn Connection) -> Result<Option<Reply>, SqlError>,
    ) -> Option<Reply> {
        let link = self.link.as_deref_mut();
        let mut reply = None;
        // `shielded` returns little, because a whole reply or error would be copied several times.
        let outcome = shielded(Err(None), |session| {
            session.survived();
            reply = match link {
                Some(link) => command(link),
                None => Err(SqlError::client(2006, "the connection is closed")),
            }
            .map_err(|error| Some(Box::new(error)))?;
            if let Some(reply) = &reply {
                session.events.count_reply(reply);
            }
            Ok(())
        });
        match outcome {
            Ok(()) => {
                self.error = NONE;
                self.code = 0;
                self.more_results = reply.is_some_and(|reply| reply.more_results);
                reply
            }
            Err(error) => {
                let error = error.unwrap_or_else(|| Box::new(internal_error()));
                self.fail(&error, query, call);
                None
            }
        }
    }

    /// Receives the results that the script has not fetched, so that a command can be sent. False if one was an error.
    #[inline]
    #[must_use]
    pub(super) fn drain(&mut self) -> bool {
        while self.more_results {
            self.run(b"(a later result of the previous statement)", SqlCall::Query, |link| link.next_result());
            if self.error != NONE {
                return false;
            }
        }
        true
    }

    #[cold]
    pub(super) fn fail(&mut self, error: &SqlError, query: &[u8], call: SqlCall) {
        self.more_results = false;
        self.code = c_int::from(error.code);
        self.texts = [c_text(&error.sqlstate), c_text(&error.message)];
        self.state = self.texts[0].as_ptr();
        self.message = self.texts[1].as_ptr();
        let usable = with_current(|session| {
            session.failed(error, call);
            let ignorable = session.ignore_errors.contains(error.code) && !session.has_panicked();
            ignorable && (!error.fatal || self.reconnect(session))
        });
        self.error = if usable { IGNORABLE } else { FATAL };
        if !usable {
            shielded((), |session| session.host.statement_failed(call, error, query));
        }
    }

    fn reconnect(&mut self, session: &ScriptSession) -> bool {
        let Some(link) = self.link.as_deref_mut() else { return false };
        reconnect(&*session.host, &*session.events, &mut || guarded(|_| link.reconnect()).is_ok())
    }

    fn close(&mut self) {
        self.link = None;
        self.more_results = false;
        self.bulk = Bulk::default();
        self.row = RowBuffer::default();
        self.generation += 1;
    }
}

#[inline]
pub(super) fn guarded<T>(call: impl FnOnce(&ScriptSession) -> Result<T, SqlError>) -> Result<T, SqlError> {
    shielded(None, |session| Some(call(session))).unwrap_or_else(|| Err(internal_error()))
}

fn internal_error() -> SqlError {
    SqlError::client(2000, "internal error")
}

/// The table given to `connect{…}`. Null and 0 stand for the worker's own values.
#[repr(C)]
struct Target {
    host: *const c_char,
    socket: *const c_char,
    user: *const c_char,
    password: *const c_char,
    database: *const c_char,
    port: u16,
}

fn connect(target: &ConnectTarget) -> *mut SqlConnection {
    let opened = guarded(|session| {
        session.survived();
        session.host.connect(target)
    });
    with_current(|session| match opened {
        Ok(link) => {
            let connection = session.connections.take();
            // SAFETY: the pool's boxes live as long as the session, and nobody else holds this one.
            let fresh = unsafe { &mut *connection };
            fresh.driver = &raw const session.driver;
            fresh.error = NONE;
            fresh.code = 0;
            fresh.link = Some(link);
            connection
        }
        Err(error) => {
            session.failed(&error, SqlCall::Connect);
            ptr::null_mut()
        }
    })
}

symbols! {
    /// Returns the driver of this name, or null after logging what is wrong. An empty name is the default.
    fn db_create(name: *const c_char) -> *const SqlDriver {
        let name = unsafe { text_of(name) };
        let known = shielded(false, |session| {
            let driver = session.host.driver(&name);
            driver.inspect_err(|words| session.host.log(LogLevel::Fatal, words)).is_ok()
        });
        if known { with_current(|session| &raw const session.driver) } else { ptr::null() }
    }

    /// Does nothing, because the driver lives as long as its session.
    fn db_destroy(_driver: *const SqlDriver) -> c_int {
        0
    }

    fn db_connection_create(_driver: *const SqlDriver) -> *mut SqlConnection {
        connect(&ConnectTarget::default())
    }

    fn bakeoff_connect(_driver: *const SqlDriver, target: &Target) -> *mut SqlConnection {
        let text = |text: *const c_char| (!text.is_null()).then(|| unsafe { text_of(text) });
        connect(&ConnectTarget {
            host: text(target.host),
            port: (target.port != 0).then_some(target.port),
            socket: text(target.socket),
            user: text(target.user),
            password: text(target.password),
            database: text(target.database),
        })
    }

    fn db_connection_close(connection: Option<&mut SqlConnection>) -> c_int {
        let Some(connection) = connection else { return 1 };
        if connection.link.is_none() {
            let words = "attempt to close an already closed connection";
            shielded((), |session| session.host.log(LogLevel::Alert, words));
        }
        connection.close();
        0
    }

    fn db_connection_reconnect(connection: &mut SqlConnection) -> c_int {
        connection.more_results = false;
        connection.run(b"", SqlCall::Connect, |link| link.reconnect().map(|()| None));
        if connection.error == NONE {
            shielded((), |session| session.events.count(Counter::Reconnect, 1));
        }
        connection.error
    }

    /// Closes the connection. A script may free it twice or still hold it, so its memory is not reused yet.
    fn db_connection_free(connection: Option<&mut SqlConnection>) {
        if let Some(live) = connection {
            live.close();
        }
    }

    fn bakeoff_connection_collect(connection: *mut SqlConnection) {
        unsafe { db_connection_free(connection.as_mut()) };
        with_current(|session| session.connections.free.borrow_mut().push(connection));
    }
}
