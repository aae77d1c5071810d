"""Lists of commands, workloads and options, and what a duel would take."""

import subprocess
import sys

import pytest

from bakeoff.engine import describe_workloads

COMMANDS = ("duel", "run", "plan", "report", "compare", "list", "doctor", "server", "sysbench")
HEAVY = {"polars", "scipy", "numpy", "pydantic", "altair"}


def test_the_help_names_every_command_and_imports_none_of_them(inside):
    ran = inside("--help")
    assert ran.code == 0
    assert all(f"\n  {name} " in ran.out for name in COMMANDS)
    code = f"import sys, bakeoff.cli.main as m; m.run(['--help']); assert not {HEAVY!r} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "sysbench"])
def test_every_command_has_its_help(inside, command):
    ran = inside(command, "--help")
    assert (ran.code, ran.out.startswith(f"Usage: bakeoff {command} ")) == (0, True), ran


def test_workloads_are_listed_with_what_an_event_is(inside):
    lines = inside("list", "workloads").out.splitlines()
    for workload in describe_workloads():
        (line,) = [line for line in lines if line.split()[:1] == [workload["name"]]]
        assert len(line.split()) > 4


@pytest.mark.parametrize(("words", "found"), [("du", "duel"), ("duel --pre", "--precision"), ("server ins", "install")])
def test_the_shell_completes_commands_and_options(shell, words, found):
    asked = {"_BAKEOFF_COMPLETE": "complete_bash", "COMP_WORDS": f"bakeoff {words}"}
    env = shell.env | asked | {"COMP_CWORD": str(len(words.split()))}
    ran = subprocess.run(shell.command, env=env, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [found]


def test_a_dry_run_says_what_it_would_take_and_starts_nothing(shell, inside):
    ran = inside("duel", "mysql:8.0.15", "mysql:8.0.15,sort_buffer_size=1M", "--dry-run", "--budget", "20s")
    assert ran.code == 0, ran
    assert "1 (oltp_read_only/4)" in ran.out and "would do" in ran.out
    assert shell.runs == []
    assert inside("duel", "mysql:8.0.15", "mysql:8.0.15", "--fail-on", "faster").code == 2


def test_one_workload_is_listed_with_its_options(inside):
    lines = inside("list", "workloads", "oltp_read_only").out.splitlines()
    assert [line.split()[:2] for line in lines if line.split()[:1] == ["range_size"]] == [["range_size", "100"]]
    assert inside("list", "runs", "oltp_read_only").complaint.endswith("Try `bakeoff list runs`.")
