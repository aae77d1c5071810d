//! Tests of slow logs of each server, also after rotation and crashes.

use crate::event::{Event, LogCommand, LogReader, Sink};
use crate::slow_log::SlowLog;

/// Keeps events.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) events: Vec<Event>,
    pub(crate) skipped: u64,
}

impl Sink for Kept {
    fn event(&mut self, event: &mut Event) {
        self.events.push(event.clone());
    }

    fn skipped(&mut self, bytes: u64) {
        self.skipped += bytes;
    }
}

/// Reads a whole log line by line.
pub(crate) fn read(mut reader: impl LogReader, log: &[u8]) -> Kept {
    let mut kept = Kept::default();
    for line in log.split_inclusive(|byte| *byte == b'\n') {
        reader.line(line, &mut kept);
    }
    reader.finish(&mut kept);
    kept
}

fn events(log: &str) -> Vec<Event> {
    read(SlowLog::default(), log.as_bytes()).events
}

fn sql(event: &Event) -> &str {
    std::str::from_utf8(&event.sql).unwrap()
}

const HEADER: &str = "/usr/sbin/mysqld, Version: 5.5.34-log (Source). started with:\nTcp port: 3306  Unix socket: /tmp/s\n\
    Time\t\t    Id Command\tArgument\n";

#[test]
fn mysql_5_5_logs_lack_connection_ids_and_fractional_timestamps() {
    let log = format!(
        "{HEADER}# Time: 131128  1:18:51\n# User@Host: root[root] @ localhost [127.0.0.1]\n\
         # Query_time: 1.000228  Lock_time: 0.000114 Rows_sent: 1  Rows_examined: 2\nuse shop;\n\
         SET insert_id=5,timestamp=1385600731;\nSELECT 1;\n# User@Host: root[root] @ localhost []\n\
         # Query_time: 0.000001  Lock_time: 0.000000 Rows_sent: 0  Rows_examined: 0\nSET timestamp=1385600732;\n\
         # administrator command: Quit;\n"
    );
    let found = events(&log);
    assert_eq!(found.len(), 2);
    let first = &found[0];
    assert_eq!(
        (sql(first), first.schema.as_slice(), first.user.as_slice()),
        ("SELECT 1", &b"shop"[..], &b"root@localhost"[..])
    );
    assert_eq!((first.query_us, first.lock_us, first.insert_id), (Some(1_000_228), Some(114), Some(5)));
    assert_eq!((first.rows_sent, first.rows_examined, first.connection), (Some(1), Some(2), None));
    assert_eq!((first.start_us, first.end_us), (Some(1_385_600_729_999_772), Some(1_385_600_731_000_000)));
    assert_eq!((found[1].command, sql(&found[1])), (LogCommand::Quit, "Quit"));
    assert_eq!(found[1].schema, b"shop", "`use` applies to the whole file");
}

#[test]
fn the_schema_is_everything_after_use() {
    for (line, name) in [("use my-shop;", "my-shop"), ("use my shop;", "my shop"), ("use `my shop`;", "my shop")] {
        let log = format!(
            "# User@Host: a[a] @ h []\n# Query_time: 1.0  Lock_time: 0.0\n{line}\nSET timestamp=5;\nSELECT 1;\n"
        );
        assert_eq!(events(&log)[0].schema, name.as_bytes());
    }
}

#[test]
fn log_slow_extra_fields_of_mysql_8_are_read() {
    let found = events(
        "# Time: 2023-08-01T12:00:01.000123Z\n# User@Host: user1[user1] @  [192.168.1.101]  Id: 800001\n\
         # Query_time: 0.150623  Lock_time: 0.002000 Rows_sent: 5  Rows_examined: 2000 Thread_id: 800001 Errno: 1064 Killed: 0 \
         Bytes_received: 0 Bytes_sent: 57 Read_first: 1 Sort_scan_count: 0 Created_tmp_tables: 0 Count_hit_tmp_table_size: 0  \
         Start: 2023-08-01T12:00:00.849500Z End: 2023-08-01T12:00:01.000123Z\nSET timestamp=1690891200;\nSELECT 1\nFROM t;\n",
    );
    let event = &found[0];
    assert_eq!((sql(event), event.connection, event.errno), ("SELECT 1\nFROM t", Some(800_001), Some(1064)));
    assert_eq!((event.start_us, event.end_us), (Some(1_690_891_200_849_500), Some(1_690_891_201_000_123)));
    assert_eq!(event.user, b"user1@192.168.1.101");
}

