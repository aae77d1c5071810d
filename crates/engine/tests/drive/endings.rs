//! Cancelling, closing standard input, signals: nothing hangs, and no server stays frozen.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::harness::{Engine, FakeServer, measure};

const LONG: &str = r#"{"seconds": 600.0, "blocks": null}"#;

fn frozen_duel() -> (Engine, FakeServer, FakeServer) {
    frozen_duel_of(Engine::start())
}

fn frozen_duel_of(mut engine: Engine) -> (Engine, FakeServer, FakeServer) {
    let (a, b) = (FakeServer::start(&[]), FakeServer::start(&[]));
    engine.line();
    engine.open(&[a.arm("A"), b.arm("B")]);
    engine.send(measure(&["A", "B"], json!({"seconds": 600.0, "blocks": null, "freeze": true})));
    engine.skip_to("slice");
    (engine, a, b)
}

/// Asserts that both servers run again within a few seconds.
fn assert_thawed(servers: [&FakeServer; 2]) {
    let until = Instant::now() + Duration::from_secs(5);
    while servers.iter().any(|server| server.is_stopped()) {
        assert!(Instant::now() < until, "a server stays frozen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn cancelling_a_measurement_returns_partial_results() {
    let server = FakeServer::start(&[]);
    let mut engine = Engine::start();
    engine.line();
    engine.open(&[server.arm("A")]);
    let id = engine.send(measure(&["A"], serde_json::from_str(LONG).unwrap()));
    engine.skip_to("slice");
    engine.send(json!({"type": "cancel"}));
    let answers = engine.answers(id);
    let done = answers.last().unwrap();
    assert_eq!((&done["type"], &done["cancelled"]), (&json!("done"), &json!(true)), "{done}");
    assert!(answers.iter().any(|answer| answer["type"] == "histogram"));
    // Only the running request was meant.
    assert_eq!(engine.outcome(measure(&["A"], json!({})))["cancelled"], false);
}

#[test]
fn a_cancel_sent_right_after_its_request_is_not_lost() {
    let server = FakeServer::start(&[]);
    let mut engine = Engine::start();
    engine.line();
    engine.open(&[server.arm("A")]);
    let id = engine.send(measure(&["A"], serde_json::from_str(LONG).unwrap()));
    engine.send(json!({"type": "cancel"}));
    assert_eq!(engine.answers(id).last().unwrap()["cancelled"], true);
}

#[test]
fn cancelling_a_command_ends_it_promptly() {
    let server = FakeServer::start(&["--latency", "constant:5ms"]);
    let mut engine = Engine::start();
    engine.line();
    engine.open(&[server.arm("A")]);
    let prepare = json!({
        "type": "command", "arm": "A", "script": "oltp_read_write", "command": "prepare",
        "options": {"tables": 4, "table_size": 10_000_000}, "threads": 4, "seed": 7,
    });
    let id = engine.send(prepare);
    engine.skip_to("progress");
    engine.send(json!({"type": "cancel"}));
    let begun = Instant::now();
    let done = engine.answers(id).pop().unwrap();
    assert_eq!((&done["type"], &done["cancelled"]), (&json!("done"), &json!(true)), "{done}");
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn closing_standard_input_thaws_the_servers_and_exits() {
    let (engine, a, b) = frozen_duel();
    let begun = Instant::now();
    assert!(engine.end().success());
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_thawed([&a, &b]);
}

#[test]
fn signals_thaw_the_servers_and_end_the_engine() {
    for (signal, code, by_signal) in [
        (Signal::TERM, Some(143), None),
        (Signal::INT, Some(130), None),
        (Signal::ABORT, None, Some(6)),
        (Signal::SEGV, None, Some(11)),
    ] {
        let (mut engine, a, b) = frozen_duel();
        engine.signal(signal);
        let status = engine.wait();
        assert_eq!((status.code(), status.signal()), (code, by_signal));
        assert_thawed([&a, &b]);
    }
}

#[test]
fn silence_thaws_and_exits_unless_empty_lines_arrive() {
    let (mut engine, a, b) = frozen_duel_of(Engine::start_with(&["--silence-limit", "2"]));
    for _ in 0..6 {
        std::thread::sleep(Duration::from_millis(500));
        engine.write("");
    }
    let heard = Instant::now();
    assert_eq!(engine.wait().code(), Some(1));
    assert!(heard.elapsed() > Duration::from_secs(1), "{:?}", heard.elapsed());
    assert_thawed([&a, &b]);
}
