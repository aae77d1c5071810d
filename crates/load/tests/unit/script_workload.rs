//! Tests of `src/script_workload.rs`.

use super::*;

#[test]
fn a_lost_server_is_distinguished_from_a_bad_statement() {
    let sql = |errno| ScriptError::Sql {
        place: None,
        call: bakeoff_script::SqlCall::Query,
        errno,
        sqlstate: "HY000".into(),
        message: "words".into(),
        query: String::new(),
        fatal: errno >= 2000,
    };
    assert_eq!(failure(sql(2013)).code, Code::ServerLost);
    assert_eq!((failure(sql(1146)).code, failure(sql(1146)).sql_errno), (Code::SqlError, Some(1146)));
    assert_eq!(failure(sql(1045)).code, Code::AccessDenied);
}
