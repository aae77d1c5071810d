//! Tests of `src/row.rs`.

use super::*;

fn text_of(type_code: u8, flags: u16, length: u32, decimals: u8, bytes: &[u8]) -> String {
    let mut text = Vec::new();
    let mut reader = Reader::new(bytes, "test");
    to_text(ColumnFormat { type_code, flags, length, decimals }, &mut reader, &mut text).unwrap();
    assert!(reader.is_empty(), "the whole value is read");
    String::from_utf8(text).unwrap()
}

#[test]
fn binary_integers_become_text() {
    assert_eq!(text_of(1, 0, 4, 0, &[0xff]), "-1");
    assert_eq!(text_of(1, UNSIGNED, 3, 0, &[0xff]), "255");
    assert_eq!(text_of(3, UNSIGNED | ZEROFILL, 5, 0, &42_u32.to_le_bytes()), "00042");
    assert_eq!(text_of(8, 0, 20, 0, &i64::MIN.to_le_bytes()), "-9223372036854775808");
    assert_eq!(text_of(8, UNSIGNED, 20, 0, &[0xff; 8]), "18446744073709551615");
    assert_eq!(text_of(13, UNSIGNED | ZEROFILL, 4, 0, &[0, 0]), "0000");
}

/// The texts that MySQL 5.7.22 and 8.0.15 return to COM_QUERY.
#[test]
fn floats_are_formatted_like_mysql() {
    let double = |value: f64| text_of(5, 0, 22, NOT_FIXED, &value.to_le_bytes());
    assert_eq!(double(0.0), "0");
    assert_eq!(double(-1.5), "-1.5");
    assert_eq!(double(0.1 + 0.2), "0.30000000000000004");
    assert_eq!(double(1e14), "100000000000000");
    assert_eq!(double(1e15), "1e15");
    assert_eq!(double(1_234_567_890_123_456.0), "1.234567890123456e15");
    assert_eq!(double(1_234_567_890_123_456.8), "1234567890123456.8");
    assert_eq!(double(1.25e-15), "0.00000000000000125");
    assert_eq!(double(1e-16), "1e-16");
    assert_eq!(double(-1.797_693_134_862_315_7e308), "-1.7976931348623157e308");
    let float = |value: f32| text_of(4, 0, 12, NOT_FIXED, &value.to_le_bytes());
    assert_eq!(float(0.1), "0.1");
    assert_eq!(float(16_777_216.0), "16777200");
    assert_eq!(text_of(4, 0, 12, 2, &1.23456_f32.to_le_bytes()), "1.23");
}

#[test]
fn dates_and_times_become_text() {
    assert_eq!(text_of(10, 0, 10, 0, &[0]), "0000-00-00");
    assert_eq!(text_of(10, 0, 10, 0, &[4, 0xe8, 0x07, 2, 29]), "2024-02-29");
    assert_eq!(text_of(12, 0, 19, 0, &[4, 0xe8, 0x07, 2, 29]), "2024-02-29 00:00:00");
    let micros = [11, 0xe8, 0x07, 2, 29, 1, 2, 3, 0x40, 0xe2, 0x01, 0];
    assert_eq!(text_of(12, 0, 26, 3, &micros), "2024-02-29 01:02:03.123");
    assert_eq!(text_of(11, 0, 10, 0, &[0]), "00:00:00");
    assert_eq!(text_of(11, 0, 17, 6, &[12, 1, 34, 0, 0, 0, 22, 59, 59, 1, 0, 0, 0]), "-838:59:59.000001");
}

#[test]
fn truncated_values_do_not_panic() {
    for type_code in 0..=255 {
        for length in 0..3 {
            let bytes = [11_u8, 0, 0];
            let format = ColumnFormat { type_code, flags: 0, length: 0, decimals: 0 };
            let _ = to_text(format, &mut Reader::new(&bytes[..length], "test"), &mut Vec::new());
        }
    }
}
