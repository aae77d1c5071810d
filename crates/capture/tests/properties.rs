//! Properties: no input makes a reader panic or lose a later event.

use std::io::Cursor;

use bakeoff_capture::capture_file::Header;
use bakeoff_capture::digest::Digester;
use bakeoff_capture::event::{Event, Sink};
use bakeoff_capture::lexer::{Kind, Lexer};
use bakeoff_capture::logs::{Format, detect};
use bakeoff_capture::recorder::Recorder;
use bakeoff_capture::redact::Redactor;
use bakeoff_capture::{Dialect, MultiByte};
use proptest::prelude::*;

#[derive(Default)]
struct Kept(Vec<Event>);

impl Sink for Kept {
    fn event(&mut self, event: &mut Event) {
        self.0.push(event.clone());
    }

    fn skipped(&mut self, _: u64) {}
}

fn read(format: Format, bytes: &[u8]) -> Vec<Event> {
    let (mut reader, mut kept) = (format.reader(), Kept::default());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        reader.line(line, &mut kept);
    }
    reader.finish(&mut kept);
    kept.0
}

/// Writes an event with a statement, in another second: an event of the same second may continue a cut head's warnings.
fn logged(format: Format, number: usize, sql: &str) -> String {
    match format {
        Format::Slow | Format::Digests => format!(
            "# Time: 2024-11-06T09:57:35.187996Z\n# User@Host: a[a] @ localhost []  Id:     {number}\n\
             # Query_time: 0.1  Lock_time: 0.0 Rows_sent: 0  Rows_examined: 0\nSET timestamp=1690891207;\n{sql};\n"
        ),
        Format::General => format!("2024-11-06T09:57:35.187996Z\t    {number} Query\t{sql}\n"),
        Format::Sql => format!("{sql};\n"),
    }
}

const LOGS: [Format; 2] = [Format::Slow, Format::General];

