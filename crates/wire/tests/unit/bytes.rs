//! Tests of `src/bytes.rs`.

use proptest::prelude::*;

use crate::bytes::{Reader, put_lenenc};

proptest! {
    #[test]
    fn length_encoded_integers_round_trip(value: u64, shift in 0_u32..64) {
        let value = value >> shift;
        let mut bytes = Vec::new();
        put_lenenc(&mut bytes, value);
        let mut reader = Reader::new(&bytes, "test");
        prop_assert_eq!(reader.lenenc(), Ok(value));
        prop_assert!(reader.is_empty());
        for shorter in 0..bytes.len() {
            prop_assert!(Reader::new(&bytes[..shorter], "test").lenenc().is_err());
        }
    }
}

#[test]
fn a_string_longer_than_its_packet_is_refused() {
    assert!(Reader::new(b"\x05abcd", "test").lenenc_bytes().is_err());
    assert!(Reader::new(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff", "test").lenenc_bytes().is_err());
    assert!(Reader::new(b"abc", "test").nul_terminated().is_err());
}
