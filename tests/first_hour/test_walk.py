"""The first hour: what people type, in a terminal of 80 columns with colours, and what they see.

What changes from run to run is replaced by words in angle brackets; where a machine decides what is said, words are
asserted.
"""

import re

import pytest

from tests.first_hour.terminal import COLUMNS, type_line

TWO = "mysql:8.0.15 mysql:8.0.15"
TINY = "--tables 1 --table-size 1000 --builds 1 --threads 2 -w oltp_point_select"
COPIED = ("Report: ", "Again: ", "<folder>")  # paths and commands to be copied


@pytest.fixture
def typed(shell):
    """`typed(line)`: what is seen after it was typed; with `empty` the cache holds no servers."""
    env = {name: value for name, value in shell.env.items() if name not in ("NO_COLOR", "COLUMNS")}
    env |= {"TERM": "xterm-256color"}

    def type_it(line, *, empty=False, **how):
        cache = {"XDG_CACHE_HOME": str(shell.folder / "empty")} if empty else {}
        seen = type_line(line, command=shell.command, folder=shell.folder, env=env | cache, **how)
        assert "Traceback" not in seen.raw
        return seen

    return type_it


@pytest.fixture
def walked(typed, shell, snapshot):
    """`walked(*lines)`: all of them are typed, and what is seen is as it was."""

    def walk(*lines, **how):
        transcript = ""
        for line in lines:
            seen = typed(line, **how)
            assert too_wide(seen, shell) == []
            transcript += f"$ {line}\n{without_chance(seen, shell)}\n[{seen.code}]\n\n"
        assert transcript == snapshot

    return walk


def too_wide(seen, shell):
    lines = seen.screen.replace(str(shell.folder), "<folder>").splitlines()
    return [line for line in lines if len(line) > COLUMNS and not line.startswith(COPIED)]


def without_chance(seen, shell):
    """The screen without what changes from run to run."""
    text = seen.screen.replace(str(shell.folder), "<folder>")
    text = re.sub(r"\n {9}(?=\S)", " ", text)  # where a line is broken depends on the numbers in it
    text = re.sub(r"bakeoff \d+\.\d+\.\d+\S*", "bakeoff <version>", text)
    text = re.sub(r"-\d{8}T\d{6}Z-[0-9a-f]{4}", "-<time>-<random>", text)
    return re.sub(r"\b[\d.]+ [kMGT]?B\b", "<size>", text)


def test_looking_around(walked):
    walked("bakeoff", "bakeoff --help", "bakeoff --version", "bakeoff -V", "bakeoff duel --help")


def test_what_there_is(walked):
    walked(
        "bakeoff list servers",
        "bakeoff list workloads",
        "bakeoff list workloads oltp_read_only",
        "bakeoff list studies",
        "bakeoff list runs",
        "bakeoff cache prune",
        "bakeoff cache prune --all",
        empty=True,
    )


@pytest.mark.server
def test_slips_are_named_with_a_remedy(walked):
    """Of an installed server the options are known, so that a slip in one is found."""
    walked(
        "bakeoff mysql:5.7 mysql:8.0",
        "bakeoff doctr",
        "bakeoff list workload",
        "bakeoff duel mysql:8.0.15",
        "bakeoff duel mysql8.0 mysql:8.0.15",
        "bakeoff duel mysql:8.0.15 mysql:8.0.99",
        f"bakeoff duel {TWO} --wrkload oltp_read_only",
        f"bakeoff duel {TWO} -w oltp_raed_only",
        f"bakeoff duel {TWO} -w q.sql",
        f"bakeoff duel {TWO},jemalloc",
        f"bakeoff duel {TWO},jemaloc",
        f"bakeoff duel {TWO},inodb_flush_method=fsync",
        f"bakeoff duel {TWO},env.LD_PRELOAD=libnone.so.1",
        f"bakeoff duel {TWO} --threads 1-16",
        f"bakeoff duel {TWO} --precision 2",
        f"bakeoff duel {TWO} --budget 20s",
        "bakeoff duel mysql://a@h/ mysql://a@h/",
        "bakeoff plan charset-colation",
        "bakeoff report -1",
        "bakeoff runs rm latest",
        "bakeoff server rm mysql:5.1",
    )


def test_what_it_would_take(walked):
    walked(
        "bakeoff plan charset-collation --scale demo",
        "bakeoff duel mysql:5.7.22 mysql:8.0.15,innodb_flush_method=fsync --threads 1,4,16 --dry-run",
        "bakeoff duel mysql:8.0.15 mysql:8.0.31 --dry-run --budget 40s",
        empty=True,
    )


def test_the_doctor_looks(typed, shell):
    seen = typed("bakeoff doctor --quick")
    lines = seen.screen.splitlines()
    assert seen.code in (0, 3)
    assert {line.split()[0] for line in lines if line[0] != " "} <= {"ok", "note", "warning", "PROBLEM"}
    assert {"CPUs:", "memory:", "disk:", "engine:"} <= {line.split()[1] for line in lines}
    assert [line for line in too_wide(seen, shell) if "engine" not in line] == []


@pytest.mark.server
def test_a_duel_and_what_is_left_of_it(typed, walked, shell):
    seen = typed(f"bakeoff duel {TWO} {TINY} --budget 14s --no-verdict --seed 1")
    assert seen.code == 0, seen.screen
    for stage in ("loading mysql:8.0.15 (A)", "choosing the slice length", "measuring oltp_point_select/2", "report"):
        assert f"● \x1b[0m{stage}" in seen.raw or re.search(f"● \x1b\\[0m.*{re.escape(stage)}", seen.raw)
    assert "●" not in seen.screen, "the live view is gone"
    assert "Is mysql:8.0.15 (B) faster than mysql:8.0.15 (A)?" in seen.screen
    assert re.search(r"^cell +ratio +95% interval +verdict$", seen.screen, re.MULTILINE)
    assert "a verdict takes at least 6." in " ".join(seen.screen.split())
    again = f"Again:  bakeoff duel {TWO} {TINY} --budget 14s --no-verdict --seed 1"
    assert seen.screen.splitlines()[-1] == again
    assert too_wide(seen, shell) == []

    listed = typed("bakeoff list runs").screen.splitlines()
    assert listed[0].split() == ["run", "age", "epochs", "size", "verdict", "question"]
    assert re.fullmatch(rf"-1 +\d+ (s|min) +\d +[\d.]+ kB +INCONCLUSIVE +{TWO.replace(' ', ' against ')}", listed[2])
    markdown = typed("bakeoff report latest --format md").screen.splitlines()
    assert markdown[0] == "# Is mysql:8.0.15 (B) faster than mysql:8.0.15 (A)?"
    walked("bakeoff report -1", "bakeoff report -2", "bakeoff runs rm -1", "bakeoff list runs")


@pytest.mark.server
def test_ctrl_c_before_there_is_anything(typed, shell):
    seen = typed(f"bakeoff duel {TWO} {TINY}", keys=[("loading", b"\x03")])
    assert (seen.code, seen.screen.splitlines()[-1]) == (130, "bakeoff: interrupted.")
    assert "●" not in seen.screen
    assert shell.runs == []
    assert shell.left_behind() == []
