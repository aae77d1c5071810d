"""The first hour: what people type, in a terminal of 80 columns with colours, and what they see.

What changes from run to run is replaced by words in angle brackets; where a machine decides what is said, words are
asserted. The jobs that people then have are in test_jobs.py.
"""

import re

import pytest

from tests.first_hour.conftest import too_wide

TWO = "mysql:8.0.15 mysql:8.0.15"
TINY = "--tables 1 --table-size 1000 --builds 1 --threads 1 -w oltp_point_select"


def test_help_and_version_are_shown(walked):
    walked("bakeoff", "bakeoff --help", "bakeoff --version", "bakeoff -V", "bakeoff duel --help", inside=True)


def test_lists_and_prune_work_with_an_empty_cache(walked):
    walked(
        "bakeoff list servers",
        "bakeoff list workloads",
        "bakeoff list workloads oltp_read_only",
        "bakeoff list studies",
        "bakeoff list runs",
        "bakeoff cache prune",
        "bakeoff cache prune --all",
        empty=True,
        inside=True,
    )


@pytest.mark.server
def test_mistakes_are_reported_with_a_remedy(walked):
    """The options of an installed server are known, so a typo in one is found."""
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
        "bakeoff report latest",
        "bakeoff runs rm latest",
        "bakeoff server rm mysql:5.1",
        inside=True,
    )


def test_plans_and_dry_runs_show_what_a_run_would_take(walked):
    walked(
        "bakeoff plan charset-collation --scale demo",
        "bakeoff duel mysql:5.7.22 mysql:8.0.15,innodb_flush_method=fsync --threads 1,4,16 --dry-run",
        "bakeoff duel mysql:8.0.15 mysql:8.0.31 --dry-run --budget 40s",
        empty=True,
        inside=True,
    )


def test_the_quick_doctor_checks_the_machine(typed, shell):
    seen = typed("bakeoff doctor --quick", inside=True)
    lines = seen.screen.splitlines()
    assert seen.code in (0, 3)
    assert {line.split()[0] for line in lines if line[0] != " "} <= {"ok", "note", "warning", "PROBLEM"}
    assert {"CPUs:", "memory:", "disk:", "engine:"} <= {line.split()[1] for line in lines}
    assert [line for line in too_wide(seen, shell) if "engine" not in line] == []


@pytest.mark.server
def test_a_duel_is_run_listed_reported_and_deleted(typed, walked, shell):
    seen = typed(f"bakeoff duel {TWO} {TINY} --budget 8s --no-verdict --seed 1")
    assert seen.code == 0, seen.screen
    for stage in ("loading mysql:8.0.15 (A)", "choosing the slice length", "measuring oltp_point_select/1", "report"):
        assert f"● \x1b[0m{stage}" in seen.raw or re.search(f"● \x1b\\[0m.*{re.escape(stage)}", seen.raw)
    assert "●" not in seen.screen, "the live view is gone"
    assert "Is mysql:8.0.15 (B) faster than mysql:8.0.15 (A)?" in seen.screen
    assert re.search(r"^ratio +95% interval +verdict +events/s$", seen.screen, re.MULTILINE)
    assert "a verdict takes at least 6." in " ".join(seen.screen.split())
    assert re.fullmatch(r"(More: )?bakeoff report mysql-8\.0\.15-\S+ --format text", seen.screen.splitlines()[-1])
    # A command to copy stays on one line.
    assert [line for line in too_wide(seen, shell) if not line.startswith("bakeoff report ")] == []

    listed = typed("bakeoff list runs", inside=True).screen.splitlines()
    assert listed[0].split() == ["run", "age", "epochs", "size", "verdict", "question"]
    assert re.fullmatch(
        rf"latest +\d+ (s|min) +\d +[\d.]+ kB +INCONCLUSIVE +{TWO.replace(' ', ' against ')}", listed[2]
    )
    again = f"Again:  bakeoff duel {TWO} {TINY} --budget 8s --no-verdict --seed 1"
    assert typed("bakeoff report latest --format text", inside=True).screen.splitlines()[-1] == again
    markdown = typed("bakeoff report latest --format md", inside=True).screen.splitlines()
    assert markdown[0] == "# Is mysql:8.0.15 (B) faster than mysql:8.0.15 (A)?"
    walked(
        "bakeoff report latest", "bakeoff report latest-1", "bakeoff runs rm latest", "bakeoff list runs", inside=True
    )


@pytest.mark.server
def test_ctrl_c_while_loading_leaves_nothing_behind(typed, shell):
    seen = typed(f"bakeoff duel {TWO} {TINY}", keys=[("loading", b"\x03")])
    assert (seen.code, seen.screen.splitlines()[-1]) == (130, "bakeoff: interrupted.")
    assert "●" not in seen.screen
    assert shell.runs == []
    assert shell.left_behind() == []
