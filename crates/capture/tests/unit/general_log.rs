//! Tests of general logs in both formats.

use super::slow_log::read;
use crate::event::{Event, LogCommand};
use crate::general_log::{GeneralLog, statements};
use crate::session::SessionState;

fn events(log: &str) -> Vec<Event> {
    read(GeneralLog::default(), log.as_bytes()).events
}

fn sqls(events: &[Event]) -> Vec<(LogCommand, &str)> {
    events.iter().map(|event| (event.command, std::str::from_utf8(&event.sql).unwrap())).collect()
}

#[test]
fn the_format_since_5_7_is_read() {
    let found = events(
        "/usr/sbin/mysqld, Version: 8.0.33 (Source). started with:\nTcp port: 1  Unix socket: s\nTime                 Id Command    Argument\n\
         2024-11-06T09:57:35.187996Z\t    7 Connect\troot@localhost on shop using Socket\n\
         2024-11-06T09:57:35.188000Z\t    7 Query\tSELECT 1\nFROM t\n\
         2024-11-06T09:57:35.189000Z\t    7 Prepare\tSELECT ?\n\
         2024-11-06T09:57:35.190000Z\t    7 Execute\tSELECT 5\n\
         2024-11-06T09:57:35.190100Z\t    7 Close stmt\t\n\
         2024-11-06T09:57:35.190200Z\t    7 Init DB\tother\n\
         2024-11-06T09:57:35.190300Z\t    7 Query\tSELECT 2\n\
         2024-11-06T09:57:35.190400Z\t    7 Quit\t\n",
    );
    assert_eq!(
        sqls(&found),
        [
            (LogCommand::Connect, "root@localhost on shop using Socket"),
            (LogCommand::Query, "SELECT 1\nFROM t"),
            (LogCommand::Prepare, "SELECT ?"),
            (LogCommand::Execute, "SELECT 5"),
            (LogCommand::Other, "Close stmt "),
            (LogCommand::InitDb, "other"),
            (LogCommand::Query, "SELECT 2"),
            (LogCommand::Quit, ""),
        ]
    );
    assert_eq!(found[1].schema, b"shop");
    assert_eq!(found[6].schema, b"other");
    assert_eq!((found[1].start_us, found[1].connection), (Some(1_730_887_055_188_000), Some(7)));
    assert_eq!(found[1].user, b"root@localhost");
}

#[test]
fn the_old_format_logs_the_time_only_when_the_second_changes() {
    let found = events(
        "051007 21:55:24\t   42 Connect\troot@localhost on db1\n\t\t   42 Query\tSELECT '\n\t\t 4 nothing'\n\
         \t\t   42 Query\tUSE `db2`\n051007 21:55:25\t   43 Query\tSELECT 3\n\t\t   42 Query\tSELECT 4\n",
    );
    assert_eq!(sqls(&found)[1], (LogCommand::Query, "SELECT '\n\t\t 4 nothing'"));
    assert_eq!(found[1].start_us, found[0].start_us);
    assert_eq!(found[3].start_us, found[0].start_us.map(|us| us + 1_000_000));
    assert_eq!((found[1].schema.as_slice(), found[4].schema.as_slice()), (&b"db1"[..], &b"db2"[..]));
}

#[test]
fn a_reset_or_another_user_begins_a_new_session() {
    for reset in ["Reset Connection", "Reset connection"] {
        let found = events(&format!(
            "2024-11-06T09:57:35.1Z\t    7 Connect\troot@localhost on shop using Socket\n\
         2024-11-06T09:57:35.2Z\t    7 Change user\tapp@h on db2 using TCP/IP\n2024-11-06T09:57:35.3Z\t    7 Query\tSELECT 1\n\
         2024-11-06T09:57:35.4Z\t    7 {reset}\t\n2024-11-06T09:57:35.5Z\t    7 Query\tSELECT 2\n",
        ));
        let commands: Vec<LogCommand> = found.iter().map(|event| event.command).collect();
        assert_eq!(
            commands,
            [LogCommand::Connect, LogCommand::Connect, LogCommand::Query, LogCommand::Reset, LogCommand::Query]
        );
        for event in [&found[2], &found[4]] {
            assert_eq!((event.user.as_slice(), event.schema.as_slice()), (&b"app@h"[..], &b"db2"[..]));
        }
    }
}

#[test]
fn commands_of_replicas_and_clones_do_not_extend_a_statement() {
    for command in ["Binlog Dump GTID", "clone", "Group Replication Data Stream subscription"] {
        let found = events(&format!(
            "2024-11-06T09:57:35.1Z\t    7 Query\tCOMMIT\n\
             2024-11-06T09:57:35.2Z\t    9 {command}\tLog: '' Pos: 4 GTIDs: ''\n"
        ));
        let other = format!("{command} Log: '' Pos: 4 GTIDs: ''");
        assert_eq!(sqls(&found), [(LogCommand::Query, "COMMIT"), (LogCommand::Other, other.as_str())]);
    }
}

