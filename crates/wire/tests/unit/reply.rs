//! Tests of `src/reply.rs`.

use crate::reply::ServerError;

#[test]
fn the_sqlstate_is_optional() {
    let with = ServerError::parse(b"\xff\x15\x04#28000Access denied").unwrap();
    assert_eq!((with.code, &*with.sqlstate, &*with.message), (1045, "28000", "Access denied"));
    let without = ServerError::parse(b"\xff\x10\x04#280").unwrap();
    assert_eq!((without.code, &*without.sqlstate, &*without.message), (1040, "HY000", "#280"));
    assert!(ServerError::parse(b"\xff\x15").is_err());
    assert!(ServerError::parse(b"").is_err());
}