/// Fragments of logs and SQL, which reach more code than random bytes.
fn shreds() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::sample::select(vec![
        "# Time: 2024-11-06T09:57:35.187996Z\n",
        "# Time: 150709 15:14:09\n",
        "# User@Host: a[a] @ h []  Id: 5\n",
        "# Query_time: 0.1  Lock_time: 0.0 Rows_sent: 1\n",
        "# Schema: ",
        "# Warnings\n",
        "# Warning 1292 Truncated: '1\n",
        "use we\n",
        "SET timestamp=1690891200;\n",
        "SET timestamp=99999999999999999999;\n",
        "use db;\n",
        "# administrator command: Quit;\n",
        "x, Version: 1 (x). started with:\n",
        "2024-11-06T09:57:35.1Z\t 7 Query\t",
        "\t\t 7 Quit\t\n",
        "051007 21:55:24\t 42 Connect\ta@b on c\n",
        "SELECT 'a",
        "'",
        "\"",
        "`",
        "/*",
        "*/",
        "/*!50000 ",
        "/*M!",
        "bob@db1 ",
        "/*+ ",
        "-- ",
        "#",
        "\\",
        ";",
        "\n",
        "\r\n",
        "DELIMITER //\n",
        "DELIMITER\t;\n",
        "//",
        "IDENTIFIED BY 'x'",
        "SET PASSWORD = 'y'",
        "SET NAMES utf8, a='",
        "SET NAMES sjis;\n",
        "SET character_set_client = gb18030;\n",
        "SET sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI';\n",
        "/*M!999999\\- enable the sandbox mode */ ",
        "/*M!100616 ",
        "/*!100616 ",
        "\0",
        "?",
        "0x1F",
        "1.5e",
        "@",
        "@@a",
        "IN (1,2)",
        "NULL",
        "LIMIT 5",
        "SELECT ",
        "CREATE USER ",
        "Start: ",
        "Log_slow_rate_limit: 18446744073709551615\n",
    ]);
    let characters =
        prop::sample::select(vec![&b"\x95\x5c"[..], b"\x83\x60", b"\x95", b"\x81\x30\x81\x30", b"\xd5\x5c'"]);
    let piece = prop_oneof![1 => characters.prop_map(<[u8]>::to_vec), 4 => words.prop_map(|word| word.as_bytes().to_vec()), 1 => prop::collection::vec(any::<u8>(), 0..6)];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_input_panics_or_hides_a_later_event(bytes in shreds()) {
        detect(&bytes);
        for format in LOGS {
            let before = read(format, &bytes).len();
            let log = [bytes.as_slice(), b"\n", logged(format, 4711, "SELECT 'later'").as_bytes()].concat();
            let found = read(format, &log);
            let last = found.last().expect("the later event");
            prop_assert_eq!((last.sql.as_slice(), last.connection), (&b"SELECT 'later'"[..], Some(4711)));
            prop_assert!(found.len() > before || bytes.is_empty() || before > 0);
        }
        read(Format::Sql, &bytes);
    }

    #[test]
    fn a_capture_of_any_input_is_valid_and_has_no_password(bytes in shreds()) {
        for format in LOGS {
            let redactor = bytes.first().is_some_and(|byte| byte % 2 == 0).then(|| Redactor::new().expect("random numbers"));
            let header = Header { r#type: "bakeoff-capture".into(), version: 1, redacted: redactor.is_some() };
            let mut recorder = Recorder::new(Cursor::new(Vec::new()), &header, redactor).expect("memory");
            let mut reader = format.reader();
            let secret = logged(format, 4711, "CREATE USER x IDENTIFIED BY 's3cret'");
            for line in [bytes.as_slice(), b"\n", secret.as_bytes()].concat().split_inclusive(|byte| *byte == b'\n') {
                reader.line(line, &mut recorder);
            }
            reader.finish(&mut recorder);
            let (file, digests, overall) = recorder.finish(&[format]).expect("memory");
            let text = String::from_utf8(zstd::decode_all(file.into_inner().as_slice()).expect("zstd")).expect("JSON is UTF-8");
            prop_assert!(!text.contains("s3cret"), "{}", text);
            prop_assert!(text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
            prop_assert_eq!(digests.iter().map(|each| each.events).sum::<u64>(), overall.events);
            prop_assert!(overall.not_replayable["password"] >= 1);
        }
    }

    #[test]
    fn a_log_cut_at_both_ends_keeps_every_complete_event(
        statements in prop::collection::vec("SELECT [a-z0-9 '\n#-]{0,40}x", 2..6), from in 0.0..1.0_f64, to in 0.0..1.0_f64,
    ) {
        for format in LOGS {
            let events: Vec<String> = statements.iter().enumerate().map(|(number, sql)| logged(format, number + 1, sql)).collect();
            let whole = events.concat();
            let place = |share: f64| (share * whole.len() as f64) as usize;
            let (from, to) = (place(from.min(to)), place(from.max(to)));
            let found = read(format, &whole.as_bytes()[from..to]);
            let mut begins = 0;
            for (number, event) in events.iter().enumerate() {
                let ends = begins + event.len();
                if begins >= from && ends <= to {
                    let sql = found.iter().find(|each| each.connection == Some(number as u64 + 1) && !each.cut).map(|each| each.sql.as_slice());
                    prop_assert_eq!(sql, Some(statements[number].as_bytes()), "event {} of {:?}", number, format);
                }
                begins = ends;
            }
        }
    }

    #[test]
    fn any_input_is_classified_and_locking_reads_stay_writes(bytes in shreds()) {
        let _ = bakeoff_capture::class(&bytes);
        let read = b"SELECT a FROM t WHERE b = '".iter().chain(bytes.iter().filter(|byte| byte.is_ascii_alphanumeric()));
        let locking: Vec<u8> = read.chain(b"' FOR UPDATE").copied().collect();
        prop_assert_eq!(bakeoff_capture::class(&locking), bakeoff_capture::Class::Write("FOR UPDATE"));
    }

    #[test]
    fn tokens_are_in_order_and_cover_everything_but_space(bytes in shreds(), no_backslash_escapes: bool, ansi_quotes: bool) {
        for multi_byte in [MultiByte::Unknown, MultiByte::Sjis, MultiByte::Gbk, MultiByte::Big5, MultiByte::Gb18030] {
            let mut at = 0;
            for token in Lexer::in_dialect(&bytes, Dialect { no_backslash_escapes, ansi_quotes, multi_byte }) {
                prop_assert!(token.start >= at && token.end > token.start && token.end <= bytes.len());
                prop_assert!(bytes[at..token.start].iter().all(|byte| *byte <= b' '));
                prop_assert!(token.kind != Kind::Cut || token.end == bytes.len());
                at = token.end;
            }
            prop_assert!(bytes[at..].iter().all(|byte| *byte <= b' '));
        }
    }

    #[test]
    fn gb18030_is_tokenised_like_gbk(bytes in shreds()) {
        let tokens = |multi_byte| Lexer::in_dialect(&bytes, Dialect { multi_byte, ..Dialect::default() }).collect::<Vec<_>>();
        prop_assert_eq!(tokens(MultiByte::Gb18030), tokens(MultiByte::Gbk));
    }

    #[test]
    fn redaction_does_not_change_the_digest(name in "[a-zA-Z0-9é世😀@.%\\\\_-]{0,20}", number in any::<i64>(), fraction in 0.0..1e6_f64) {
        let name = name.trim_end_matches('\\');
        let sql = format!("SELECT a FROM t WHERE b = '{name}' AND c IN ({number}, {fraction}, NULL) /* {number} */ LIMIT 5");
        let mut digester = Digester::default();
        let facts = digester.read(sql.as_bytes(), Dialect::default());
        let before = digester.key().to_vec();
        prop_assert!(!facts.cut);
        let mut redacted = Vec::new();
        Redactor::new().expect("random numbers").redact(sql.as_bytes(), &facts, &mut redacted);
        prop_assert!(!digester.read(&redacted, Dialect::default()).cut);
        prop_assert_eq!(digester.key(), before.as_slice());
    }
}
