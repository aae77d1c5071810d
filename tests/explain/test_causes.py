"""Waits, plans and settings as causes of planted differences, on real servers."""

import pytest

from bakeoff.explain import off_cpu
from bakeoff.explain.explained import Explained
from bakeoff.explain.statement_plans import PLANS_DOCUMENT, CellPlans
from bakeoff.explain.waits import WAITS_DOCUMENT, CellWaits, wait_differences
from bakeoff.report.context import Context
from bakeoff.results import open_run
from bakeoff.stats.model import Analysis

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(1200)]

DATA = ("--tables", "1", "--table-size", "20000", "--threads", "4", "--warm-up", "1s", "--no-explain")
# For runs that are explained whatever the verdict.
SHORT = ("--budget", "20s", "--no-verdict")


def duel(shell, *arguments):
    ran = shell.run("duel", *arguments, *DATA, "--quiet", limit_s=600)
    assert ran.code == 0, ran
    return open_run(shell.runs[-1])


def explain(shell, run, budget):
    """Explain both arms, whatever the verdict on a busy machine."""
    ran = shell.run("explain", str(run.path), "--arms", "A,B", "--explain-budget", budget, "--quiet", limit_s=600)
    assert ran.code == 0, ran


def report_of(shell, run):
    ran = shell.run("report", str(run.path), "--format", "md")
    assert ran.code == 0, ran
    return ran.out


def read(run, kind, document, model):
    explaining = run.explaining(kind)
    return [explaining.server_json(epoch, document, dict[str, model]) for epoch in explaining.finished_epochs()]


@pytest.mark.parametrize("server", ["mysql:8.0.15", "mysql:5.7.22", "mysql:5.6.24", "mysql:5.5.9", "mariadb:10.11"])
def test_syncing_the_log_at_every_commit_shows_up_as_a_wait(shell, server):
    run = duel(
        shell, server, f"{server},innodb_flush_log_at_trx_commit=0",
        "--workload", "oltp_update_non_index", *SHORT,
    )  # fmt: skip
    explain(shell, run, "240s")  # five epochs: after three, one wait among thirty is seldom significant
    found = wait_differences(
        read(run, "waits", WAITS_DOCUMENT, CellWaits),
        cell="oltp_update_non_index/4", baseline="A", contender="B", event_ns=400_000,
    )  # fmt: skip
    named = [each.name for each in found if each.differs and each.difference.mean < 0]
    # MariaDB does not instrument its redo log files; waits for them show up in the stage.
    waited_in, among = ("stage/sql/Commit", 1) if server.startswith("mariadb") else ("innodb_log", 5)
    assert any(waited_in in name for name in named[:among]), [(each.name, each.difference) for each in found][:10]


@pytest.mark.parametrize("server", ["mysql:8.0.15", "mysql:5.7.22"])
def test_syncing_commits_cause_off_cpu_time_in_the_redo_log(shell, server):
    """MySQL 5.7 syncs in the connection's own thread, 8.0 in another one that the connection waits for."""
    if reason := off_cpu.hindrance():
        pytest.skip(reason)
    run = duel(
        shell, f"{server},innodb_flush_log_at_trx_commit=2", f"{server},innodb_flush_log_at_trx_commit=1",
        "--workload", "oltp_update_non_index", *SHORT,
    )  # fmt: skip
    explain(shell, run, "200s")
    (found,) = Explained(Context(run, run.read("analysis.json", Analysis))).pauses.values()
    first = found.statements[0]
    assert first.waiting.part == "redo log" and first.time.difference.mean > 0.5 * found.all.difference.mean, found
    assert found.epochs < 3 or found.all.is_clear
    assert "redo log: " in report_of(shell, run)
    assert not list(run.path.rglob(".perf-*")), "perf's files are gone"


@pytest.mark.parametrize("server", ["mysql:8.0.15", "mysql:5.7.22", "mysql:5.6.24", "mysql:5.5.9", "mariadb:10.11"])
def test_a_dropped_index_is_shown_by_the_plans(shell, server):
    study = shell.folder / "index.yaml"
    study.write_text(
        f"""
title: index
question: what is the index worth?
settings: {{server: "{server}"}}
factors: {{index: {{with: {{script.create_secondary: "on"}}, without: {{script.create_secondary: "off"}}}}}}
workloads: [{{script: select_random_points, options: {{random_points: 3}}}}]
threads: [4]
tables: 1
table_size: 5000
warm_up: 1s
budget: 20s
"""
    )
    ran = shell.run("run", str(study), "--no-explain", "--no-verdict", "--no-explain", "--quiet", limit_s=600)
    assert ran.code == 0, ran
    run = open_run(shell.runs[-1])
    explain(shell, run, "40s")
    ((plans,),) = [list(each.values()) for each in read(run, "plans", PLANS_DOCUMENT, CellPlans)]
    (statement,) = plans["select_random_points/4"].statements.values()
    assert statement.differs == ("B",)
    assert "k_1" in statement.plans["A"][0]
    assert "all rows" in statement.plans["B"][0]
    assert statement.rows_read["B"] > 100 * statement.rows_read["A"]
    assert "sbtest1: all rows" in report_of(shell, run)


def attributed(shell, run):
    """Count the settings that differ, and name those found."""
    ran = shell.run("explain", str(run.path), "--arms", "A,B", "--attribute", "--quiet", limit_s=1000)
    assert ran.code == 0, ran
    attribution, sections = (pytest.importorskip(f"bakeoff.search.{name}") for name in ("attribution", "sections"))
    (path,) = (run.path / attribution.FOLDER).iterdir()
    searched = open_run(path)
    believed = sections.believed_of(Context(searched, searched.read("analysis.json", Analysis)))
    settings = searched.study().question.settings
    return len(settings), [settings[each].name for each in believed.named or ()]


def test_the_option_that_explains_the_difference_is_found_among_innocent_ones(shell):
    names = (
        "innodb_flush_log_at_trx_commit", "max_connect_errors", "net_retry_count", "max_error_count",
        "eq_range_index_dive_limit",
    )  # fmt: skip
    mine, theirs = (",".join(["mysql:5.7.22", *(f"{name}={value}" for name in names)]) for value in "12")
    run = duel(shell, mine, theirs, "--workload", "oltp_update_non_index", "--budget", "100s")
    assert attributed(shell, run) == (5, ["innodb_flush_log_at_trx_commit"])
    assert "explains the difference" in report_of(shell, run)
