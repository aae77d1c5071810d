"""`bakeoff gate` on real servers and on bad input: exit codes, files, signals, git bisect."""

import json
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from xml.etree import ElementTree

import pytest

from bakeoff import features
from bakeoff.errors import ExitCode, ServerError
from bakeoff.gate import command as gate
from bakeoff.plan.factorial import make_study
from bakeoff.spec.study_file import read_study

SERVER = "mysql:8.0.15"
# Slower by half, and a fifth allowed: known after five restarts however busy the machine is.
SMALL = (
    "-w", "oltp_point_select", "--threads", "2", "--tables", "1", "--table-size", "1000",
    "--max-slowdown", "20%", "--budget", "4m",
)  # fmt: skip
PAIR = (SERVER, SERVER)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "gate: at least two servers are required. Example: bakeoff gate mysql:5.7 mysql:8.0"),
        ((SERVER,), "gate: at least two servers are required."),
        (("--baseline", SERVER), "gate: at least two servers are required."),
        ((*PAIR, "--max-slowdown", "0%"), "--max-slowdown: '0%' is outside 0.1% to 50%. Write --max-slowdown 2%."),
        ((*PAIR, "--max-slowdown", "2"), "outside 0.1% to 50%"),
        ((*PAIR, "--max-slowdown", "much"), "--max-slowdown: 'much' is not a percentage."),
        ((*PAIR, "--name", "a b"), "--name: 'a b' is not a name"),
        ((*PAIR, "--name", "x-->"), "--name: 'x-->' is not a name"),
        ((*PAIR, "--junit", "nowhere/gate.xml"), "--junit: nowhere/gate.xml cannot be written."),
        pytest.param(
            (*PAIR, "--history", "nowhere/h.db"),
            "--history: nowhere/h.db cannot be written.",
            marks=pytest.mark.needs("history"),
        ),
        ((*PAIR, "--budget", "10s"), "a budget of 10 s is too small for a verdict"),
        ((*PAIR, "-w", "nonsense"), "nonsense"),
        (("path:nowhere", SERVER), "does not exist"),
        ((SERVER, "mysql://root@127.0.0.1:1/"), "is a running server"),
        ((*PAIR, "--rand-type=zipfian"), "written -o NAME=VALUE."),
        (("--study", "nowhere.yaml"), "nowhere.yaml"),
        (
            ("--study", "ci.yaml", "mysql:8.0"),
            "two servers are required. Example: bakeoff gate --study ci.yaml mysql:5.7 mysql:8.0",
        ),
        (("--study", "charset-collation", "-w", "tpcc"), "with --study the file says what --workload would"),
        (("--study", "charset-collation", *PAIR), "varies beside the servers that were named"),
        ((*PAIR, "--on-unclear", "maybe"), "'maybe'"),
    ],
)
def test_a_usage_error_is_one_line_with_exit_code_2(inside, arguments, says):
    ran = inside("gate", *arguments)
    assert ran.code == ExitCode.USAGE, ran
    assert says in ran.complaint


def test_an_invalid_name_overwrites_the_junit_file_of_an_earlier_gate(inside, shell):
    for name in ("a b", "\udcff"):  # the second is not UTF-8
        (shell.folder / "gate.xml").write_text("passed")
        assert inside("gate", *PAIR, "--junit", "gate.xml", "--name", name).code == ExitCode.USAGE
        assert "is not a name" in (shell.folder / "gate.xml").read_text()


@pytest.mark.parametrize("command", ["gate", pytest.param("bisect", marks=pytest.mark.needs("search"))])
def test_a_hint_says_which_command_has_the_option(inside, command):
    ran = inside(command, *PAIR, SERVER, "-o", "mysql_storage_engine=myisam")
    assert ran.code == ExitCode.USAGE
    assert "Write --mysql-storage-engine (duel), or engine in the settings of a study." in ran.complaint


