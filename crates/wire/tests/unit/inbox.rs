//! Tests of `src/inbox.rs`.

use super::*;

#[test]
fn bytes_come_out_in_order_while_it_grows_and_wraps() {
    let mut inbox = Inbox::default();
    let bytes: Vec<u8> = (0..100_000_u32).map(|i| (i % 251) as u8).collect();
    let mut taken = Vec::new();
    for chunk in bytes.chunks(777) {
        inbox.push(chunk);
        let some = inbox.unread().len() / 2;
        taken.extend_from_slice(&inbox.unread()[..some]);
        inbox.consume(some);
    }
    taken.extend_from_slice(inbox.unread());
    assert!(taken == bytes);
}

#[test]
fn the_middle_can_be_taken_out() {
    let mut inbox = Inbox::default();
    inbox.push(b"xxheadmiddletail");
    inbox.consume(2);
    inbox.remove(4, 6);
    assert_eq!(inbox.unread(), b"headtail");
    inbox.remove(4, 100);
    assert_eq!(inbox.unread(), b"head");
}
