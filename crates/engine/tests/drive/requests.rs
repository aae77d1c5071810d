//! Hello, open, ping, commands, and invalid lines.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::json;

use super::harness::{Engine, FakeServer};

#[test]
fn hello_describes_the_build() {
    let engine = Engine::start();
    let hello = engine.line();
    assert_eq!((&hello["type"], &hello["contract"]), (&json!("hello"), &json!(5)));
    for field in ["profile", "commit", "rustc", "target"] {
        assert!(!hello["build"][field].as_str().unwrap().is_empty(), "{hello}");
    }
    assert!(hello["build"]["rustc"].as_str().unwrap().starts_with("rustc "));
    assert!(hello["pid"].as_u64().unwrap() > 1);
}

#[test]
fn requests_are_answered_in_order_despite_invalid_lines() {
    let mut engine = Engine::start();
    engine.line();
    engine.write(r#"{"type":"ping","id":1}"#);
    engine.write("once upon a time");
    engine.write("");
    engine.write("\u{fffd}\u{0}");
    engine.write(r#"{"type":"ping","id":2,"volume":11}"#);
    engine.write(r#"{"type":"measure","id":3}"#);
    engine.write(r#"{"type":"ping","id":4}"#);
    assert_eq!(engine.line(), json!({"type": "pong", "id": 1}));
    for id in [json!(null), json!(null), json!(2), json!(3)] {
        let error = engine.line();
        assert_eq!((&error["type"], &error["code"], &error["id"]), (&json!("error"), &json!("bad_request"), &id));
        assert_eq!(error["fatal"], false);
    }
    assert_eq!(engine.line(), json!({"type": "pong", "id": 4}));
    engine.write(r#"{"type":"cpus","id":5}"#);
    let cpus = engine.line();
    assert_eq!((&cpus["type"], &cpus["id"]), (&json!("cpus"), &json!(5)));
    assert!(cpus["cache_line_ns"].is_null() || cpus["cache_line_ns"].as_u64() > Some(5), "{cpus}");
    assert!(engine.end().success());
}

#[test]
fn open_reports_each_servers_version() {
    let servers =
        [FakeServer::start(&["--server-version", "5.7.22"]), FakeServer::start(&["--server-version", "8.0.15"])];
    let mut engine = Engine::start();
    engine.line();
    let opened = engine.open(&[servers[0].arm("A"), servers[1].arm("B")]);
    assert_eq!(opened["type"], "opened", "{opened}");
    let versions: Vec<_> = opened["arms"].as_array().unwrap().iter().map(|arm| arm["server_version"].clone()).collect();
    assert_eq!(versions, ["5.7.22", "8.0.15"]);
    assert_eq!((&opened["arms"][1]["name"], &opened["arms"][1]["tls_cipher"]), (&json!("B"), &json!(null)));
}

#[test]
fn prepare_runs_in_parallel_and_reports_progress() {
    let server = FakeServer::start(&[]);
    let mut engine = Engine::start();
    engine.line();
    engine.open(&[server.arm("A")]);
    let answers = engine.ask(json!({
        "type": "command", "arm": "A", "script": "oltp_read_write", "command": "prepare",
        "options": {"tables": 3, "table_size": 2000}, "threads": 3, "seed": 7,
    }));
    let (done, progress) = answers.split_last().unwrap();
    assert_eq!(done["type"], "done", "{done}");
    assert!(done["seconds"].as_f64().unwrap() > 0.0);
    let last_of = |label: &str| progress.iter().rfind(|line| line["label"] == label).unwrap();
    assert_eq!((&last_of("rows")["done"], &last_of("rows")["total"]), (&json!(6000), &json!(6000)));
    for label in ["rows", "indexes"] {
        let done: Vec<_> = progress.iter().filter(|line| line["label"] == label).map(|l| l["done"].as_u64()).collect();
        assert!(done.is_sorted() && done.len() <= 40, "{done:?}");
    }
}

#[test]
fn a_probe_measures_the_network() {
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = peer.local_addr().unwrap().port();
    let answering = std::thread::spawn(move || {
        let (mut peer, _) = peer.accept().unwrap();
        let mut token = [0; 6];
        peer.read_exact(&mut token).unwrap();
        assert_eq!(&token, b"secret");
        let mut byte = [0];
        let mut pings = 0;
        loop {
            peer.read_exact(&mut byte).unwrap();
            if &byte == b"b" {
                break;
            }
            peer.write_all(&byte).unwrap();
            pings += 1;
        }
        peer.write_all(&vec![0; 1 << 20]).unwrap();
        pings
    });
    let mut engine = Engine::start();
    engine.line();
    let found = engine.outcome(json!({"type": "probe", "host": "127.0.0.1", "port": port, "token": "secret"}));
    assert_eq!(found["type"], "probed", "{found}");
    assert!((1_000..1_000_000_000).contains(&found["rtt_ns"].as_u64().unwrap()), "{found}");
    assert!(found["bytes_per_s"].as_f64().unwrap() > 1e6, "{found}");
    assert!((1..=300).contains(&answering.join().unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let closing = listener.local_addr().unwrap().port();
    let hanging_up = std::thread::spawn(move || drop(listener.accept().unwrap()));
    let lost = engine.outcome(json!({"type": "probe", "host": "127.0.0.1", "port": closing, "token": "secret"}));
    assert!(lost["message"].as_str().unwrap().contains(" does not answer the probe: "), "{lost}");
    hanging_up.join().unwrap();
    let refused = engine.outcome(json!({"type": "probe", "host": "127.0.0.1", "port": port, "token": "secret"}));
    assert_eq!((&refused["type"], &refused["code"]), (&json!("error"), &json!("connect_failed")));
    assert!(refused["message"].as_str().unwrap().starts_with(&format!("127.0.0.1 port {port} cannot be reached: ")));
}
