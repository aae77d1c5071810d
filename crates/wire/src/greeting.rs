//! The first packet of a connection, written by the server: handshake version 10, or an error.
//!
//! Source: MySQL internals manual, "Protocol::HandshakeV10". Parsed here and not by mysql_common, whose parser accepts greetings
//! that were cut off and panics on some lengths of the scramble.

use crate::bytes::Reader;
use crate::{Malformed, ServerError, capability};

/// What a server says of itself before the login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// E.g. `8.0.15` or `5.5.5-10.11.19-MariaDB`.
    pub server_version: String,
    /// The connection's number, as SHOW PROCESSLIST has it.
    pub connection_id: u32,
    /// Random bytes to mix into the password, 20 of them but for strange servers; without the terminating NUL.
    pub scramble: Vec<u8>,
    /// Flags of [`capability`].
    pub capabilities: u32,
    /// Flags of [`capability`].
    pub status: u16,
    /// The plugin that the server would like; empty when it knows nothing of plugins.
    pub auth_plugin: Vec<u8>,
}

impl Greeting {
    /// Parses the greeting's payload.
    ///
    /// Complete means: everything that the server's own capability flags promise is there. One exception: 5.5.7 to 5.5.9 leave
    /// out the NUL behind `mysql_native_password` (MySQL bug 59453).
    ///
    /// # Errors
    /// `Refused` when the server answers with an error instead (1040 too many connections, 1129 host blocked); `Malformed` when the
    /// packet is not a complete greeting of version 10 with protocol 4.1.
    pub fn parse(payload: &[u8]) -> Result<Self, GreetingError> {
        let mut reader = Reader::new(payload, "greeting");
        match reader.u8()? {
            10 => {}
            0xff => return Err(GreetingError::Refused(ServerError::parse(payload)?)),
            _ => return Err(reader.malformed("it is not of protocol version 10").into()),
        }
        let server_version = String::from_utf8_lossy(reader.nul_terminated()?).into_owned();
        let connection_id = reader.u32()?;
        let mut scramble = reader.take(8)?.to_vec();
        reader.take(1)?;
        let low = reader.u16()?;
        let _charset = reader.u8()?;
        let status = reader.u16()?;
        let high = reader.u16()?;
        let capabilities = u32::from(low) | u32::from(high) << 16;
        if capabilities & capability::PROTOCOL_41 == 0
            || capabilities & capability::SECURE_CONNECTION == 0
        {
            return Err(reader.malformed("it is of a server older than 4.1").into());
        }
        let scramble_bytes = reader.u8()?;
        reader.take(10)?;
        // The length counts both parts and the NUL; the second part takes 13 bytes even where the length says less.
        let second = usize::from(scramble_bytes).saturating_sub(8).max(13);
        scramble.extend_from_slice(reader.take(second)?);
        if scramble.last() == Some(&0) {
            scramble.pop();
        }
        let auth_plugin = if capabilities & capability::PLUGIN_AUTH == 0 {
            Vec::new()
        } else {
            match reader.rest() {
                NATIVE => NATIVE.to_vec(),
                name => Reader::new(name, "greeting").nul_terminated()?.to_vec(),
            }
        };
        Ok(Self {
            server_version,
            connection_id,
            scramble,
            capabilities,
            status,
            auth_plugin,
        })
    }

    /// The version without the `5.5.5-` that MariaDB puts in front for the sake of old replication slaves.
    pub fn version(&self) -> &str {
        match self.server_version.strip_prefix("5.5.5-") {
            Some(version) if version.contains("MariaDB") => version,
            _ => &self.server_version,
        }
    }

    /// Does the server have all of `flags`?
    pub fn has(&self, flags: u32) -> bool {
        self.capabilities & flags == flags
    }
}

const NATIVE: &[u8] = b"mysql_native_password";

/// Why there is no greeting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GreetingError {
    /// The server said no before anything else.
    #[error(transparent)]
    Refused(#[from] ServerError),
    /// Not a MySQL server, or one that is broken.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn greeting(scramble_bytes: u8, second: &[u8], plugin: &[u8]) -> Vec<u8> {
        let flags =
            capability::PROTOCOL_41 | capability::SECURE_CONNECTION | capability::PLUGIN_AUTH;
        let mut bytes = b"\x0a5.5.9\0\x07\0\0\x0001234567\0".to_vec();
        bytes.extend_from_slice(&flags.to_le_bytes()[..2]);
        bytes.extend_from_slice(&[8, 2, 0]);
        bytes.extend_from_slice(&flags.to_le_bytes()[2..]);
        bytes.push(scramble_bytes);
        bytes.extend_from_slice(&[0; 10]);
        bytes.extend_from_slice(second);
        bytes.extend_from_slice(plugin);
        bytes
    }

    #[test]
    fn the_greeting_of_5_5_9_lacks_a_nul() {
        let parsed = Greeting::parse(&greeting(21, b"89abcdefghij\0", NATIVE)).unwrap();
        assert_eq!(parsed.auth_plugin, NATIVE);
        assert_eq!(parsed.scramble, b"0123456789abcdefghij");
        assert_eq!(parsed.connection_id, 7);
    }

    #[test]
    fn every_cut_greeting_is_refused() {
        let whole = greeting(21, b"89abcdefghij\0", b"caching_sha2_password\0");
        assert!(Greeting::parse(&whole).is_ok());
        for length in 0..whole.len() {
            assert!(
                Greeting::parse(&whole[..length]).is_err(),
                "cut to {length} bytes"
            );
        }
    }

    #[test]
    fn every_scramble_length_is_survived() {
        for scramble_bytes in 0..=255 {
            let _ = Greeting::parse(&greeting(scramble_bytes, b"89abcdefghij\0", b"x\0"));
        }
    }

    #[test]
    fn too_many_connections_is_told_without_a_greeting() {
        match Greeting::parse(b"\xff\x10\x04Too many connections") {
            Err(GreetingError::Refused(error)) => assert_eq!(
                (error.code, &*error.message),
                (1040, "Too many connections")
            ),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn mariadb_tells_its_true_version() {
        let mut parsed = Greeting::parse(&greeting(21, b"89abcdefghij\0", b"x\0")).unwrap();
        parsed.server_version = "5.5.5-10.11.19-MariaDB".into();
        assert_eq!(parsed.version(), "10.11.19-MariaDB");
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            let _ = Greeting::parse(&bytes);
        }
    }
}
