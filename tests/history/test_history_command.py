"""`bakeoff history` on the command line: output, exit codes, bad input, and a gate on real servers."""

import json
import math
import sqlite3
from pathlib import Path

import pytest
from plain_analysis import plain_analysis
from synthetic import Truth, duel_study, make_run
from synthetic_history import history

from bakeoff.errors import ExitCode
from bakeoff.history.history_file import History

IMPORTS = Path(__file__).with_name("imports")


@pytest.fixture
def runs(shell):
    """Two runs with their analysis, a day apart."""
    for number, name in enumerate(("one", "two")):
        run = make_run(shell.folder / "bakeoff-runs", duel_study(), Truth(effect={"B": math.log(0.8)}), name=name)
        run.write_json("analysis.json", plain_analysis(run, run.study()))
        manifest = json.loads((run.path / "manifest.json").read_text())
        manifest["created_at"] = f"2026-11-{20 + number}T12:00:00Z"
        (run.path / "manifest.json").write_text(json.dumps(manifest))


def test_runs_are_added_shown_reported_and_exported(inside, shell, runs):
    ran = inside("history", "add", "one", "two", "--runs", "bakeoff-runs", "--series", "nightly")
    assert (ran.code, ran.out) == (ExitCode.DONE, "")
    assert "bakeoff-history.db: 12 points of one" in ran.err and "12 points of two" in ran.err
    assert inside("history", "annotate", "new compiler", "--date", "2026-11-21").code == ExitCode.DONE
    shown = inside("history", "show")
    assert shown.code == ExitCode.DONE and "No line changed" in shown.out and "6 points" not in shown.err
    rows = inside("history", "show", "--format", "csv", "--cell", "oltp_point_select/4", "--metric", "p95").out
    assert len(rows.splitlines()) == 3
    page = inside("history", "report", "-O", "page.html")
    assert page.out == "page.html\n" and "new compiler" in (shell.folder / "page.html").read_text()
    benches = json.loads(inside("history", "export", "--format", "github-action-benchmark").out)
    assert len(benches) == 6
    assert inside("history", "export", "--format", "otava-csv").out.startswith("time,commit,oltp_")
    again = inside("history", "add", "two", "--runs", "bakeoff-runs", "--series", "nightly", "--commit", "abc")
    assert "12 of them in place of earlier ones" in again.err


def test_the_commit_comes_from_the_pipeline_or_the_option(inside, shell, runs, monkeypatch):
    monkeypatch.setenv("GITHUB_SHA", "feed")
    inside("history", "add", "one", "--runs", "bakeoff-runs")
    inside("history", "add", "two", "--runs", "bakeoff-runs", "--commit", "8.0.33", "--date", "2020-01-02T03:00+02:00")
    points = History(shell.folder / "bakeoff-history.db").points()
    assert [(point.run, point.commit) for point in (points[0], points[-1])] == [("two", "8.0.33"), ("one", "feed")]
    assert points[0].at.isoformat() == "2020-01-02T01:00:00+00:00"


def test_files_of_other_tools_become_a_history_and_are_compared(inside, shell):
    for series in ("old", "new"):
        files = sorted(map(str, IMPORTS.glob(f"{series}-*.log")))
        ran = inside("history", "import", *files, "--series", series, "--workload", "reads", "--history", "h.db")
        assert "6 figures of single runs, 6 of them new" in ran.err
    ran = inside("compare", "old", "new", "--history", "h.db")
    assert (ran.code, "throughput, sysbench" in ran.out, "they get no verdict" in ran.out) == (0, True, True)
    lines = json.loads(inside("compare", "old", "new", "--history", "h.db", "--format", "json").out)["lines"]
    assert {line["cell"] for line in lines} == {"reads/4"}
    again = inside("history", "import", *files, "--series", "new", "--workload", "reads", "--history", "h.db")
    assert "0 of them new" in again.err


