//! Authentication plugins: what to answer to a server's challenge. The cryptography is mysql_common's.

use base64::Engine as _;
use mysql_common::auth::plugins::{
    ChallengeResponsePlugin as _, Context, Response, caching_sha2_password::scramble_sha256,
    client_ed25519::ClientEd25519, mysql_native_password::scramble_native,
};
use mysql_common::crypto::rsa::{GetRandom, Pkcs1OaepPadding, PublicKey};
use mysql_common::num_bigint::BigUint;

use crate::bytes::{Malformed, Reader};
use crate::reply::ServerError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    Plain,
    UnixSocket,
    Tls,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error("TLS is required, but the server ({version}) does not offer it")]
    TlsNotOffered { version: String },
    #[error("the server asks for authentication plugin '{0}', which bakeoff does not support")]
    UnknownPlugin(String),
    #[error(
        "the server asks for the password in clear text over a connection without TLS; set the TLS mode to required"
    )]
    ClearTextRefused,
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plugin {
    Native,
    CachingSha2,
    Sha256,
    Ed25519,
    ClearText,
}

const BAD_CHALLENGE: Malformed = Malformed { what: "authentication challenge", why: "it has the wrong length" };
const BAD_KEY: Malformed = Malformed { what: "RSA public key of the server", why: "it is not a usable PEM key" };

const FAST_AUTH_OK: u8 = 3;
const FULL_AUTH: u8 = 4;

impl Plugin {
    const NAMES: [(&'static [u8], Self); 5] = [
        (b"mysql_native_password", Self::Native),
        (b"caching_sha2_password", Self::CachingSha2),
        (b"sha256_password", Self::Sha256),
        (b"client_ed25519", Self::Ed25519),
        (b"mysql_clear_password", Self::ClearText),
    ];

    pub(crate) fn by_name(name: &[u8]) -> Result<Self, LoginError> {
        let known = Self::NAMES.into_iter().find(|(known, _)| *known == name);
        known.map(|(_, plugin)| plugin).ok_or_else(|| LoginError::UnknownPlugin(String::from_utf8_lossy(name).into()))
    }

    pub(crate) fn name(self) -> &'static [u8] {
        Self::NAMES[self as usize].0
    }

    pub(crate) fn answer(self, password: &[u8], challenge: &[u8], channel: Channel) -> Result<Vec<u8>, LoginError> {
        // The NUL at the end of a switch request's challenge does not belong to it.
        let nonce = challenge.strip_suffix(b"\0").unwrap_or(challenge);
        match self {
            Plugin::Native if password.is_empty() => Ok(Vec::new()),
            Plugin::Native => {
                let nonce = nonce.first_chunk::<20>().ok_or(BAD_CHALLENGE)?;
                Ok(scramble_native(nonce, password).map(Vec::from).unwrap_or_default())
            }
            // A single NUL means no password, as in MySQL's own client.
            Plugin::CachingSha2 | Plugin::Sha256 if password.is_empty() => Ok(vec![0]),
            Plugin::CachingSha2 => {
                let nonce = nonce.first_chunk::<20>().ok_or(BAD_CHALLENGE)?;
                Ok(scramble_sha256(nonce, password).map(Vec::from).unwrap_or_default())
            }
            Plugin::Sha256 if channel == Channel::Tls => Ok(clear_text(password)),
            Plugin::Sha256 => Ok(vec![self.public_key_request()]),
            Plugin::Ed25519 => match ClientEd25519::default().run(Password(password), challenge) {
                Ok(Response::Next { packet: Some(packet) } | Response::Last { packet: Some(packet) }) => Ok(packet),
                _ => Err(BAD_CHALLENGE.into()),
            },
            Plugin::ClearText if channel == Channel::Tls => Ok(clear_text(password)),
            Plugin::ClearText => Err(LoginError::ClearTextRefused),
        }
    }

