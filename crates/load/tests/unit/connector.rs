//! Tests of `src/connector.rs`.

use super::*;

#[test]
fn addresses_take_turns() {
    let address = |user: &str| Arc::new(ServerAddress { user: user.into(), ..ServerAddress::default() });
    let rotation = Arc::new(Rotation::new(vec![address("a"), address("b")]));
    let workers = [0, 1].map(|_| Connector::rotating(Arc::clone(&rotation), Arc::default()));
    let users: Vec<_> =
        (0..5).map(|turn| workers[turn % 2].next_address(&ConnectTarget::default()).user.clone()).collect();
    assert_eq!(users, ["a", "b", "a", "b", "a"]);
}

#[test]
fn unset_connection_fields_default_to_the_arms() {
    let arm = ServerAddress { user: "bench".into(), database: Some("sbtest".into()), ..ServerAddress::default() };
    let target = ConnectTarget { port: Some(3307), database: Some("other".into()), ..ConnectTarget::default() };
    let address = redirected(&arm, &target);
    assert_eq!(address.endpoint, Endpoint::Tcp { host: "127.0.0.1".into(), port: 3307 });
    assert_eq!((address.user.as_str(), address.database.as_deref()), ("bench", Some("other")));
    let target = ConnectTarget { socket: Some("/tmp/s.sock".into()), ..ConnectTarget::default() };
    assert_eq!(redirected(&arm, &target).endpoint, Endpoint::Unix("/tmp/s.sock".into()));
}

#[test]
fn loopback_hosts_are_recognised() {
    for host in ["localhost", "127.0.0.1", "127.8.8.8", "::1", "[::1]"] {
        assert!(is_loopback(host), "{host}");
    }
    assert!(!is_loopback("db1.example"));
    assert!(!is_loopback("192.0.2.1"));
}