#[test]
fn perconas_rate_limit_becomes_the_weight() {
    let found = events(
        "# Time: 2023-08-01T12:00:01.000123Z\n# User@Host: a[a] @ localhost []  Id:     9\n\
         # Schema: db  Last_errno: 1062  Killed: 0\n# Query_time: 7.700000  Lock_time: 0.000300  Rows_sent: 4  Rows_examined: 15  \
         Rows_affected: 3\n# Bytes_sent: 272\n# InnoDB_trx_id: 1A88583F\n# Full_scan: Yes  Full_join: No  Tmp_table: No\n\
         #   InnoDB_IO_r_ops: 0  InnoDB_IO_r_bytes: 0  InnoDB_IO_r_wait: 0.000000\n# No InnoDB statistics available for this query\n\
         # Log_slow_rate_type: query  Log_slow_rate_limit: 25\nSET timestamp=1690891200;\nSELECT 1;\n",
    );
    let event = &found[0];
    assert_eq!((event.weight, event.errno, event.rows_affected), (25, Some(1062), Some(3)));
    assert_eq!(event.schema, b"db");
}

#[test]
fn mariadb_logs_with_explain_and_engine_lines_are_read() {
    let found = events(
        "# Time: 150709 15:14:09\n# User@Host: root[root] @ localhost []\n# Thread_id: 4371  Schema:   QC_hit: No\n\
         # Query_time: 0.002916  Lock_time: 0.000020  Rows_sent: 596  Rows_examined: 596\n# Rows_affected: 0  Bytes_sent: 272\n\
         # Pages_accessed: 12  Pages_read: 1\n# Stored_routine: db.proc\n#\n# explain: id\tselect_type\ttable\n\
         # explain: 1\tSIMPLE\tt\n#\nSET timestamp=1436454849;\nSELECT 1;\n",
    );
    let event = &found[0];
    assert_eq!((sql(event), event.connection, event.in_routine), ("SELECT 1", Some(4371), true));
    assert_eq!(event.schema, b"", "an empty Schema means none");
    assert_eq!(event.rows_sent, Some(596));
}

#[test]
fn a_reset_is_recognised_in_both_spellings() {
    for name in ["Reset Connection", "Reset connection"] {
        let found = events(&format!(
            "# User@Host: a[a] @ localhost []\n# Thread_id: 9  Schema: shop  QC_hit: No\n\
             # Query_time: 0.1  Lock_time: 0.0\nSET timestamp=1690891200;\n# administrator command: {name};\n"
        ));
        assert_eq!(found[0].command, LogCommand::Reset, "{name}");
    }
}

#[test]
fn statements_that_look_like_other_lines_are_kept() {
    let head = "# User@Host: a[a] @ localhost []  Id:     9\n# Query_time: 0.1  Lock_time: 0.0 Rows_sent: 0  Rows_examined: 0\n\
        SET timestamp=1690891200;\n";
    let statements = [
        "SELECT 1;\n# not a head; SELECT 2",
        "# a comment first\nSELECT ';\n# Time: soon\n'",
        "use shop",
        "SET timestamp=5",
        "SELECT '# User@Host: x'",
        "SELECT 1\r\nFROM t",
        "SELECT '\0\u{7f}'",
    ];
    let log: String = statements.iter().map(|statement| format!("{head}{statement};\n")).collect();
    let found = events(&log);
    assert_eq!(found.iter().map(sql).collect::<Vec<_>>(), statements);
    assert!(found.iter().all(|event| !event.cut));
}

#[test]
fn short_logs_and_heads_on_one_line_are_read() {
    let found = events(
        "# Query_time: 0.1  Lock_time: 0.0 Rows_sent: 0  Rows_examined: 0\nSET timestamp=1690891200;\nSELECT 1;\n\
         # Query_time: 0.2  Lock_time: 0.0 Rows_sent: 0  Rows_examined: 0\nSET timestamp=1690891201;\nSELECT 2;\n\
         # Time: 150709 15:14:09 # User@Host: a[a] @ h []\n# Query_time: 0.3  Lock_time: 0.0\nSET timestamp=1690891202;\nSELECT 3;\n",
    );
    assert_eq!(found.iter().map(sql).collect::<Vec<_>>(), ["SELECT 1", "SELECT 2", "SELECT 3"]);
    assert_eq!(found[2].user, b"a@h");
}

