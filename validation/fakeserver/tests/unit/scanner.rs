//! Tests of `src/scanner.rs`.

use super::*;

#[test]
fn question_marks_inside_strings_are_not_parameters() {
    assert_eq!(parameters("SELECT '?', \"?\", `?`, '\\'?' /* ? */ FROM t WHERE a=? AND b=?"), 2);
}
