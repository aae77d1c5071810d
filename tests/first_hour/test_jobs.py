"""Jobs that people have in their first hours, typed as in test_walk.py: two my.cnf, an allocator, a script and a study
someone wrote, figures for a spreadsheet, runs side by side, TPC-C, and sysbench's command line.
"""

import csv
import json

import pytest

from tests.first_hour.conftest import too_wide

SCRIPT = """require("oltp_common")

function prepare_statements() end

function event()
   con:query("SELECT SUM(k) FROM sbtest1 WHERE id < " .. sysbench.rand.uniform(2, 100))
end
"""
STUDY = """title: jemalloc
servers: ["mysql:8.0.15,@old.cnf", "mysql:8.0.15,@old.cnf,env.LD_PRELOAD=libjemalloc.so.2"]
workload: [mine.lua]
threads: [2]
tables: 1
table_size: 1000
builds: 1
warm_up: 2s
budget: 6s
"""
SIZES = "--tables 1 --table-size 1000 --builds 1 --threads 2 --warm-up 2s --budget 6s --no-verdict --seed 1"


@pytest.fixture
def files(shell):
    """Files of a user: cnf files, scripts, and a study with a mistake in it."""
    (shell.folder / "old.cnf").write_text("[mysqld]\ninnodb_flush_method = fsync\n[client]\nuser = root\n")
    (shell.folder / "new.cnf").write_text("[mysqld]\ninnodb_flush_method = O_DIRECT\nmax-connections = 500\n")
    (shell.folder / "mine.lua").write_text(SCRIPT)
    (shell.folder / "bare.lua").write_text("function event() end\n")
    (shell.folder / "my.yaml").write_text(STUDY)
    (shell.folder / "broken.cnf").write_text("[mysqld]\ninnodb_flush_metod = fsync\n")
    return shell.folder


@pytest.mark.server
def test_mistakes_in_files_are_reported_with_a_remedy(walked, files):
    walked(
        "bakeoff duel mysql:8.0.15,@old.cnf mysql:8.0.15,@none.cnf",
        "bakeoff duel mysql:8.0.15,@old.cnf mysql:8.0.15,@broken.cnf",
        "bakeoff duel mysql:8.0.15 mysql:8.0.15 -w bare.lua",
        "bakeoff list workloads bare.lua",
        "bakeoff run my.yaml",
        inside=True,
    )


def test_tpcc_and_sysbench_are_described(typed, walked):
    walked(
        "bakeoff list workloads tpcc",
        "bakeoff sysbench --version",
    )
    seen = typed("bakeoff sysbench tpcc help")
    assert seen.code == 0 and "tpcc prepare | run | check | cleanup, with the options:" in seen.screen
    assert "  --scale [10]  Number of warehouses" in seen.screen.splitlines()


@pytest.mark.slow
@pytest.mark.server
def test_a_cnf_duel_and_an_allocator_study_are_compared_and_pruned(typed, walked, shell, files):
    seen = typed(f"bakeoff duel mysql:8.0.15,@old.cnf mysql:8.0.15,@new.cnf -w mine.lua {SIZES} --fail-on slower")
    assert seen.code == 0 and too_wide(seen, shell) == [], seen.screen
    assert "Is mysql:8.0.15,@new.cnf faster than mysql:8.0.15,@old.cnf?" in seen.screen
    assert "SETTINGS:" not in seen.screen

    files.joinpath("my.yaml").write_text(STUDY.replace("workload:", "workloads:"))
    seen = typed("bakeoff run my.yaml --no-verdict")
    assert seen.code == 0 and too_wide(seen, shell) == [], seen.screen
    assert "libjemalloc" in seen.screen and "SETTINGS:" not in seen.screen

    seen = typed("bakeoff compare latest-1 latest", inside=True)
    assert seen.code == 0 and too_wide(seen, shell) == []
    lines = seen.screen.splitlines()
    assert [line.split(":")[0] for line in lines[:2]] == ["run 1", "run 2"]
    (head,) = (line.split() for line in lines if line.startswith("cell "))
    assert head[:6] == ["cell", "what", "run", "1", "run", "2"]
    # The arm that both runs share; its label wraps in its column.
    assert [line.split()[:2] for line in lines if line.startswith("mine/2")] == [["mine/2", "mysql:8.0.15,@old"]]

    walked("bakeoff report latest --format csv -O r.csv", "bakeoff report latest --format json -O r.json", inside=True)
    (row,) = csv.DictReader(files.joinpath("r.csv").read_text().splitlines())
    assert row["cell"] == "mine/2" and float(row["ratio"]) > 0
    assert json.loads(files.joinpath("r.json").read_text())["comparisons"][0]["cell"] == "mine/2"

    walked(
        "bakeoff runs prune",
        "bakeoff runs prune --keep 2",
        "bakeoff runs prune --keep 1 --yes",
        inside=True,
    )
    assert len(shell.runs) == 1
