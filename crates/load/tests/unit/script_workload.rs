//! Tests of `src/script_workload.rs`.

use bakeoff_script::ScriptError;
use bakeoff_script::host::SqlError;

use crate::failure::Code;
use crate::script_workload::failure;

#[test]
fn a_lost_server_is_distinguished_from_a_bad_statement() {
    let sql = |errno, fatal| ScriptError::Sql {
        place: String::new(),
        call: bakeoff_script::SqlCall::Query,
        error: SqlError { fatal, ..SqlError::client(errno, "words") },
    };
    assert_eq!(failure(sql(2013, true)).code, Code::ServerLost);
    let bad = failure(sql(1146, false));
    assert_eq!((bad.code, bad.sql_errno), (Code::SqlError, Some(1146)));
    assert_eq!(failure(sql(1045, true)).code, Code::AccessDenied, "of a connection made in between");
}
