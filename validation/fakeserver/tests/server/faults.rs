//! Each injected fault does what it says.

use crate::client::FakeServer;

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
fn an_exit_fault_ends_the_server() {
    let mut server = FakeServer::start(&["--fault", "exit@2"]);
    let mut client = server.connect();
    client.query(SELECT).rows();
    client.send(&[&[3], SELECT.as_bytes()].concat());
    assert!(client.is_closed());
    assert_eq!(server.child.wait().unwrap().code(), Some(70));
}
