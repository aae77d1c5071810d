#![no_main]

use bakeoff_wire::row::{Encoding, RowCursor, column_name};
use bakeoff_wire::{Answering, Inbox, Outcome, ReplyScanner};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&how, stream)) = input.split_first() else { return };
    let answering = if how & 1 == 0 { Answering::Statement } else { Answering::Prepare };
    let deprecate_eof = how & 2 != 0;
    let encoding = if how & 4 == 0 { Encoding::Text } else { Encoding::Binary };
    let chunk = usize::from(how >> 3) + 1;

    let mut inbox = Inbox::default();
    let mut chunks = stream.chunks(chunk);
    let mut scanner = ReplyScanner::new(answering, deprecate_eof);
    loop {
        match scanner.scan(inbox.unread()) {
            Err(_) => return,
            Ok(None) => {
                if how & 8 != 0 && inbox.unread().len() > 64 {
                    let (at, bytes) = scanner.forget_rows(inbox.unread().len());
                    inbox.remove(at, bytes);
                }
                let Some(chunk) = chunks.next() else { return };
                inbox.push(chunk);
            }
            Ok(Some(outcome)) => {
                assert!(scanner.reply_bytes() <= inbox.unread().len(), "no more is used than came");
                if let Outcome::ResultSet(result) = outcome {
                    let _ = column_name(inbox.unread(), &result, 0);
                    let _ = column_name(inbox.unread(), &result, result.columns - 1);
                    let mut cursor = RowCursor::default();
                    cursor.restart(result, encoding);
                    let mut row = Vec::new();
                    while let Ok(true) = cursor.next(inbox.unread(), &mut row) {}
                }
                inbox.consume(scanner.reply_bytes());
                scanner = scanner.follow();
            }
        }
    }
});
