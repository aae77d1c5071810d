//! Failures and their documented codes: each gets one answer, and the engine keeps serving.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::harness::{Engine, FakeServer, Folder, measure};

fn engine_with(arms: &[Value]) -> Engine {
    let mut engine = Engine::start();
    engine.line();
    let opened = engine.open(arms);
    assert_eq!(opened["type"], "opened", "{opened}");
    engine
}

/// Asserts an error of this code, and that the engine still answers.
fn assert_error(engine: &mut Engine, answer: &Value, code: &str, arm: Option<&str>, words: &str) {
    assert_eq!((&answer["type"], &answer["code"]), (&json!("error"), &json!(code)), "{answer}");
    assert_eq!(answer["arm"], json!(arm), "{answer}");
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains(words) && !message.contains('\n'), "{message}");
    assert_eq!(answer["fatal"], false);
    assert_eq!(engine.outcome(json!({"type": "ping"}))["type"], "pong");
}

#[test]
fn a_wrong_password_is_access_denied() {
    let server = FakeServer::start(&["--password", "open sesame"]);
    let mut engine = Engine::start();
    engine.line();
    let mut arm = server.arm("B");
    arm["password"] = json!("hunter2");
    let answer = engine.open(&[arm]);
    assert!(!answer.to_string().contains("hunter2"), "{answer}");
    assert_eq!(answer["sql_errno"], 1045);
    assert_error(&mut engine, &answer, "access_denied", Some("B"), "arm B: ");
    let mut arm = server.arm("B");
    arm["password"] = json!("open sesame");
    assert_eq!(engine.open(&[arm])["type"], "opened");
}

#[test]
fn an_unreachable_server_is_connect_failed() {
    let mut engine = Engine::start();
    engine.line();
    let server = FakeServer::start(&[]);
    let mut arm = server.arm("A");
    arm["address"] = json!({"socket": "/nonexistent/mysql.sock"});
    let answer = engine.open(&[arm]);
    assert_error(&mut engine, &answer, "connect_failed", Some("A"), "/nonexistent/mysql.sock");
    let answer = engine.outcome(measure(&["A"], json!({})));
    assert_error(&mut engine, &answer, "bad_request", None, "no arm \"A\" is open");
}

#[test]
fn a_server_killed_during_a_measurement_is_server_lost() {
    let (a, b) = (FakeServer::start(&[]), FakeServer::start(&[]));
    let mut engine = engine_with(&[a.arm("A"), b.arm("B")]);
    let id = engine.send(measure(&["A", "B"], json!({"seconds": 600.0, "blocks": null, "threads": 8})));
    engine.skip_to("slice");
    b.kill();
    let killed = Instant::now();
    let answer = engine.answers(id).pop().unwrap();
    assert!(killed.elapsed() < Duration::from_secs(10));
    assert_error(&mut engine, &answer, "server_lost", Some("B"), "arm B: ");
    // The other arm can still be measured.
    let after = engine.outcome(measure(&["A"], json!({})));
    assert_eq!(after["type"], "done", "{after}");
}

#[test]
fn a_server_killed_with_freezing_on_is_server_lost() {
    let (a, b) = (FakeServer::start(&[]), FakeServer::start(&[]));
    let mut engine = engine_with(&[a.arm("A"), b.arm("B")]);
    let id = engine.send(measure(&["A", "B"], json!({"seconds": 600.0, "blocks": null, "freeze": true})));
    engine.skip_to("slice");
    b.kill();
    let answer = engine.answers(id).pop().unwrap();
    assert_error(&mut engine, &answer, "server_lost", Some("B"), "arm B: ");
    assert!(!a.is_stopped());
}

#[test]
fn script_and_option_errors_name_their_cause() {
    let server = FakeServer::start(&[]);
    let mut engine = engine_with(&[server.arm("A")]);
    let folder = Folder::new();
    let mut run = |text: &str| {
        let script = folder.script(text);
        engine.outcome(measure(&["A"], json!({"script": script, "options": {}})))
    };
    let runtime = run("function event()\n  local row\n  return row.id\nend\n");
    let syntax = run("function event(\n");
    let nothing = run("-- no event here\n");
    let setting_up = run("function thread_init() error('not today') end\nfunction event() end\n");
    assert_error(&mut engine, &runtime, "script_error", Some("A"), "script.lua:3: attempt to index local 'row'");
    assert_error(&mut engine, &syntax, "script_error", Some("A"), "script.lua:");
    assert_error(&mut engine, &nothing, "script_error", Some("A"), "event()");
    assert_error(&mut engine, &setting_up, "script_error", Some("A"), "script.lua:1: not today");

    let unknown = engine.outcome(measure(&["A"], json!({"script": "oltp_readonly"})));
    assert_error(&mut engine, &unknown, "script_not_found", None, "Did you mean oltp_read_only?");
    let option = engine.outcome(measure(&["A"], json!({"options": {"tabels": 1}})));
    assert_error(&mut engine, &option, "bad_request", Some("A"), "tabels");
    let command = json!({"type": "command", "arm": "A", "script": "oltp_read_only", "command": "prepair"});
    let command = engine.outcome(command);
    assert_error(&mut engine, &command, "bad_request", Some("A"), "no command prepair");
}

#[test]
fn a_script_on_a_read_only_arm_is_refused() {
    let server = FakeServer::start(&[]);
    let mut arm = server.arm("A");
    arm["read_only"] = json!(true);
    let mut engine = engine_with(&[arm]);
    let answer = engine.outcome(measure(&["A"], json!({})));
    assert_error(&mut engine, &answer, "bad_request", Some("A"), "read_only");
}

#[test]
fn a_failing_statement_is_sql_error() {
    let server = FakeServer::start(&["--error", "1146/50"]);
    let mut engine = engine_with(&[server.arm("A")]);
    let answer = engine.outcome(measure(&["A"], json!({})));
    assert_eq!((&answer["sql_errno"], answer["sqlstate"].as_str().map(str::len)), (&json!(1146), Some(5)));
    assert_error(&mut engine, &answer, "sql_error", Some("A"), "1146");
}

#[test]
fn a_command_that_fails_in_one_thread_ends_in_all() {
    let server = FakeServer::start(&["--error", "1114/40", "--latency", "constant:2ms"]);
    let mut engine = engine_with(&[server.arm("A")]);
    let prepare = json!({
        "type": "command", "arm": "A", "script": "oltp_read_write", "command": "prepare",
        "options": {"tables": 8, "table_size": 200_000}, "threads": 8, "seed": 7,
    });
    let begun = Instant::now();
    let answer = engine.outcome(prepare);
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_error(&mut engine, &answer, "sql_error", Some("A"), "1114");
}
