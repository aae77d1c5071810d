"""The examples from log and data to verdicts, as in docs/evidence/replay.md, and smaller."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import psutil
import pytest

from bakeoff import servers
from bakeoff.results import open_run
from bakeoff.spec import parse_server
from tests.replay.captured import read

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PAGE = (ROOT / "docs" / "evidence" / "replay.md").read_text(encoding="utf-8")
UPGRADE = ("mysql:5.7.22", "mysql:8.0.15")


def make(example, folder, *, rows, statements):
    numbers = ("--rows", str(rows), "--statements", str(statements))
    subprocess.run([sys.executable, EXAMPLES / "make.py", example, folder, *numbers], check=True)


def run_of(shell):
    """Return the only run of the folder, and the answers of its only capture."""
    run = open_run(next(path for path in shell.runs if path.name != "captures"))
    (answers,) = run.read_json("answers.json").values()
    return run, answers


def replayed(shell, log, data, arms=UPGRADE):
    """Run a short replay in which no query fails; returns its records of queries, its run and its answers."""
    short = ("--budget", "10s", "--no-verdict", "--seed", "1", "--format", "json")
    ran = shell.run("replay", log, *arms, "--data", data, *short, "--fail-on", "errors")
    assert ran.code == 0, ran
    queries = json.loads(ran.out)["queries"]
    assert all(each["share"] > 0 and each["baseline_calls"] and each["contender_calls"] for each in queries), queries
    return queries, *run_of(shell)


@pytest.mark.server
@pytest.mark.timeout(300)
def test_an_upgrade_of_the_shop_is_judged_by_query(shell):
    # The two that fail take 7 % of the time; with 300 rows 3.5 %, and DIFFERENT WORK (from 1 %) was once missing.
    make("shop", shell.folder, rows=3000, statements=1000)
    ran = shell.run(
        "replay", "shop.log", *UPGRADE, "--data", "shop.sql", "--budget", "10s", "--no-verdict",
        "--fail-on", "errors", "--show-literals",
    )  # fmt: skip
    assert ran.code == 1, ran
    assert "2 queries fail on one side only" in ran.out and "DIFFERENT WORK" in ran.out, ran
    whole = shell.run("report", "latest", "--format", "text").out
    assert "GROUP BY" in whole, whole
    assert "1,000 statements" in ran.err, "what is in the log is said first"
    run, of_capture = run_of(shell)
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


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.timeout(200)
def test_an_upgrade_of_the_shop_to_9_has_the_same_answers_and_the_same_two_refusals(shell):
    make("shop", shell.folder, rows=300, statements=1500)
    queries, run, answers = replayed(shell, "shop.log", "shop.sql", arms=("mysql:8.0.15", "mysql:9.7.4"))
    assert len(queries) == 13 and answers["not_reached"] == 0
    failing = {each["query"].split()[1] for each in queries if each["verdict"] == "fails"}
    assert failing == {"category_id,", "COUNT"}, "8.0 refuses them already"
    for digest in answers["digests"].values():
        compared = digest["compared"]["B"]
        assert not compared["differences"], digest
        assert compared["failed"].get("A") == compared["failed"].get("B"), digest
    assert answers["tables"] == 5 and answers["other_tables"] == {}
    for epoch in run.load_epochs():
        assert {row["arm"] for row in epoch.failures} == {"A", "B"}


@pytest.mark.parametrize("example", ["shop", "wiki"])
def test_an_example_is_the_same_every_time(example, tmp_path):
    for folder in ("one", "other"):
        make(example, tmp_path / folder, rows=50, statements=100)
    for name in (f"{example}.sql", f"{example}.log"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    assert (tmp_path / "one" / f"{example}.log").read_text().count("# Query_time") >= 100


@pytest.mark.server
def test_a_log_without_its_tables_is_refused_before_anything_is_timed(shell):
    make("shop", shell.folder, rows=10, statements=300)
    ran = shell.run("replay", "shop.log", "mysql:8.0.15", "mysql:8.0.15", "--budget", "90s", "--seed", "1", "-q")
    assert ran.code == 2, ran
    assert "every statement fails on every server" in ran.complaint and "--data" in ran.complaint
    assert not list(shell.folder.glob("runs/*/epochs"))


@pytest.mark.server
@pytest.mark.timeout(200)
def test_a_server_that_dies_while_answers_are_compared_is_a_one_line_error(shell):
    make("shop", shell.folder, rows=50, statements=8_000)
    # As JSON a line of the comparison is written at once; as text not before ten seconds.
    replay = shell.start(
        "replay", "shop.log", "mysql:8.0.15", "mysql:8.0.15", "--data", "shop.sql", "--budget", "90s", "--seed", "1",
        "--format", "json",
    )  # fmt: skip
    said = iter(replay.stderr.readline, "")
    assert next((line for line in said if "comparing answers" in line), None)
    died = next(each for each in psutil.Process(replay.pid).children(recursive=True) if each.name() == "mysqld")
    died.kill()
    ran = shell.finish(replay)
    assert (ran.code, "does not answer" in ran.complaint) == (3, True), ran


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.timeout(200)
def test_wiki_queries_are_all_timed_and_differ_only_by_collation(shell):
    """The wiki is only read, so its log repeats until the epoch ends."""
    make("wiki", shell.folder, rows=600, statements=1000)
    queries, run, answers = replayed(shell, "wiki.log", "wiki.sql")
    assert len(queries) == 11 and answers["not_reached"] == 0
    assert run.study().workloads[0].writes is False and answers["tables"] == 0
    differing = {each["query"].partition("WHERE ")[2]: {*each["differs"].split()} - {"plan"} for each in queries}
    assert {query: kinds for query, kinds in differing.items() if kinds} == {
        "pc.category_id = ? ORDER BY p.title LIMIT ?": {"order"},
        "pc.category_id = ? AND p.title > ? ORDER BY p.title LIMIT ?": {"rows", "order"},
    }


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.timeout(200)
def test_a_sysbench_run_is_captured_whole_and_replayed_on_its_tables(shell):
    env = shell.env | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with servers.sandbox(parse_server("mysql:5.7.22")) as box:
        socket = box.instance.socket_path
        said = subprocess.run(
            [EXAMPLES / "sysbench.sh", socket, "oltp.log", "--table-size=1000", "--events=100"],
            cwd=shell.folder, env=env, check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        executed = int(box.instance.status()["Com_stmt_execute"])
        assert shell.run("capture", "oltp.log", "-o", "oltp.capture").code == 0
        queries, _, answers = replayed(shell, "oltp.capture", f"mysql://root@localhost/sbtest?socket={socket}")
    captured = read(shell.folder / "oltp.capture")
    prepared = [event["sql"] for event in captured.events if event["command"] == "Execute"]
    assert len(prepared) == executed and not any("?" in sql for sql in prepared), "the log has the values"
    counts = Counter()
    for digest in captured.totals["digests"]:
        counts[digest["text"].split()[0] if "@@" not in digest["text"] else "connecting"] += digest["count"]
    written = counts["INSERT"] + counts["UPDATE"] + counts["DELETE"]
    counted = {
        name: int(re.search(rf"{name}: +(\d+)", said)[1]) for name in ("read", "write", "other", "ignored errors")
    }
    assert counted["read"] == counts["SELECT"] and counted["other"] == counts["BEGIN"] + counts["COMMIT"]
    # The log has each statement before it runs; sysbench counts a write that ended in a deadlock as an ignored error.
    assert counted["write"] + counted["ignored errors"] == written
    assert len(queries) == len(captured.totals["digests"]) == 22
    assert {each["differs"] for each in queries} <= {"", "plan"}
    assert answers["tables"] == 2 and answers["other_tables"] == {}
    examined = [tuple(each["rows_examined"].values()) for each in answers["digests"].values()]
    assert all(len({*each}) <= 1 for each in examined), "the dictionary that 8.0 reads at a table's first use is not in"


def test_documented_commands_are_accepted(inside, shell):
    """Run them with --dry-run. The test above runs sysbench.sh."""
    lines = re.findall(r"^(?:examples/make.py|bakeoff (?:capture|replay)) .*$", PAGE.split("## An upgrade")[1], re.M)
    assert len(lines) >= 8
    (shell.folder / "oltp.log").write_text("SELECT 1;\n")
    for line in lines:
        program, *words = shlex.split(line)
        if program != "bakeoff":
            make(words[0], shell.folder / words[1], rows=50, statements=100)
            continue
        ran = inside(*words, *["--dry-run"] * (words[0] == "replay"))
        on_server = "mysql://" in line
        assert ran.code == (3 if on_server else 0), (line, ran.err)
        assert not on_server or "no server answers" in ran.err
