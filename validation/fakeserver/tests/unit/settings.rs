//! Tests of `src/settings.rs`.

use super::*;

#[test]
fn like_follows_sql() {
    for (pattern, text, expected) in [
        ("version%", "version_comment", true),
        ("%set\\_client", "character_set_client", true),
        ("a_c", "abc", true),
        ("a_c", "ac", false),
        ("", "", true),
        ("%%%", "x", true),
    ] {
        assert_eq!(like(pattern, text), expected, "{pattern} {text}");
    }
}

#[test]
fn aliases_are_split_off() {
    assert_eq!(alias("@@version AS `v`"), ("@@version", "v"));
    assert_eq!(alias("1"), ("1", "1"));
}