def test_one_run_a_series_is_too_few_for_an_interval(inside, shell):
    for series in ("old", "new"):
        file = min(map(str, IMPORTS.glob(f"{series}-*.log")))
        inside("history", "import", file, "--series", series, "--workload", "reads", "--history", "h.db")
    assert "too few for an interval" in inside("compare", "old", "new", "--history", "h.db").out


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("show",), ExitCode.USAGE, "bakeoff-history.db does not exist. `bakeoff history add RUN` creates a history."),
        (("add", "nowhere"), ExitCode.USAGE, "nowhere"),
        (("add", "one", "two", "--commit", "x"), ExitCode.USAGE, "--commit and --date are for one run"),
        (("show", "--history", "h.db", "--series", "x"), ExitCode.USAGE, "no series 'x'. It has: before, nightly."),
        (("show", "--history", "h.db", "--cell", "x"), ExitCode.USAGE, "no points of that cell and metric. It has: "),
        (("show", "--history", "notes.txt"), ExitCode.NOT_READY, "notes.txt: file is not a database."),
        (("annotate", " ", "--history", "h.db"), ExitCode.USAGE, "the remark is empty"),
        (("annotate", "x", "--date", "soon", "--history", "h.db"), ExitCode.USAGE, "--date: 'soon' is not a date."),
        (("annotate", "x", "--date", "0001-01-01T00:00+14:00", "--history", "h.db"), ExitCode.USAGE, "is not a date."),
        (("import", "notes.txt"), ExitCode.USAGE, "notes.txt has no result of sysbench"),
        (("import", "nowhere.log"), ExitCode.NOT_READY, "nowhere.log cannot be read"),
        (("import", "notes.txt", "--series", ""), ExitCode.USAGE, "--series: '' is not a name"),
        (("export", "--history", "h.db", "--format", "otava-csv"), ExitCode.USAGE, "not every run has every line"),
        (("export", "--history", "h.db"), ExitCode.USAGE, "--format"),
        (("report", "--history", "h.db", "-O", "nowhere/h.html"), ExitCode.NOT_READY, "nowhere/h.html"),
        (("report", "-o", "h.html"), ExitCode.USAGE, "bakeoff-history.db does not exist"),
        (("report", "--history", "nowhere/h.db"), ExitCode.USAGE, "nowhere/h.db does not exist"),
    ],
)
def test_a_mistake_is_reported_in_one_line(inside, shell, arguments, code, says):
    (shell.folder / "notes.txt").write_text("nothing of the kind\n" * 100)
    points, remarks = history()
    file = History(shell.folder / "h.db")
    file.add(points)
    for remark in remarks:
        file.annotate(remark)
    ran = inside("history", *arguments)
    assert (ran.code, says in ran.complaint) == (code, True), ran


def test_a_remark_may_begin_with_a_dash(inside, shell):
    file = shell.folder / "h.db"
    History(file).add(history()[0])
    assert inside("history", "annotate", "--history", "h.db", "--date", "2026-11-25", "--", "-5").code == 0
    assert [each.text for each in History(file).annotations()] == ["-5"]


def test_compare_takes_series_of_single_runs_only(inside, shell):
    History(shell.folder / "h.db").add(history()[0])
    for names, says in (
        (("before", "before"), "named twice"),
        (("before", "nightly"), "is not a series of single runs"),
    ):
        ran = inside("compare", *names, "--history", "h.db")
        assert (ran.code, says in ran.complaint) == (ExitCode.USAGE, True), ran


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.needs("gate")
@pytest.mark.timeout(600)
def test_a_gate_adds_its_run_to_a_history(shell):
    server = "mysql:8.0.15"
    ran = shell.run(
        "gate", server, server, "-w", "oltp_point_select", "--threads", "2", "--tables", "1", "--table-size", "1000",
        "--max-slowdown", "20%", "--budget", "4m", "--inject-slowdown", "100%", "--quiet", "--history", "h.db",
        "--name", "reads",
    )  # fmt: skip
    assert ran.code == ExitCode.DIFFERENCE, ran
    point = next(each for each in History(shell.folder / "h.db").points("reads") if each.metric == "throughput")
    assert point.ratio < math.log(0.8) and point.versions == ("8.0.15", "8.0.15") and point.epochs >= 5


def test_a_history_that_refuses_a_run_does_not_change_the_gates_answer(shell, capfd):
    outputs = pytest.importorskip("bakeoff.gate.outputs")
    run = make_run(shell.folder, duel_study(), name="fresh")
    with sqlite3.connect(shell.folder / "other.db") as connection:
        connection.execute("CREATE TABLE mine (x)")
    outputs.remember(run, shell.folder / "other.db", series="gate")
    assert "not in the history: run fresh has no analysis." in capfd.readouterr().err
