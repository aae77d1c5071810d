//! Tests of chunks: transactions stay whole, connections keep their order, and nothing is lost or repeated.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bakeoff_capture::{CaptureJob, ReadProgress, capture};
use proptest::prelude::*;

use super::*;

/// Captures a general log of these events (connection, command, text), one per millisecond.
fn captured(events: &[(u64, &str, String)]) -> (PathBuf, PathBuf) {
    captured_at(events, |at| at)
}

/// Like [`captured`], with the time of each event computed from its index [ms].
fn captured_at(events: &[(u64, &str, String)], moment: impl Fn(usize) -> usize) -> (PathBuf, PathBuf) {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("bakeoff-replay-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (log, output) = (folder.join("general.log"), folder.join("x.capture"));
    let mut text = String::from(
        "/usr/sbin/mysqld, Version: 8.0.33 (x). started with:\nTcp port: 3306  Unix socket: /tmp/x\nTime                 Id Command    Argument\n",
    );
    for (at, (connection, command, sql)) in events.iter().enumerate() {
        let (second, milli) = (moment(at) / 1000, moment(at) % 1000);
        let (minute, second) = (second / 60, second % 60);
        writeln!(text, "2026-11-23T10:{minute:02}:{second:02}.{milli:03}000Z\t    {connection} {command}\t{sql}")
            .unwrap();
    }
    std::fs::write(&log, text).unwrap();
    let order = CaptureJob { logs: vec![log], output: output.clone(), ..CaptureJob::default() };
    capture(&order, &ReadProgress::default()).unwrap();
    (folder, output)
}

fn queries(events: &[(u64, &str)]) -> Vec<(u64, &'static str, String)> {
    events.iter().map(|(connection, sql)| (*connection, "Query", (*sql).to_owned())).collect()
}

fn order(capture: &std::path::Path, sessions: usize, chunk_events: u64) -> ReplayOrder {
    ReplayOrder { capture: capture.to_owned(), sessions, chunk_events, reads_only: false, by_clock: false, begin: 0 }
}

/// All chunks, at most `blocks` blocks of them.
fn chunks(order: ReplayOrder, blocks: usize) -> Vec<Arc<Chunk>> {
    let mut replay = Replay::open(order).unwrap();
    let mut all = Vec::new();
    for _ in 0..blocks {
        if !replay.advance().unwrap() {
            break;
        }
        all.extend([replay.block.chunk(0), replay.block.chunk(1)]);
    }
    all
}

fn texts(transaction: &Transaction) -> Vec<String> {
    let statements = transaction.statements.iter();
    statements.map(|statement| String::from_utf8_lossy(&statement.sql).into_owned()).collect()
}

/// Transactions of each chunk, session after session.
fn transactions(chunks: &[Arc<Chunk>]) -> Vec<Vec<Vec<String>>> {
    chunks.iter().map(|chunk| chunk.transactions().map(texts).collect()).collect()
}

#[test]
fn a_transaction_belongs_to_the_chunk_in_which_it_begins() {
    let (folder, file) = captured(&queries(&[
        (1, "BEGIN"),
        (2, "UPDATE t SET a = 2"),
        (1, "UPDATE t SET a = 1"),
        (2, "UPDATE t SET a = 3"),
        (1, "COMMIT"),
        (2, "SELECT 4"),
    ]));
    let found = transactions(&chunks(order(&file, 2, 2), 9));
    assert_eq!(
        found,
        [
            vec![vec!["BEGIN", "UPDATE t SET a = 1", "COMMIT"], vec!["UPDATE t SET a = 2"]],
            vec![vec!["UPDATE t SET a = 3"], vec!["SELECT 4"]],
        ]
    );
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn without_autocommit_transactions_begin_implicitly_and_ddl_ends_them() {
    let (folder, file) = captured(&queries(&[
        (1, "SET autocommit=0"),
        (1, "INSERT INTO t VALUES (1)"),
        (1, "SELECT 1"),
        (1, "COMMIT"),
        (1, "SELECT 2"),
        (1, "CREATE TABLE u (a INT)"),
        (1, "SELECT 3"),
        (1, "SET autocommit=1"),
        (1, "SELECT 4"),
        (1, "SELECT 5"),
    ]));
    let found: Vec<Vec<String>> = transactions(&chunks(order(&file, 1, 100), 9)).concat();
    let expected: [&[&str]; 6] = [
        &["SET autocommit=0"],
        &["INSERT INTO t VALUES (1)", "SELECT 1", "COMMIT"],
        &["SELECT 2", "CREATE TABLE u (a INT)"],
        &["SELECT 3", "SET autocommit=1"],
        &["SELECT 4"],
        &["SELECT 5"],
    ];
    assert_eq!(found, expected);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn lock_tables_is_not_split_until_unlock_or_begin() {
    let (folder, file) = captured(&queries(&[
        (1, "LOCK TABLES t WRITE"),
        (1, "ALTER TABLE t DISABLE KEYS"),
        (1, "INSERT INTO t VALUES (1)"),
        (1, "COMMIT"),
        (1, "UNLOCK TABLES"),
        (1, "SELECT 1"),
        (1, "LOCK TABLES t READ"),
        (1, "BEGIN"),
        (1, "COMMIT"),
        (1, "DELETE FROM t"),
    ]));
    let found: Vec<usize> = transactions(&chunks(order(&file, 1, 1), 9)).concat().iter().map(Vec::len).collect();
    assert_eq!(found, [5, 1, 1, 2, 1]);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_open_transaction_is_rolled_back_when_its_connection_ends() {
    let mut events = queries(&[(1, "BEGIN"), (1, "DELETE FROM t"), (2, "BEGIN"), (2, "COMMIT"), (3, "BEGIN")]);
    events.insert(2, (1, "Quit", String::new()));
    let (folder, file) = captured(&events);
    let found = chunks(order(&file, 3, 100), 9);
    let abandoned = |connection| {
        let mut all = found.iter().flat_map(|chunk| chunk.transactions());
        all.find(|each| each.connection == connection).unwrap().abandoned
    };
    assert_eq!([1, 2, 3].map(abandoned), [true, false, true]);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn without_connection_ids_quit_ends_no_session() {
    let event = |sql: &str| {
        let (command, digest) = if sql == "Quit" { ("Quit", "") } else { ("Query", r#","digest":"a""#) };
        format!(r#"{{"type":"event","command":"{command}","sql":"{sql}"{digest}}}"#) + "\n"
    };
    let statements = ["BEGIN", "INSERT INTO t VALUES (1)", "Quit", "INSERT INTO t VALUES (2)", "COMMIT"];
    let path = written(&statements.map(event).concat(), 5);
    let found = chunks(order(&path, 1, 10), 1);
    let all: Vec<_> = found.iter().flat_map(|chunk| chunk.transactions()).collect();
    assert_eq!(all.iter().map(|each| (each.statements.len(), each.abandoned)).collect::<Vec<_>>(), [(4, false)]);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn read_only_captures_loop_and_captures_with_writes_end() {
    let reads = queries(&[(1, "SELECT 1"), (1, "SELECT 2"), (1, "SELECT 3")]);
    let (folder, file) = captured(&reads);
    let found: Vec<String> = transactions(&chunks(order(&file, 1, 2), 2)).concat().concat();
    assert_eq!(found, ["SELECT 1", "SELECT 2", "SELECT 3", "SELECT 1", "SELECT 2", "SELECT 3", "SELECT 1", "SELECT 2"]);
    let (other, mixed) =
        captured(&[reads, queries(&[(1, "DELETE FROM t"), (1, "RESET MASTER"), (1, "SELECT SLEEP(0)")])].concat());
    let found: Vec<String> = transactions(&chunks(order(&mixed, 1, 2), 99)).concat().concat();
    assert_eq!(found, ["SELECT 1", "SELECT 2", "SELECT 3", "DELETE FROM t", "SELECT SLEEP(0)"]);
    let reading = ReplayOrder { reads_only: true, ..order(&mixed, 1, 2) };
    let found: Vec<String> = transactions(&chunks(reading, 1)).concat().concat();
    assert_eq!(found, ["SELECT 1", "SELECT 2", "SELECT 3", "SELECT 1"]);
    for (begin, first) in [(5, ["SELECT 1", "SELECT 2"]), (1, ["SELECT 2", "SELECT 3"]), (9, ["SELECT 1", "SELECT 2"])]
    {
        let reading = ReplayOrder { reads_only: true, begin, ..order(&mixed, 1, 1) };
        let found: Vec<String> = transactions(&chunks(reading, 1)).concat().concat();
        assert_eq!(found, first, "from {begin}: what lies there is read, or the beginning when nothing follows");
    }
    std::fs::remove_dir_all(folder).unwrap();
    std::fs::remove_dir_all(other).unwrap();
}

#[test]
fn an_unfinished_transaction_does_not_keep_the_capture_in_memory() {
    let mut events = queries(&[(1, "BEGIN"), (1, "UPDATE t SET a = 0")]);
    for number in 0..30_000 {
        events.push((2, "Query", format!("UPDATE t SET a = {number}")));
    }
    events.push((1, "Query", "UPDATE t SET a = -1".to_owned()));
    let (folder, file) = captured(&events);
    let mut replay = Replay::open(order(&file, 2, 10)).unwrap();
    let waiting = replay.reader.drafts.iter().map(|draft| draft.statements).sum::<usize>();
    assert_eq!(waiting, replay.reader.waiting);
    assert!(waiting as u64 <= STATEMENTS_AHEAD + 10, "{waiting} statements wait");
    let mut found = 0;
    while replay.advance().unwrap() {
        found += replay.block.chunk(0).statements + replay.block.chunk(1).statements;
    }
    assert_eq!(found, events.len());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_split_transaction_is_rolled_back_where_its_connection_quits() {
    let mut events = queries(&[(1, "BEGIN"), (1, "UPDATE t SET a = 0")]);
    events.extend((0..30_000).map(|number| (2, "Query", format!("UPDATE t SET a = {number}"))));
    events.extend([(1, "Quit", String::new()), (2, "Query", "SELECT 1".to_owned())]);
    let (folder, file) = captured(&events);
    let found = chunks(order(&file, 2, 10), 9_999);
    let all: Vec<_> = found.iter().flat_map(|chunk| chunk.transactions()).collect();
    let of_first: Vec<_> = all.iter().filter(|each| each.connection == 1).collect();
    assert_eq!(of_first.iter().map(|each| each.statements.len()).collect::<Vec<_>>(), [2, 0]);
    assert_eq!(of_first.iter().map(|each| each.abandoned).collect::<Vec<_>>(), [false, true]);
    assert_eq!(found.iter().map(|chunk| chunk.statements).sum::<usize>(), events.len() - 1);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_split_transaction_is_rolled_back_before_the_next_one() {
    let mut events = queries(&[(1, "BEGIN")]);
    events.extend((0..STATEMENTS_AHEAD).map(|number| (1, "Query", format!("UPDATE t SET a = {number}"))));
    events.extend([(1, "Quit", String::new()), (2, "Query", "UPDATE t SET a = 1".to_owned())]);
    let (folder, file) = captured_at(&events, |at| at + if events[at].0 == 2 { 60_000 } else { 0 });
    let found = chunks(order(&file, 1, 10), 9);
    let last: Vec<_> = found[1].transactions().map(|each| (each.connection, each.abandoned, each.end_us())).collect();
    assert_eq!(last, [(1, true, 0), (2, false, 0)], "nor is it waited for");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_capture_of_one_huge_transaction_is_split_into_chunks() {
    let mut events = queries(&[(1, "BEGIN")]);
    events.extend((0..50_000).map(|number| (1, "Query", format!("UPDATE t SET a = {number}"))));
    let (folder, file) = captured(&events);
    let found = chunks(order(&file, 2, 10), 10);
    let sizes: Vec<usize> = found.iter().map(|chunk| chunk.statements).collect();
    assert_eq!(sizes.iter().sum::<usize>(), events.len());
    // What is left in the end belongs to the last block.
    assert!(sizes.iter().all(|size| *size > 0 && *size as u64 <= 2 * STATEMENTS_AHEAD), "{sizes:?}");
    let all: Vec<String> = transactions(&found).concat().concat();
    assert!(all.into_iter().eq(events.into_iter().map(|(_, _, sql)| sql)), "another order");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn files_with_nothing_to_replay_are_refused() {
    let (folder, file) = captured(&queries(&[(1, "INSERT INTO t VALUES (1)")]));
    let reading = ReplayOrder { reads_only: true, ..order(&file, 1, 2) };
    let refused = Replay::open(reading).err().unwrap().message;
    assert!(refused.ends_with("x.capture: it has no plain read to replay"), "{refused}");
    let refused = Replay::open(order(&folder.join("general.log"), 1, 2)).err().unwrap().message;
    assert!(refused.ends_with("general.log: not a capture"), "{refused}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn offsets_are_relative_to_the_chunk() {
    let (folder, file) = captured(&queries(&[(1, "SELECT 1"), (1, "SELECT 2"), (1, "SELECT 3"), (1, "SELECT 4")]));
    let found = chunks(order(&file, 1, 2), 2);
    let offsets = |chunk: &Chunk| chunk.transactions().map(Transaction::end_us).collect::<Vec<_>>();
    assert_eq!(found.iter().map(|chunk| offsets(chunk)).collect::<Vec<_>>(), vec![vec![0, 1000]; 4]);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_timed_chunk_ends_soon_after_its_last_transaction_begins() {
    let events = queries(&[
        (1, "BEGIN"),
        (2, "SELECT 1"),
        (1, "UPDATE t SET a = 1"),
        (1, "COMMIT"),
        (3, "SELECT 'took 300 s'"),
        (2, "SELECT 2"),
    ]);
    let (folder, file) = captured_at(&events, |at| [0, 1_000, 2_000, 600_000, 300_000, 600_100][at]);
    let found = chunks(order(&file, 3, 3), 9);
    let offsets = |chunk: &Chunk| {
        let statements = chunk.transactions().flat_map(|each| &each.statements);
        statements.map(|each| each.offset_us).collect::<Vec<_>>()
    };
    assert_eq!(offsets(&found[0]), [0, 2_000_000, 600_000_000, 1_000_000]);
    assert_eq!(found[0].clock_us, 6_000_000, "the end of the transaction is not waited for");
    let mut second = offsets(&found[1]);
    second.sort_unstable();
    assert_eq!(second, [0, 100_000], "nor is what began before the chunk");
    std::fs::remove_dir_all(folder).unwrap();
}

/// Writes a capture of these lines whose totals claim this number of events.
fn written(lines: &str, events: u64) -> PathBuf {
    use bakeoff_capture::capture_file::{Header, Overall, VERSION, Writer};
    let header = Header { r#type: "bakeoff-capture".into(), version: VERSION, redacted: false };
    let mut writer = Writer::new(std::io::Cursor::new(Vec::new()), &header).unwrap();
    for line in lines.lines() {
        writer.line(&serde_json::from_str::<serde_json::Value>(line).unwrap());
    }
    let file = writer.finish(&[], &Overall { events, ..Overall::default() }).unwrap();
    let path = std::env::temp_dir().join(format!("bakeoff-replay-{}-{events}.capture", std::process::id()));
    std::fs::write(&path, file.into_inner()).unwrap();
    path
}

#[test]
fn extreme_timestamps_are_replayed() {
    for moments in [[i64::MIN, i64::MAX, 0], [i64::MAX, i64::MIN, 1], [-1, 1, i64::MAX]] {
        let event = |at: &i64| {
            format!(r#"{{"type":"event","start_us":{at},"command":"Query","sql":"SELECT 1","digest":"a"}}"#) + "\n"
        };
        let path = written(&moments.iter().map(event).collect::<String>(), 3);
        assert_eq!(chunks(order(&path, 1, 1), 5).len(), 10);
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn an_overstated_event_count_does_not_hang_the_reader() {
    let event = r#"{"type":"event","command":"Query","sql":"SELECT 1","digest":"a"}"#.to_owned() + "\n";
    let path = written(&event, u64::MAX);
    let order = ReplayOrder { reads_only: true, begin: u64::MAX - 1, ..order(&path, 1, 1) };
    assert_eq!(chunks(order, 1).len(), 2);
    std::fs::remove_file(path).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn every_statement_runs_once_and_in_order(
        kinds in proptest::collection::vec((0_u64..6, 0_u8..8), 1..200),
        sessions in 1_usize..5,
        chunk in 1_u64..20,
    ) {
        let mut events = Vec::new();
        // A client that quits comes back with a new connection id, as on a server.
        let mut lives = [0; 6];
        for (number, (place, kind)) in kinds.iter().enumerate() {
            let connection = &(place + 10 * lives[usize::try_from(*place).unwrap()]);
            let sql = match kind {
                0 => "BEGIN".to_owned(),
                1 => "COMMIT".to_owned(),
                2 => format!("SELECT {number}"),
                3 => {
                    lives[usize::try_from(*place).unwrap()] += 1;
                    events.push((*connection, "Quit", String::new()));
                    continue;
                }
                _ => format!("UPDATE t SET a = {number}"),
            };
            events.push((*connection, "Query", sql));
        }
        events.push((9, "Query", "DELETE FROM t".to_owned()));
        let (folder, file) = captured(&events);
        let found = chunks(order(&file, sessions, chunk), 999);
        let mut expected: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for (connection, command, sql) in &events {
            if *command == "Query" {
                expected.entry(*connection).or_default().push(sql.clone());
            }
        }
        let mut replayed: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for transaction in found.iter().flat_map(|chunk| chunk.transactions()) {
            let texts = texts(transaction);
            // Whole: a BEGIN is the first, a COMMIT the last.
            prop_assert!(texts[1..].iter().all(|sql| sql != "BEGIN"));
            prop_assert!(texts[..texts.len() - 1].iter().all(|sql| sql != "COMMIT"));
            replayed.entry(transaction.connection).or_default().extend(texts);
        }
        prop_assert_eq!(replayed, expected);
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn read_only_connections_are_copied_to_fill_spare_sessions() {
    let mut events = Vec::new();
    for number in 0..20 {
        let connection = 1 + number % 3;
        events.push((connection, "Query", format!("SELECT {} FROM c{connection}", number / 3)));
    }
    events.push((3, "Query", "UPDATE t SET a = 1".to_owned()));
    let (folder, file) = captured(&events);
    let sessions_of = |order: ReplayOrder| {
        let found = chunks(order, 1);
        let mut sessions: Vec<Vec<String>> = vec![Vec::new(); found[0].sessions.len()];
        for (session, transactions) in found.iter().flat_map(|chunk| chunk.sessions.iter().enumerate()) {
            sessions[session].extend(transactions.iter().flat_map(texts));
        }
        sessions
    };
    let reading = ReplayOrder { reads_only: true, ..order(&file, 7, 30) };
    let found = sessions_of(reading.clone());
    assert_eq!(
        found.iter().flatten().count(),
        60,
        "two chunks: the pass has 20 statements, of each connection three copies"
    );
    let busy = |sessions: &[Vec<String>]| sessions.iter().filter(|texts| !texts.is_empty()).count();
    assert_eq!(busy(&found), 7);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (session, texts) in found.iter().enumerate() {
        for text in texts {
            *counts.entry(text).or_default() += 1;
        }
        for table in ["c1", "c2", "c3"] {
            let of_one: Vec<&String> = texts.iter().filter(|text| text.ends_with(table)).collect();
            assert!(of_one.is_sorted(), "session {session}: {of_one:?}");
        }
    }
    assert_eq!(counts.len(), 20);
    assert!(counts.values().all(|count| *count == 3), "{counts:?}");
    assert_eq!(busy(&sessions_of(ReplayOrder { by_clock: true, chunk_events: 10, ..reading })), 3, "of one pass");
    assert_eq!(busy(&sessions_of(order(&file, 7, 30))), 3, "a copy of the UPDATE would write twice");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn time_dependent_statements_keep_the_logged_second() {
    let (folder, file) = captured_at(
        &queries(&[(1, "SELECT now()"), (1, "SELECT 'NOW()', `now`"), (1, "INSERT INTO t VALUES (1)"), (1, "BEGIN")]),
        |at| 1500 * at,
    );
    let found = chunks(order(&file, 1, 9), 1);
    let all = found.iter().flat_map(|chunk| chunk.transactions()).flat_map(|each| &each.statements);
    let begin = 1_795_428_000; // 2026-11-23 10:00:00 UTC
    assert_eq!(all.map(|each| each.second).collect::<Vec<_>>(), [Some(begin), None, Some(begin + 3), None]);
    std::fs::remove_dir_all(folder).unwrap();
}
