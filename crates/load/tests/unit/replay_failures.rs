//! Tests of messages: no literal is left, whatever quotes it holds.

use super::*;

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
