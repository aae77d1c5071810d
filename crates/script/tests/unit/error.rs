//! Tests of `src/error.rs`.

use super::*;

#[test]
fn a_typing_error_is_recognised_and_another_name_is_not() {
    let known = ["table_size", "tables", "range_size"];
    assert_eq!(nearest("table_sizes", known), Some("table_size".to_owned()));
    assert_eq!(nearest("tabels", known), Some("tables".to_owned()));
    assert_eq!(nearest("oxygen", known), None);
}

#[test]
fn codes_follow_the_contract() {
    let sql = |errno| ScriptError::Sql {
        place: None,
        call: SqlCall::Query,
        errno,
        sqlstate: "HY000".into(),
        message: "m".into(),
        query: String::new(),
        fatal: false,
    };
    assert_eq!(sql(1146).code(), "sql_error");
    assert_eq!(sql(2013).code(), "server_lost");
    assert_eq!(sql(1045).code(), "access_denied");
    assert_eq!(sql(1146).to_string(), "SQL error, errno = 1146, state = 'HY000': m");
}

#[test]
fn file_and_line_are_split_off() {
    assert_eq!(
        split_place("./dir:1/a.lua:12: no: 3: such"),
        (Some(Place { file: "./dir:1/a.lua".into(), line: 12 }), "no: 3: such".into())
    );
    assert_eq!(split_place("no place: 3"), (None, "no place: 3".into()));
}
