"""Every server of the catalogue drives a duel against itself; the pairs that people ask for end in a verdict."""

import pytest

from bakeoff.results import open_run
from bakeoff.servers import Catalog
from bakeoff.stats.model import Analysis

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]

TINY = ("--tables", "1", "--table-size", "2000", "--threads", "2", "--workload", "oltp_point_select", "--quiet")
PAIRS = [
    ("mysql:5.5", "mysql:5.6"),
    ("mysql:5.6", "mysql:9"),
    ("mariadb:10.11,default_storage_engine=RocksDB", "mariadb:10.11"),
    ("mysql:8.0,env.LD_PRELOAD=libjemalloc.so.2", "mysql:8.0"),
]


def analysis_of(shell, *arguments):
    ran = shell.run("duel", *arguments, *TINY, limit_s=800)
    assert ran.code == 0, ran
    (path,) = shell.runs
    run = open_run(path)
    return run, run.read("analysis.json", Analysis), ran


@pytest.mark.parametrize("entry", Catalog.load().entries, ids=lambda entry: entry.name)
def test_every_server_can_duel_itself(shell, entry):
    name = f"{entry.flavour}:{entry.version}"
    _, analysis, _ = analysis_of(shell, name, name, "--budget", "20s", "--builds", "1", "--no-verdict")
    (comparison,) = analysis.comparisons
    assert comparison.estimate.n >= 1
    assert all(arm.tps > 0 and arm.errors_per_million == 0 for arm in analysis.arms)


@pytest.mark.parametrize(("baseline", "contender"), PAIRS)
def test_the_pairs_that_people_ask_for_end_in_a_verdict(shell, baseline, contender):
    run, analysis, ran = analysis_of(shell, baseline, contender, "--budget", "2m", "--precision", "5%")
    (comparison,) = analysis.comparisons
    assert comparison.estimate.n >= 6
    assert comparison.verdict.words
    assert comparison.verdict.sentence.split(":")[0] in ran.out
    if "RocksDB" in baseline:
        status = run.server_json(0, "status-after.json", dict[str, str])
        assert int(status["A"]["Rocksdb_rows_read"]) > 1000
        assert "Rocksdb_rows_read" not in status["B"]
