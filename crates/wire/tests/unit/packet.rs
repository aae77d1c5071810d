//! Tests of `src/packet.rs`.

use crate::packet::{Inbox, MAX_PAYLOAD_BYTES, encode, payload_at};

#[test]
fn payloads_around_the_limit_are_split_and_joined() {
    for (length, packets) in [
        (0, 1),
        (1, 1),
        (MAX_PAYLOAD_BYTES - 1, 1),
        (MAX_PAYLOAD_BYTES, 2),
        (MAX_PAYLOAD_BYTES + 1, 2),
        (2 * MAX_PAYLOAD_BYTES, 3),
    ] {
        let payload: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
        let mut bytes = b"before".to_vec();
        let next = encode(&mut bytes, &payload, 254);
        assert_eq!(next, 254_u8.wrapping_add(packets), "{length} bytes");
        let (joined, packet_bytes) = payload_at(&bytes[6..]).unwrap();
        assert_eq!(packet_bytes, bytes.len() - 6);
        assert!(*joined == payload, "{length} bytes round-trip");
        assert!(payload_at(&bytes[6..bytes.len() - 1]).is_err());
    }
}

#[test]
fn bytes_stay_in_order_while_the_inbox_grows_and_moves() {
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
fn bytes_can_be_removed_from_the_middle_of_the_inbox() {
    let mut inbox = Inbox::default();
    inbox.push(b"xxheadmiddletail");
    inbox.consume(2);
    inbox.remove(4, 6);
    assert_eq!(inbox.unread(), b"headtail");
    inbox.remove(4, 100);
    assert_eq!(inbox.unread(), b"head");
}
