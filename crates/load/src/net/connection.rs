//! A logged-in connection over clear text or TLS: the login, then one command out, one reply in. The exchange allocates
//! nothing once its buffers have grown.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bakeoff_script::host::{QueryClass, Reply, SqlError};
use bakeoff_wire::row::{Encoding, RowCursor};
use bakeoff_wire::{
    Answering, Channel, Inbox, Login, LoginOptions, LoginStep, Negotiated, Outcome, Prepared, ReplyScanner, TlsWish,
    capability, command,
};
use rustls::ClientConfig;

use super::errors;
use super::socket::{ConnectionCanceller, ReadLimit, Socket, Traffic};
use super::tls::TlsStream;
use super::{Endpoint, ServerAddress, TlsMode};

pub(super) struct Exchange {
    transport: Transport,
    inbox: Inbox,
    writer: Vec<u8>,
    scanner: ReplyScanner,
    kept_reply_bytes: usize,
    deprecate_eof: bool,
    encoding: Encoding,
    status: u16,
    more_results: bool,
    broken: Option<SqlError>,
}

impl Exchange {
    pub(super) fn new(transport: Transport, session: &Negotiated, kept_reply_bytes: usize) -> Self {
        let deprecate_eof = session.deprecate_eof();
        Self {
            transport,
            inbox: Inbox::default(),
            writer: Vec::with_capacity(4096),
            kept_reply_bytes,
            scanner: ReplyScanner::new(Answering::Statement, deprecate_eof),
            deprecate_eof,
            encoding: Encoding::Text,
            status: session.status,
            more_results: false,
            broken: None,
        }
    }

    /// Commands without a reply may be added at any time. They are sent ahead of the next one.
    pub(super) fn writer(&mut self) -> &mut Vec<u8> {
        &mut self.writer
    }

    pub(super) fn no_backslash_escapes(&self) -> bool {
        self.status & capability::STATUS_NO_BACKSLASH_ESCAPES != 0
    }

    pub(super) fn in_transaction(&self) -> bool {
        self.status & capability::STATUS_IN_TRANSACTION != 0
    }

    pub(super) fn reply_bytes(&self) -> &[u8] {
        self.inbox.unread()
    }

    #[inline]
    pub(super) fn begin(&mut self) -> Result<&mut Vec<u8>, SqlError> {
        if let Some(error) = &self.broken {
            return Err(errors::gone(&error.message));
        }
        if self.more_results {
            return Err(errors::out_of_sync());
        }
        self.inbox.consume(self.scanner.reply_bytes());
        Ok(&mut self.writer)
    }

    pub(super) fn prepare(&mut self, sequence: u8) -> Result<Prepared, SqlError> {
        self.send(Answering::Prepare, sequence)?;
        match self.receive()? {
            Outcome::Prepared(prepared) => Ok(prepared),
            other => Err(self.unwanted(other)),
        }
    }

    /// Sends the writer and receives the reply to its last command, whose encoder returned `sequence`. Restarts `rows`.
    #[inline]
    pub(super) fn run(&mut self, sequence: u8, encoding: Encoding, rows: &mut RowCursor) -> Result<Reply, SqlError> {
        rows.stop();
        self.encoding = encoding;
        self.send(Answering::Statement, sequence)?;
        self.receive_reply(rows)
    }

    pub(super) fn next_result(&mut self, rows: &mut RowCursor) -> Result<Option<Reply>, SqlError> {
        rows.stop();
        if !self.more_results {
            return Ok(None);
        }
        let follower = self.scanner.follow();
        self.inbox.consume(self.scanner.reply_bytes());
        self.scanner = follower;
        self.receive_reply(rows).map(Some)
    }

    pub(super) fn set_read_limit(&mut self, limit: ReadLimit) {
        self.transport.socket_mut().set_read_limit(limit);
    }

    pub(super) fn quit(&mut self) {
        if self.broken.is_none() {
            self.writer.clear();
            command::quit(&mut self.writer);
            self.transport.farewell(&self.writer);
            self.break_off(errors::fatal(errors::SERVER_GONE, "the client has closed the connection"));
        }
        self.transport.socket_mut().shut_down();
    }

    #[inline]
    fn send(&mut self, answering: Answering, sequence: u8) -> Result<(), SqlError> {
        self.scanner = ReplyScanner::with_sequence(answering, self.deprecate_eof, sequence);
        let sent = self.transport.send(&self.writer);
        self.writer.clear();
        sent.map_err(|error| self.break_off_sending(&error))
    }

