//! Slices and histograms of servers with known latencies.

use serde_json::{Value, json};

use super::harness::{Engine, FakeServer, Folder, measure, sum, throughput};

/// An engine with arms A and B opened on two servers.
fn duel(a: &FakeServer, b: &FakeServer) -> Engine {
    let mut engine = Engine::start();
    engine.line();
    assert_eq!(engine.open(&[a.arm("A"), b.arm("B")])["type"], "opened");
    engine
}

fn of_type<'a>(answers: &'a [Value], kind: &str) -> Vec<&'a Value> {
    answers.iter().filter(|answer| answer["type"] == kind).collect()
}

#[test]
fn a_slice_has_every_documented_field() {
    let server = FakeServer::start(&["--latency", "constant:1ms"]);
    let mut engine = duel(&server, &server);
    let answers = engine.ask(measure(&["A"], json!({})));
    assert_eq!(answers[0]["type"], "started");
    let slices = of_type(&answers, "slice");
    assert_eq!(slices.len(), 4);
    let documented: Value = serde_json::from_str(example("\"type\": \"slice\"")).unwrap();
    for slice in slices {
        let fields: Vec<_> = slice.as_object().unwrap().keys().collect();
        let expected: Vec<_> = documented.as_object().unwrap().keys().collect();
        assert_eq!(fields, expected, "as in docs/reference/engine.md");
        assert_eq!((&slice["reads"], &slice["writes"], &slice["other"]), (&slice["events"], &json!(0), &json!(0)));
        assert!(slice["server_rss_bytes"].as_u64().unwrap() > 0);
        assert!(slice["client_user_ns"].is_u64() && slice["host_idle_ns"].is_u64());
    }
    // Summed over all slices: on a busy machine a single one may have no event.
    for field in ["events", "sent_bytes", "received_bytes", "server_cpu_ns", "context_switches"] {
        assert!(sum(&answers, "A", field) > 0, "{field}");
    }
    let histogram = of_type(&answers, "histogram")[0];
    assert_eq!(histogram["count"], sum(&answers, "A", "events"));
    assert!(histogram["min_ns"].as_u64().unwrap() >= 1_000_000, "{histogram}");
    let done = answers.last().unwrap();
    assert_eq!((&done["blocks"], &done["workers_stopped"]), (&json!(2), &json!(0)));
}

/// The JSON object in `docs/reference/engine.md` that holds `mark`.
fn example(mark: &str) -> &'static str {
    let text = include_str!("../../../../docs/reference/engine.md");
    let at = text.find(mark).unwrap();
    let begin = text[..at].rfind("```json").unwrap() + "```json".len();
    let end = at + text[at..].find("```").unwrap();
    text[begin..end].trim()
}

#[test]
fn a_slower_server_measures_slower() {
    let a = FakeServer::start(&["--latency", "constant:1ms"]);
    let b = FakeServer::start(&["--latency", "constant:1ms", "--slow-factor", "2"]);
    let answers = duel(&a, &b).ask(measure(&["A", "B"], json!({"blocks": 4})));
    assert_eq!(of_type(&answers, "slice").len(), 16);
    let ratio = throughput(&answers, "A") / throughput(&answers, "B");
    assert!((1.3..3.0).contains(&ratio), "{ratio} should be about 2");
}

#[test]
fn injected_events_reach_the_server_and_are_not_counted() {
    let server = FakeServer::start(&["--latency", "constant:200us"]);
    let mut engine = Engine::start();
    engine.line();
    let mut arm = server.arm("B");
    arm["slowdown_percent"] = json!(50.0);
    engine.open(&[arm]);
    // Two runs: their difference is free of what connecting and preparing asks. One worker: nothing runs after its window.
    let answers = [20, 10].map(|blocks| {
        let length = json!({"blocks": blocks, "guard_ns": 0, "slice_ns": 10_000_000, "threads": 1});
        engine.ask(measure(&["B"], length))
    });
    let counted: Vec<u64> = answers.iter().map(|answers| sum(answers, "B", "events")).collect();
    let asked = server.questions();
    let executed = (counted[0] + counted[1]) as f64 * 1.5;
    // Connecting, preparing and saying goodbye: a few statements for each of the 5 connections.
    let rest = asked as f64 - executed;
    assert!((-4.0..60.0).contains(&rest), "{asked} asked, {counted:?} counted, {rest} left over");
    assert!(executed > 500.0);
}

#[test]
fn errors_that_are_ignored_are_counted_by_number_and_retried() {
    let server = FakeServer::start(&["--error", "1213/10"]);
    let mut engine = duel(&server, &server);
    let answers = engine.ask(measure(&["A"], json!({})));
    assert_eq!(answers.last().unwrap()["type"], "done", "{:?}", answers.last());
    let (events, retries) = (sum(&answers, "A", "events"), sum(&answers, "A", "retries"));
    let share = retries as f64 / (events + retries) as f64;
    assert!((0.08..0.12).contains(&share), "{retries} of {events}");
    let slice = of_type(&answers, "slice")[0];
    assert_eq!(slice["errors"]["1213"], slice["retries"]);
}