#[test]
fn cut_events_after_a_crash_or_rotation_are_handled() {
    let event = "# User@Host: a[a] @ localhost []  Id:     9\n# Query_time: 0.1  Lock_time: 0.0 Rows_sent: 0\n\
        SET timestamp=1690891200;\nSELECT 1;\n";
    let crashed = event.replace("1;\n", "'unfini");
    let found = events(&format!("{event}{crashed}{HEADER}{event}"));
    assert_eq!(found.iter().map(|event| event.cut).collect::<Vec<_>>(), [false, true, false]);
    assert!(sql(&found[1]).starts_with("SELECT 'unfini"));

    let twice_ended = event.replace("1;", "1;;");
    let head = "# User@Host: a[a] @ localhost []\n";
    for (end, found) in
        [(String::new(), (1, 0)), (format!("{head}SELECT 2;\n"), (2, 0)), (format!("{head}SELEC"), (1, 6))]
    {
        let kept = read(SlowLog::default(), format!("{twice_ended}{end}\n{HEADER}").as_bytes());
        assert_eq!((kept.events.len(), kept.skipped), found, "{end}");
    }
    let kept = read(SlowLog::default(), format!("of a statement;\n{event}").as_bytes());
    assert_eq!((kept.events.len(), kept.skipped), (1, 16));
    assert!(events(&event[..event.len() - 3])[0].cut, "the file ends within the statement");
    let crlf = read(SlowLog::default(), event.replace('\n', "\r\n").as_bytes());
    assert_eq!((sql(&crlf.events[0]), crlf.events[0].connection), ("SELECT 1", Some(9)));
}

#[test]
fn a_very_long_statement_is_cut_but_not_the_next_one() {
    let head = "# User@Host: a[a] @ localhost []  Id:     9\n# Query_time: 0.1  Lock_time: 0.0 Rows_sent: 0\nSET timestamp=1;\n";
    let mut log = format!("{head}SELECT '").into_bytes();
    log.resize(log.len() + crate::event::STATEMENT_MAX, b'x');
    log.extend_from_slice(format!("';\n{head}SELECT 2;\n").as_bytes());
    let found = read(SlowLog::default(), &log).events;
    assert!(found[0].cut && found[0].sql.len() <= crate::event::STATEMENT_MAX);
    assert_eq!((sql(&found[1]), found[1].cut), ("SELECT 2", false));
}

#[test]
fn statements_read_from_a_server_are_never_split_and_may_lack_a_time() {
    let forged =
        "# Time: 2023-08-01T12:00:01Z\n# User@Host: x[x] @ y []\n# Query_time: 9.0  Lock_time: 0.0\nSET timestamp=5;\n";
    let statements = [
        format!("INSERT INTO logs VALUES ('\n{forged}DROP TABLE t;\n')"),
        format!("{forged}SELECT 1"),
        "SET timestamp=5".to_owned(),
        "SELECT 1 \n".to_owned(),
        "SELECT 2;".to_owned(),
        "use shop".to_owned(),
    ];
    let log: String = statements
        .iter()
        .map(|sql| {
            let bytes = sql.len();
            format!(
                "# Query_time: 0.000007  Lock_time: 0.0  Log_slow_rate_limit: 4  Statement_bytes: {bytes}\nuse `my shop`;\n\
                 SET insert_id=3,timestamp=DEFAULT;\n{sql};\n"
            )
        })
        .collect();
    let kept = read(SlowLog::default(), log.as_bytes());
    assert_eq!(kept.events.iter().map(sql).collect::<Vec<_>>(), statements);
    for event in &kept.events {
        assert_eq!((event.start_us, event.end_us, event.query_us), (None, None, Some(7)));
        assert_eq!((event.weight, event.insert_id, event.cut), (4, Some(3), false));
        assert_eq!(event.schema, b"my shop");
    }
    let end = log.len() - 4;
    assert!(read(SlowLog::default(), &log.as_bytes()[..end]).events.last().unwrap().cut);
    let half_a_head = read(SlowLog::default(), &log.as_bytes()[..log.len() - 12]);
    assert_eq!(half_a_head.events.iter().map(sql).collect::<Vec<_>>(), statements[..5]);
    assert_eq!(half_a_head.skipped, "SET insert_id=3,timestamp=DEFAULT".len() as u64);
}

