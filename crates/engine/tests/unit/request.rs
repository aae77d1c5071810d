//! Tests of `src/request.rs`.

use bakeoff_load::arrivals::Arrivals;
use bakeoff_load::failure::Code;
use bakeoff_load::net::{Endpoint, PrepareMode, TlsMode};

use crate::request::{Body, Load, Measure, Request};

const MEASURE: &str = r#"{"type": "measure", "id": 3, "cell": "oltp_point_select/4", "script": "oltp_point_select",
        "options": {"tables": 4}, "arm_options": {"B": {"range_size": 10}},
        "threads": 4, "arms": ["A", "B"], "seconds": 8.0, "blocks": null,
        "slice_ns": 100000000, "guard_ns": 5000000, "order_seed": 1, "key_seed": 2,
        "load": {"model": "closed"}, "freeze": false}"#;

const OPEN: &str = r#"{"type": "open", "id": 1, "arms": [{"name": "A", "address": {"socket": "/tmp/a.sock"},
        "user": "root", "password": "hunter2", "database": "sbtest", "charset": "utf8mb4", "collation": null,
        "tls": {"mode": "verify_ca", "ca": null, "cert": null, "key": null}, "prepare_mode": "text",
        "server_pid": 4711, "slowdown_percent": 0, "ignore_errors": [1213, 1020, 1205]}]}"#;

fn refused(line: &str) -> (Option<u64>, String) {
    let (id, failure) = Request::parse(line).expect_err(line);
    assert_eq!(failure.code, Code::BadRequest);
    (id, failure.to_string())
}

#[test]
fn documented_examples_are_parsed() {
    let request = Request::parse(MEASURE).unwrap();
    let Body::Measure(measure) = request.body else { panic!("not a measure") };
    assert_eq!((request.id, measure.seconds, measure.load), (3, Some(8.0), Load::Closed {}));
    let Body::Open { arms } = Request::parse(OPEN).unwrap().body else { panic!("not an open") };
    assert_eq!((arms[0].tls.mode, arms[0].prepare_mode), (TlsMode::VerifyCa, PrepareMode::Client));
    assert!(!format!("{arms:?}").contains("hunter2"));
}

#[test]
fn an_address_is_a_socket_or_a_host_with_its_port() {
    let open = |address: &str| OPEN.replace(r#"{"socket": "/tmp/a.sock"}"#, address);
    let tcp = Endpoint::Tcp { host: "db".into(), port: 3307 };
    for (address, expected) in
        [(r#"{"socket": "/s"}"#, Endpoint::Unix("/s".into())), (r#"{"host": "db", "port": 3307}"#, tcp)]
    {
        let Body::Open { arms } = Request::parse(&open(address)).unwrap().body else { panic!("not an open") };
        assert_eq!(arms[0].address, expected);
    }
    for address in [
        r#"{"host": "db"}"#,
        r#"{"host": "db", "port": 70000}"#,
        r#"{"host": "db", "port": 3307, "socket": "/s"}"#,
        r#"{"socket": "/s", "port": 3307}"#,
        r#"{"socket": 5}"#,
        r#""/s""#,
        "null",
    ] {
        assert!(refused(&open(address)).1.contains(r#"{"socket": PATH}"#), "{address}");
    }
}

#[test]
fn an_open_loop_is_read() {
    let line =
        MEASURE.replace(r#"{"model": "closed"}"#, r#"{"model": "open", "rate_per_s": 5000.0, "arrivals": "fixed"}"#);
    let Body::Measure(measure) = Request::parse(&line).unwrap().body else { panic!("not a measure") };
    assert_eq!(measure.load, Load::Open { rate_per_s: 5000.0, arrivals: Arrivals::Fixed });
}

#[test]
fn a_guard_lasts_until_all_workers_are_awake() {
    let guard_ns = |guard_ns, threads| Measure { threads, guard_ns, ..Measure::default() }.whole_guard_ns();
    assert_eq!([guard_ns(500_000, 64), guard_ns(500_000, 1_024)], [500_000, 5_120_000]);
    assert_eq!([guard_ns(10_000_000, 1_024), guard_ns(0, 1_024)], [10_000_000, 0]);
}

#[test]
fn errors_carry_the_request_id_and_the_cause() {
    assert_eq!(refused("{").0, None);
    assert_eq!(refused("[1]").0, None);
    assert!(refused(r#"{"type":"ping"}"#).1.contains("no id"));
    assert!(refused(r#"{"id":7,"type":"sing"}"#).1.contains("unknown variant `sing`"));
    let (id, message) = refused(r#"{"id":7,"type":"ping","loud":true}"#);
    assert_eq!(id, Some(7));
    assert!(message.contains("loud"), "{message}");
    assert!(refused(&MEASURE.replace("\"threads\": 4", "\"threads\": 0")).1.contains("threads"));
    assert!(refused(&MEASURE.replace("null", "3")).1.contains("exactly one"));
    assert!(refused(&MEASURE.replace("8.0", "null")).1.contains("exactly one"));
    assert!(refused(&MEASURE.replace(r#"["A", "B"]"#, r#"["A", "A"]"#)).1.contains("twice"));
    assert!(refused(&MEASURE.replace("\"slice_ns\": 100000000", "\"slice_ns\": 0")).1.contains("slice_ns"));
    assert!(refused(&OPEN.replace("\"tls\"", "\"ssl\"")).1.contains("ssl"));
    assert!(refused(&OPEN.replace("\"name\": \"A\"", "\"name\": \"A\\u0000\"")).1.contains("NUL"));
    assert!(refused(&MEASURE.replace("\"closed\"", "\"closed\", \"rate_per_s\": 5.0")).1.contains("rate_per_s"));
}

#[test]
fn a_password_of_the_wrong_type_is_not_echoed() {
    let (_, message) = refused(&OPEN.replace("\"hunter2\"", "[\"hunter2\"]"));
    assert!(!message.contains("hunter2"), "{message}");
    let (_, message) = refused(&OPEN.replace("\"hunter2\"", "4711172"));
    assert!(!message.contains("4711172"), "{message}");
}

#[test]
fn a_capture_takes_the_place_of_a_script() {
    let request = |fields: &str| {
        let arms = r#""threads": 4, "arms": ["A", "B"], "blocks": 1, "slice_ns": 1000"#;
        format!(r#"{{"type": "measure", "id": 3, "cell": "shop/4", {arms}, {fields}}}"#)
    };
    let Body::Measure(measure) = Request::parse(&request(
        r#""capture": "/tmp/shop.capture", "chunk_events": 500, "speed": 0.5, "reads_only": true"#,
    ))
    .unwrap()
    .body
    else {
        panic!("not a measure")
    };
    let replay = measure.replay().unwrap();
    assert_eq!((replay.chunk_events, replay.by_clock, replay.reads_only), (500, true, true));
    assert!(measure.is_open_loop());
    for (fields, words) in [
        (r#""blocks": 2"#, "exactly one of script and capture"),
        (r#""script": "x", "capture": "y", "chunk_events": 1"#, "exactly one of script and capture"),
        (r#""script": "x", "reads_only": true"#, "belong to a capture"),
        (r#""capture": "y""#, "chunk_events, 1 or more"),
        (r#""capture": "y", "chunk_events": 0"#, "chunk_events, 1 or more"),
        (r#""capture": "y", "chunk_events": 1, "options": {"tables": 1}"#, "no options"),
        (r#""capture": "y", "chunk_events": 1, "speed": 0"#, "speed must be"),
    ] {
        let (_, message) = refused(&request(fields));
        assert!(message.contains(words), "{message}");
    }
}