    #[inline]
    fn receive_reply(&mut self, rows: &mut RowCursor) -> Result<Reply, SqlError> {
        loop {
            // Matched here, because passing an outcome up through functions copies it each time.
            match self.scanner.scan(self.inbox.unread()) {
                Ok(None) => self.receive_more()?,
                Ok(Some(Outcome::ResultSet(result))) => {
                    rows.restart(result, self.encoding);
                    return Ok(Reply {
                        class: QueryClass::Read,
                        columns: result.columns,
                        rows: result.rows,
                        affected_rows: 0,
                        last_insert_id: 0,
                        more_results: self.take_status(result.status),
                    });
                }
                Ok(Some(Outcome::Done(done))) => {
                    return Ok(Reply {
                        class: if done.affected_rows > 0 { QueryClass::Write } else { QueryClass::Other },
                        columns: 0,
                        rows: 0,
                        affected_rows: done.affected_rows,
                        last_insert_id: done.last_insert_id,
                        more_results: self.take_status(done.status),
                    });
                }
                Ok(Some(other)) => return Err(self.unwanted(other)),
                Err(error) => return Err(self.break_off(errors::malformed(error))),
            }
        }
    }

    #[cold]
    fn unwanted(&mut self, outcome: Outcome) -> SqlError {
        match outcome {
            Outcome::Failed(error) => self.failed(errors::server(*error)),
            _ => self.break_off(errors::lost("unexpected kind of reply")),
        }
    }

    fn receive(&mut self) -> Result<Outcome, SqlError> {
        loop {
            match self.scanner.scan(self.inbox.unread()) {
                Ok(None) => self.receive_more()?,
                Ok(Some(outcome)) => return Ok(outcome),
                Err(error) => return Err(self.break_off(errors::malformed(error))),
            }
        }
    }

    #[inline]
    fn receive_more(&mut self) -> Result<(), SqlError> {
        if self.inbox.unread().len() > self.kept_reply_bytes {
            let (at, bytes) = self.scanner.forget_rows(self.inbox.unread().len());
            self.inbox.remove(at, bytes);
        }
        match self.transport.receive(self.inbox.spare()) {
            Ok(0) => Err(self.break_off(errors::lost("the server closed it"))),
            Ok(received) => {
                self.inbox.received(received);
                Ok(())
            }
            Err(error) => Err(self.break_off(errors::lost(silence(&error)))),
        }
    }

    #[inline]
    fn take_status(&mut self, status: u16) -> bool {
        self.status = status;
        self.more_results = status & capability::STATUS_MORE_RESULTS != 0;
        self.more_results
    }

    #[cold]
    fn failed(&mut self, error: SqlError) -> SqlError {
        self.more_results = false;
        if error.fatal { self.break_off(error) } else { error }
    }

    #[cold]
    fn break_off(&mut self, error: SqlError) -> SqlError {
        self.more_results = false;
        self.broken.get_or_insert_with(|| error.clone());
        error
    }

    /// A server that stopped reading (packet too large, shutdown) may have said why before it closed the connection.
    #[cold]
    fn break_off_sending(&mut self, error: &io::Error) -> SqlError {
        let sent_error = match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => match self.receive() {
                Ok(outcome) => Some(self.unwanted(outcome)),
                Err(error) => Some(error),
            },
            _ => None,
        };
        let error = match sent_error {
            Some(sent_error) if sent_error.code < 2000 || sent_error.code >= 3000 => {
                SqlError { fatal: true, ..sent_error }
            }
            _ => errors::gone(silence(error)),
        };
        self.broken = None;
        self.break_off(error)
    }
}

fn silence(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => "no answer within the read timeout".to_owned(),
        _ => error.to_string(),
    }
}

pub(super) enum Transport {
    Clear(Socket),
    Tls(Box<TlsStream>),
}

impl Transport {
    #[inline]
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Clear(socket) => socket.send(bytes),
            Self::Tls(stream) => stream.send(bytes),
        }
    }

    #[inline]
    pub(super) fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Clear(socket) => socket.receive(into),
            Self::Tls(stream) => stream.receive(into),
        }
    }

    /// Sends `bytes` if it can without waiting. Over TLS it sends nothing, and the server sees the connection end.
    pub(super) fn farewell(&mut self, bytes: &[u8]) {
        if let Self::Clear(socket) = self {
            let _ = socket.send_without_waiting(bytes);
        }
    }

    fn socket_mut(&mut self) -> &mut Socket {
        match self {
            Self::Clear(socket) => socket,
            Self::Tls(stream) => stream.socket_mut(),
        }
    }
}

