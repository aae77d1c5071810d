//! Tests of `src/login.rs`.

use proptest::prelude::*;

use super::*;

fn greeting(scramble_bytes: u8, second: &[u8], plugin: &[u8]) -> Vec<u8> {
    let flags = capability::PROTOCOL_41 | capability::SECURE_CONNECTION | capability::PLUGIN_AUTH;
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
fn the_5_5_9_greeting_without_a_final_nul_is_parsed() {
    let parsed = Greeting::parse(&greeting(21, b"89abcdefghij\0", NATIVE)).unwrap();
    assert_eq!(parsed.auth_plugin, NATIVE);
    assert_eq!(parsed.scramble, b"0123456789abcdefghij");
}

#[test]
fn every_truncated_greeting_is_refused() {
    let whole = greeting(21, b"89abcdefghij\0", b"caching_sha2_password\0");
    assert!(Greeting::parse(&whole).is_ok());
    for length in 0..whole.len() {
        assert!(Greeting::parse(&whole[..length]).is_err(), "cut to {length} bytes");
    }
}

#[test]
fn no_scramble_length_panics() {
    for scramble_bytes in 0..=255 {
        let _ = Greeting::parse(&greeting(scramble_bytes, b"89abcdefghij\0", b"x\0"));
    }
}

#[test]
fn too_many_connections_is_reported_without_a_greeting() {
    match Greeting::parse(b"\xff\x10\x04Too many connections") {
        Err(LoginError::Server(error)) => assert_eq!((error.code, &*error.message), (1040, "Too many connections")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn mariadbs_version_prefix_is_removed() {
    let mut parsed = Greeting::parse(&greeting(21, b"89abcdefghij\0", b"x\0")).unwrap();
    parsed.server_version = "5.5.5-10.11.19-MariaDB".into();
    assert_eq!(parsed.version(), "10.11.19-MariaDB");
}

proptest! {
    #[test]
    fn arbitrary_greetings_do_not_panic(bytes: Vec<u8>) {
        let _ = Greeting::parse(&bytes);
    }
}

#[test]
fn a_login_can_only_name_collations_below_256() {
    let known = ["utf8mb4_general_ci", "utf8mb4_0900_ai_ci", "latin1_german1_ci", "binary"].map(collation_id);
    assert_eq!(known, [Some(45), Some(255), Some(5), Some(63)]);
    assert_eq!(["utf8mb4_ja_0900_as_cs", "utf8mb4_uca1400_ai_ci", "klingon_ci", ""].map(collation_id), [None; 4]);
}

#[test]
fn endless_plugin_switches_are_refused() {
    let mut login = Login::new(LoginOptions {
        user: "me".into(),
        password: "secret".into(),
        database: None,
        collation: 45,
        tls: TlsWish::Never,
        channel: Channel::UnixSocket,
        fewer_capabilities: 0,
    });
    let mut payload = greeting(21, b"89abcdefghij\0", b"mysql_native_password\0");
    for sequence in (0..=254).step_by(2) {
        let (mut input, mut out) = (Vec::new(), Vec::new());
        packet::encode(&mut input, &payload, sequence);
        if let Err(error) = login.receive(&input, &mut out) {
            return assert!(sequence > 16 && error.to_string().contains("too many packets"), "{sequence}: {error}");
        }
        payload = b"\xfemysql_native_password\x000123456789abcdefghij\0".to_vec();
    }
    panic!("it goes on");
}
