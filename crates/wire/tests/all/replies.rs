//! Properties of replies in any chunks, truncated and mutated.

use crate::server::{Reply, Value, Writer};
use bakeoff_wire::row::{Encoding, RowCursor, column_name};
use bakeoff_wire::{Answering, Inbox, Outcome, ReplyScanner, packet};
use proptest::prelude::*;

/// The outcomes of a stream of replies, with their column names and rows.
type Events = Vec<(Outcome, Vec<String>, Vec<Vec<Value>>)>;

/// Feeds a stream to the scanner in chunks of these sizes, cyclically. Ends at the first protocol error or when the bytes run out.
fn play(stream: &[u8], commands: &[(Answering, usize)], deprecate_eof: bool, chunks: &[usize]) -> Events {
    let mut inbox = Inbox::default();
    let mut rest = stream;
    let mut sizes = chunks.iter().cycle();
    let mut events = Events::new();
    for &(answering, results) in commands {
        let mut scanner = ReplyScanner::new(answering, deprecate_eof);
        for result in 0..results {
            if result > 0 {
                scanner = scanner.follow();
            }
            let outcome = loop {
                match scanner.scan(inbox.unread()) {
                    Ok(Some(outcome)) => break outcome,
                    Ok(None) if rest.is_empty() => return events,
                    Ok(None) => {
                        let (chunk, after) = rest.split_at(rest.len().min(*sizes.next().unwrap_or(&1)));
                        inbox.push(chunk);
                        rest = after;
                    }
                    Err(_) => return events,
                }
            };
            let (mut names, mut rows) = (Vec::new(), Vec::new());
            if let Outcome::ResultSet(result) = &outcome {
                let mut cursor = RowCursor::default();
                cursor.restart(*result, Encoding::Text);
                let mut row = Vec::new();
                while cursor.next(inbox.unread(), &mut row).unwrap_or(false) {
                    rows.push(row.clone());
                }
                names = (0..result.columns)
                    .filter_map(|index| column_name(inbox.unread(), result, index))
                    .map(str::to_owned)
                    .collect();
            }
            events.push((outcome, names, rows));
            inbox.consume(scanner.reply_bytes());
        }
    }
    events
}

fn text_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(None),
        4 => prop::collection::vec(any::<u8>(), 0..20).prop_map(Some),
        1 => (250_usize..260, any::<u8>()).prop_map(|(length, byte)| Some(vec![byte; length])),
    ]
}

fn table() -> impl Strategy<Value = (Vec<String>, Vec<Vec<Value>>)> {
    (1_usize..5).prop_flat_map(|columns| {
        let names = prop::collection::vec("[a-zé]{0,8}", columns);
        let rows = prop::collection::vec(prop::collection::vec(text_value(), columns), 0..6);
        (names, rows)
    })
}

fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        (any::<u64>(), any::<u64>())
            .prop_map(|(affected_rows, last_insert_id)| Reply::Done { affected_rows, last_insert_id }),
        table().prop_map(|(columns, rows)| Reply::Rows { columns, rows }),
        (table(), any::<u16>()).prop_map(|((columns, rows), code)| Reply::BrokenRows { columns, rows, code }),
        (any::<u16>(), ".{0,20}").prop_map(|(code, message)| Reply::Failed { code, message }),
    ]
}

fn prepared() -> impl Strategy<Value = Reply> {
    (any::<u32>(), 0_u16..4, 0_u16..4).prop_map(|(statement, columns, parameters)| Reply::Prepared {
        statement,
        columns,
        parameters,
    })
}

/// Commands with one or more results each.
fn conversation() -> impl Strategy<Value = Vec<Vec<Reply>>> {
    let results = prop_oneof![prepared().prop_map(|reply| vec![reply]), prop::collection::vec(reply(), 1..4)];
    prop::collection::vec(results, 1..5)
}

fn written(conversation: &[Vec<Reply>], deprecate_eof: bool) -> (Vec<u8>, Vec<(Answering, usize)>) {
    let mut writer = Writer::new(deprecate_eof);
    let mut commands = Vec::new();
    for results in conversation {
        writer.next_command();
        for (index, reply) in results.iter().enumerate() {
            writer.reply(reply, index + 1 < results.len());
        }
        commands.push((results[0].answering(), results.len()));
    }
    (writer.bytes, commands)
}

