//! Bytes to and from a server that has logged us in, over clear text or TLS.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bakeoff_script::host::SqlError;
use bakeoff_wire::{Channel, Inbox, Login, LoginOptions, LoginStep, Session, TlsWish, charset};

use super::address::{Endpoint, ServerAddress, TlsMode};
use super::errors;
use super::socket::{Patience, Socket, Traffic};
use super::tls::TlsStream;
use crate::cancel::ConnectionCanceller;

pub(super) enum Transport {
    Clear(Socket),
    Tls(Box<TlsStream>),
}

impl Transport {
    /// Sends all of `bytes`, waiting as long as the socket's write timeout.
    #[inline]
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Clear(socket) => socket.send(bytes),
            Self::Tls(stream) => stream.send(bytes),
        }
    }

    /// Receives at least one byte; 0 when the server closed the connection.
    #[inline]
    pub(super) fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Clear(socket) => socket.receive(into),
            Self::Tls(stream) => stream.receive(into),
        }
    }

    /// Says goodbye if it can be said at once. Over TLS none is said: the server sees the closed socket.
    pub(super) fn farewell(&mut self, bytes: &[u8]) {
        if let Self::Clear(socket) = self {
            // The server may be gone already.
            let _ = socket.send_without_waiting(bytes);
        }
    }

    fn set_patience(&mut self, patience: Patience) {
        match self {
            Self::Clear(socket) => socket.set_patience(patience),
            Self::Tls(stream) => stream.socket_mut().set_patience(patience),
        }
    }
}

/// A transport, logged in.
pub(super) struct Connected {
    pub(super) transport: Transport,
    pub(super) session: Session,
    pub(super) tls_cipher: Option<String>,
}

/// Connects and logs in, all within the address's connect timeout.
pub(super) fn connect(
    address: &ServerAddress,
    canceller: Option<&Arc<ConnectionCanceller>>,
    traffic: &Rc<Traffic>,
) -> Result<Connected, SqlError> {
    let deadline = Instant::now() + address.connect_timeout;
    let attempt = |wish| attempt(address, wish, deadline, canceller, traffic);
    match (address.tls.mode, &address.endpoint) {
        (TlsMode::Disabled, _) | (TlsMode::Preferred, Endpoint::Unix(_)) => attempt(TlsWish::Never),
        (TlsMode::Preferred, Endpoint::Tcp { .. }) => match attempt(TlsWish::IfOffered) {
            Err(error) if error.code == errors::TLS => attempt(TlsWish::Never),
            other => other,
        },
        (TlsMode::Required | TlsMode::VerifyCa | TlsMode::VerifyIdentity, _) => attempt(TlsWish::Must),
    }
}

fn attempt(
    address: &ServerAddress,
    wish: TlsWish,
    deadline: Instant,
    canceller: Option<&Arc<ConnectionCanceller>>,
    traffic: &Rc<Traffic>,
) -> Result<Connected, SqlError> {
    let endpoint = &address.endpoint;
    let socket = Socket::connect(
        endpoint,
        deadline,
        address.read_timeout,
        canceller.cloned(),
        Rc::clone(traffic),
    )?;
    let mut transport = Transport::Clear(socket);
    let mut login = Login::new(LoginOptions {
        user: address.user.clone(),
        password: address.password.reveal().to_owned(),
        database: address.database.clone(),
        collation_id: charset::login_collation_id(&address.charset),
        tls: wish,
        channel: match endpoint {
            Endpoint::Unix(_) => Channel::UnixSocket,
            Endpoint::Tcp { .. } => Channel::Plain,
        },
        more_capabilities: 0,
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
                let received = transport
                    .receive(inbox.spare())
                    .map_err(|error| silent(endpoint, &error))?;
                if received == 0 {
                    return Err(errors::lost(format!("{endpoint} closed it during the login")));
                }
                inbox.received(received);
            }
            LoginStep::Send => send(&mut transport, &mut writer)?,
            LoginStep::StartTls => {
                send(&mut transport, &mut writer)?;
                let Transport::Clear(socket) = transport else {
                    return Err(errors::tls("the server asks for it twice"));
                };
                let stream = TlsStream::start(socket, endpoint, &address.tls)?;
                tls_cipher = Some(stream.cipher());
                transport = Transport::Tls(Box::new(stream));
                login.tls_started(&mut writer).map_err(errors::login)?;
                send(&mut transport, &mut writer)?;
            }
            LoginStep::Done(session) => {
                transport.set_patience(Patience::silence(address.read_timeout));
                return Ok(Connected {
                    transport,
                    session,
                    tls_cipher,
                });
            }
        }
    }
}

fn send(transport: &mut Transport, writer: &mut Vec<u8>) -> Result<(), SqlError> {
    transport
        .send(writer)
        .map_err(|error| errors::lost(format!("during the login: {error}")))?;
    writer.clear();
    Ok(())
}

fn silent(endpoint: &Endpoint, error: &io::Error) -> SqlError {
    if error.kind() != io::ErrorKind::TimedOut {
        return errors::lost(format!("during the login: {error}"));
    }
    let code = match endpoint {
        Endpoint::Unix(_) => errors::CANNOT_CONNECT_UNIX,
        Endpoint::Tcp { .. } => errors::CANNOT_CONNECT_TCP,
    };
    errors::fatal(
        code,
        format!("the server at {endpoint} took the connection and did not answer in time"),
    )
}
