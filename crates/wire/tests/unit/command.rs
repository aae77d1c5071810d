//! Tests of `src/command.rs`.

use super::*;

#[test]
fn types_are_sent_only_when_they_change() {
    let mut types = BoundTypes::default();
    let mut encoded = |values: &[Parameter<'_>]| {
        let mut out = Vec::new();
        execute(&mut out, 7, values.iter().copied(), &mut types);
        out
    };
    let first = encoded(&[Parameter::Int(5), Parameter::Bytes(b"ab")]);
    assert_eq!(first[..4], [27, 0, 0, 0]);
    assert_eq!(first[4..], *b"\x17\x07\0\0\0\0\x01\0\0\0\0\x01\x08\0\xfd\0\x05\0\0\0\0\0\0\0\x02ab");
    let again = encoded(&[Parameter::Int(6), Parameter::Bytes(b"c")]);
    assert_eq!(again[4..], *b"\x17\x07\0\0\0\0\x01\0\0\0\0\0\x06\0\0\0\0\0\0\0\x01c");
    let null = encoded(&[Parameter::Null, Parameter::Bytes(b"")]);
    assert_eq!(null[4..], *b"\x17\x07\0\0\0\0\x01\0\0\0\x01\0\0");
    let changed = encoded(&[Parameter::Double(1.0), Parameter::Null]);
    assert_eq!(changed[14..20], [2, 1, TYPE_DOUBLE, 0, TYPE_VAR_STRING, 0]);
    types.forget();
    let mut out = Vec::new();
    execute(&mut out, 7, [Parameter::Double(1.0), Parameter::Null].into_iter(), &mut types);
    assert_eq!(out[15], 1);
}