@pytest.mark.parametrize("command", ["gate", pytest.param("bisect", marks=pytest.mark.needs("search"))])
def test_a_dump_of_two_databases_needs_the_database_option(inside, shell, command):
    (shell.folder / "two.sql").write_text("USE shop;\nCREATE TABLE t (a INT);\nUSE other;\nCREATE TABLE u (a INT);\n")
    script = shell.folder / "own.lua"
    script.write_text("function event() end\n")
    builds = ("mysql:8.0.15", "mysql:8.0.15,max_connections=151", "mysql:8.0.15,max_connections=152")
    ran = inside(command, *builds, "-w", "./own.lua", "--data", "two.sql", "--budget", "1s")
    assert "Write --database shop" in ran.complaint, ran
    ran = inside(command, *builds, "-w", "./own.lua", "--data", "two.sql", "--database", "shop", "--budget", "1s")
    assert "database" not in ran.complaint and "budget" in ran.complaint, ran


@pytest.mark.parametrize(("more", "code"), [((), ExitCode.USAGE), (("--bisect",), ExitCode.BISECT_ABORT)])
def test_an_error_is_written_to_junit_and_replaces_an_earlier_file(inside, shell, more, code):
    (shell.folder / "gate.xml").write_text("passed")
    ran = inside("gate", "path:nowhere", SERVER, "--junit", "gate.xml", "--name", "reads", *more)
    assert ran.code == code
    (suite,) = ElementTree.parse(shell.folder / "gate.xml").getroot()
    assert (suite.get("name"), suite.get("tests"), suite.get("errors")) == ("bakeoff gate reads", "1", "1")
    (error,) = suite.iter("error")
    assert "does not exist" in error.get("message") and error.get("message") in ran.complaint


@pytest.mark.needs("history")
def test_a_file_that_is_not_a_history_is_refused_before_anything_is_measured(inside, shell):
    (shell.folder / "notes.txt").write_text("no history" * 1000)
    ran = inside("gate", *PAIR, "--history", "notes.txt")
    assert (ran.code, "notes.txt: file is not a database." in ran.complaint) == (ExitCode.NOT_READY, True)


def test_without_the_history_feature_its_option_is_refused_in_one_line(inside, monkeypatch):
    part = features.part
    monkeypatch.setattr(features, "part", lambda name, module: None if name == "history" else part(name, module))
    ran = inside("gate", *PAIR, "--history", "h.db")
    assert (ran.code, "--history: bakeoff's history is not installed." in ran.complaint) == (ExitCode.USAGE, True)


def write_study(shell, text):
    (shell.folder / "ci.yaml").write_text(f"title: ci\nworkloads: [oltp_point_select]\nthreads: [1]\n{text}\n")
    return ("--study", "ci.yaml")


def test_an_error_in_a_study_file_names_its_line(inside, shell):
    ran = inside("gate", *write_study(shell, "servers: [mysql:5.7, mysql:8.0]\nbudgett: 3m"))
    assert ran.code == ExitCode.USAGE
    assert ran.complaint.startswith("bakeoff: ci.yaml:5: ")
    (shell.folder / "ci.yaml").write_text(
        "title: ci\nworkloads: [{script: oltp_point_select, rate_per_s: 100}]\nservers: [mysql:5.7.22, mysql:8.0.15]\n"
    )
    ran = inside("gate", "--study", "ci.yaml")
    assert (ran.code, "a fixed rate or speed" in ran.complaint) == (ExitCode.USAGE, True)


def test_git_bisect_skips_a_missing_build_and_aborts_on_a_mistake(inside):
    assert inside("gate", SERVER, "path:nowhere", "--bisect").code == ExitCode.BISECT_SKIP
    assert inside("gate", "path:nowhere", SERVER, "--bisect").code == ExitCode.BISECT_ABORT
    for mistake in (("--max-slowdown", "much"), ("--max-slowdwn", "3%"), ("--on-unclear", "maybe"), ("--tables", "0")):
        assert inside("gate", *PAIR, "--bisect", *mistake).code == ExitCode.BISECT_ABORT
    assert inside("gate", SERVER, "path:nowhere").code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("missing", "code"), [("mysql:8.0.33", ExitCode.BISECT_ABORT), (SERVER, ExitCode.BISECT_SKIP), ("", 0)]
)
def test_git_bisect_aborts_if_the_baseline_cannot_be_fetched(inside, monkeypatch, missing, code):
    def install(server, _progress):
        if str(server) == missing:
            raise ServerError(f"server {server}: it could not be fetched.")

    monkeypatch.setattr(gate, "install", install)
    monkeypatch.setattr(gate, "check_study", lambda *_args, **_more: None)
    monkeypatch.setattr(gate, "examine", lambda _path: [])
    monkeypatch.setattr(gate, "run_and_report", lambda *_: 0)
    ran = inside("gate", "--bisect", "--baseline", "mysql:8.0.33", SERVER)
    assert (ran.code, "could not be fetched" in ran.err) == (code, bool(missing))


