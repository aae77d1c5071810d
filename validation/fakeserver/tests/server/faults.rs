//! Each injected fault is what it says.

use std::time::Duration;

use crate::client::{Answer, FakeServer};

const SELECT: &str = "SELECT c FROM sbtest1 WHERE id=1";

#[test]
fn a_fault_hits_its_statement_only() {
    let server = FakeServer::start(&["--fault", "close@3"]);
    let mut client = server.connect();
    client.query(SELECT).rows();
    client.query("SET NAMES latin1");
    client.query(SELECT).rows();
    client.send(&[&[3], SELECT.as_bytes()].concat());
    assert!(client.is_closed());
    server.connect().query(SELECT).rows();
}

#[test]
fn a_fault_of_connections_hits_each() {
    let server = FakeServer::start(&["--fault", "close@2/connection"]);
    for _ in 0..2 {
        let mut client = server.connect();
        client.query(SELECT).rows();
        client.send(&[&[3], SELECT.as_bytes()].concat());
        assert!(client.is_closed());
    }
}

#[test]
fn replies_are_cut_or_missing_or_slow() {
    let server =
        FakeServer::start(&["--fault", "close-mid-reply@1", "--fault", "never-answer@2", "--fault", "slow-bytes@3"]);
    let mut client = server.connect();
    client.send(&[&[3], SELECT.as_bytes()].concat());
    assert_eq!(client.payload(), [1], "the number of columns still comes");
    let cut = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| while client.try_payload().is_ok() {}));
    assert!(cut.is_ok() && client.is_closed());

    let mut client = server.connect();
    client.send(&[&[3], SELECT.as_bytes()].concat());
    assert!(client.stays_silent(Duration::from_millis(200)));

    let mut client = server.connect();
    assert_eq!(client.query(SELECT).rows()[0].len(), 120);
}

#[test]
fn replies_are_malformed() {
    let server = FakeServer::start(&["--fault", "garbage@1", "--fault", "bad-sequence@2", "--fault", "oversized@3"]);
    let mut client = server.connect();
    client.send(&[&[3], SELECT.as_bytes()].concat());
    let header = client.read_raw(4);
    assert_eq!(header[1..], [0, 0, 1]);
    let payload = client.read_raw(usize::from(header[0]));
    assert!(payload.iter().collect::<std::collections::HashSet<_>>().len() > 50, "random");

    let mut client = server.connect();
    client.send(&[&[3], SELECT.as_bytes()].concat());
    assert_eq!(client.read_raw(5), [1, 0, 0, 8, 1]);

    let mut client = server.connect();
    client.send(&[&[3], SELECT.as_bytes()].concat());
    for _ in 0..3 {
        client.payload();
    }
    assert_eq!(client.payload(), b"\xfe\0\0\0\x40\0\0\0\0abc");
}

#[test]
fn a_hostile_server_asks_for_a_file() {
    let server = FakeServer::start(&["--fault", "local-infile@1"]);
    let mut client = server.connect();
    assert_eq!(client.query(SELECT), Answer::WantsFile("/etc/passwd".to_owned()));
    client.send_with_sequence(&[], 2);
    assert!(matches!(client.answer(), Answer::Ok { .. }));
    client.query(SELECT).rows();
}

#[test]
fn handshakes_go_wrong() {
    let server = FakeServer::start(&["--fault", "truncated-handshake"]);
    let mut client = server.raw();
    assert!(client.try_payload().is_err());

    let server = FakeServer::start(&["--fault", "silent-handshake"]);
    assert!(server.raw().stays_silent(Duration::from_millis(200)));

    let server = FakeServer::start(&["--fault", "too-many-connections"]);
    assert_eq!(server.try_connect("root", &[]).err().unwrap()[..3], [0xFF, 0x10, 0x04], "1040");

    let server = FakeServer::start(&["--max-connections", "1"]);
    let _first = server.connect();
    assert_eq!(server.try_connect("root", &[]).err().unwrap()[..3], [0xFF, 0x10, 0x04], "1040");

    let server = FakeServer::start(&["--fault", "auth-plugin=dialog"]);
    let asked = server.try_connect("root", &[]).err().unwrap();
    assert!(asked.starts_with(b"\xfedialog\0"));
}

#[test]
fn the_server_can_be_gone() {
    let mut server = FakeServer::start(&["--fault", "exit@2"]);
    let mut client = server.connect();
    client.query(SELECT).rows();
    client.send(&[&[3], SELECT.as_bytes()].concat());
    assert!(client.is_closed());
    assert_eq!(server.child.wait().unwrap().code(), Some(70));
}
