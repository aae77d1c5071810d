//! Tests of whole captures and of their totals.

use std::io::BufRead as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::capture_file::{EventLine, open};
use crate::input::ReadProgress;

fn captured(name: &str, log: impl AsRef<[u8]>, redact: bool) -> (Summary, Vec<serde_json::Value>) {
    let folder = std::env::temp_dir();
    let base = format!("bakeoff-recorder-{name}-{}", std::process::id());
    let job = CaptureJob {
        logs: vec![folder.join(format!("{base}.log"))],
        output: folder.join(format!("{base}.capture")),
        redact,
        format: None,
    };
    std::fs::write(&job.logs[0], log).unwrap();
    let summary = capture(&job, &ReadProgress::default()).unwrap();
    assert_eq!(crate::read_summary(&job.output).unwrap(), summary);
    let event = |line: io::Result<String>| {
        let line = line.unwrap();
        serde_json::from_str::<EventLine>(&line).unwrap();
        serde_json::from_str(&line).unwrap()
    };
    let lines = open(&job.output).unwrap().1.lines().map(event).collect();
    std::fs::remove_file(&job.logs[0]).unwrap();
    std::fs::remove_file(&job.output).unwrap();
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

struct FullDisk;

impl Write for FullDisk {
    fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for FullDisk {
    fn seek(&mut self, _to: io::SeekFrom) -> io::Result<u64> {
        Ok(0)
    }
}

#[test]
fn reading_ends_when_the_disk_is_full() {
    let log = std::env::temp_dir().join(format!("bakeoff-full-disk-{}.sql", std::process::id()));
    let text = "SELECT 1;\n".repeat(800_000);
    std::fs::write(&log, &text).unwrap();
    let header = Header { r#type: "bakeoff-capture".to_owned(), version: VERSION, redacted: false };
    let mut recorder = Recorder::new(FullDisk, &header, None).unwrap();
    let progress = ReadProgress::default();
    read_logs(std::slice::from_ref(&log), None, &progress, &mut recorder).unwrap();
    std::fs::remove_file(&log).unwrap();
    let read = progress.load(std::sync::atomic::Ordering::Relaxed);
    assert!(read < text.len() as u64 / 2, "{read} bytes");
    assert_eq!(recorder.finish(&[]).err().map(|error| error.kind()), Some(io::ErrorKind::StorageFull));
}

#[test]
fn a_refused_set_does_not_change_the_session() {
    let event = |errno: u32, sql: &str| {
        format!(
            "# User@Host: a[a] @ web []  Id: 9\n# Query_time: 0.1  Lock_time: 0.0 Errno: {errno}\n\
             SET timestamp=1704103200;\n{sql};\n"
        )
    };
    let log = event(0, "SET sql_mode = 'ANSI'") + &event(1231, "SET sql_mode = 'BOGUS'") + &event(0, "SELECT 1");
    let (_, lines) = captured("refused", log, false);
    assert_eq!(lines[2]["session"], serde_json::json!({"sql_mode": "ANSI"}));
}

#[test]
fn replicas_and_health_checks_are_not_counted_as_load() {
    let (summary, lines) = captured(
        "commands",
        "# Time: 2024-01-01T10:00:00.000000Z\n# User@Host: app[app] @ web []  Id:   101\n\
         # Query_time: 0.010000  Lock_time: 0.0\nSET timestamp=1704103200;\nSELECT 1;\n\
         # Time: 2024-01-01T10:05:00.000000Z\n# User@Host: repl[repl] @ replica []  Id:    11\n\
         # Query_time: 1349.027215  Lock_time: 0.0\nSET timestamp=1704102150;\n# administrator command: Binlog Dump GTID;\n\
         # User@Host: check[check] @ proxy []  Id:    12\n\
         # Query_time: 0.000002  Lock_time: 0.0\nSET timestamp=1704103900;\n# administrator command: Ping;\n",
        false,
    );
    let overall = &summary.overall;
    assert_eq!((overall.events, overall.commands, overall.connections, overall.total_us), (1, 2, 1, 10_000));
    assert_eq!((overall.first_us, overall.last_us), (Some(1_704_103_199_990_000), Some(1_704_103_200_000_000)));
    assert_eq!(lines[1]["not_replayable"], "command");
}

#[test]
fn events_have_session_digest_and_why_they_cannot_be_replayed() {
    let (summary, lines) = captured("plain", GENERAL, false);
    let of = |key: &str| lines.iter().map(|line| line[key].as_str().unwrap_or("")).collect::<Vec<_>>();
    assert_eq!(
        of("not_replayable"),
        ["", "", "", "password", "parameters", "local file", "prepare", "", "command", "", ""]
    );
    assert_eq!(lines[2]["session"], serde_json::json!({"names": "utf8mb4", "sql_mode": "ANSI"}));
    assert!(lines[1].get("session").is_none(), "the state before the statement");
    assert!(lines[10].get("session").is_none(), "Quit ends the session");
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
fn a_reset_or_another_user_forgets_the_session() {
    for command in ["Reset Connection\t", "Change user\tapp@h on shop using Socket"] {
        for redacted in [false, true] {
            let log = GENERAL.replace("Quit\t", command);
            let (_, lines) = captured(&format!("anew-{}-{redacted}", command.len()), &log, redacted);
            assert!(lines[2].get("session").is_some() && lines[10].get("session").is_none(), "{command}");
        }
    }
}

#[test]
fn a_redacted_capture_has_no_names() {
    let (summary, lines) = captured("redacted", GENERAL, true);
    let all = serde_json::to_string(&lines).unwrap() + &serde_json::to_string(&summary).unwrap();
    assert!(!all.to_lowercase().contains("bob") && !all.contains("s3cret"), "{all}");
    let (plain, _) = captured("again", GENERAL, false);
    let digests = |summary: &Summary| summary.digests.iter().map(|each| each.digest.clone()).collect::<Vec<_>>();
    assert_eq!(digests(&summary), digests(&plain), "digests are unchanged");
    assert!(summary.header.redacted);
}

#[test]
fn a_failed_capture_leaves_no_file() {
    let folder = std::env::temp_dir().join(format!("bakeoff-recorder-nothing-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("log"), "Dear reader").unwrap();
    let job = CaptureJob { logs: vec![folder.join("log")], output: folder.join("out"), ..CaptureJob::default() };
    assert!(matches!(capture(&job, &ReadProgress::default()), Err(Error::Unknown { .. })));
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn server_statements_and_locks_are_not_replayed() {
    let log = "2024-11-06T09:57:35.1Z\t    7 Query\tRESET MASTER\n\
        2024-11-06T09:57:35.2Z\t    7 Query\tFLUSH TABLES WITH READ LOCK\n\
        2024-11-06T09:57:35.3Z\t    7 Query\tSELECT GET_LOCK('a', -1)\n\
        2024-11-06T09:57:35.4Z\t    7 Query\tUNLOCK TABLES\n";
    let (summary, _) = captured("locks", log, false);
    let reasons = [("lock".to_owned(), 2), ("server".to_owned(), 1)];
    assert_eq!(summary.overall.not_replayable, reasons.into());
}

/// Returns why each statement, on its own connection, cannot be replayed, or an empty text.
fn reasons(name: &str, statements: &[&str]) -> Vec<String> {
    let line = |(connection, sql): (usize, &&str)| format!("2024-11-06T09:57:35.1Z\t    {connection} Query\t{sql}\n");
    let log: String = statements.iter().enumerate().map(line).collect();
    let (_, lines) = captured(name, &log, false);
    lines.iter().map(|line| line["not_replayable"].as_str().unwrap_or("").to_owned()).collect()
}

#[test]
fn global_settings_and_account_changes_are_not_replayed() {
    let for_server = [
        "SET GLOBAL long_query_time = 10",
        "set /* x */ global transaction isolation level read committed",
        "SET autocommit = 1, GLOBAL long_query_time = 10",
        "SET GLOBAL sort_buffer_size = 1000, SESSION autocommit = 1",
        "SET PERSIST max_connections = 5",
        "SET PERSIST_ONLY max_connections = 5",
        "SET @@global.long_query_time = 10",
        "SET @a = CONCAT('a', 'b'), @@PERSIST.max_connections = 5",
        "/*!50000 SET GLOBAL long_query_time = 10 */",
        "DROP USER root@localhost",
        "DROP USER IF EXISTS a",
        "RENAME USER root TO a",
    ];
    assert_eq!(reasons("global", &for_server), for_server.map(|_| "server"));
    let of_session = [
        "SET SESSION long_query_time = 10",
        "SET long_query_time = @@global.long_query_time",
        "SET @a = IF(1, @@global.long_query_time, 2)",
        "SET @global = 1, @persist = 2",
        "SELECT @@global.long_query_time, global FROM user",
        "DROP TABLE user",
        "RENAME TABLE user TO users",
    ];
    assert_eq!(reasons("session", &of_session), of_session.map(|_| ""));
    assert_eq!(reasons("password", &["SET GLOBAL my_password = 's3cret'"]), ["password"]);
}

#[test]
fn statements_that_use_server_files_are_not_replayed() {
    let for_server = [
        "SELECT a FROM t INTO OUTFILE '/tmp/x'",
        "select a into /* x */ outfile '/tmp/x' fields terminated by ',' from t",
        "(SELECT a FROM t) UNION (SELECT b FROM u) INTO DUMPFILE '/tmp/x'",
        "WITH c AS (SELECT 1) SELECT * FROM c INTO OUTFILE '/tmp/x'",
        "SELECT 1 /*!50000 INTO OUTFILE '/tmp/x' */",
        "LOAD DATA INFILE '/tmp/x' INTO TABLE t",
        "LOAD DATA LOW_PRIORITY INFILE '/tmp/x' REPLACE INTO TABLE t",
        "load xml infile '/tmp/x' into table t",
        "SELECT LOAD_FILE('/etc/hostname')",
        "INSERT INTO t VALUES (load_file ('/etc/hostname'))",
    ];
    assert_eq!(reasons("files", &for_server), for_server.map(|_| "server"));
    assert_eq!(reasons("local", &["LOAD DATA CONCURRENT LOCAL INFILE 'x' INTO TABLE t"]), ["local file"]);
    let others = [
        "SELECT 'INTO OUTFILE', \"INTO DUMPFILE 'x'\" FROM t /* INTO OUTFILE 'x' */",
        "SELECT `outfile`, load_file INTO @a FROM t",
        "INSERT INTO `outfile` VALUES ('LOAD_FILE(1)')",
        "LOAD INDEX INTO CACHE t",
    ];
    assert_eq!(reasons("no-files", &others), others.map(|_| ""));
}

#[test]
fn a_set_of_global_and_session_variables_changes_the_session() {
    let log = "2024-11-06T09:57:35.1Z\t    7 Query\tSET GLOBAL long_query_time = 10, SESSION autocommit = 0\n\
        2024-11-06T09:57:35.2Z\t    7 Query\tSELECT 1\n";
    let (_, lines) = captured("beside", log, false);
    assert_eq!(lines[1]["session"], serde_json::json!({"autocommit": "0"}));
}

#[test]
fn a_digest_text_cannot_be_replayed() {
    let head =
        "# Query_time: 0.000007  Lock_time: 0.0  Log_slow_rate_limit: 9  Digest_text: Yes\nSET timestamp=DEFAULT;\n";
    let log = format!("{head}SELECT `VERSION` ( );\n{head}CREATE SYSTEM_USER `x` IDENTIFIED BY ?;\n");
    let (summary, lines) = captured("digests", &log, false);
    let reasons: Vec<_> = lines.iter().filter_map(|line| line["not_replayable"].as_str()).collect();
    assert_eq!(reasons, ["parameters", "password"]);
    assert_eq!((summary.overall.count, summary.overall.first_us), (18, None));
}

fn add(totals: &mut Totals, sql: &str, query_us: u64, weight: u64) {
    let mut digester = Digester::default();
    digester.read(sql.as_bytes(), bakeoff_wire::dialect::Dialect::default());
    let event = Event {
        query_us: Some(query_us),
        rows_examined: Some(10),
        errno: Some(u32::from(query_us == 1) * 1064),
        weight,
        ..Event::default()
    };
    totals.statement(digester.key(), &event, sql.as_bytes(), None);
}

#[test]
fn weights_count_in_sums_and_percentiles() {
    let mut totals = Totals::default();
    for took in 1..=100 {
        add(&mut totals, &format!("SELECT {took}"), took, 1);
    }
    add(&mut totals, "SELECT 'slow'", 5_000, 900);
    add(&mut totals, "COMMIT", 7, 1);
    let (digests, overall) = totals.finish();
    let (select, commit) = (&digests[0], &digests[1]);
    assert_eq!((select.events, select.count, select.timed), (101, 1000, 1000));
    assert_eq!(select.total_us, 5050 + 4_500_000);
    assert_eq!((select.p50_us, select.max_us, select.rows_examined, select.errors), (5_000, 5_000, 10_000, 1));
    assert_eq!((select.sample.as_str(), select.text.as_str()), ("SELECT 'slow'", "SELECT ?"));
    assert_eq!((commit.count, commit.p50_us, commit.p99_us), (1, 7, 7));
    assert_eq!((overall.events, overall.count, overall.digests), (102, 1001, 2));
}

#[test]
fn percentiles_are_within_one_per_cent() {
    let mut totals = Totals::default();
    for took in 1..=10_000 {
        add(&mut totals, "SELECT 1", took * 100, 1);
    }
    let (digests, _) = totals.finish();
    for (found, expected) in [(digests[0].p50_us, 500_000), (digests[0].p95_us, 950_000), (digests[0].p99_us, 990_000)]
    {
        assert!(found.abs_diff(expected) * 100 <= expected, "{found} for {expected}");
    }
}

#[test]
fn digests_beyond_the_limit_are_counted_together() {
    let mut totals = Totals::default();
    for table in 0..DIGESTS_MAX + 5 {
        add(&mut totals, &format!("SELECT a FROM t{table}"), 1, 1);
    }
    let (digests, overall) = totals.finish();
    assert_eq!(digests.len(), DIGESTS_MAX + 1);
    let others = digests.iter().find(|each| each.text == "(other statements)").unwrap();
    assert_eq!((others.count, overall.events), (5, DIGESTS_MAX as u64 + 5));
}

#[test]
fn statements_without_a_token_have_their_own_digest() {
    let mut totals = Totals::default();
    add(&mut totals, "/* ping */;", 1, 1);
    for table in 0..=DIGESTS_MAX {
        add(&mut totals, &format!("SELECT a FROM t{table}"), 1, 1);
    }
    add(&mut totals, ";", 1, 1);
    let (digests, _) = totals.finish();
    let count = |text: &str| digests.iter().find(|each| each.text == text).map(|each| each.count);
    assert_eq!((count(""), count("(other statements)")), (Some(2), Some(2)));
}

#[test]
fn long_texts_are_shortened_but_stay_distinct() {
    let mut totals = Totals::default();
    let columns =
        |last: &str| format!("SELECT {} FROM t", (0..3000).map(|n| format!("column_{n}, ")).collect::<String>() + last);
    add(&mut totals, &columns("a"), 1, 1);
    add(&mut totals, &columns("b"), 1, 1);
    add(&mut totals, &columns("a"), 1, 1);
    let (digests, _) = totals.finish();
    assert_eq!(digests.iter().map(|each| each.count).collect::<Vec<_>>(), [2, 1]);
    assert!(digests.iter().all(|each| each.text.len() < TEXT_MAX + 4 && each.text.ends_with('…')));
}

#[test]
fn several_statements_sent_at_once_are_judged_separately() {
    let log = "240101  9:00:00\t    4 Connect\troot@localhost on shop\n\
        \t\t    4 Query\tSELECT 1; SET GLOBAL max_connections=5; SHUTDOWN\n\
        \t\t    4 Query\tSELECT 1; SET @app_password='hunter2'\n\
        \t\t    4 Query\tBEGIN; INSERT INTO t VALUES (1); COMMIT\n\
        \t\t    4 Query\tSET autocommit=0; SELECT 2\n";
    let (summary, lines) = captured("several", log, false);
    let reasons: Vec<&str> = lines[1..].iter().map(|line| line["not_replayable"].as_str().unwrap_or("")).collect();
    assert_eq!(reasons, ["", "server", "server", "", "password", "", "", "", "", ""]);
    assert!(lines.iter().all(|line| !line["sql"].as_str().unwrap().contains("hunter2")));
    assert_eq!(summary.overall.transactions, 1);
    assert_eq!(lines[10]["session"], serde_json::json!({"autocommit": "0"}));
}

#[test]
fn redacted_digests_have_no_accounts() {
    let log = "240101  9:00:00\t    4 Query\tGRANT SELECT ON x.* TO bob@db1.internal.corp\n\
        \t\t    4 Query\tGRANT SELECT ON x.* TO 'bob'@`db1.internal.corp`\n";
    let (summary, lines) = captured("accounts", log, true);
    let all = format!("{:?} {lines:?}", summary.digests);
    assert!(!all.contains("bob") && !all.contains("internal"), "{all}");
    assert!(all.contains("GRANT SELECT ON"), "{all}");
}

#[test]
fn statements_are_read_in_their_sessions_character_set() {
    let insert = |end: &str| [b"INSERT INTO t VALUES ('\x97\\\x92\xe8\x95\\', 'a;b')", end.as_bytes()].concat();
    let slow = "# User@Host: a[a] @ h []  Id: 5\n# Query_time: 0.1  Lock_time: 0.0\nSET timestamp=1690891200;\n";
    let general = "2024-11-06T09:57:35.1Z\t    5 Query\t";
    for (name, head, end) in [("slow-sjis", slow, ";\n"), ("general-sjis", general, "\n"), ("file-sjis", "", ";\n")] {
        let begin = format!("{head}SET NAMES sjis{end}{head}").into_bytes();
        let log =
            [begin, insert(end), format!("{head}SET NAMES utf8{end}{head}SELECT 'a\\''{end}").into_bytes()].concat();
        let (summary, lines) = captured(name, &log, false);
        let sql = STANDARD.decode(lines[1]["sql_base64"].as_str().unwrap()).unwrap();
        assert_eq!((lines.len(), sql), (4, insert("")), "{name}");
        assert!(summary.overall.not_replayable.is_empty());
        assert!(summary.digests.iter().any(|digest| digest.text == "INSERT INTO `t` VALUES (...)"));
        let (_, redacted) = captured(name, &log, true);
        let sql = STANDARD.decode(redacted[1]["sql_base64"].as_str().unwrap()).unwrap();
        assert!(sql.len() == insert("").len() && !sql.windows(3).any(|part| part == b"a;b"), "{name}");
    }
}

#[test]
fn several_statements_sent_at_once_are_split_by_their_character_set() {
    let query = |sql: &[u8]| [b"\t\t    4 Query\t", sql, b"\n"].concat();
    let log = [
        b"240101  9:00:00\t    4 Connect\troot@localhost on shop\n".to_vec(),
        query(b"SET NAMES gbk"),
        query(b"SELECT '\xd5\\'; SELECT ';'"),
        query(b"SET NAMES latin1; SELECT '\xd5\\';'; SELECT 2"),
        b"\t\t    4 Reset connection\t\n".to_vec(),
        query(b"SELECT '\xd5\\';'"),
    ];
    let (summary, _) = captured("several-gbk", log.concat(), false);
    assert_eq!((summary.overall.events, summary.overall.not_replayable.len()), (7, 0));
}
