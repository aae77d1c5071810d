//! What can go wrong in the protocol, and what a server says has gone wrong.

use crate::bytes::Reader;

/// Bytes that break the protocol: a bug of the server's or ours, or something that is no MySQL server at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed {what}: {why}")]
pub struct Malformed {
    /// Which packet.
    pub what: &'static str,
    /// What is wrong with it.
    pub why: &'static str,
}

/// An ERR packet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code} ({sqlstate}): {message}")]
pub struct ServerError {
    /// The server's error number.
    pub code: u16,
    /// Five characters; `HY000` where the server gave none.
    pub sqlstate: String,
    /// The server's words; bytes that are not UTF-8 are replaced.
    pub message: String,
}

impl ServerError {
    /// Parses an ERR packet's payload, with or without SQLSTATE (there is none before the login).
    ///
    /// # Errors
    /// The packet is no ERR packet or ends before the error number.
    pub fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload, "error packet");
        if reader.u8()? != 0xff {
            return Err(reader.malformed("it does not begin with 0xff"));
        }
        let code = reader.u16()?;
        let text = reader.rest();
        let (sqlstate, message) = match text.split_at_checked(6) {
            Some(([b'#', state @ ..], message)) => {
                (String::from_utf8_lossy(state).into_owned(), message)
            }
            _ => ("HY000".to_owned(), text),
        };
        Ok(Self {
            code,
            sqlstate,
            message: String::from_utf8_lossy(message).into_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_a_state_or_not() {
        let with = ServerError::parse(b"\xff\x15\x04#28000Access denied").unwrap();
        assert_eq!(
            (with.code, &*with.sqlstate, &*with.message),
            (1045, "28000", "Access denied")
        );
        let without = ServerError::parse(b"\xff\x10\x04#280").unwrap();
        assert_eq!(
            (without.code, &*without.sqlstate, &*without.message),
            (1040, "HY000", "#280")
        );
        assert!(ServerError::parse(b"\xff\x15").is_err());
        assert!(ServerError::parse(b"").is_err());
    }
}
