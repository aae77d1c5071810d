"""Frames: grouping, what is not known, and Parquet files that other tools and older versions of bakeoff wrote."""

import math

import numpy as np
import pytest

from bakeoff.results.frame import Frame, read_parquet, write_parquet

NAN = math.nan
FRAME = Frame({"key": ["b", "a", "b", "a", "b"], "n": [1, 2, 3, 4, 8], "x": [1.0, NAN, 3.0, NAN, NAN]})
SCHEMA = {"key": "string", "n": "int32", "x": "int64"}


def test_groups_come_in_the_order_of_their_first_rows():
    by = FRAME.by("key")
    assert by.by_key(by.sum(FRAME["n"])) == {"b": 12, "a": 6}
    assert by.by_key(by.median(FRAME["n"])) == {"b": 3, "a": 3}
    assert by.by_key(by.std(FRAME["n"])) == pytest.approx({"b": np.std([1, 3, 8], ddof=1), "a": math.sqrt(2)})
    assert by.sum(FRAME["n"])[by.ids].tolist() == [12, 6, 12, 6, 12]
    assert by.rank(-FRAME["n"]).tolist() == [2, 1, 1, 0, 0]
    assert [part["n"].tolist() for part in by.frames().values()] == [[1, 3, 8], [2, 4]]
    assert list(FRAME.by("key", "n").frames()) == [("b", 1), ("a", 2), ("b", 3), ("a", 4), ("b", 8)]
    assert FRAME.by().sum(FRAME["n"]).tolist() == [18]


@pytest.mark.parametrize(("name", "of_b"), [("sum", 4), ("mean", 2), ("min", 1), ("max", 3), ("median", 2)])
def test_aggregates_skip_nan_unless_all_values_are_nan(name, of_b):
    by = FRAME.by("key")
    assert by.by_key(getattr(by, name)(FRAME["x"])) == pytest.approx({"b": of_b, "a": NAN}, nan_ok=True)


def test_derived_frames_do_not_reuse_the_groups_of_their_source():
    whole = Frame({"arm": ["B", "A", "B", "C"], "n": [4, 4, 2, 7]})
    whole.by("arm", "n")
    assert whole.rows(np.array([1, 3, 0])).by("arm").keys["arm"].tolist() == ["A", "C", "B"]
    assert whole.with_columns(arm="A").by("arm").count.tolist() == [4]
    assert whole.select("n").by("n").ids.tolist() == [0, 0, 1, 2]
    assert whole.rows(slice(0)).by("arm").count.tolist() == []


def test_sorting_by_several_columns_is_stable():
    found = FRAME.with_columns(half=FRAME["n"] // 4).sort("half", "key")
    assert list(zip(found["half"], found["key"], found["n"], strict=True)) == [
        (0, "a", 2), (0, "b", 1), (0, "b", 3), (1, "a", 4), (2, "b", 8),
    ]  # fmt: skip


def test_concat_fills_missing_columns_with_nan():
    both = Frame.concat([FRAME.select("key", "n"), FRAME.rows(slice(1))])
    assert both["x"].tolist() == pytest.approx([NAN] * 5 + [1.0], nan_ok=True) and len(both) == 6
    assert FRAME.rows(slice(0)).by("key").frames() == {} and Frame({}).columns == ()


def test_a_file_is_read_back_with_its_types():
    read, kinds = read_parquet(write_parquet(FRAME, SCHEMA))
    assert kinds == SCHEMA and read["n"].dtype == np.int32
    assert read.records() == [pytest.approx(row, nan_ok=True) for row in FRAME.records()]
    empty, kinds = read_parquet(write_parquet(FRAME.rows(slice(0)), SCHEMA))
    assert kinds == SCHEMA and len(empty) == 0
    assert read_parquet(write_parquet(Frame.of_rows([{"n": 5}], {"n": "float64"}), {"n": "float64"}))[0]["n"] == 5.0
