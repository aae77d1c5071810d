//! Tests of `src/handshake.rs`.

use super::*;

#[test]
fn native_password_matches_its_test_vector() {
    // Computed with Python's hashlib from the published formula, scramble "abcdefghijklmnopqrst", password "secret".
    let scramble = Scramble(*b"abcdefghijklmnopqrst");
    let answer = [
        0x88, 0x17, 0xc5, 0x0f, 0xa7, 0x79, 0xda, 0xef, 0x01, 0x0e, 0xe7, 0x57, 0x78, 0x25, 0xb0, 0x84, 0x7d, 0xf9,
        0x84, 0x2e,
    ];
    assert!(scramble.proves(&answer, "secret"));
    assert!(!scramble.proves(&answer, "Secret"));
    assert!(!scramble.proves(&answer[..19], "secret"));
    assert!(!scramble.proves(&[], "secret"));
    assert!(scramble.proves(&[], ""));
}

#[test]
fn a_hello_truncated_within_its_authentication_is_refused() {
    let mut hello = Vec::new();
    hello.extend_from_slice(&capability::OFFERED.to_le_bytes());
    hello.extend_from_slice(&0u32.to_le_bytes());
    hello.push(45);
    hello.extend_from_slice(&[0; 23]);
    hello.extend_from_slice(b"root\0\x03abcdb\0mysql_native_password\0");
    let whole = ClientHello::read(&hello).expect("whole");
    assert_eq!((whole.user.as_str(), whole.auth_answer.as_slice(), whole.charset), ("root", &b"abc"[..], 45));
    assert_eq!(whole.database.as_deref(), Some("db"));
    assert_eq!(whole.plugin.as_deref(), Some(NATIVE_PASSWORD));
    for cut in 0..40 {
        assert_eq!(ClientHello::read(&hello[..cut]), None, "{cut} bytes");
    }
}
