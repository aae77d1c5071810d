"""The smallest budget for a verdict: refused below it before anything starts, and the same wherever it is named."""

import json

import pytest

from bakeoff.errors import SpecError
from bakeoff.plan.timing import EPOCHS_MIN
from bakeoff.run.forecast import forecast, require_budget
from bakeoff.run.machine_check import smallest_budget_s
from bakeoff.spec import Arm, Study, Workload, parse_server

TWO = ("mysql:8.0.15", "mysql:8.0.15")
SMALL = ("--tables", "1", "--table-size", "1000", "--builds", "1", "--threads", "2", "-w", "oltp_point_select")


def study(*servers, budget_s=30.0, scripts=("oltp_read_only",), **more):
    arms = tuple(Arm(name="ABCD"[at], label=name, server=parse_server(name)) for at, name in enumerate(servers or TWO))
    return Study(
        title="t", arms=arms, workloads=tuple(Workload(script=each) for each in scripts), budget_s=budget_s, **more
    )


@pytest.mark.parametrize("more", [{}, {"scripts": ("oltp_write_only", "tpcc")}, {"threads": (1, 4, 16)}])
def test_a_budget_too_small_for_a_verdict_is_refused_with_the_smallest(more):
    needed_s = forecast(study(**more)).plan.budget_needed_s
    for budget_s in (30, needed_s - 1):
        seen = forecast(study(budget_s=budget_s, **more))
        with pytest.raises(SpecError) as refused:
            require_budget(seen)
        words = f"is too small for a verdict: 6 restarts of 2 servers with {len(seen.plan.cells)} cell"
        assert words in str(refused.value)
        assert f"--budget {needed_s:.0f}s" in str(refused.value)
    enough = forecast(study(budget_s=needed_s, **more))
    require_budget(enough)
    assert enough.plan.fits


def test_more_servers_cells_and_rows_take_a_larger_budget():
    base = forecast(study()).plan.budget_needed_s
    for more in ({"threads": (1, 4)}, {"scripts": ("oltp_read_only", "oltp_insert")}, {"table_size": 1_000_000}):
        assert forecast(study(**more)).plan.budget_needed_s > base
    assert forecast(study(*TWO, TWO[0])).plan.budget_needed_s > base


def test_any_budget_is_accepted_with_a_running_server():
    require_budget(forecast(study("mysql://root@127.0.0.1:1/", "mysql:8.0.15", budget_s=5)))


def test_the_smallest_budget_is_the_same_everywhere(shell, inside):
    shown = json.loads(inside("duel", *TWO, "--dry-run", "--format", "json").out)["budget_needed_s"]
    for dry in ([], ["--dry-run"]):
        ran = inside("duel", *TWO, "--budget", f"{shown - 1:.0f}s", *dry)
        assert (ran.code, f"Give --budget {shown:.0f}s or more" in ran.complaint) == (2, True), ran
    (shell.folder / "my.yaml").write_text(
        'title: t\nservers: ["mysql:8.0.15", "mysql:8.0.15,sort_buffer_size=1M"]\n'
        "workloads: [oltp_read_only]\nbudget: 20s\n"
    )
    planned = json.loads(inside("plan", "my.yaml", "--format", "json").out)
    assert (planned["budget_needed_s"], planned["fits"]) == (shown, False)
    ran = inside("run", "my.yaml")
    assert (ran.code, f"Give --budget {shown:.0f}s or more" in ran.complaint) == (2, True), ran
    assert shell.runs == []


def test_the_doctor_shows_the_smallest_budget_of_two_different_servers(inside):
    needed_s = smallest_budget_s("mysql:8.0.15", threads=4)
    shown = json.loads(inside("duel", "mysql:8.0.15", "mysql:5.7.22", "--dry-run", "--format", "json").out)
    assert needed_s == shown["budget_needed_s"] > forecast(study()).plan.budget_needed_s


@pytest.mark.slow
@pytest.mark.server
def test_no_verdict_allows_a_smaller_budget(shell):
    ran = shell.run("duel", *TWO, *SMALL, "--budget", "12s", "--no-verdict", "--format", "json")
    assert ran.code == 0, ran
    (comparison,) = json.loads(ran.out)["comparisons"]
    assert 1 <= comparison["epochs"] < EPOCHS_MIN
    assert 0.1 < comparison["ratio"] < 10


@pytest.mark.slow
@pytest.mark.server
def test_the_smallest_budget_is_enough_for_a_verdict(shell):
    planned = json.loads(shell.run("duel", *TWO, *SMALL, "--dry-run", "--format", "json").out)
    budget = f"{planned['budget_needed_s']:.0f}s"
    ran = shell.run("duel", *TWO, *SMALL, "--budget", budget, "--precision", "0.1%", "--format", "json")
    assert ran.code == 0, ran
    (comparison,) = json.loads(ran.out)["comparisons"]
    assert comparison["epochs"] >= EPOCHS_MIN