    pub(crate) fn continue_with(
        self,
        password: &[u8],
        scramble: &[u8],
        data: &[u8],
        channel: Channel,
    ) -> Result<Option<Vec<u8>>, LoginError> {
        match (self, data) {
            (Plugin::CachingSha2, [FAST_AUTH_OK]) => Ok(None),
            (Plugin::CachingSha2, [FULL_AUTH]) if channel == Channel::Plain => {
                Ok(Some(vec![self.public_key_request()]))
            }
            (Plugin::CachingSha2, [FULL_AUTH]) => Ok(Some(clear_text(password))),
            (Plugin::CachingSha2 | Plugin::Sha256, pem) => Ok(Some(encrypt(password, scramble, pem)?)),
            _ => Err(Malformed { what: "authentication data", why: "the plugin does not expect any" }.into()),
        }
    }

    fn public_key_request(self) -> u8 {
        if self == Plugin::Sha256 { 1 } else { 2 }
    }
}

fn clear_text(password: &[u8]) -> Vec<u8> {
    [password, b"\0"].concat()
}

/// Bytes that OAEP with SHA-1 adds. mysql_common panics if the password is one byte too long.
const OAEP_BYTES: usize = 42;

fn encrypt(password: &[u8], scramble: &[u8], pem: &[u8]) -> Result<Vec<u8>, Malformed> {
    if scramble.is_empty() {
        return Err(BAD_CHALLENGE);
    }
    let mut mixed = clear_text(password);
    for (byte, mask) in mixed.iter_mut().zip(scramble.iter().cycle()) {
        *byte ^= mask;
    }
    let key = public_key(pem)?;
    if mixed.len() + OAEP_BYTES > key.num_octets() {
        return Err(Malformed { what: "RSA public key of the server", why: "the password is too long for it" });
    }
    key.encrypt_block(mixed, Pkcs1OaepPadding::new(GetRandom)).map_err(|_| BAD_KEY)
}

/// Reads `-----BEGIN PUBLIC KEY-----`. mysql_common's own reader panics on a truncated key (0.38.2).
fn public_key(pem: &[u8]) -> Result<PublicKey, Malformed> {
    let text = std::str::from_utf8(pem).map_err(|_| BAD_KEY)?;
    let (_, body) = text.split_once("-----BEGIN PUBLIC KEY-----").ok_or(BAD_KEY)?;
    let (body, _) = body.split_once("-----END PUBLIC KEY-----").ok_or(BAD_KEY)?;
    let body: String = body.split_ascii_whitespace().collect();
    let der = base64::engine::general_purpose::STANDARD.decode(body).map_err(|_| BAD_KEY)?;

    let mut outer = Reader::new(&der, "RSA public key of the server");
    let mut info = der_element(&mut outer, 0x30)?;
    der_element(&mut info, 0x30)?;
    let mut bits = der_element(&mut info, 0x03)?;
    if bits.u8()? != 0 {
        return Err(BAD_KEY);
    }
    let mut numbers = der_element(&mut bits, 0x30)?;
    let modulus = BigUint::from_bytes_be(der_element(&mut numbers, 0x02)?.rest());
    let exponent = BigUint::from_bytes_be(der_element(&mut numbers, 0x02)?.rest());
    // Servers use 2048 bits and exponent 65537. The bounds reject a hostile key that would take minutes of CPU.
    let usable = (1024..=16384).contains(&modulus.bits()) && modulus.bit(0) && (2..=64).contains(&exponent.bits());
    if usable { Ok(PublicKey::new(modulus, exponent)) } else { Err(BAD_KEY) }
}

fn der_element<'a>(reader: &mut Reader<'a>, tag: u8) -> Result<Reader<'a>, Malformed> {
    if reader.u8()? != tag {
        return Err(BAD_KEY);
    }
    let length = match reader.u8()? {
        short @ 0..=0x7f => usize::from(short),
        0x81 => usize::from(reader.u8()?),
        0x82 => usize::from(reader.u8()?) << 8 | usize::from(reader.u8()?),
        _ => return Err(BAD_KEY),
    };
    Ok(Reader::new(reader.take(length)?, "RSA public key of the server"))
}

struct Password<'a>(&'a [u8]);

impl Context for Password<'_> {
    fn pass(&self) -> &[u8] {
        self.0
    }

    fn is_ipc_transport(&self) -> bool {
        false
    }

    fn is_tls_transport(&self) -> bool {
        false
    }

    fn scramble(&self) -> &[u8] {
        &[]
    }

    fn server_key_pem(&self) -> Option<&[u8]> {
        None
    }
}

#[cfg(test)]
#[path = "../tests/unit/auth.rs"]
mod tests;
