"""Parts of "Why" from extra epochs and arms: settings, plans, waits, processor counters."""

import math
from datetime import UTC, datetime

import pytest
from plain_analysis import plain_analysis
from synthetic import HOST, Truth, make_run
from two_settings import options_study, slower

from bakeoff.errors import BakeoffError, SpecError
from bakeoff.explain.after_verdict import Explaining, require_explainable
from bakeoff.explain.sections import _ratio
from bakeoff.explain.statement_plans import PLANS_DOCUMENT, CellPlans, StatementPlans
from bakeoff.explain.waits import WAITS_DOCUMENT, CellWaits
from bakeoff.report import build_view, render_markdown
from bakeoff.results import Outcome
from bakeoff.spec import parse_server
from bakeoff.stats.model import Estimate, Interval

CELL = "oltp_read_only/4"
LOG, MUTEX = "wait/io/file/innodb/innodb_log_file", "wait/synch/mutex/innodb/trx_sys_mutex"


def outcome(epoch):
    started = datetime(2026, 11, 21, 21, epoch, tzinfo=UTC)
    return Outcome(epoch=epoch, build=0, started_at=started, wall_s=9.0, measured_s=4.0)


def cells_of(view, table):
    return [[value.text for value in row.values] for row in view.tables[table].rows]


# ---- settings --------------------------------------------------------------------------------------------------------


def test_a_run_of_a_cluster_is_not_explained(tmp_path):
    run = make_run(tmp_path, options_study(), hosts={"node": (HOST, 0.0)})
    with pytest.raises(BakeoffError, match="bakeoff duel, which explains by itself"):
        require_explainable(Explaining(60.0), run)


def test_arms_that_were_running_already_are_not_explained(tmp_path):
    study = options_study()
    running = study.arms[1].model_copy(update={"server": parse_server("mysql://root@db1/")})
    run = make_run(tmp_path, study.model_copy(update={"arms": (study.arms[0], running)}), truth=Truth())
    with pytest.raises(SpecError, match=r"running servers are not explained, .*: mysql://root@db1/"):
        require_explainable(Explaining(60.0, ("A", "B")), run)


# ---- plans -----------------------------------------------------------------------------------------------------------


def with_plans(run, theirs):
    statements = {
        "one": StatementPlans(
            text="SELECT c FROM sbtest1 WHERE k = ?",
            plans={"A": ("sbtest1: ref k_1",), "B": theirs},
            differs=("B",) if theirs != ("sbtest1: ref k_1",) else (),
            rows_read={"A": 10.0, "B": 20_000.0},
            analyzed={"A": ("Index lookup: 10 rows",), "B": ("Table scan: 20000 rows",)},
        ),
        "two": StatementPlans(text="SELECT 1 FROM sbtest1", plans={"A": ("x",), "B": ("x",)}),
    }
    add_plans(run, statements)


def add_plans(run, statements):
    plans = CellPlans(statements=statements, counts=dict.fromkeys(statements, 3))
    writer = run.explaining("plans").epoch(0, 0)
    writer.write_server_json("A", PLANS_DOCUMENT, {CELL: plans.model_dump(mode="json")})
    writer.finish(outcome(0))


def test_a_different_plan_is_shown_with_the_rows_it_reads(tmp_path):
    run, analysis = slower(tmp_path)
    with_plans(run, ("sbtest1: all",))
    view = build_view(run, analysis)
    table = "plan-oltp-read-only-4-A-B-0"
    assert cells_of(view, table) == [["1", "sbtest1: ref k_1", "sbtest1: all"], ["rows read", "10", "20,000"]]
    assert "1 of 2 statements have another plan." in render_markdown(view)


def test_equal_plans_are_summed_up_in_one_line(tmp_path):
    run, analysis = slower(tmp_path)
    with_plans(run, ("sbtest1: ref k_1",))
    assert "2 statements, no plan differs." in render_markdown(build_view(run, analysis))


@pytest.mark.parametrize(
    ("explained", "said"),
    [
        (True, "1 statement, no plan differs. One server cannot explain 1 statement."),
        (False, "threads: One server cannot explain 2 statements."),
    ],
)
def test_plans_that_one_server_cannot_explain_are_not_called_equal(tmp_path, explained, said):
    """MySQL 5.5 cannot explain writes."""
    run, analysis = slower(tmp_path)
    update = StatementPlans(text="UPDATE sbtest1 SET k = ?", plans={"A": (), "B": ("sbtest1: range PRIMARY",)})
    select = StatementPlans(text="SELECT c FROM sbtest1", plans={"A": ("sbtest1: all",), "B": ("sbtest1: all",)})
    add_plans(run, {"one": update, "two": select if explained else update})
    assert said in render_markdown(build_view(run, analysis))


def test_a_cell_without_statements_has_no_plans_section(tmp_path):
    run, analysis = slower(tmp_path)
    add_plans(run, {})
    assert "Plans" not in {inner.title for each in build_view(run, analysis).sections for inner in each.sections()}


# ---- waits -----------------------------------------------------------------------------------------------------------


def with_waits(run, log_ns, *, first=0):
    """Write three epochs with waits; `log_ns` is per arm and event."""
    for epoch in range(first, first + 3):
        writer = run.explaining("waits").epoch(epoch, 0)
        for arm, ns in log_ns.items():
            waits = {LOG: round(10_000 * ns * (1 + 0.01 * epoch)), MUTEX: 10**8}
            found = CellWaits(events=10_000, waits=waits)
            writer.write_server_json(arm, WAITS_DOCUMENT, {CELL: found.model_dump(mode="json")})
        writer.finish(outcome(epoch))


def test_the_wait_that_is_longer_comes_first(tmp_path):
    run, analysis = slower(tmp_path)
    with_waits(run, {"A": 1e5, "B": 5e5})
    view = build_view(run, analysis)
    first, second = cells_of(view, "waits-oltp-read-only-4-A-B")
    assert (first[0], first[1], first[2], first[5]) == (LOG, "101 µs", "505 µs", "longer")
    assert second[0] == MUTEX and second[3] == "0 ns" and second[5] == ""
    text = render_markdown(view)
    assert "3 restarts with instruments" in text


def test_arms_never_recorded_together_have_no_waits_table(tmp_path):
    """A and C are claimed; `--arms A,B` and then `--arms B,C` were explained."""
    study = options_study()
    third = study.arms[1].model_copy(update={"name": "C", "label": "third"})
    study = study.model_copy(update={"arms": (*study.arms, third)})
    run = make_run(tmp_path, study, truth=Truth(effect={"B": -0.3, "C": -0.3}))
    with_waits(run, {"A": 1e5, "B": 5e5})
    with_waits(run, {"B": 5e5, "C": 1e5}, first=3)
    view = build_view(run, plain_analysis(run, study))
    assert "waits-oltp-read-only-4-A-B" in view.tables and "waits-oltp-read-only-4-A-C" not in view.tables
    assert "nothing was waited for" not in render_markdown(view)


def test_the_ratio_of_a_wait_has_the_digits_of_its_interval():
    found = Estimate(mean=math.log(1.004), interval=Interval(low=math.log(1.002), high=math.log(1.006)), n=3)
    assert (_ratio(found).text, _ratio(found).sub) == ("1.004×", "1.002 to 1.006")


@pytest.mark.parametrize("kind", ["plans", "waits", "profile"])
def test_the_reason_for_missing_evidence_is_shown(tmp_path, kind):
    run, analysis = slower(tmp_path)
    run.write_json("explain/notes.json", {kind: ["mysqld at a URL was running already."]})
    assert "mysqld at a URL was running already." in render_markdown(build_view(run, analysis))
