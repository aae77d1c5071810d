//! Tests of `src/read_only.rs`.

use super::*;

#[test]
fn what_would_let_the_session_write_is_not_sent() {
    for lifting in [
        "SET SESSION TRANSACTION READ WRITE",
        " set session transaction isolation level read committed, read write",
        "SET tx_read_only = 0",
        "SET @@session.transaction_read_only=OFF, autocommit = 1",
        "/* app */ SET SESSION TRANSACTION READ WRITE",
        "-- app\nSET tx_read_only = 0",
        "/*!50605 SET tx_read_only = 0 */",
    ] {
        assert_eq!(kept(lifting.as_bytes()), READ_ONLY, "{lifting}");
    }
    assert_eq!(kept(b"start transaction with consistent snapshot, read  write"), b"START TRANSACTION");
    assert_eq!(kept(b"# app\nSTART TRANSACTION READ WRITE"), b"START TRANSACTION");
    for other in ["SET net_write_timeout = 9", "START TRANSACTION", "SELECT 'transaction, write'", "SET NAMES utf8", ""]
    {
        assert_eq!(kept(other.as_bytes()), other.as_bytes());
    }
}