def test_the_last_server_is_slowed_down_and_not_the_control(tmp_path):
    text = "title: ci\nservers: [mysql:5.7.22, mysql:8.0.15]\nworkloads: [oltp_point_select]\ncontrol: true\n"
    (tmp_path / "ci.yaml").write_text(text)
    study = make_study(read_study(tmp_path / "ci.yaml"), seed=1)
    arms = gate._checked(study, 5.0).arms
    assert {arm.name: arm.slowdown_percent for arm in arms} == {"A": 0.0, "A'": 0.0, "B": 5.0}


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """One gate that fails, with everything that it can write."""
    from tests.conftest import Shell, make_shell_folder

    shell = Shell(make_shell_folder())
    summary = shell.folder / "summary.md"
    summary.write_text("before\n")
    small = "servers: [mysql:5.7.22, mysql:8.0.15]\ntables: 1\ntable_size: 1000\nbuilds: 1\nwarm_up: 1s\nbudget: 4m"
    ran = shell.run(
        "gate", *write_study(shell, small), SERVER, f"{SERVER},max_connections=151", "--max-slowdown", "20%",
        "--inject-slowdown", "100%", "--junit", "gate.xml", "--format", "json", "--name", "small", "--seed", "3",
        GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary), limit_s=400,
    )  # fmt: skip
    yield shell, ran
    shutil.rmtree(shell.folder, ignore_errors=True)


