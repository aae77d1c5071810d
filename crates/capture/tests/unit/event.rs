//! Tests of the times of logs.

use crate::event::{handles_prepared, moment, seconds_us};

fn read(text: &str) -> Option<(i64, usize, bool)> {
    moment(text.as_bytes()).map(|found| (found.us, found.len, found.zoned))
}

#[test]
fn timestamps_are_parsed_in_both_formats() {
    assert_eq!(read("2023-08-01T12:00:01.000123Z rest"), Some((1_690_891_201_000_123, 27, true)));
    assert_eq!(read("2023-08-01T14:00:01.5+02:00"), Some((1_690_891_201_500_000, 27, true)));
    assert_eq!(read("2024-02-29T00:00:00Z"), Some((1_709_164_800_000_000, 20, true)));
    assert_eq!(read("2023-13-01T12:00:01Z"), None);
    assert_eq!(read("2023-08-01"), None);
    assert_eq!(read("150709 15:14:09"), Some((1_436_454_849_000_000, 15, false)));
    assert_eq!(read("051007  1:55:24"), Some((1_128_650_124_000_000, 15, false)));
    assert_eq!(read("15070 15:14:09"), None);
}

#[test]
fn timestamps_are_parsed_with_other_separators() {
    let noon = 1_690_891_201_000_000;
    for text in [
        "2023-08-01 12:00:01Z",
        "2023-08-01 12:00:01 UTC",
        "2023-8-1T12:0:1Z",
        "2023/08/01 12:00:01+00:00",
        "20230801 12:00:01Z",
        "2023-08-01-14:00:01.000000 +0200",
        "2023-08-01T14:00:01,000+0200",
        "2023-08-01\t6:00:01-06:00",
    ] {
        assert_eq!(read(text), Some((noon, text.len(), true)), "{text}");
    }
    for text in ["2023-08-01 12:00:01", "230801 12:00:01", "230801   12:00:01", "20230801 12:00:01.000"] {
        assert_eq!(read(text), Some((noon, text.len(), false)), "{text}");
    }
    assert_eq!(read("051007 1:55:24\t"), Some((1_128_650_124_000_000, 14, false)), "squeezed blanks");
    assert_eq!(read("2023-08-01 12:00:01 - 5"), Some((noon, 19, false)), "no zone");
    assert_eq!(read("230801"), None);
    assert_eq!(read("2023-08-01T25:00:01Z"), None);
}

#[test]
fn seconds_are_read_to_the_microsecond() {
    assert_eq!(seconds_us(b"0.000228"), Some(228));
    assert_eq!(seconds_us(b"12.5"), Some(12_500_000));
    assert_eq!(seconds_us(b"3"), Some(3_000_000));
    assert_eq!(seconds_us(b"1.2345678"), Some(1_234_567));
    assert_eq!(seconds_us(b"x"), None);
    assert_eq!(seconds_us(b"99999999999999999999"), None);
}

#[test]
fn statements_that_handle_prepared_ones_are_recognised() {
    for sql in [
        "PREPARE s FROM 'SELECT 1'",
        "execute s",
        "DEALLOCATE PREPARE s",
        "drop\tprepare s",
        "/* app */ PREPARE s FROM @a",
    ] {
        assert!(handles_prepared(sql.as_bytes()), "{sql}");
    }
    for sql in ["DROP TABLE prepare_me", "SELECT 1 /* PREPARE */", "/* EXECUTE s */", ""] {
        assert!(!handles_prepared(sql.as_bytes()), "{sql}");
    }
}