#[test]
fn schema_names_may_contain_spaces() {
    for (fields, name) in [
        ("Thread_id: 5  Schema: my db  QC_hit: No", "my db"),
        ("Schema: my db  Last_errno: 0  Killed: 0", "my db"),
        ("Thread_id: 5  Schema: a: b  QC_hit: No", "a: b"),
        ("Thread_id: 5  Schema:   QC_hit: No", ""),
        ("Thread_id: 5  Schema: my db", "my db"),
    ] {
        let log = format!(
            "# User@Host: a[a] @ h []\n# {fields}\n# Query_time: 1.0  Lock_time: 0.0\nSET timestamp=5;\nSELECT 1;\n"
        );
        let event = &events(&log)[0];
        assert_eq!(String::from_utf8_lossy(&event.schema), name, "{fields}");
        assert_eq!(event.connection, fields.starts_with("Thread").then_some(5));
    }
}

/// Reads an event whose head has these lines after `# User@Host:`.
fn with_head(lines: &str) -> Event {
    let log = format!("# User@Host: a[a] @ h []  Id: 5\n{lines}\nSELECT 1;\n");
    let mut found = events(&log);
    assert_eq!(found.iter().map(sql).collect::<Vec<_>>(), ["SELECT 1"], "{lines}");
    found.remove(0)
}

#[test]
fn percona_server_8_separates_fields_by_one_space() {
    let extra = "# Query_time: 0.000259  Lock_time: 0.000004 Rows_sent: 0  Rows_examined: 9 Thread_id: 12 Errno: 1146 Killed: 0 \
        Bytes_received: 22 Bytes_sent: 56 Read_first: 1 Created_tmp_tables: 0 Start: 2024-05-10T17:46:53.147320Z \
        End: 2024-05-10T17:46:53.147579Z";
    for (name, schema) in
        [("shop", "shop"), ("my shop", "my shop"), ("", ""), ("a: b", "a: b"), ("it's `x`", "it's `x`")]
    {
        let event = with_head(&format!(
            "{extra} Schema: {name} Rows_affected: 3\n# Tmp_tables: 0  Tmp_disk_tables: 0\n\
             # Log_slow_rate_type: query  Log_slow_rate_limit: 10\nuse other;\nSET timestamp=1715363213;"
        ));
        assert_eq!(String::from_utf8_lossy(&event.schema), schema);
        assert_eq!((event.rows_affected, event.rows_examined, event.errno), (Some(3), Some(9), Some(1146)));
        assert_eq!((event.connection, event.weight), (Some(12), 10));
        assert_eq!((event.start_us, event.end_us), (Some(1_715_363_213_147_320), Some(1_715_363_213_147_579)));
    }
}

#[test]
fn fields_are_found_by_key_whatever_separates_them() {
    for lines in [
        "# Query_time: 0.5 Lock_time: 0.25 Rows_sent: 1 Rows_examined: 2 Rows_affected: 3\n# Schema: shop Last_errno: 4 Killed: 0",
        "# Query_time:\t0.5\tLock_time:\t0.25\tRows_sent:\t1\tRows_examined:\t2\tRows_affected:\t3\n# Schema:\tshop\tLast_errno:\t4",
        "# Query_time:0.5 Lock_time:0.25 Rows_sent:1 Rows_examined:2 Rows_affected:3\n# Schema:shop Last_errno:4",
        "# Rows_sent: 1  Rows_examined: 2  Query_time: 0.5  Lock_time: 0.25\n# Rows_affected: 3\n# Last_errno: 4  Schema: shop",
        "# Schema: shop  Last_errno: 4  Query_time: 0.5  Lock_time: 0.25  Rows_affected: 3  Rows_sent: 1  Rows_examined: 2  ",
        "# Thread_id: 5  Schema: shop  Errno: 4  dn1_First_Result_Fetch: 0.1  Lock_time: 0.25  Query_time: 0.5 Rows_sent: 1 \
         Read_SQL: 0.1  Rows_examined: 2  Rows_affected: 3",
    ] {
        let event = with_head(&format!("{lines}\nSET timestamp=1715363213;"));
        assert_eq!(
            (event.query_us, event.lock_us, event.rows_sent),
            (Some(500_000), Some(250_000), Some(1)),
            "{lines}"
        );
        assert_eq!((event.rows_examined, event.rows_affected, event.errno), (Some(2), Some(3), Some(4)), "{lines}");
        assert_eq!((event.schema.as_slice(), event.connection), (&b"shop"[..], Some(5)), "{lines}");
    }
}

