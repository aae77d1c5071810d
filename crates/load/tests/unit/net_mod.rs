//! Tests of `src/net/mod.rs`.

use crate::net::{Endpoint, Secret, ServerAddress};

#[test]
fn a_password_is_never_shown() {
    let address = ServerAddress { password: Secret::from("hunter2"), ..ServerAddress::default() };
    let shown = format!("{address:?}");
    assert!(!shown.contains("hunter2") && shown.contains("***"), "{shown}");
}

#[test]
fn an_ipv6_endpoint_is_bracketed() {
    assert_eq!(Endpoint::Tcp { host: "::1".into(), port: 3306 }.to_string(), "[::1]:3306");
}
