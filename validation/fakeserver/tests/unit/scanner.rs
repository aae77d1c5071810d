//! Tests of `src/scanner.rs`.

use super::*;

#[test]
fn marks_inside_strings_are_not_marks() {
    assert_eq!(parameters("SELECT '?', \"?\", `?`, '\\'?' /* ? */ FROM t WHERE a=? AND b=?"), 2);
    assert_eq!(split("SELECT ';' ; SELECT 2;; "), ["SELECT ';' ", " SELECT 2"]);
    assert_eq!(split("SELECT 'never closed;"), ["SELECT 'never closed;"]);
}
