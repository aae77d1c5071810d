//! Tests of whole captures.

use super::*;
use crate::capture_file::read_events;
use crate::input::Progress;

fn captured(name: &str, log: &str, redact: bool) -> (Summary, Vec<serde_json::Value>) {
    let folder = std::env::temp_dir();
    let base = format!("bakeoff-recorder-{name}-{}", std::process::id());
    let order = Order {
        logs: vec![folder.join(format!("{base}.log"))],
        output: folder.join(format!("{base}.capture")),
        redact,
        format: None,
    };
    std::fs::write(&order.logs[0], log).unwrap();
    let summary = capture(&order, &Progress::default()).unwrap();
    assert_eq!(crate::read_summary(&order.output).unwrap(), summary);
    let mut lines = Vec::new();
    read_events(&order.output, |line| {
        lines.push(serde_json::to_value(&line).unwrap());
        Ok(())
    })
    .unwrap();
    std::fs::remove_file(&order.logs[0]).unwrap();
    std::fs::remove_file(&order.output).unwrap();
    (summary, lines)
}

const GENERAL: &str = "2024-11-06T09:57:35.1Z\t    7 Connect\tbob@localhost on shop using Socket\n\
    2024-11-06T09:57:35.2Z\t    7 Query\tSET NAMES utf8mb4, sql_mode='ANSI'\n\
    2024-11-06T09:57:35.3Z\t    7 Query\tSELECT * FROM t WHERE name = 'Bob'\n\
    2024-11-06T09:57:35.4Z\t    7 Query\tCREATE USER x IDENTIFIED BY 's3cret'\n\
    2024-11-06T09:57:35.5Z\t    8 Query\tSELECT * FROM t WHERE name = ?\n\
    2024-11-06T09:57:35.6Z\t    7 Query\tLOAD DATA LOCAL INFILE 'f' INTO TABLE t\n\
    2024-11-06T09:57:35.7Z\t    7 Prepare\tSELECT ?\n\
    2024-11-06T09:57:35.8Z\t    7 Query\tCOMMIT\n\
    2024-11-06T09:57:35.9Z\t    7 Ping\t\n\
    2024-11-06T09:57:36.0Z\t    7 Quit\t\n\
    2024-11-06T09:57:36.1Z\t    7 Query\tSELECT 'again'\n";

#[test]
fn events_have_their_session_their_digest_and_why_they_cannot_be_replayed() {
    let (summary, lines) = captured("plain", GENERAL, false);
    let of = |key: &str| lines.iter().map(|line| line[key].as_str().unwrap_or("")).collect::<Vec<_>>();
    assert_eq!(
        of("not_replayable"),
        ["", "", "", "password", "parameters", "local file", "prepare", "", "command", "", ""]
    );
    assert_eq!(lines[2]["session"], serde_json::json!({"names": "utf8mb4", "sql_mode": "ANSI"}));
    assert!(lines[1].get("session").is_none(), "the state before the statement");
    assert!(lines[10].get("session").is_none(), "Quit ends it");
    assert_eq!((lines[2]["schema"].as_str(), lines[2]["user"].as_str()), (Some("shop"), Some("bob@localhost")));
    assert_eq!(lines[2]["digest"], lines[4]["digest"]);
    assert_eq!(lines[3]["sql"], "CREATE USER x IDENTIFIED BY '***'");
    let overall = &summary.overall;
    assert_eq!((overall.events, overall.commands, overall.connections, overall.transactions), (7, 4, 2, 1));
    assert_eq!(overall.not_replayable["password"], 1);
    assert!(summary.digests.iter().all(|digest| !digest.sample.contains("s3cret")));
    assert_eq!(overall.formats, ["general"]);
}

#[test]
fn a_redacted_capture_names_nobody() {
    let (summary, lines) = captured("redacted", GENERAL, true);
    let all = serde_json::to_string(&lines).unwrap() + &serde_json::to_string(&summary).unwrap();
    assert!(!all.to_lowercase().contains("bob") && !all.contains("s3cret"), "{all}");
    let (plain, _) = captured("again", GENERAL, false);
    let digests = |summary: &Summary| summary.digests.iter().map(|each| each.digest.clone()).collect::<Vec<_>>();
    assert_eq!(digests(&summary), digests(&plain), "digests stay");
    assert!(summary.header.redacted);
}

#[test]
fn nothing_is_left_when_there_is_nothing_to_read() {
    let folder = std::env::temp_dir().join(format!("bakeoff-recorder-nothing-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("log"), "Dear reader").unwrap();
    let order = Order { logs: vec![folder.join("log")], output: folder.join("out"), ..Order::default() };
    assert!(matches!(capture(&order, &Progress::default()), Err(Error::Unknown { .. })));
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_is_for_the_server_or_holds_a_lock_is_no_part_of_a_replay() {
    let log = "2024-11-06T09:57:35.1Z\t    7 Query\tRESET MASTER\n\
        2024-11-06T09:57:35.2Z\t    7 Query\tFLUSH TABLES WITH READ LOCK\n\
        2024-11-06T09:57:35.3Z\t    7 Query\tSELECT GET_LOCK('a', -1)\n\
        2024-11-06T09:57:35.4Z\t    7 Query\tUNLOCK TABLES\n";
    let (summary, _) = captured("locks", log, false);
    let reasons = [("lock".to_owned(), 2), ("server".to_owned(), 1)];
    assert_eq!(summary.overall.not_replayable, reasons.into());
}

#[test]
fn a_text_of_a_digest_is_no_statement() {
    let head =
        "# Query_time: 0.000007  Lock_time: 0.0  Log_slow_rate_limit: 9  Digest_text: Yes\nSET timestamp=DEFAULT;\n";
    let log = format!("{head}SELECT `VERSION` ( );\n{head}CREATE SYSTEM_USER `x` IDENTIFIED BY ?;\n");
    let (summary, lines) = captured("digests", &log, false);
    let reasons: Vec<_> = lines.iter().filter_map(|line| line["not_replayable"].as_str()).collect();
    assert_eq!(reasons, ["parameters", "password"]);
    assert_eq!((summary.overall.count, summary.overall.first_us), (18, None));
}
