"""The workload set `micro`: what its names stand for, and that every statement of it runs on a real server."""

import pytest

from bakeoff.errors import SpecError
from bakeoff.plan.workloads import microbenchmarks, named_workloads, uses_sysbench_tables, workload_names, writes


def test_each_microbenchmark_name_selects_one_workload_of_the_set():
    everything = named_workloads("micro")
    assert workload_names(everything) == tuple(microbenchmarks())
    for name in microbenchmarks():
        (one,) = named_workloads(name)
        assert one in everything and uses_sysbench_tables(one) | one.script.startswith("select_random_")


def test_reads_come_before_writes():
    kinds = [writes(each) for each in named_workloads("micro")]
    assert kinds == sorted(kinds) and 0 < sum(kinds) < len(kinds)


@pytest.mark.parametrize("script", ["mine.lua", "oltp_update_index", "update-indx.lua"])
def test_any_other_name_is_a_script(script):
    (one,) = named_workloads(script)
    assert one.script == script and one.name == "" and one.options == ()


def test_a_misspelt_microbenchmark_is_named():
    with pytest.raises(SpecError, match=r"'point-qury': no such .* Did you mean point-query"):
        named_workloads("point-qury")


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_microbenchmark_runs(shell):
    sizes = (
        "--tables", "2", "--table-size", "2000", "--builds", "1", "--threads", "1", "--warm-up", "2s",
        "--budget", "1s", "--no-verdict", "--seed", "1",
    )  # fmt: skip
    ran = shell.run("duel", "mysql:8.0.15", "mysql:5.7.22", "-w", "micro", *sizes, limit_s=800)
    assert ran.code == 0, ran
