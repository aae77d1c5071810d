//! Tests of `src/resultset.rs`.

use super::*;

fn bytes_of(fill: impl FnOnce(&mut PacketWriter<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    fill(&mut PacketWriter::new(&mut out, 1));
    out
}

#[test]
fn ok_and_err_are_as_documented() {
    assert_eq!(bytes_of(|w| put_ok(w, 1, 2)), [7, 0, 0, 1, 0, 1, 0, 2, 0, 0, 0]);
    let error = bytes_of(|w| put_error(w, &SqlError::new(1045, "28000", "no")));
    assert_eq!(error, b"\x0b\0\0\x01\xff\x15\x04#28000no");
}

#[test]
fn a_row_has_its_nulls_in_the_bitmap() {
    let mut out = Vec::new();
    put_binary_row(&mut out, &[Value::Integer(-2), Value::Null, Value::text("ab")]);
    assert_eq!(out, [&[0, 0b1000], &(-2i64).to_le_bytes()[..], b"\x02ab"].concat());
    out.clear();
    put_text_row(&mut out, &[Value::Integer(-2), Value::Null, Value::text("ab")]);
    assert_eq!(out, b"\x02-2\xfb\x02ab");
}
