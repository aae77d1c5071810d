"""Which differences between two answers are flagged, which are only listed, and which do not count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.replay import answer_rules
from bakeoff.replay.answer_rules import (
    Answers,
    Column,
    Reply,
    Shape,
    compare_replies,
    merged,
    shape_of,
    volatile_words,
    without_literals,
)

KINDS = {"name": "text", "id": "integer", "price": "double", "size": "float"}
TEXT, NUMBER, DOUBLE, FLOAT = (Column(name=name, kind=kind) for name, kind in KINDS.items())


def reply(*rows, columns=(NUMBER, TEXT), **fields):
    made = Reply(columns=tuple(columns), **fields)
    for row in rows:
        made.add(tuple(None if cell is None else str(cell).encode() for cell in row))
    return made


def kinds(base, other, sql=b"SELECT id, name FROM t", **more):
    found = compare_replies(base, other, shape_of(sql), **more)
    return set(found.differences), set(found.listed)


A, B, C = (1, "a"), (2, "b"), (3, "c")


def test_rows_are_a_multiset_without_order_by():
    assert kinds(reply(A, B), reply(B, A)) == (set(), set())
    assert kinds(reply(A, A, B), reply(A, B, B)) == ({"rows"}, set())
    assert kinds(reply(A), reply(A, B)) == ({"rows"}, set())
    assert kinds(reply((1, None)), reply((1, ""))) == ({"rows"}, set())


def test_row_order_matters_only_where_the_sort_keys_determine_it():
    by_name = b"SELECT id, name FROM t ORDER BY name"
    assert kinds(reply(A, B), reply(B, A), by_name)[0] == {"order"}
    assert kinds(reply((1, "a"), (2, "a")), reply((2, "a"), (1, "a")), by_name) == (set(), set())
    assert kinds(reply((1, "a"), (2, "A")), reply((2, "A"), (1, "a")), by_name) == (set(), set())
    # z before é in a binary collation, after it in others.
    assert kinds(reply((1, "é"), (2, "z")), reply((2, "z"), (1, "é")), by_name)[0] == {"order"}
    assert kinds(reply(A, B), reply(B, A), b"SELECT id, name FROM t ORDER BY lower(x)") == (set(), {"order"})
    assert kinds(reply(A, B), reply(B, A), b"SELECT id, name FROM t ORDER BY 2 DESC")[0] == {"order"}
    assert kinds(reply(A, B), reply(B, A), b"(SELECT id, name FROM t ORDER BY name)") == (set(), set())


def test_limit_explains_different_rows_only_if_the_choice_was_arbitrary():
    def longer(*pair):
        return lambda: pair

    any_row = b"SELECT id, name FROM t LIMIT 1"
    assert kinds(reply(A), reply(B), any_row, rerun=longer(reply(A, B), reply(B, A))) == (set(), {"limit"})
    # There is only one row, so LIMIT cut nothing off, and a changed row is a difference.
    assert kinds(reply(A), reply((1, "x")), any_row, rerun=longer(reply(A), reply((1, "x")))) == ({"rows"}, set())
    by_name = b"SELECT id, name FROM t ORDER BY name LIMIT 2"
    tied, other = [(1, "a"), (2, "b"), (3, "b")], [(1, "a"), (3, "b"), (2, "b")]
    assert kinds(reply(*tied[:2]), reply(*other[:2]), by_name, rerun=longer(reply(*tied), reply(*other)))[1] == {
        "limit"
    }
    first = [(9, "a"), (3, "b"), (2, "b")]
    found = kinds(reply(*tied[:2]), reply(*first[:2]), by_name, rerun=longer(reply(*tied), reply(*first)))
    assert found == ({"rows"}, set())
    by_id = b"SELECT id, name FROM t ORDER BY id LIMIT 1"
    assert kinds(reply(A), reply((1, "x")), by_id, rerun=longer(reply(A, B), reply((1, "x"), B)))[0] == {"rows"}


def test_the_last_digits_of_floats_are_ignored():
    for column, near, far in ((DOUBLE, "0.30000000000000004", "0.3000000001"), (FLOAT, "0.300001", "0.3001")):
        assert (
            kinds(reply((1, "0.3"), columns=(NUMBER, column)), reply((1, near), columns=(NUMBER, column)))[0] == set()
        )
        assert kinds(reply((1, "0.3"), columns=(NUMBER, column)), reply((1, far), columns=(NUMBER, column)))[0] == {
            "rows"
        }
    zero = reply((1, "-0"), columns=(NUMBER, DOUBLE)), reply((1, "0"), columns=(NUMBER, DOUBLE))
    assert kinds(*zero) == (set(), set())


def test_errors_warnings_affected_rows_and_columns_are_compared():
    failed = reply(errno=1305, message="FUNCTION does not exist")
    assert kinds(failed, reply(A)) == ({"errors"}, set())
    assert kinds(failed, reply(errno=1305, message="other words")) == (set(), set())
    assert kinds(reply(errno=1205), reply(A)) == (set(), {"lock wait"})
    assert kinds(reply(affected=1, columns=()), reply(affected=2, columns=()))[0] == {"affected"}
    assert kinds(reply(warnings=(1265,)), reply(warnings=(1265, 1265)))[0] == {"warnings"}
    other_kind = reply((1, "1"), columns=(NUMBER, NUMBER)), reply((1, "1"))
    assert kinds(*other_kind)[0] == {"columns"}
    null = Column(name="name", kind="null")
    assert kinds(reply((1, None), columns=(NUMBER, null)), reply((1, None)))[0] == set()


def test_volatile_rows_are_listed():
    assert kinds(reply(A), reply(B), volatile=True) == (set(), {"volatile"})
    assert kinds(reply(A), reply(A, errno=1064), volatile=True)[0] == {"errors"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT NOW ( ) , `b` FROM `t`", ("NOW",)),
        ("SELECT `uuid` ( ) , RAND ( )", ("UUID", "RAND")),
        ("SELECT `now` , `user` , `rand` FROM `version`", ()),
        ("SELECT CURRENT_TIMESTAMP", ("CURRENT_TIMESTAMP",)),
        ("SELECT @@`session` . `tx_isolation`", ("@@",)),
        ("SELECT * FROM `information_schema` . `tables`", ("INFORMATION_SCHEMA",)),
        ("SHOW TABLES", ("SHOW",)),
        ("SELECT UNIX_TIMESTAMP ( `a` )", ()),
        ("SELECT UNIX_TIMESTAMP ( )", ("UNIX_TIMESTAMP",)),
    ],
)
def test_volatile_words_are_found_in_digest_texts(text, words):
    assert volatile_words(text) == words


@pytest.mark.parametrize(
    ("sql", "shape"),
    [
        (b"SELECT a FROM t", Shape()),
        (b"SELECT a FROM t ORDER BY t.a, `b c` DESC, 3, f(x, y)", Shape(("a", "b c", 3, ""))),
        (b"SELECT a ORDER BY a LIMIT 10 OFFSET 5", Shape(("a",), 10, True, b"SELECT a ORDER BY a LIMIT 11 OFFSET 5")),
        (b"SELECT a FROM t LIMIT 0, 10", Shape(None, 10, False, b"SELECT a FROM t LIMIT 0, 11")),
        (b"SELECT 'ORDER BY x LIMIT 3' FROM (SELECT 1 ORDER BY 1 LIMIT 2) x", Shape()),
        (b"SELECT a -- LIMIT 1\nFROM t /* LIMIT 2 */", Shape()),
        (b"SELECT a FROM t ORDER BY a FOR UPDATE", Shape(("a",))),
    ],
)  # fmt: skip
def test_only_top_level_order_by_and_limit_are_parsed(sql, shape):
    assert shape_of(sql) == shape


@given(st.binary(max_size=200))
def test_any_bytes_have_a_shape(sql):
    shape_of(sql)


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", None])), max_size=8), st.randoms())
def test_any_permutation_is_the_same_multiset(rows, random):
    shuffled = rows[:]
    random.shuffle(shuffled)
    assert kinds(reply(*rows), reply(*shuffled)) == (set(), set())


def test_large_results_are_compared_by_checksums(monkeypatch):
    monkeypatch.setattr(answer_rules, "KEPT_BYTES", 10)
    base, other = reply(A, B, C), reply(C, B, A)
    assert base.kept is None
    assert kinds(base, other) == (set(), set())
    assert kinds(base, reply(A, B, (3, "x"))) == ({"rows"}, set())


def test_compared_tables_are_known_if_either_of_two_passes_compared_them():
    given = dict(capture="x", seconds=1.0, limit_s=1.0, executed=1, skipped={}, not_reached=0, digests={})
    ended, whole = Answers(**given, ended_by="ALTER t"), Answers(**given, tables=4)
    assert [merged(*each).tables for each in ((ended, whole), (whole, ended))] == [4, 4]


@pytest.mark.parametrize(
    ("message", "left"),
    [
        ("Duplicate entry 'Ann O''Hara' for key \"users.email\"", "Duplicate entry ? for key ?"),
        ("Duplicate entry 'O'Brien-77' for key 'users.name'", "Duplicate entry ? for key ?"),
        ("Duplicate entry 'x' for key 'y'-77' for key 'PRIMARY'", "Duplicate entry ? for key ?"),
        (
            "… syntax to use near 'DESC WHERE email='ann@example.org' AND x' at line 1",
            "… syntax to use near ? at line 1",
        ),
        ("… near ''ann' at line 7 AND 'bob'\n OR \"eve\"' at line 12", "… near ? at line 12"),
        ("… near 'x' AND email='ann@exam", "… near ?"),
        ("Incorrect datetime value: 'it's 'late'' for column 'at' at row 1", "Incorrect datetime value: ? at row 1"),
        ("Incorrect string value: 'O'B\\xF0' for column `a`.`b`", "Incorrect string value: ? for column `a`.`b`"),
        ("Truncated incorrect DOUBLE value: 'O'Brien 5'", "Truncated incorrect DOUBLE value: ?"),
        (
            "BIGINT value is out of range in '(`t`.`a` - _utf8mb4'secret')'",
            "BIGINT value is out of range in ?",
        ),
        ("Some new message of 'O'Brien 'x'' and \"Ann\"", "Some new message of ? and ?"),
        ("Table 'shop.t' doesn't exist", "Table ? doesn't exist"),
        ("Unknown column 'a' in 'field list'", "Unknown column ? in ?"),
    ],
)
def test_literals_are_removed_from_error_messages(message, left):
    assert without_literals(message) == left