#[test]
fn schema_names_may_contain_newlines_and_quotes() {
    let times = "# Query_time: 0.5  Lock_time: 0.1 Rows_sent: 1  Rows_examined: 2";
    for (lines, name) in [
        (format!("{times}\nuse we\nird;\nSET timestamp=5;"), "we\nird"),
        (format!("# Schema: we\nird  Last_errno: 0  Killed: 0\n{times}\nuse we\nird;\nSET timestamp=5;"), "we\nird"),
        (
            format!(
                "# Thread_id: 5  Schema: we\nird\n\nest  QC_hit: No\n{times}\nuse `we\nird\n\nest`;\nSET timestamp=5;"
            ),
            "we\nird\n\nest",
        ),
        (format!("{times} Schema: we\nird Rows_affected: 0\nSET timestamp=5;"), "we\nird"),
        (format!("{times} Schema: we\ni\nrd Rows_affected: 0\nuse we\ni\nrd;\nSET timestamp=5;"), "we\ni\nrd"),
        (format!("{times}\nuse `we;\nird`;\nSET timestamp=5;"), "we;\nird"),
        (format!("{times}\nuse `a``b`;\nSET timestamp=5;"), "a`b"),
        (format!("{times}\nuse a`b;\nSET timestamp=5;"), "a`b"),
        (format!("{times}\nuse it's;\nSET timestamp=5;"), "it's"),
        (format!("{times}\nuse ;\nSET timestamp=5;"), ""),
    ] {
        let event = with_head(&lines);
        assert_eq!(String::from_utf8_lossy(&event.schema), name, "{lines}");
        assert_eq!((event.query_us, event.rows_examined), (Some(500_000), Some(2)), "{lines}");
    }
}

#[test]
fn a_replica_changes_to_an_empty_schema() {
    let head = "# User@Host: [SQL_SLAVE] @  []  Id: 5\n# Query_time: 0.5  Lock_time: 0.1\n";
    let found = events(&format!(
        "{head}use shop;\nSET timestamp=5;\nSELECT 1;\n{head}use ;\nSET timestamp=5;\nSELECT 2;\n{head}SET timestamp=5;\nSELECT 3;\n"
    ));
    assert_eq!(found.iter().map(|event| event.schema.as_slice()).collect::<Vec<_>>(), [&b"shop"[..], b"", b""]);
}

#[test]
fn timestamps_may_have_fractions_or_be_milliseconds() {
    for (value, end_us) in [
        ("timestamp=1535017219", 1_535_017_219_000_000),
        ("timestamp=1535017219.412", 1_535_017_219_412_000),
        ("timestamp=1535017219412", 1_535_017_219_412_000),
        ("insert_id=3, timestamp = 1535017219", 1_535_017_219_000_000),
    ] {
        let event = with_head(&format!("# Query_time: 0.5  Lock_time: 0.0\nSET {value};"));
        assert_eq!(event.end_us, Some(end_us), "{value}");
        assert_eq!(event.start_us, Some(end_us - 500_000), "{value}");
    }
}

#[test]
fn middleware_times_begin_an_event_in_any_format() {
    let event = |time: &str, number: u32| {
        format!(
            "# Time: {time}\n# User@Host: a[a] @ h []  Id: 5\n# Query_time: 0.5  Lock_time: 0.0\nSET timestamp=1535017219;\n\
             SELECT {number};\n"
        )
    };
    for (time, end_us) in [
        ("2018-08-23T09:40:19.412000Z", 1_535_017_219_412_000),
        ("2018-08-23T17:40:19.412+0800", 1_535_017_219_412_000),
        ("2018-08-23-17:40:19.412 +0800", 1_535_017_219_412_000),
        ("180823  9:40:19", 1_535_017_219_000_000),
        ("180823 9:40:19", 1_535_017_219_000_000),
        // In another time zone.
        ("2018-8-23 17:40:19", 1_535_017_219_000_000),
        ("20180823 17:40:19", 1_535_017_219_000_000),
        ("Thu Aug 23 17:40:19 2018", 1_535_017_219_000_000),
        ("1535017219", 1_535_017_219_000_000),
    ] {
        let found = events(&(event(time, 1) + &event(time, 2)));
        assert_eq!(found.iter().map(sql).collect::<Vec<_>>(), ["SELECT 1", "SELECT 2"], "{time}");
        assert!(found.iter().all(|event| event.end_us == Some(end_us)), "{time}");
    }
}