proptest! {
    #[test]
    fn replies_round_trip(conversation in conversation(), deprecate_eof: bool, chunk in 1_usize..200) {
        let (stream, commands) = written(&conversation, deprecate_eof);
        let events = play(&stream, &commands, deprecate_eof, &[chunk]);
        let replies: Vec<&Reply> = conversation.iter().flatten().collect();
        prop_assert_eq!(events.len(), replies.len());
        for ((outcome, names, rows), reply) in events.iter().zip(replies) {
            match (outcome, reply) {
                (Outcome::Done(done), Reply::Done { affected_rows, last_insert_id }) => {
                    prop_assert_eq!((done.affected_rows, done.last_insert_id), (*affected_rows, *last_insert_id));
                    prop_assert_eq!(done.warnings, 1);
                }
                (Outcome::ResultSet(result), Reply::Rows { columns, rows: expected }) => {
                    prop_assert_eq!(result.rows, expected.len() as u64);
                    prop_assert_eq!(result.warnings, 3);
                    prop_assert_eq!(names, columns);
                    prop_assert_eq!(rows, expected);
                }
                (Outcome::Failed(error), Reply::Failed { code, message }) => {
                    prop_assert_eq!((error.code, &error.message), (*code, message));
                }
                (Outcome::Failed(error), Reply::BrokenRows { code, .. }) => prop_assert_eq!(error.code, *code),
                (Outcome::Prepared(found), Reply::Prepared { statement, columns, parameters }) => {
                    prop_assert_eq!((found.statement, found.columns, found.parameters), (*statement, *columns, *parameters));
                }
                (outcome, reply) => prop_assert!(false, "{outcome:?} for {reply:?}"),
            }
        }
    }

    #[test]
    fn any_chunking_gives_the_same_events(
        conversation in conversation(), deprecate_eof: bool, chunks in prop::collection::vec(1_usize..50, 1..20)
    ) {
        let (stream, commands) = written(&conversation, deprecate_eof);
        let whole = play(&stream, &commands, deprecate_eof, &[usize::MAX]);
        prop_assert_eq!(&play(&stream, &commands, deprecate_eof, &chunks), &whole);
        prop_assert_eq!(&play(&stream, &commands, deprecate_eof, &[1]), &whole);
    }

    #[test]
    fn damaged_streams_do_not_panic(
        conversation in conversation(), deprecate_eof: bool, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in any::<prop::sample::Index>(), chunk in 1_usize..100
    ) {
        let (mut stream, commands) = written(&conversation, deprecate_eof);
        for (at, byte) in changes {
            let at = at.index(stream.len());
            stream[at] = byte;
        }
        stream.truncate(cut.index(stream.len() + 1));
        play(&stream, &commands, deprecate_eof, &[chunk]);
    }

    #[test]
    fn forgotten_rows_are_counted(rows in prop::collection::vec(0_usize..300, 1..60), deprecate_eof: bool, chunk in 1_usize..200) {
        let table = rows.iter().map(|&length| vec![Some(vec![b'x'; length])]).collect();
        let mut writer = Writer::new(deprecate_eof);
        writer.reply(&Reply::Rows { columns: vec!["c".into()], rows: table }, false);
        let mut inbox = Inbox::default();
        let mut scanner = ReplyScanner::new(Answering::Statement, deprecate_eof);
        let mut chunks = writer.bytes.chunks(chunk);
        let outcome = loop {
            if let Some(outcome) = scanner.scan(inbox.unread()).unwrap() {
                break outcome;
            }
            if inbox.unread().len() > 100 {
                let (at, bytes) = scanner.forget_rows(inbox.unread().len());
                inbox.remove(at, bytes);
            }
            inbox.push(chunks.next().unwrap());
        };
        let Outcome::ResultSet(result) = outcome else { panic!("{outcome:?}") };
        prop_assert_eq!(result.rows, rows.len() as u64);
        prop_assert_eq!(column_name(inbox.unread(), &result, 0), Some("c"));
        prop_assert_eq!(scanner.reply_bytes(), inbox.unread().len());
        let mut cursor = RowCursor::default();
        cursor.restart(result, Encoding::Text);
        prop_assert_eq!(cursor.next(inbox.unread(), &mut Vec::new()).is_ok(), !result.rows_dropped);
    }
}