pub(super) struct Connected {
    pub(super) transport: Transport,
    pub(super) session: Negotiated,
    pub(super) tls_cipher: Option<String>,
}

pub(super) fn connect(
    address: &ServerAddress,
    collation: u8,
    canceller: &Arc<ConnectionCanceller>,
    traffic: &Rc<Traffic>,
) -> Result<Connected, SqlError> {
    let deadline = Instant::now() + address.connect_timeout;
    let attempt = |wish, tls| attempt(address, collation, (wish, tls), deadline, canceller, traffic);
    let (mode, learned) = (address.tls.mode, &address.learned);
    let preferred_is_clear = matches!(address.endpoint, Endpoint::Unix(_)) || learned.without_tls.get().is_some();
    if mode == TlsMode::Disabled || mode == TlsMode::Preferred && preferred_is_clear {
        return attempt(TlsWish::Never, None);
    }
    // Unusable files are an error in `preferred`, too: clear text is only for servers without usable TLS.
    let tls = learned.tls(&address.tls)?;
    if mode != TlsMode::Preferred {
        return attempt(TlsWish::Must, Some(tls));
    }
    match attempt(TlsWish::IfOffered, Some(tls)) {
        Err(error) if error.code == errors::TLS => {
            let connected = attempt(TlsWish::Never, None)?;
            // The first connection decides, so that reconnects do not try in vain.
            if learned.names.get().is_none() {
                let _ = learned.without_tls.set(());
            }
            Ok(connected)
        }
        other => other,
    }
}

fn attempt(
    address: &ServerAddress,
    collation: u8,
    (wish, mut tls): (TlsWish, Option<Arc<ClientConfig>>),
    deadline: Instant,
    canceller: &Arc<ConnectionCanceller>,
    traffic: &Rc<Traffic>,
) -> Result<Connected, SqlError> {
    let endpoint = &address.endpoint;
    let (canceller, traffic) = (Arc::clone(canceller), Rc::clone(traffic));
    let socket = Socket::connect(address, deadline, canceller, traffic)?;
    let mut transport = Transport::Clear(socket);
    let mut login = Login::new(LoginOptions {
        user: address.user.clone(),
        password: address.password.reveal().to_owned(),
        database: address.database.clone(),
        collation,
        tls: wish,
        channel: match endpoint {
            Endpoint::Unix(_) => Channel::UnixSocket,
            Endpoint::Tcp { .. } => Channel::Plain,
        },
        fewer_capabilities: 0,
    });
    let mut inbox = Inbox::default();
    let mut writer = Vec::new();
    let mut tls_cipher = None;
    loop {
        let (used, step) = login.receive(inbox.unread(), &mut writer).map_err(errors::login)?;
        inbox.consume(used);
        match step {
            LoginStep::Receive if used > 0 => {}
            LoginStep::Receive => {
                let received = transport.receive(inbox.spare()).map_err(|error| silent(endpoint, &error))?;
                if received == 0 {
                    return Err(errors::lost(format!("{endpoint} closed the connection during the login")));
                }
                inbox.received(received);
            }
            LoginStep::Send => send(&mut transport, &mut writer)?,
            LoginStep::StartTls => {
                send(&mut transport, &mut writer)?;
                let (Transport::Clear(socket), Some(config)) = (transport, tls.take()) else {
                    return Err(errors::tls("the server asked for TLS twice"));
                };
                let stream = TlsStream::start(socket, endpoint, config)?;
                tls_cipher = Some(stream.cipher());
                transport = Transport::Tls(Box::new(stream));
                login.tls_started(&mut writer).map_err(errors::login)?;
                send(&mut transport, &mut writer)?;
            }
            LoginStep::Done(session) => return Ok(Connected { transport, session, tls_cipher }),
        }
    }
}

fn send(transport: &mut Transport, writer: &mut Vec<u8>) -> Result<(), SqlError> {
    transport.send(writer).map_err(|error| errors::lost(format!("during the login: {error}")))?;
    writer.clear();
    Ok(())
}

fn silent(endpoint: &Endpoint, error: &io::Error) -> SqlError {
    // A TLS 1.3 server rejects the client's certificate after the handshake.
    if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
        return errors::tls(super::tls::explained(error));
    }
    if error.kind() != io::ErrorKind::TimedOut {
        return errors::lost(format!("during the login: {error}"));
    }
    let message = format!("the server at {endpoint} accepted the connection but did not answer in time");
    SqlError { message, io_errno: None, ..errors::cannot_connect(endpoint, error) }
}
