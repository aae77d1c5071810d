//! How much of an unread reply the engine keeps in memory.

use serde_json::{Value, json};

use super::harness::{Engine, FakeServer, Folder, measure};

/// Two thirds of the reply below. A replay needs half of this for everything else.
const MOST_KIB: u64 = 16 * 1024;

/// A query whose reply has 24 MB: 100 rows of 2,000 texts.
fn large_query() -> String {
    format!("SELECT {} FROM t WHERE id BETWEEN 1 AND 100;\n", vec!["c"; 2_000].join(","))
}

/// How far the request raises the engine's peak memory [KiB].
fn needed_kib(request: Value) -> u64 {
    let server = FakeServer::start(&[]);
    let mut engine = Engine::start();
    engine.line();
    engine.open(&[server.arm("A")]);
    let before = engine.peak_kib();
    let answers = engine.ask(request);
    assert_eq!(answers.last().unwrap()["type"], "done", "{:?}", answers.last());
    let failures: Vec<_> = answers.iter().filter(|answer| answer["type"] == "failures").collect();
    assert!(failures.is_empty(), "{failures:?}");
    engine.peak_kib() - before
}

#[test]
fn a_replay_drops_rows_as_they_arrive() {
    let folder = Folder::new();
    let (log, output) = (folder.0.join("queries.sql"), folder.0.join("queries.capture"));
    std::fs::write(&log, large_query().repeat(4)).unwrap();
    let order = bakeoff_capture::CaptureJob { logs: vec![log], output: output.clone(), ..Default::default() };
    bakeoff_capture::capture(&order, &bakeoff_capture::ReadProgress::default()).unwrap();
    let replay =
        json!({"capture": output, "chunk_events": 4, "speed": null, "reads_only": true, "guard_ns": 0, "blocks": 1});
    let mut request = measure(&["A"], replay);
    for field in ["script", "options", "arm_options", "load"] {
        request.as_object_mut().unwrap().remove(field);
    }
    let needed_kib = needed_kib(request);
    assert!(needed_kib < MOST_KIB, "{needed_kib} KiB");
}

#[test]
fn a_load_drops_rows_as_they_arrive() {
    let folder = Folder::new();
    let dump = folder.0.join("dump.sql");
    std::fs::write(&dump, large_query()).unwrap();
    let needed_kib = needed_kib(json!({"type": "load", "arm": "A", "threads": 1, "stages": [[{"path": dump}]]}));
    assert!(needed_kib < MOST_KIB, "{needed_kib} KiB");
}
