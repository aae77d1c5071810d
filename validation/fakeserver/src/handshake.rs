//! The connection phase: greeting, the client's answer, `mysql_native_password`.
//!
//! Source: "Connection Phase" of the MySQL Internals manual (HandshakeV10, HandshakeResponse41, AuthSwitchRequest).

use rand::RngExt;
use rand::rngs::StdRng;
use sha1::{Digest, Sha1};

use crate::packet::{PacketWriter, PayloadReader};

/// Capability flags that this server uses.
pub(crate) mod capability {
    pub(crate) const CONNECT_WITH_DB: u32 = 1 << 3;
    pub(crate) const PROTOCOL_41: u32 = 1 << 9;
    pub(crate) const SECURE_CONNECTION: u32 = 1 << 15;
    pub(crate) const PLUGIN_AUTH: u32 = 1 << 19;
    pub(crate) const LENENC_AUTH_DATA: u32 = 1 << 21;
    pub(crate) const DEPRECATE_EOF: u32 = 1 << 24;

    const LONG_PASSWORD: u32 = 1;
    const FOUND_ROWS: u32 = 1 << 1;
    const LONG_FLAG: u32 = 1 << 2;
    const LOCAL_FILES: u32 = 1 << 7;
    const TRANSACTIONS: u32 = 1 << 13;
    const CONNECT_ATTRIBUTES: u32 = 1 << 20;

    pub(crate) const OFFERED: u32 = LONG_PASSWORD
        | FOUND_ROWS
        | LONG_FLAG
        | CONNECT_WITH_DB
        | LOCAL_FILES
        | PROTOCOL_41
        | TRANSACTIONS
        | SECURE_CONNECTION
        | PLUGIN_AUTH
        | CONNECT_ATTRIBUTES
        | LENENC_AUTH_DATA
        | DEPRECATE_EOF;
}

pub(crate) const NATIVE_PASSWORD: &str = "mysql_native_password";

/// The 20 random bytes that a password is mixed with; none is zero, because old clients read them as C strings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scramble([u8; 20]);

impl Scramble {
    pub(crate) fn draw(random: &mut StdRng) -> Self {
        Self(std::array::from_fn(|_| random.random_range(33..=125)))
    }

    /// Whether `answer` is SHA1(password) XOR SHA1(scramble ‖ SHA1(SHA1(password))).
    pub(crate) fn proves(&self, answer: &[u8], password: &str) -> bool {
        if password.is_empty() {
            return answer.is_empty();
        }
        let once = Sha1::digest(password.as_bytes());
        let twice = Sha1::digest(once);
        let mask = Sha1::new().chain_update(self.0).chain_update(twice).finalize();
        answer.len() == 20 && answer.iter().zip(&mask).zip(&once).all(|((a, m), o)| a ^ m == *o)
    }
}

/// Appends the greeting. `charset` is the server's default collation id.
pub(crate) fn put_greeting(out: &mut Vec<u8>, version: &str, connection_id: u32, charset: u8, scramble: &Scramble) {
    let offered = capability::OFFERED.to_le_bytes();
    PacketWriter::new(out, 0).packet(|out| {
        out.push(10);
        out.extend_from_slice(version.as_bytes());
        out.push(0);
        out.extend_from_slice(&connection_id.to_le_bytes());
        out.extend_from_slice(&scramble.0[..8]);
        out.push(0);
        out.extend_from_slice(&offered[..2]);
        out.push(charset);
        out.extend_from_slice(&crate::resultset::STATUS_AUTOCOMMIT.to_le_bytes());
        out.extend_from_slice(&offered[2..]);
        out.push(21);
        out.extend_from_slice(&[0; 10]);
        out.extend_from_slice(&scramble.0[8..]);
        out.push(0);
        out.extend_from_slice(NATIVE_PASSWORD.as_bytes());
        out.push(0);
    });
}

/// Appends a request to authenticate by `mysql_native_password` instead.
pub(crate) fn put_auth_switch(out: &mut Vec<u8>, sequence: u8, scramble: &Scramble) {
    PacketWriter::new(out, sequence).packet(|out| {
        out.push(0xFE);
        out.extend_from_slice(NATIVE_PASSWORD.as_bytes());
        out.push(0);
        out.extend_from_slice(&scramble.0);
        out.push(0);
    });
}

#[derive(Debug, PartialEq)]
pub(crate) struct ClientHello {
    pub(crate) capabilities: u32,
    pub(crate) charset: u8,
    pub(crate) user: String,
    pub(crate) auth_answer: Vec<u8>,
    pub(crate) database: Option<String>,
    pub(crate) plugin: Option<String>,
}

impl ClientHello {
    /// Reads a HandshakeResponse41; `None` if it is truncated or older than protocol 4.1.
    pub(crate) fn read(payload: &[u8]) -> Option<Self> {
        let mut reader = PayloadReader::new(payload);
        let capabilities = reader.u32()? & capability::OFFERED;
        if capabilities & capability::PROTOCOL_41 == 0 {
            return None;
        }
        let has = |flag| capabilities & flag != 0;
        let _max_packet = reader.u32()?;
        let charset = reader.u8()?;
        let _filler = reader.bytes(23)?;
        let user = text(reader.until_zero());
        let auth_answer = if has(capability::LENENC_AUTH_DATA) {
            reader.text()?.to_vec()
        } else if has(capability::SECURE_CONNECTION) {
            let length = reader.u8()?;
            reader.bytes(usize::from(length))?.to_vec()
        } else {
            reader.until_zero().to_vec()
        };
        let database = has(capability::CONNECT_WITH_DB).then(|| text(reader.until_zero()));
        let plugin = (has(capability::PLUGIN_AUTH) && !reader.is_empty()).then(|| text(reader.until_zero()));
        Some(Self { capabilities, charset, user, auth_answer, database, plugin })
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
#[path = "../tests/unit/handshake.rs"]
mod tests;