@pytest.mark.server
@pytest.mark.timeout(600)
class TestAGateThatFails:
    def test_exits_with_1_as_soon_as_it_is_known(self, failed):
        _, ran = failed
        assert ran.code == ExitCode.DIFFERENCE, ran
        document = json.loads(ran.out)
        assert document["gate"]["answer"] == "fail"
        (comparison,) = document["comparisons"]
        assert comparison["stop"] == "decisive" and comparison["epochs"] < 12
        assert comparison["ratio_high"] < 0.8

    def test_tells_github(self, failed):
        shell, ran = failed
        commands = [line for line in ran.err.splitlines() if line.startswith("::")]
        assert len(commands) == 1 and commands[0].startswith("::error title=bakeoff gate small::The gate failed")
        before, marker, heading, *_ = (shell.folder / "summary.md").read_text().splitlines()
        assert (before, marker) == ("before", "<!-- bakeoff:gate:small -->")
        assert heading == "# bakeoff gate small: failed"
        (run,) = shell.runs
        assert (run / "gate.md").read_text() == (shell.folder / "summary.md").read_text().removeprefix("before\n")

    def test_writes_junit_and_the_report(self, failed):
        shell, _ = failed
        suite = ElementTree.parse(shell.folder / "gate.xml").getroot().find("testsuite")
        assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["1", "1", "0", "0"]
        (run,) = shell.runs
        assert "The gate failed" in (run / "report.html").read_text()

    def test_is_reported_again_with_its_answer(self, failed, inside):
        shell, _ = failed
        ran = inside("report", "latest", "--runs", str(shell.folder / "runs"), "--format", "text")
        assert ran.code == 0 and "The gate failed" in ran.out


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_equal_builds_of_a_study_pass(shell):
    study = write_study(
        shell,
        "servers: [mysql:5.7.22, mysql:8.0.15]\ntables: 1\ntable_size: 1000\nbudget: 4m\nsettings: {charset: latin1}",
    )
    ran = shell.run(
        "gate", *study, "--baseline", SERVER, f"{SERVER},max_connections=151", "--max-slowdown", "40%", limit_s=400
    )
    assert ran.code == ExitCode.DONE, ran
    assert "The gate passed: the comparison is within the allowed 40%" in ran.out
    assert "mysql:5.7.22" not in ran.out


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_slowdown_at_the_limit_is_unclear(shell):
    """Slower by exactly what is allowed, which no budget can decide."""
    limited = [*SMALL[:-2], "--budget", "65s", "--inject-slowdown", "25%", "--quiet"]
    ran = shell.run("gate", *PAIR, *limited, "--junit", "gate.xml")
    assert ran.code == ExitCode.UNCLEAR, ran
    assert "The gate cannot tell" in ran.out
    (case,) = ElementTree.parse(shell.folder / "gate.xml").getroot().iter("testcase")
    assert [child.tag for child in case] == ["error"]


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.timeout(600)
def test_ctrl_c_reports_what_is_known_and_exits_with_130(shell):
    process = shell.start("gate", *PAIR, *SMALL)
    err = []

    def watch():
        for line in process.stderr:
            err.append(line)
            if "epoch 1 finished" in line:
                process.send_signal(signal.SIGINT)

    watcher = threading.Thread(target=watch)
    watcher.start()
    out = process.stdout.read()
    assert process.wait(timeout=120) == ExitCode.INTERRUPTED, err
    watcher.join()
    assert "The gate cannot tell" in out and "The run was stopped by hand" in out
    assert "Traceback" not in "".join(err) and shell.left_behind() == []


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.needs("history")
@pytest.mark.timeout(600)
def test_a_killed_gate_can_be_resumed_and_still_answers(shell):
    process = shell.start(
        "gate", *PAIR, *SMALL, "--inject-slowdown", "100%", "--junit", "gate.xml", "--name", "reads",
        "--history", "h.db",
    )  # fmt: skip
    for line in process.stderr:
        if "epoch 2 finished" in line:
            process.kill()
    process.communicate()
    (run,) = shell.runs
    assert not (run / "gate.md").exists() and not (shell.folder / "gate.xml").exists()
    ran = shell.run("run", "--resume", run.name, limit_s=400)
    assert ran.code == ExitCode.DIFFERENCE, ran
    assert "The gate failed: the comparison is beyond the allowed 20%" in ran.out
    assert (run / "gate.md").read_text().startswith("<!-- bakeoff:gate:reads -->\n# bakeoff gate reads: failed")
    suite = ElementTree.parse(shell.folder / "gate.xml").getroot().find("testsuite")
    assert suite.get("failures") == "1"
    history = pytest.importorskip("bakeoff.history.history_file").History(shell.folder / "h.db")
    assert {point.series for point in history.points()} == {"reads"}


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_git_bisect_finds_the_slow_commit(shell):
    """Nine commits; the slowdown comes with the seventh, and the build of the fifth is broken."""
    repository = shell.folder / "source"
    repository.mkdir()
    env = shell.env | {
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@example.org", "GIT_CONFIG_GLOBAL": "/dev/null",
    }  # fmt: skip

    def git(*words, **more):
        return subprocess.run(
            ["git", *words], cwd=repository, env=env, check=True, capture_output=True, text=True, **more
        ).stdout

    git("init", "-q")
    for number in range(9):
        (repository / "slowdown").write_text("100%" if number >= 6 else "0%")
        (repository / "server").write_text("path:nowhere" if number == 4 else SERVER)
        (repository / "number").write_text(str(number))
        git("add", ".")
        git("commit", "-qm", f"commit {number}")
    git("bisect", "start", "HEAD", "HEAD~8")
    command = shlex.join([sys.executable, "-m", "bakeoff.cli.start", "gate", "--bisect", "--baseline", SERVER, *SMALL])
    script = shell.folder / "step"
    script.write_text(f'#!/bin/sh\nexec {command} "$(cat server)" --inject-slowdown "$(cat slowdown)" -q\n')
    script.chmod(0o755)
    said = git("bisect", "run", str(script), timeout=2000)
    assert "is the first bad commit" in said and "commit 6" in said, said
    assert shell.left_behind() == []