#[test]
fn an_open_loop_offers_equal_load_and_times_from_the_intended_start() {
    let a = FakeServer::start(&["--latency", "constant:100us"]);
    let b = FakeServer::start(&["--latency", "constant:4ms"]);
    // B's two connections can serve 500 a second; offered are 800 for 0.2 s at a time.
    let load = json!({"model": "open", "rate_per_s": 800.0, "arrivals": "poisson"});
    let answers = duel(&a, &b).ask(measure(&["A", "B"], json!({"load": load, "slice_ns": 200_000_000})));
    assert_eq!(sum(&answers, "A", "events"), sum(&answers, "B", "events"));
    assert!(sum(&answers, "A", "events") > 400);
    let worst = |arm: &str| {
        let histograms = of_type(&answers, "histogram");
        let histogram = histograms.iter().find(|histogram| histogram["arm"] == arm).unwrap();
        assert_eq!(histogram["clock"], "response");
        histogram["max_ns"].as_u64().unwrap()
    };
    assert!(worst("B") > 20_000_000, "a queue's waiting is in the latency: {}", worst("B"));
}

#[test]
fn unique_numbers_never_repeat_across_cells() {
    let server = FakeServer::start(&[]);
    let folder = Folder::new();
    let script = folder.script(
        r#"
        function thread_init() print(sysbench.rand.unique()) end
        function event() sysbench.rand.unique() end
        function thread_done() print(sysbench.rand.unique()) end
        "#,
    );
    let mut engine = duel(&server, &server);
    for threads in [2, 3] {
        engine.ask(measure(&["A"], json!({"script": script, "options": {}, "threads": threads})));
    }
    let mut drawn: Vec<_> = engine.logs.iter().map(|log| log["message"].as_str().unwrap()).collect();
    assert_eq!(drawn.len(), 2 * (2 + 3));
    drawn.sort_unstable();
    drawn.dedup();
    assert_eq!(drawn.len(), 2 * (2 + 3));
}

#[test]
fn a_custom_script_is_measured_and_its_output_logged() {
    let server = FakeServer::start(&[]);
    let folder = Folder::new();
    let script = folder.script(
        r#"
        function init() print("init once") end
        function thread_init() con = sysbench.sql.driver():connect() end
        function event() con:query("SELECT 1") end
        function done() print("done once") end
        "#,
    );
    let mut engine = duel(&server, &server);
    let answers = engine.ask(measure(&["A"], json!({"script": script, "options": {}})));
    assert_eq!(answers.last().unwrap()["type"], "done", "{:?}", answers.last());
    let said: Vec<_> = engine.logs.iter().map(|log| log["message"].as_str().unwrap()).collect();
    assert_eq!(said, ["init once", "done once"]);
    assert_eq!(sum(&answers, "A", "reads"), sum(&answers, "A", "events"));
}

#[test]
fn unique_numbers_of_a_failed_cell_are_not_reused() {
    let server = FakeServer::start(&[]);
    let folder = Folder::new();
    let mut engine = duel(&server, &server);
    for failing in ["error('a bug')", ""] {
        let script = folder.script(&format!("function event() print(sysbench.rand.unique()) {failing} end"));
        let outcome =
            engine.outcome(measure(&["A"], json!({"script": script, "options": {}, "threads": 1, "blocks": 1})));
        assert_eq!(outcome["type"], if failing.is_empty() { "done" } else { "error" }, "{outcome}");
    }
    let mut drawn: Vec<_> = engine.logs.iter().map(|log| log["message"].as_str().unwrap()).collect();
    let all = drawn.len();
    assert!(all > 1);
    drawn.sort_unstable();
    drawn.dedup();
    assert_eq!(drawn.len(), all);
}

/// Client CPU time per slice while the threads of `server_pid` are observed [ns].
fn client_cpu_ns(server: &FakeServer, server_pid: u32) -> u64 {
    let mut engine = Engine::start();
    engine.line();
    let mut arm = server.arm("A");
    arm["server_pid"] = json!(server_pid);
    engine.open(&[arm]);
    let load = json!({"model": "open", "rate_per_s": 50.0, "arrivals": "fixed"});
    let answers = engine.ask(measure(&["A"], json!({"load": load, "slice_ns": 100_000_000, "blocks": 4})));
    let slices = of_type(&answers, "slice").len() as u64;
    (sum(&answers, "A", "client_user_ns") + sum(&answers, "A", "client_system_ns")) / slices
}

#[test]
fn observing_server_threads_does_not_cost_client_cpu() {
    const THREADS: usize = 1_000;
    let server = FakeServer::start(&[]);
    let few_ns = client_cpu_ns(&server, server.pid());
    let over = std::sync::Barrier::new(THREADS + 1);
    let many_ns = std::thread::scope(|scope| {
        for _ in 0..THREADS {
            std::thread::Builder::new().stack_size(64 * 1024).spawn_scoped(scope, || over.wait()).unwrap();
        }
        let many_ns = client_cpu_ns(&server, std::process::id());
        over.wait();
        many_ns
    });
    // Opening, reading and closing a thousand files twice takes some ten milliseconds.
    assert!(many_ns < few_ns + 4_000_000, "{many_ns} ns a slice with {THREADS} threads, {few_ns} ns with few");
}