#[test]
fn a_proxy_user_connects_to_its_schema() {
    let found = events(
        "2024-11-06T09:57:35.1Z\t    7 Connect\tu@h as role on shop using TCP/IP\n\
         2024-11-06T09:57:35.2Z\t    7 Query\tSELECT 1\n",
    );
    assert_eq!((found[1].user.as_slice(), found[1].schema.as_slice()), (&b"u@h"[..], &b"shop"[..]));
}

#[test]
fn a_textual_execute_is_not_replayed_twice() {
    let found = events(
        "2024-11-06T09:57:35.1Z\t    7 Query\tPREPARE s FROM 'SELECT ?'\n2024-11-06T09:57:35.1Z\t    7 Prepare\tSELECT ?\n\
         2024-11-06T09:57:35.1Z\t    7 Query\tEXECUTE s USING @a\n2024-11-06T09:57:35.1Z\t    7 Execute\tSELECT 5\n\
         2024-11-06T09:57:35.1Z\t    7 Execute\tSELECT 6\n",
    );
    let commands: Vec<LogCommand> = found.iter().map(|event| event.command).collect();
    assert_eq!(
        commands,
        [LogCommand::Prepare, LogCommand::Prepare, LogCommand::Prepare, LogCommand::Execute, LogCommand::Execute]
    );
}

const HEADER: &str = "/usr/sbin/mysqld, Version: 8.0.33 (Source). started with:\nTcp port: 1  Unix socket: s\n\
    Time                 Id Command    Argument\n";

#[test]
fn reopening_the_log_does_not_cut_complete_statements() {
    for path in ["/usr/sbin/mysqld", "mysqld", "/opt/my sql/mysqld", "C:\\Program Files\\mysqld.exe"] {
        let header = HEADER.replace("/usr/sbin/mysqld", path);
        let log = format!(
            "2024-11-06T09:57:35.1Z\t    7 Query\tSELECT 1\nFROM t\n2024-11-06T09:57:35.2Z\t    7 Query\tCOMMIT\n{header}\
         2024-11-06T09:57:35.3Z\t    7 Query\tSELECT 2\n"
        );
        let kept = read(GeneralLog::default(), log.as_bytes());
        let queries = ["SELECT 1\nFROM t", "COMMIT", "SELECT 2"].map(|sql| (LogCommand::Query, sql));
        assert_eq!(sqls(&kept.events), queries);
        assert!(kept.events.iter().all(|event| !event.cut), "{path}");
        assert_eq!(kept.skipped, 0);
    }
}

