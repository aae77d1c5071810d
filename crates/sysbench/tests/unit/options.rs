//! Tests of `src/options.rs`.

use super::*;

#[test]
fn names_are_unique_and_found_in_either_spelling() {
    for option in OPTIONS {
        assert_eq!(
            OPTIONS.iter().filter(|other| other.name == option.name).count(),
            1,
            "{}",
            option.name
        );
        assert_eq!(find(&option.dashed()).map(|found| found.name), Some(option.name));
    }
    assert!(find("table-size").is_none());
}