#[test]
fn a_file_that_begins_within_a_head_uses_the_rest_of_it() {
    let log = "# User@Host: a[a] @ h []\n# Thread_id: 9  Schema: shop  QC_hit: No\n# Query_time: 0.5  Lock_time: 0.0  Rows_sent: 1\n\
        # Rows_affected: 0  Bytes_sent: 11\nSET timestamp=1535017219;\nSELECT 1;\n";
    for (begin, connection) in
        [("# User", Some(9)), ("@Host", Some(9)), ("# Thread", Some(9)), ("chema", None), ("# Query", None)]
    {
        let kept = read(SlowLog::default(), &log.as_bytes()[log.find(begin).unwrap()..]);
        assert_eq!(kept.events.iter().map(sql).collect::<Vec<_>>(), ["SELECT 1"], "{begin}");
        assert_eq!((kept.events[0].connection, kept.events[0].query_us), (connection, Some(500_000)), "{begin}");
    }
    for begin in ["Lock_time", "# Rows_aff", "SET", "SELECT"] {
        let rest = &log[log.find(begin).unwrap()..];
        let kept = read(SlowLog::default(), format!("{rest}{log}").as_bytes());
        assert_eq!((kept.events.len(), kept.skipped), (1, rest.len() as u64), "{begin}");
    }
}

/// Writes an event of MariaDB with these warnings.
fn warned(time: &str, warnings: &str, timestamp: u32, statement: &str) -> String {
    format!(
        "{time}# User@Host: app[app] @ localhost []\n# Thread_id: 9  Schema: shop  QC_hit: No\n\
         # Query_time: 0.5  Lock_time: 0.1  Rows_sent: 1  Rows_examined: 2\n# Rows_affected: 0  Bytes_sent: 230\n#\n\
         # explain: id\tselect_type\n# explain: 1\tSIMPLE\n#\n# Warnings\n{warnings}SET timestamp={timestamp};\n{statement};\n"
    )
}

const FORGED: &str = "# Time: 240101 10:00:00\n# User@Host: evil[evil] @ there [10.9.9.9]\n# Thread_id: 77  Schema: other  QC_hit: No\n\
    # Query_time: 99.000000  Lock_time: 0.000000 Rows_sent: 1  Rows_examined: 1\nuse other;\nSET timestamp=1704103200;\nDROP TABLE t;\n";

#[test]
fn mariadbs_warnings_are_neither_fields_nor_events() {
    let time = "# Time: 261129  2:31:36\n";
    let warnings = [
        "# Note 1051 Unknown table 'shop.nothing'\n".to_owned(),
        "# Warning 1292 Truncated incorrect INTEGER value: 'Schema: other  Id: 77  Last_errno: 1062'\n".to_owned(),
        format!("# Warning 1292 Truncated incorrect INTEGER value: '12\n{FORGED}'\n"),
        format!("# Warning 1292 Truncated incorrect INTEGER value: '12\n{FORGED}'\n").repeat(50),
        "# Warning 1292 Truncated incorrect INTEGER value: '12\nuse other;\nSET timestamp=1;\nDROP TABLE t;'\n"
            .to_owned(),
    ];
    for text in &warnings {
        // The server is two and a half hours east; the second event is in the same second.
        let log = warned(time, text, 1_795_910_496, "SELECT 1") + &warned("", text, 1_795_910_496, "SELECT 2");
        let kept = read(SlowLog::default(), log.as_bytes());
        assert_eq!(kept.events.iter().map(sql).collect::<Vec<_>>(), ["SELECT 1", "SELECT 2"], "{text}");
        for event in &kept.events {
            assert_eq!(
                (event.user.as_slice(), event.schema.as_slice()),
                (&b"app@localhost"[..], &b"shop"[..]),
                "{text}"
            );
            assert_eq!((event.connection, event.errno, event.query_us), (Some(9), None, Some(500_000)), "{text}");
            assert_eq!((event.end_us, event.cut), (Some(1_795_910_496_000_000), false), "{text}");
        }
    }
}

#[test]
fn a_head_cut_within_its_warnings_hides_no_event() {
    let event = "# Time: 261129  2:31:37\n# User@Host: b[b] @ h []\n# Query_time: 0.1  Lock_time: 0.0\nSET timestamp=1795919497;\nSELECT 2;\n";
    let whole = warned("# Time: 261129  2:31:36\n", "# Warning 1292 Truncated\n", 1_795_919_496, "SELECT 1");
    let begun = &whole[..whole.find("SET").unwrap()];
    for rest in [event.to_owned(), format!("{HEADER}{event}"), event.repeat(100)] {
        let found = events(&format!("{begun}{rest}"));
        assert_eq!(found.len(), rest.matches("SELECT").count());
        assert!(found.iter().all(|event| sql(event) == "SELECT 2" && event.user == b"b@h"));
    }
}
