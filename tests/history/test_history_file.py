"""The history file: points, annotations, and files that are something else."""

import sqlite3
from datetime import UTC, datetime, timedelta

import pytest
from synthetic_history import nights

from bakeoff.errors import ResultsError, SpecError
from bakeoff.history.history_file import P95, Annotation, History


@pytest.fixture
def history(tmp_path):
    return History(tmp_path / "history.db")


def test_points_are_sorted_by_time_and_a_run_added_again_replaces_itself(history):
    points = list(nights(count=5))
    assert history.add(reversed(points)) == 5
    assert history.points() == points
    again = points[2].model_copy(update={"commit": "other"})
    assert history.add([again]) == 0
    assert history.points() == [*points[:2], again, *points[3:]]
    assert history.add(nights(series="release", count=2)) == 2
    assert len(history.points("release")) == 2 and len(history.points()) == 7


def test_adding_a_run_again_removes_its_earlier_points(history):
    first, other = nights(count=2)
    latency = first.model_copy(update={"metric": P95})
    assert history.add([first, latency, other]) == 3
    assert history.add([first]) == 0
    assert history.points() == [first, other]
    singles = [first.model_copy(update={"run": "log", "cell": cell, "ratio": None}) for cell in "ab"]
    assert [history.add([each]) for each in singles] == [1, 1]
    assert len(history.points()) == 4


def test_annotations_are_stored_once_and_sorted_by_time(history):
    later = Annotation(at=datetime(2026, 11, 2, tzinfo=UTC), text="machine replaced")
    earlier = Annotation(at=later.at - timedelta(days=1), series="nightly", text="'; DROP TABLE point; --")
    for each in (later, earlier, earlier):
        history.annotate(each)
    assert history.annotations() == [earlier, later]


def test_a_file_that_is_not_a_history_is_refused_and_left_unchanged(tmp_path, history):
    with pytest.raises(SpecError, match="does not exist"):
        history.points()
    assert not history.path.exists()
    text = tmp_path / "notes.txt"
    text.write_text("not a database, however long the text is" * 100)
    with pytest.raises(ResultsError, match="file is not a database"):
        History(text).add(nights(count=1))
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE mine (x)")
    for use in (History(other).points, lambda: History(other).add(nights(count=1))):
        with pytest.raises(ResultsError, match="is not a bakeoff history"):
            use()
    with pytest.raises(ResultsError, match="unable to open"):
        History(tmp_path / "nowhere" / "h.db").add(nights(count=1))
    assert "not a database" in text.read_text()


def test_a_later_format_a_damaged_row_and_an_unknown_series_are_named(history):
    history.add(nights(count=1))
    with pytest.raises(SpecError, match="no series 'x'"):
        history.points("x")
    with sqlite3.connect(history.path) as connection:
        connection.execute("UPDATE point SET content = '{}'")
    with pytest.raises(ResultsError, match="is damaged"):
        history.points()
    with sqlite3.connect(history.path) as connection:
        connection.execute("PRAGMA user_version = 9")
    with pytest.raises(ResultsError, match="history of format 9; this program reads format 1"):
        history.points()
