//! Tests of `src/failure.rs`.

use bakeoff_script::host::SqlError;

use crate::failure::{Code, Failure};

fn error(code: u16, fatal: bool) -> SqlError {
    SqlError { fatal, ..SqlError::client(code, "words") }
}

#[test]
fn codes_follow_the_contract() {
    assert_eq!(Failure::connecting(&error(1045, true)).code, Code::AccessDenied);
    assert_eq!(Failure::connecting(&error(2026, true)).code, Code::TlsFailed);
    assert_eq!(Failure::connecting(&error(1049, true)).code, Code::ConnectFailed);
    assert_eq!(Failure::connecting(&error(2002, true)).code, Code::ConnectFailed);
    assert_eq!(Failure::running(&error(2013, true)).code, Code::ServerLost);
    assert_eq!(Failure::running(&error(1146, false)).code, Code::SqlError);
    assert_eq!(Failure::running(&error(1045, true)).code, Code::AccessDenied);
    assert_eq!(Failure::running(&error(3118, true)).code, Code::AccessDenied);
    assert_eq!(Failure::running(&error(1226, true)).code, Code::ConnectFailed);
    assert_eq!(Failure::running(&error(1049, true)).code, Code::ConnectFailed);
    for refused in [1044, 1049, 1226] {
        assert_eq!(Failure::running(&error(refused, false)).code, Code::SqlError, "{refused}: of a statement");
    }
}

#[test]
fn the_arm_is_named_once() {
    let failure = Failure::running(&error(2013, true)).on_arm("B").on_arm("A");
    assert_eq!(failure.arm.as_deref(), Some("B"));
    assert_eq!(failure.to_string(), "arm B: 2013 (HY000): words");
}
