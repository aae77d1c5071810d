//! Tests of `src/packet.rs`.

use super::*;

#[test]
fn payloads_around_the_limit_are_cut_and_joined() {
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
        let found = payload_at(&bytes[6..]).unwrap();
        assert_eq!(found.total_bytes, bytes.len() - 6);
        let mut joined = Vec::new();
        join(&bytes[6..], &mut joined);
        assert!(joined == payload, "{length} bytes come back as they went");
        assert!(payload_at(&bytes[6..bytes.len() - 1]).is_err());
    }
}
