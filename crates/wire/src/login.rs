//! The greeting and the login, sans-IO. mysql_common's parser of greetings accepts truncated ones and panics on some
//! scramble lengths, so it is not used.

use mysql_common::collations::CollationId;

use crate::auth::{Channel, LoginError, Plugin};
use crate::bytes::{Malformed, Reader, put_lenenc};
use crate::packet::{self, HEADER_BYTES, Header};
use crate::reply::ServerError;

pub mod capability {
    pub const LONG_PASSWORD: u32 = 1;
    pub const LONG_FLAG: u32 = 1 << 2;
    pub const CONNECT_WITH_DB: u32 = 1 << 3;
    pub const PROTOCOL_41: u32 = 1 << 9;
    pub const SSL: u32 = 1 << 11;
    pub const TRANSACTIONS: u32 = 1 << 13;
    pub const SECURE_CONNECTION: u32 = 1 << 15;
    pub const MULTI_STATEMENTS: u32 = 1 << 16;
    pub const MULTI_RESULTS: u32 = 1 << 17;
    pub const PS_MULTI_RESULTS: u32 = 1 << 18;
    pub const PLUGIN_AUTH: u32 = 1 << 19;
    pub const PLUGIN_AUTH_LENENC: u32 = 1 << 21;
    pub const DEPRECATE_EOF: u32 = 1 << 24;

    pub const STATUS_IN_TRANSACTION: u16 = 1;
    pub const STATUS_MORE_RESULTS: u16 = 1 << 3;
    pub const STATUS_NO_BACKSLASH_ESCAPES: u16 = 1 << 9;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// E.g. `8.0.15` or `5.5.5-10.11.19-MariaDB`.
    pub server_version: String,
    /// Random bytes to mix into the password, usually 20, without the terminating NUL.
    pub scramble: Vec<u8>,
    pub capabilities: u32,
    pub auth_plugin: Vec<u8>,
}

impl Greeting {
    /// Parses the greeting's payload. It must have every field that its capability flags promise.
    pub fn parse(payload: &[u8]) -> Result<Self, LoginError> {
        let mut reader = Reader::new(payload, "greeting");
        match reader.u8()? {
            10 => {}
            0xff => return Err(ServerError::parse(payload)?.into()),
            _ => return Err(reader.malformed("its protocol version is not 10").into()),
        }
        let server_version = String::from_utf8_lossy(reader.nul_terminated()?).into_owned();
        let _connection = reader.u32()?;
        let mut scramble = reader.take(8)?.to_vec();
        reader.take(1)?;
        let low = reader.u16()?;
        let _charset = reader.u8()?;
        let _status = reader.u16()?;
        let high = reader.u16()?;
        let capabilities = u32::from(low) | u32::from(high) << 16;
        if capabilities & capability::PROTOCOL_41 == 0 || capabilities & capability::SECURE_CONNECTION == 0 {
            return Err(reader.malformed("the server is older than 4.1").into());
        }
        let scramble_bytes = reader.u8()?;
        reader.take(10)?;
        // The length covers both parts and the NUL, but the second part always takes at least 13 bytes.
        let second = usize::from(scramble_bytes).saturating_sub(8).max(13);
        scramble.extend_from_slice(reader.take(second)?);
        if scramble.last() == Some(&0) {
            scramble.pop();
        }
        let auth_plugin = if capabilities & capability::PLUGIN_AUTH == 0 {
            Vec::new()
        } else {
            match reader.rest() {
                // 5.5.7 to 5.5.9 omit the NUL after it (MySQL bug 59453).
                NATIVE => NATIVE.to_vec(),
                name => Reader::new(name, "greeting").nul_terminated()?.to_vec(),
            }
        };
        Ok(Self { server_version, scramble, capabilities, auth_plugin })
    }

    /// Returns the version without the `5.5.5-` that MariaDB adds for old replicas.
    pub fn version(&self) -> &str {
        match self.server_version.strip_prefix("5.5.5-") {
            Some(version) if version.contains("MariaDB") => version,
            _ => &self.server_version,
        }
    }

    pub fn has(&self, flags: u32) -> bool {
        self.capabilities & flags == flags
    }
}

const NATIVE: &[u8] = b"mysql_native_password";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsWish {
    Never,
    IfOffered,
    Must,
}

pub const UTF8MB4_GENERAL_CI: u8 = 45;

