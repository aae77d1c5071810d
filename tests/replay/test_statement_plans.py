"""Plans of a statement when one arm cannot explain it."""

from types import SimpleNamespace

from bakeoff.replay.answers import _plans
from bakeoff.replay.sessions import Step


def explains(*access, table="sbtest1"):
    """Make a server's sessions; without an access it explains nothing."""
    steps = tuple(Step("", table, each, "", None, ()) for each in access)
    return SimpleNamespace(explain=lambda _event, _sql: steps)


def test_plans_are_compared_with_that_of_the_first_arm_that_has_one():
    """The first arm may explain nothing, as MySQL 5.5 does for writes."""
    sessions = {"A": explains(), "B": explains("range"), "C": explains("all rows"), "D": explains("range")}
    found = _plans("UPDATE sbtest1 SET k = ?", [{"sql": "UPDATE sbtest1 SET k = 1"}], sessions)
    assert found["differs"] == ["C"]
    assert found["plans"] == {
        "A": [], "B": ["sbtest1: range"], "C": ["sbtest1: all rows"], "D": ["sbtest1: range"],
    }  # fmt: skip


def test_what_nobody_can_explain_is_kept_to_be_counted_and_what_reads_no_table_is_not():
    """As with an INSERT on two servers of MySQL 5.5."""
    sample = {"sql": "INSERT INTO sbtest1 VALUES (1)"}
    found = _plans("INSERT INTO sbtest1 VALUES (?)", [sample], {"A": explains(), "B": explains()})
    assert found["plans"] == {"A": [], "B": []} and not found["differs"]
    without = explains("none", table="")
    assert _plans("DO 1", [sample], {"A": without, "B": without}) is None
    assert _plans("DO 1", [], {"A": explains(), "B": explains()}) is None
