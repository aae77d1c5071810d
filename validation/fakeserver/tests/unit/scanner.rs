//! Tests of `src/scanner.rs`.

use super::*;

#[test]
fn marks_inside_strings_are_not_marks() {
    assert_eq!(parameters("SELECT '?', \"?\", `?`, '\\'?' /* ? */ FROM t WHERE a=? AND b=?"), 2);
}
