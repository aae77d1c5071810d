//! Tests of `src/auth.rs`.

use super::*;

/// Made for this test by `openssl genrsa 2048 | openssl rsa -pubout`.
const PEM: &str = include_str!("../../testdata/public_key.pem");

#[test]
fn a_password_is_encrypted_to_the_size_of_the_key() {
    let secret = encrypt(b"secret", b"01234567890123456789", PEM.as_bytes()).unwrap();
    assert_eq!(secret.len(), 256);
    let longest = |length: usize| encrypt(&vec![b'x'; length], b"01234567890123456789", PEM.as_bytes());
    assert_eq!(longest(213).unwrap().len(), 256);
    for length in [214, 215, 300] {
        assert_eq!(longest(length).unwrap_err().why, "the password is too long for it");
    }
}

#[test]
fn no_truncated_or_changed_key_panics() {
    for length in 0..PEM.len() - 2 {
        assert!(public_key(&PEM.as_bytes()[..length]).is_err(), "cut to {length} bytes");
    }
    for at in 0..PEM.len() {
        for byte in [0, b'A', b'/', b'=', b'-', 0xff] {
            let mut changed = PEM.as_bytes().to_vec();
            changed[at] = byte;
            let _ = encrypt(b"secret", b"01234567890123456789", &changed);
        }
    }
}

#[test]
fn clear_text_needs_tls() {
    assert_eq!(Plugin::ClearText.answer(b"secret", b"", Channel::Plain), Err(LoginError::ClearTextRefused));
    assert_eq!(Plugin::ClearText.answer(b"secret", b"", Channel::UnixSocket), Err(LoginError::ClearTextRefused));
    assert_eq!(Plugin::ClearText.answer(b"secret", b"", Channel::Tls).unwrap(), b"secret\0");
}

#[test]
fn full_authentication_depends_on_the_channel() {
    let full = |channel| Plugin::CachingSha2.continue_with(b"secret", b"01234567890123456789", &[FULL_AUTH], channel);
    assert_eq!(full(Channel::Plain).unwrap().unwrap(), [2], "asks for the public key");
    assert_eq!(full(Channel::UnixSocket).unwrap().unwrap(), b"secret\0");
    assert_eq!(full(Channel::Tls).unwrap().unwrap(), b"secret\0");
}

#[test]
fn a_short_challenge_is_refused() {
    for plugin in [Plugin::Native, Plugin::CachingSha2, Plugin::Ed25519] {
        assert!(plugin.answer(b"secret", b"short", Channel::Plain).is_err(), "{plugin:?}");
    }
}