#[test]
fn a_header_after_a_crash_is_not_part_of_the_statement() {
    for (begun, expected) in [
        ("2024-11-06T09:57:35.2Z\t    7 Query\tSELECT a", "SELECT a"),
        (
            "2024-11-06T09:57:35.2Z\t    7 Query\tSELECT a\nFROM t WHERE b = '/x/' AND c",
            "SELECT a\nFROM t WHERE b = '/x/' AND c",
        ),
    ] {
        let log = format!(
            "2024-11-06T09:57:35.1Z\t    7 Query\tSELECT 1\n{begun}{HEADER}\
             2024-11-06T09:57:35.3Z\t    8 Query\tSELECT 2\n"
        );
        let kept = read(GeneralLog::default(), log.as_bytes());
        let queries = ["SELECT 1", expected, "SELECT 2"].map(|sql| (LogCommand::Query, sql));
        assert_eq!(sqls(&kept.events), queries);
        assert_eq!(kept.events.iter().map(|event| event.cut).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(kept.skipped, 0);
    }
}

#[test]
fn bytes_before_the_first_event_are_counted() {
    let kept = read(GeneralLog::default(), b"FROM t\n2024-11-06T09:57:35.1Z\t    7 Query\tSELECT 1");
    assert_eq!((kept.events.len(), kept.skipped), (1, 7));
    assert!(kept.events[0].cut, "without a newline the file may be cut");
    let kept = read(GeneralLog::default(), b"2024-11-06T09:57:35.1Z\t    7 Query\tSELECT 1\n2024-11-06T09:5");
    assert_eq!((kept.events.len(), kept.skipped), (1, 15), "the beginning of the next event");
}

#[test]
fn several_statements_sent_at_once_become_several_events() {
    let found = events(
        "240101  9:00:00\t    4 Connect\troot@localhost on shop\n\
         \t\t    4 Query\tBEGIN; INSERT INTO t VALUES (';'); COMMIT;\n\
         \t\t    4 Query\tSELECT 3; USE third; PREPARE s FROM 'SELECT 1'; SELECT 4\n\
         \t\t    4 Query\tSELECT 5;\n\
         \t\t    4 Query\tCREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END\n\
         \t\t    4 Query\tSELECT 6; SELECT 'cut",
    );
    assert_eq!(
        sqls(&found)[1..],
        [
            (LogCommand::Query, "BEGIN"),
            (LogCommand::Query, "INSERT INTO t VALUES (';')"),
            (LogCommand::Query, "COMMIT"),
            (LogCommand::Query, "SELECT 3"),
            (LogCommand::Query, "USE third"),
            (LogCommand::Prepare, "PREPARE s FROM 'SELECT 1'"),
            (LogCommand::Query, "SELECT 4"),
            (LogCommand::Query, "SELECT 5;"),
            (LogCommand::Query, "CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END"),
            (LogCommand::Query, "SELECT 6; SELECT 'cut"),
        ]
    );
    let schemas: Vec<&[u8]> = found[4..8].iter().map(|event| event.schema.as_slice()).collect();
    assert_eq!(schemas, [&b"shop"[..], b"third", b"third", b"third"]);
    assert!(found.iter().all(|event| event.start_us == found[0].start_us && event.connection == Some(4)));
    assert_eq!(found.iter().filter(|event| event.cut).count(), 1);
}

#[test]
fn spaces_for_tabs_and_single_digit_hours_are_accepted() {
    for log in [
        "2024-11-06T09:57:35.1Z\t    7 Connect\troot@localhost on shop\n2024-11-06T09:57:35.2Z\t    7 Query\tSELECT 1\n\
         2024-11-06T09:57:35.3Z\t    9 Binlog Dump GTID\tLog: ''\n",
        "2024-11-06T09:57:35.1Z 7 Connect root@localhost on shop\n2024-11-06T09:57:35.2Z 7 Query SELECT 1\n\
         2024-11-06T09:57:35.3Z 9 Binlog Dump GTID Log: ''\n",
        "241106 9:57:35\t7\tConnect\troot@localhost on shop\n\t\t 7 Query\tSELECT 1\n\t\t9 Binlog Dump GTID\tLog: ''\n",
        "241106  9:57:35        7 Connect   root@localhost on shop\n241106  9:57:35        7 Query   SELECT 1\n\
         241106  9:57:35  9 Binlog Dump GTID  Log: ''\n",
    ] {
        let found = events(log);
        let dump = (LogCommand::Other, "Binlog Dump GTID Log: ''");
        let (connect, query) = ((LogCommand::Connect, "root@localhost on shop"), (LogCommand::Query, "SELECT 1"));
        assert_eq!(sqls(&found), [connect, query, dump], "{log}");
        assert_eq!(found[1].schema, b"shop");
        assert_eq!(found[1].start_us.map(|us| us / 1_000_000), Some(1_730_887_055), "{log}");
    }
}

fn split(sql: &str) -> Vec<&str> {
    statements(sql.as_bytes(), SessionState::default())
        .into_iter()
        .map(|each| std::str::from_utf8(each).unwrap())
        .collect()
}

#[test]
fn a_text_is_split_into_statements() {
    assert_eq!(split("BEGIN; INSERT INTO t VALUES (';');; COMMIT;"), ["BEGIN", "INSERT INTO t VALUES (';')", "COMMIT"]);
    assert_eq!(
        split("SELECT 1 -- a;\n; /* b; */ SELECT ';', `;` # c;"),
        ["SELECT 1 -- a;", "/* b; */ SELECT ';', `;` # c;"]
    );
    assert_eq!(split("CREATE TABLE t (event INT); BEGIN WORK; ALTER TABLE t ADD event INT; SHUTDOWN").len(), 4);
    assert_eq!(split("; -- nothing\n;"), [""; 0]);
}

#[test]
fn a_statement_that_may_contain_others_extends_to_the_end() {
    for sql in [
        "CREATE OR REPLACE DEFINER = `a`@`h` PROCEDURE p() BEGIN SELECT 1; SELECT 2; END",
        "/*!50003 CREATE*/ /*!50017 DEFINER=CURRENT_USER()*/ /*!50003 TRIGGER t BEFORE INSERT ON a \
         FOR EACH ROW BEGIN SET @a = 1; END */",
        "ALTER EVENT e DO BEGIN DELETE FROM t; END; SELECT 2",
        "BEGIN NOT ATOMIC SELECT 1; SELECT 2; END",
        "IF @a THEN SELECT 1; END IF",
        "l: LOOP LEAVE l; END LOOP",
        "/*!50000 SELECT 1; SELECT 2 */",
    ] {
        assert_eq!(split(sql), [sql]);
        let behind = format!("SELECT 0; {sql}");
        assert_eq!(split(&behind), ["SELECT 0", sql]);
    }
}

#[test]
fn a_text_is_split_by_the_character_set_it_sets() {
    let sql = b"SET NAMES sjis; SELECT '\x95\x5c'; SELECT ';'; SET NAMES latin1; SELECT '\x95\x5c';'; SELECT 1";
    assert_eq!(statements(sql, SessionState::default()).len(), 6);
    let mut session = SessionState::default();
    session.set(b"SET NAMES gbk");
    assert_eq!(statements(b"SELECT '\xd5\x5c;', 1; SELECT ';\xd5\x5c'", session).len(), 2);
}
