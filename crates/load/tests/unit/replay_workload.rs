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
    assert_eq!(["1", "DEFAULT", "NULL", "true", "OFF"].map(literal), ["1", "DEFAULT", "NULL", "true", "OFF"]);
    assert_eq!(literal("a'; DROP TABLE t; -- \\"), "'a''; DROP TABLE t; -- \\\\'");
    assert_eq!(settings(&session(&[]), &session(&["SET NAMES 'x; DROP'"]), "utf8mb4"), ["SET NAMES utf8mb4"]);
}

#[test]
fn messages_lose_their_literals_and_keep_what_they_say() {
    for (message, expected) in [
        ("Duplicate entry 'a-1' for key 'PRIMARY'", "Duplicate entry ? for key ?"),
        ("Duplicate entry 'O'Brien-77' for key 'name'", "Duplicate entry ? for key ?"),
        ("Duplicate entry 'a' for key 'Bob' for key 't.name'", "Duplicate entry ? for key ?"),
        (
            "check the manual for the right syntax to use near 'x LIKE '%Bob%' AND y' at line 1",
            "check the manual for the right syntax to use near ? at line 1",
        ),
        ("syntax to use near '' at line 1", "syntax to use near ? at line 1"),
        ("near 'Duplicate entry 'Bob' for key x' at line 12", "near ? at line 12"),
        ("near 'a 'Bob", "near ?"),
        ("near 'never ended", "near ?"),
        (
            "Incorrect integer value: 'it's 'Bob' there' for column 'a' at row 1",
            "Incorrect integer value: ? for column ? at row 1",
        ),
        (
            "Incorrect datetime value: 'Bob's 'x' for column `shop`.`t`.`a` at row 1",
            "Incorrect datetime value: ? for column `shop`.`t`.`a` at row 1",
        ),
        ("Truncated incorrect DOUBLE value: 'a 'Bob' c'", "Truncated incorrect DOUBLE value: ?"),
        ("Table has no partition for value 4711", "Table has no partition for value ?"),
        ("Table has no partition for value 'Bob' x", "Table has no partition for value ?"),
        ("Table 'a.b' doesn't exist, or 'it's' (not 'c')", "Table ? doesn't exist, or ? (not ?)"),
    ] {
        assert_eq!(without_literals(message), expected, "{message}");
    }
}

proptest::proptest! {
    #[test]
    fn any_message_is_no_trouble(message in "(near '|Duplicate entry '| value: '|partition for value |)\\PC*") {
        without_literals(&message);
    }
}
