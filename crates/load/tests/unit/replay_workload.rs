//! Tests of how a session goes from one state to another.

use super::*;

fn session(sets: &[&str]) -> Session {
    let mut session = Session::default();
    for sql in sets {
        session.set(sql.as_bytes());
    }
    session
}

#[test]
fn only_what_differs_is_set_and_what_is_not_known_goes_back_to_its_default() {
    let plain = session(&[]);
    let german = session(&["SET NAMES latin1 COLLATE latin1_german1_ci", "SET autocommit=0, sql_mode='ANSI'"]);
    assert_eq!(settings(&plain, &plain, "utf8mb4"), [""; 0]);
    assert_eq!(settings(&german, &german, "utf8mb4"), [""; 0]);
    assert_eq!(
        settings(&plain, &german, "utf8mb4"),
        ["SET NAMES latin1 COLLATE latin1_german1_ci", "SET autocommit = 0", "SET sql_mode = 'ANSI'"]
    );
    assert_eq!(
        settings(&german, &plain, "utf8mb4 COLLATE utf8mb4_bin"),
        ["SET NAMES utf8mb4 COLLATE utf8mb4_bin", "SET autocommit = DEFAULT", "SET sql_mode = DEFAULT"]
    );
    let results = session(&["SET NAMES utf8mb4", "SET character_set_results = NULL", "SET time_zone = '+00:00'"]);
    assert_eq!(
        settings(&german, &results, "utf8mb4")[1..],
        [
            "SET character_set_results = NULL",
            "SET autocommit = DEFAULT",
            "SET sql_mode = DEFAULT",
            "SET time_zone = '+00:00'"
        ]
    );
}

#[test]
fn by_the_clock_nothing_waits_beyond_its_chunk_or_for_minutes() {
    assert_eq!(wait_ns(2_000_000, 6_000_000, 2.0), Some(1_000_000_000));
    assert_eq!(wait_ns(6_000_001, 6_000_000, 2.0), None);
    assert_eq!(wait_ns(2_000_000, 6_000_000, 0.001), None, "half an hour");
}

#[test]
fn values_stay_values() {
    assert_eq!(literal("a'; DROP TABLE t; -- \\"), "'a''; DROP TABLE t; -- \\\\'");
    assert_eq!(settings(&session(&[]), &session(&["SET NAMES 'x; DROP'"]), "utf8mb4"), ["SET NAMES utf8mb4"]);
}
