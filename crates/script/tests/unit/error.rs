//! Tests of `src/error.rs`.

use crate::error::{nearest, place_of};

#[test]
fn a_typo_is_recognised_and_an_unrelated_name_is_not() {
    let known = ["table_size", "tables", "range_size"];
    assert_eq!(nearest("table_sizes", known), Some("table_size".to_owned()));
    assert_eq!(nearest("tabels", known), Some("tables".to_owned()));
    assert_eq!(nearest("oxygen", known), None);
}

#[test]
fn file_and_line_are_found() {
    assert_eq!(place_of("./dir:1/a.lua:12: no: 3: such"), "./dir:1/a.lua:12: ");
    assert_eq!(place_of("no place: 3"), "");
}
