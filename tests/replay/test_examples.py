"""The shop of examples/: from its log and its dump to verdicts on its queries, as docs/replay.md types it."""

import subprocess
import sys
from pathlib import Path

import pytest

from bakeoff.results import open_run

MAKE = Path(__file__).parents[2] / "examples" / "shop" / "make.py"


def make_shop(folder, *, rows, statements):
    subprocess.run(
        [sys.executable, MAKE, folder, "--rows", str(rows), "--statements", str(statements)], check=True
    )  # fmt: skip


@pytest.mark.server
@pytest.mark.timeout(300)
def test_an_upgrade_of_the_shop_is_judged_by_query(shell):
    make_shop(shell.folder, rows=600, statements=3000)
    ran = shell.run(
        "replay", "shop.log", "mysql:5.7.22", "mysql:8.0.15", "--data", "shop.sql", "--budget", "30s", "--no-verdict",
        "--fail-on", "errors", "--show-literals",
    )  # fmt: skip
    assert ran.code == 1, ran
    assert "2 queries fail on one side only" in ran.out and "DIFFERENT WORK" in ran.out and "GROUP BY" in ran.out
    assert "3,000 statements" in ran.err, "what is in the log is said first"
    run = open_run(next(path for path in shell.runs if path.name != "captures"))
    answers = run.read_json("answers.json")
    (of_capture,) = answers.values()
    failing = [each for each in of_capture["digests"].values() if each["compared"]["B"]["differences"].get("errors")]
    assert {each["text"].split()[1] for each in failing} == {"`category_id`", "COUNT"}
    others = [each for each in of_capture["digests"].values() if each not in failing]
    assert len(others) == 11 and not any(each["compared"]["B"]["differences"] for each in others)
    assert of_capture["tables"] == 5 and of_capture["other_tables"] == {}
    for epoch in run.load_epochs():
        refused = {row["arm"]: row["sql_errno"] for row in epoch.failures}
        assert refused.keys() == {"B"}, "5.7 runs them all"
    page = (run.path / "report.html").read_text()
    assert "GROUP BY category_id DESC" in page and "[[:&lt;:]]" in page


def test_the_example_is_the_same_every_time(tmp_path):
    for folder in ("one", "other"):
        make_shop(tmp_path / folder, rows=50, statements=100)
    for name in ("shop.sql", "shop.log"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    assert (tmp_path / "one" / "shop.log").read_text().count("# Query_time") >= 100


@pytest.mark.server
def test_a_log_without_its_tables_is_refused_before_anything_is_timed(shell):
    make_shop(shell.folder, rows=10, statements=300)
    ran = shell.run("replay", "shop.log", "mysql:8.0.15", "mysql:8.0.15", "--budget", "60s", "--seed", "1", "-q")
    assert ran.code == 2, ran
    assert "every statement fails on every server" in ran.complaint and "--data" in ran.complaint
    assert not list(shell.folder.glob("runs/*/epochs"))
    assert shell.left_behind() == []