/// Returns a collation's number, or None if it is unknown or does not fit into a login packet.
pub fn collation_id(name: &str) -> Option<u8> {
    u8::try_from(CollationId::from(name) as u16).ok().filter(|id| *id > 0)
}

#[derive(Clone)]
pub struct LoginOptions {
    pub user: String,
    pub password: String,
    pub database: Option<String>,
    /// Number of the session's first collation. The server also decodes the user and database names with it.
    pub collation: u8,
    pub tls: TlsWish,
    pub channel: Channel,
    /// Flags not to use even if the server has them. For tests of replies without [`capability::DEPRECATE_EOF`].
    pub fewer_capabilities: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginStep {
    Receive,
    Send,
    StartTls,
    Done(Negotiated),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Negotiated {
    pub greeting: Greeting,
    pub capabilities: u32,
    pub status: u16,
}

impl Negotiated {
    pub fn deprecate_eof(&self) -> bool {
        self.capabilities & capability::DEPRECATE_EOF != 0
    }
}

const MAX_LOGIN_PAYLOAD_BYTES: usize = 64 * 1024;
/// Twice what the longest login needs (TLS and a switch of plugins). Stops a login that loops forever.
const MAX_SEQUENCE: u8 = 32;

pub struct Login {
    options: LoginOptions,
    state: State,
    sequence: u8,
}

enum State {
    Greeting,
    Tls(Greeting),
    Auth(Auth),
    Over,
}

struct Auth {
    greeting: Greeting,
    capabilities: u32,
    plugin: Plugin,
    scramble: Vec<u8>,
}

impl Login {
    pub fn new(options: LoginOptions) -> Self {
        Self { options, state: State::Greeting, sequence: 0 }
    }

    /// Takes the next packet. Returns how many bytes it used and what to do next. Pass in unused bytes again.
    pub fn receive(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(usize, LoginStep), LoginError> {
        let Some(header) = Header::decode(input) else { return Ok((0, LoginStep::Receive)) };
        if header.payload_bytes > MAX_LOGIN_PAYLOAD_BYTES {
            return Err(malformed("a packet of the login is too long; is this a MySQL server?"));
        }
        let used = HEADER_BYTES + header.payload_bytes;
        let Some(payload) = input.get(HEADER_BYTES..used) else { return Ok((0, LoginStep::Receive)) };
        // A server that is full or shutting down sends its error with sequence number 0.
        if header.sequence != self.sequence && payload.first() != Some(&0xff) {
            return Err(malformed("packets are out of order"));
        }
        if header.sequence > MAX_SEQUENCE {
            return Err(malformed("the server sent too many packets"));
        }
        self.sequence = header.sequence.wrapping_add(1);
        let step = match std::mem::replace(&mut self.state, State::Over) {
            State::Greeting => self.greeted(Greeting::parse(payload)?, input.len() > used, out)?,
            State::Auth(auth) => self.answered(auth, payload, out)?,
            State::Tls(_) | State::Over => {
                return Err(malformed("the server sent an unexpected packet"));
            }
        };
        Ok((used, step))
    }

    /// Writes the login packet to `out`, to be sent through TLS.
    pub fn tls_started(&mut self, out: &mut Vec<u8>) -> Result<(), LoginError> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Tls(greeting) => {
                self.options.channel = Channel::Tls;
                self.respond(greeting, out)
            }
            _ => Err(malformed("TLS started at the wrong time")),
        }
    }

    fn greeted(&mut self, greeting: Greeting, more_input: bool, out: &mut Vec<u8>) -> Result<LoginStep, LoginError> {
        let offered = greeting.has(capability::SSL);
        if self.options.tls == TlsWish::Must && !offered {
            return Err(LoginError::TlsNotOffered { version: greeting.version().to_owned() });
        }
        if self.options.tls == TlsWish::Never || !offered {
            self.respond(greeting, out)?;
            return Ok(LoginStep::Send);
        }
        // Plaintext received before the handshake must not be read as if it were encrypted.
        if more_input {
            return Err(malformed("the server sent data before the TLS handshake"));
        }
        let header_at = packet::begin(out);
        self.put_prefix(self.capabilities(&greeting) | capability::SSL, out);
        self.sequence = packet::finish(out, header_at, self.sequence);
        self.state = State::Tls(greeting);
        Ok(LoginStep::StartTls)
    }

    fn capabilities(&self, greeting: &Greeting) -> u32 {
        let required = capability::PROTOCOL_41 | capability::SECURE_CONNECTION;
        let mut wanted = capability::LONG_PASSWORD
            | capability::LONG_FLAG
            | capability::TRANSACTIONS
            | capability::MULTI_STATEMENTS
            | capability::MULTI_RESULTS
            | capability::PS_MULTI_RESULTS
            | capability::PLUGIN_AUTH
            | capability::PLUGIN_AUTH_LENENC
            | capability::DEPRECATE_EOF;
        if self.options.database.is_some() {
            wanted |= capability::CONNECT_WITH_DB;
        }
        if self.options.channel == Channel::Tls {
            wanted |= capability::SSL;
        }
        required | wanted & greeting.capabilities & !self.options.fewer_capabilities
    }

    fn put_prefix(&self, capabilities: u32, out: &mut Vec<u8>) {
        const MAX_PACKET_BYTES: u32 = 1 << 30;
        out.extend_from_slice(&capabilities.to_le_bytes());
        out.extend_from_slice(&MAX_PACKET_BYTES.to_le_bytes());
        out.push(self.options.collation);
        out.extend_from_slice(&[0; 23]);
    }

    fn respond(&mut self, greeting: Greeting, out: &mut Vec<u8>) -> Result<(), LoginError> {
        // The server asks for any other plugin with a switch request, which has that plugin's own challenge.
        let plugin = match Plugin::by_name(&greeting.auth_plugin) {
            Ok(Plugin::CachingSha2) => Plugin::CachingSha2,
            _ => Plugin::Native,
        };
        let capabilities = self.capabilities(&greeting);
        let has = |flag| capabilities & flag != 0;
        let answer = plugin.answer(self.options.password.as_bytes(), &greeting.scramble, self.options.channel)?;
        let header_at = packet::begin(out);
        self.put_prefix(capabilities, out);
        put_nul_terminated(out, &self.options.user)?;
        if has(capability::PLUGIN_AUTH_LENENC) {
            put_lenenc(out, answer.len() as u64);
        } else {
            // These two plugins answer with 0, 1, 20 or 32 bytes.
            out.push(answer.len() as u8);
        }
        out.extend_from_slice(&answer);
        if has(capability::CONNECT_WITH_DB) {
            put_nul_terminated(out, self.options.database.as_deref().unwrap_or_default())?;
        }
        if has(capability::PLUGIN_AUTH) {
            out.extend_from_slice(plugin.name());
            out.push(0);
        }
        self.sequence = packet::finish(out, header_at, self.sequence);
        let scramble = greeting.scramble.clone();
        self.state = State::Auth(Auth { greeting, capabilities, plugin, scramble });
        Ok(())
    }

    fn answered(&mut self, mut auth: Auth, payload: &[u8], out: &mut Vec<u8>) -> Result<LoginStep, LoginError> {
        let password = self.options.password.as_bytes();
        let mut reader = Reader::new(payload, "answer to the login");
        let answer = match reader.u8()? {
            0 => {
                reader.lenenc()?;
                reader.lenenc()?;
                let Auth { greeting, capabilities, .. } = auth;
                return Ok(LoginStep::Done(Negotiated { greeting, capabilities, status: reader.u16()? }));
            }
            0xff => return Err(ServerError::parse(payload)?.into()),
            0xfe if reader.is_empty() => return Err(LoginError::UnknownPlugin("mysql_old_password".into())),
            0xfe => {
                auth.plugin = Plugin::by_name(reader.nul_terminated()?)?;
                let challenge = reader.rest();
                auth.scramble = challenge.strip_suffix(b"\0").unwrap_or(challenge).to_vec();
                Some(auth.plugin.answer(password, challenge, self.options.channel)?)
            }
            1 => auth.plugin.continue_with(password, &auth.scramble, reader.rest(), self.options.channel)?,
            _ => return Err(malformed("the answer to the login has an unknown type")),
        };
        self.state = State::Auth(auth);
        let Some(answer) = answer else { return Ok(LoginStep::Receive) };
        self.sequence = packet::encode(out, &answer, self.sequence);
        Ok(LoginStep::Send)
    }
}

fn put_nul_terminated(out: &mut Vec<u8>, text: &str) -> Result<(), LoginError> {
    if text.as_bytes().contains(&0) {
        return Err(malformed("the user or database name contains a NUL"));
    }
    out.extend_from_slice(text.as_bytes());
    out.push(0);
    Ok(())
}

fn malformed(why: &'static str) -> LoginError {
    Malformed { what: "login", why }.into()
}

#[cfg(test)]
#[path = "../tests/unit/login.rs"]
mod tests;
