//! Tests of `src/packet.rs`.

use super::*;

#[test]
fn a_packet_is_found_only_when_whole() {
    let mut bytes = Vec::new();
    PacketWriter::new(&mut bytes, 7).packet(|out| out.extend_from_slice(b"hello"));
    for cut in 0..bytes.len() {
        assert_eq!(front(&bytes[..cut]), Front::Incomplete, "{cut} bytes");
    }
    assert_eq!(front(&bytes), Front::Whole { sequence: 7, payload: Cow::from(&b"hello"[..]), taken: 9 });
}

#[test]
fn a_payload_over_16_mib_is_split_and_joined() {
    for size in [MAX_PAYLOAD - 1, MAX_PAYLOAD, MAX_PAYLOAD + 1] {
        let mut bytes = Vec::new();
        let mut writer = PacketWriter::new(&mut bytes, 255);
        writer.packet(|out| out.resize(out.len() + size, b'x'));
        let (found, sequence) = match front(&bytes) {
            Front::Whole { payload, sequence, taken } if taken == bytes.len() => (payload.len(), sequence),
            _ => panic!("not whole at {size}"),
        };
        assert_eq!(found, size);
        assert_eq!(sequence, if size < MAX_PAYLOAD { 255 } else { 0 });
    }
}

#[test]
fn length_encoded_integers_round_trip() {
    for value in [0, 250, 251, 0xFFFF, 0x1_0000, 0xFF_FFFF, 0x100_0000, u64::MAX] {
        let mut bytes = Vec::new();
        put_lenenc(&mut bytes, value);
        assert_eq!(PayloadReader::new(&bytes).lenenc(), Some(value));
    }
    assert_eq!(PayloadReader::new(&[0xFC, 1]).lenenc(), None);
}