#[test]
fn packets_out_of_order_are_refused() {
    let mut writer = Writer::new(true);
    writer.reply(&Reply::Rows { columns: vec!["c".into()], rows: vec![vec![Some(b"1".to_vec())]] }, false);
    let mut stream = writer.bytes;
    let second = 4 + 1;
    stream[second + 3] += 1;
    assert!(ReplyScanner::new(Answering::Statement, true).scan(&stream).is_err());
}

#[test]
fn definitions_and_rows_of_several_packets_count_once() {
    const FULL_BYTES: usize = 0xff_ffff;
    let mut stream = Vec::new();
    let mut sequence = packet::encode(&mut stream, &[2], 1);
    for payload in [vec![3; FULL_BYTES + 9], vec![3; 9], vec![0; FULL_BYTES + 9]] {
        sequence = packet::encode(&mut stream, &payload, sequence);
    }
    packet::encode(&mut stream, &[0xfe, 0, 0, 2, 0, 0, 0], sequence);
    let mut scanner = ReplyScanner::new(Answering::Statement, true);
    let outcome = scanner.scan(&stream);
    let Ok(Some(Outcome::ResultSet(result))) = outcome else { panic!("{outcome:?}") };
    assert_eq!((result.columns, result.rows), (2, 1));
    assert_eq!(scanner.reply_bytes(), stream.len());
}

#[test]
fn no_rows_are_dropped_before_the_last_definition() {
    let stream = b"\x01\0\0\x01\x01\x09\0\0\x02\x03def";
    let mut scanner = ReplyScanner::new(Answering::Statement, true);
    assert_eq!(scanner.scan(stream), Ok(None));
    let (_, dropped_bytes) = scanner.forget_rows(stream.len());
    assert_eq!(dropped_bytes, 0);
}

#[test]
fn a_disconnect_error_may_be_out_of_sequence() {
    let stream = b"\x11\0\0\0\xff\xbf\x0f#HY000gone now";
    let mut scanner = ReplyScanner::new(Answering::Statement, true);
    for length in 0..stream.len() {
        assert_eq!(scanner.scan(&stream[..length]), Ok(None));
    }
    match scanner.scan(stream) {
        Ok(Some(Outcome::Failed(error))) => {
            assert_eq!((error.code, &*error.message), (4031, "gone now"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_server_may_refuse_a_command_before_its_last_packet() {
    let stream = b"\x11\0\0\x01\xff\x81\x04#08S01too long";
    let mut scanner = ReplyScanner::with_sequence(Answering::Statement, true, 2);
    match scanner.scan(stream) {
        Ok(Some(Outcome::Failed(error))) => assert_eq!((error.code, &*error.message), (1153, "too long")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_error_may_replace_a_definition() {
    let prepared = [0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0];
    for (answering, first) in [(Answering::Statement, &[2][..]), (Answering::Prepare, &prepared)] {
        let mut stream = Vec::new();
        let sequence = packet::encode(&mut stream, first, 1);
        packet::encode(&mut stream, b"\xff\x25\x05#70100interrupted", sequence);
        let mut scanner = ReplyScanner::new(answering, true);
        for length in 0..stream.len() {
            assert_eq!(scanner.scan(&stream[..length]), Ok(None));
        }
        match scanner.scan(&stream) {
            Ok(Some(Outcome::Failed(error))) => assert_eq!((error.code, &*error.message), (1317, "interrupted")),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_request_for_a_file_is_refused() {
    for answering in [Answering::Statement, Answering::Prepare] {
        for request in [b"\x0c\0\0\x01\xfb/etc/passwd".as_slice(), b"\x01\0\0\x01\xfb"] {
            ReplyScanner::new(answering, true).scan(request).unwrap_err();
        }
    }
}
