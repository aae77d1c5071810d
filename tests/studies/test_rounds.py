"""More arms than fit into memory: rounds that all hold the baseline, and ratios within a round."""

import math
import threading
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slices import epoch_of, quads, slice_row

from bakeoff.errors import HostError
from bakeoff.plan.epochs import ROUND_BLOCKS, rounds
from bakeoff.plan.factorial import arm_names, make_study
from bakeoff.run import runner
from bakeoff.run.arms import control_groups, free_memory_bytes, max_servers_for_aio, share_memory
from bakeoff.run.machine_check import times_throttled
from bakeoff.run.runner import Invocation, run_study
from bakeoff.spec import Arm, Study, Workload, parse_server
from bakeoff.spec.study_file import read_study
from bakeoff.stats.estimate import epoch_estimates
from bakeoff.stats.interval import around
from bakeoff.stats.progress import Listener
from bakeoff.stats.summary import latency_ratios


@given(count=st.integers(2, 40), at_once=st.integers(2, 12), seed=st.integers(0, 9), epoch=st.integers(0, 9))
def test_every_contender_meets_the_baseline_once_an_epoch(count, at_once, seed, epoch):
    arms = arm_names(count)
    made = rounds(arms, at_once=at_once, seed=seed, epoch=epoch)
    assert all(group[0] == "A" for group in made)
    assert sorted(name for group in made for name in group[1:]) == sorted(arms[1:])
    sizes = [len(group) for group in made]
    assert max(sizes) <= at_once
    assert max(sizes) - min(sizes) <= 1
    assert len(made) == (1 if count <= at_once else math.ceil((count - 1) / (at_once - 1)))


def test_rounds_are_regrouped_between_epochs():
    assert len({rounds(arm_names(9), at_once=3, seed=1, epoch=epoch) for epoch in range(6)}) > 1


def test_a_contender_is_compared_with_the_baseline_of_its_own_round():
    # The machine is twice as fast in the second round; both contenders are 10 % slower than their own baseline.
    second = [
        slice_row(
            "A" if arm == "A" else "C", ROUND_BLOCKS + block, position, events=2000 if arm == "A" else 1800, start_s=100
        )
        for block in range(4)
        for position, arm in enumerate("ABBA")
    ]
    estimates = epoch_estimates(epoch_of([*quads([0.9] * 4), *second]), baseline="A")
    assert [(pair.contender, pair.blocks) for pair in estimates.pairs] == [("B", 4), ("C", 4)]
    assert [pair.value for pair in estimates.pairs] == [pytest.approx(math.log(0.9))] * 2


def study_of(count, *, rows=1000):
    arms = tuple(
        Arm(name=name, label=name, server=parse_server("mysql:8.0.15"))
        for name in arm_names(count)
    )  # fmt: skip
    return Study(title="t", arms=arms, workloads=(Workload(script="oltp_point_select"),), tables=1, table_size=rows)


GIB = 2**30


def test_as_many_servers_as_fit_run_at_once():
    assert share_memory(study_of(8), available_bytes=24 * GIB).at_once == 8
    tight = share_memory(study_of(8), available_bytes=3 * GIB)
    assert (tight.at_once, tight.servers) == (3, 8)
    assert tight.memory == share_memory(study_of(2), available_bytes=24 * GIB).memory


@pytest.mark.parametrize("rows", [10_000, 900_000, 4_000_000, 9_000_000])
def test_buffer_pools_have_a_size_that_no_version_rounds(rows):
    for available in (64, 6):
        pool = share_memory(study_of(2, rows=rows), available_bytes=available * GIB).memory.buffer_pool_bytes
        assert pool % (128 << 20 if pool < GIB else GIB) == 0
        assert pool >= min(rows * 250 * 1.6, GIB)


def test_running_servers_need_no_local_memory_and_no_rounds():
    def study(*names):
        arms = [study_of(2).arms[0].model_copy(update={"name": name, "server": parse_server(server)})
                for name, server in zip("ABCD", names, strict=False)]  # fmt: skip
        return study_of(2).model_copy(update={"arms": tuple(arms)})

    running = [f"mysql://root@127.0.0.1:{port}/" for port in (3306, 3307, 3308)]
    little = share_memory(study(*running), available_bytes=GIB // 4)
    assert (little.servers, little.at_once) == (0, 1)

    def at_once(share, names):
        loader = SimpleNamespace(
            run=SimpleNamespace(read=lambda *_: None, finished_epochs=list), load_all=lambda *_, **__: {},
            engine=Mock(), study=study(*names), pool=Mock(), listener=None, stop=None,
        )  # fmt: skip
        return runner.load(loader, [SimpleNamespace(remote=None)] * len(names), share).at_once

    assert at_once(little, running) == 3
    two = ["mysql:8.0.15", "mysql:5.7.22"]
    assert at_once(share_memory(study(*two, *running[:2]), available_bytes=24 * GIB), [*two, *running[:2]]) == 4
    assert at_once(share_memory(study(*two, "mysql:9.7"), available_bytes=int(1.9 * GIB)), [*two, "mysql:9.7"]) == 2


@pytest.mark.parametrize(
    "server", ["mysql:8.0.15", "path:/opt/mysql", "tarball:mysql.tar.gz", "docker:mysql:8.4", "mariadb:10.11"]
)
def test_a_buffer_pool_counts_wherever_it_is_set(tmp_path, server):
    (tmp_path / "my.cnf").write_text(
        "[mysqld]\nmaximum-innodb-buffer-pool-size = 99G\ninnodb-buffer-pool-size = 8G\n"
        "[mysqld-5.7]\ninnodb_buffer_pool_size = 64G\n"
    )

    def per_server(words):
        arms = [arm.model_copy(update={"server": parse_server(server + words)}) for arm in study_of(2).arms]
        study = study_of(2).model_copy(update={"arms": tuple(arms)})
        return share_memory(study, available_bytes=64 * GIB).per_server_bytes

    named = per_server(",innodb_buffer_pool_size=8G")
    assert named > 8 * GIB
    for words in (",loose_innodb_buffer_pool_size=8G", f",@{tmp_path}/my.cnf"):
        assert per_server(words) == named
    assert per_server(f",@{tmp_path}/my.cnf,innodb_buffer_pool_size=4G") == named - 4 * GIB
    assert per_server(f",@{tmp_path}/none.cnf") == per_server("")


def test_small_data_that_is_only_read_has_a_small_redo_log():
    def redo_mib(rows: int, *scripts: str) -> int:
        workloads = tuple(Workload(script=each) for each in scripts)
        study = study_of(2, rows=rows).model_copy(update={"workloads": workloads})
        return share_memory(study, available_bytes=24 * GIB).memory.redo_bytes >> 20

    assert redo_mib(100_000, "oltp_point_select", "oltp_read_only") == 64
    assert redo_mib(100_000, "oltp_point_select", "oltp_update_index") == 256
    assert redo_mib(5_000_000, "oltp_point_select") == 256


def test_the_kernels_asynchronous_io_limits_servers_too(tmp_path):
    (tmp_path / "aio-max-nr").write_text("65536\n")
    (tmp_path / "aio-nr").write_text("50559\n")
    assert max_servers_for_aio(tmp_path) == 5
    (tmp_path / "aio-nr").write_text("65000\n")
    assert max_servers_for_aio(tmp_path) == 2  # a comparison needs two; the server's own error says what is wrong


def test_free_memory_respects_the_containers_limit(tmp_path):
    machine = free_memory_bytes(tmp_path / "none")
    assert 2**24 < machine < 2**50
    (tmp_path / "memory.stat").write_text("anon 1000\ninactive_file 1000000\n")
    (tmp_path / "memory.current").write_text("3000000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert free_memory_bytes(tmp_path) == pytest.approx(machine, rel=0.2), "no limit"
    (tmp_path / "memory.max").write_text("9000000\n")
    assert free_memory_bytes(tmp_path) == 7_000_000, "the page cache can be reclaimed"
    assert max_servers_for_aio(tmp_path / "nowhere") is None
    assert share_memory(study_of(8), available_bytes=24 * GIB, at_most=5).at_once == 5


def group_of(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_", ".", 1)).write_text(f"{text}\n")


def test_cgroup_limits_include_those_of_parent_groups(tmp_path):
    own = tmp_path / "cgroup"
    own.write_text("4:cpu,cpuacct:/box\n3:memory:/box\n1:name=systemd:/\n0::/a.slice/b.scope\n")
    stat = "anon 1000\ninactive_file 1000000\ntotal_inactive_file 1000000"
    limited = {"memory_stat": stat, "memory_current": 3_000_000, "memory_max": 9_000_000}
    group_of(tmp_path / "a.slice" / "b.scope", **limited | {"memory_max": 8_000_000}, cpu_stat="nr_throttled 3")
    group_of(tmp_path / "a.slice", **limited, cpu_stat="nr_periods 9\nnr_throttled 5")
    assert free_memory_bytes(tmp_path, own) == 6_000_000
    group_of(tmp_path / "a.slice", memory_max=7_500_000)
    assert free_memory_bytes(tmp_path, own) == 5_500_000, "the parent's is less"
    group_of(tmp_path / "memory", memory_stat=stat, memory_usage_in_bytes=1_500_000, memory_limit_in_bytes=5_000_000)
    assert free_memory_bytes(tmp_path, own) == 4_500_000, "version 1"
    assert times_throttled(control_groups("cpu", tmp_path, own)) == 5
    group_of(tmp_path / "cpu" / "box", cpu_stat="nr_throttled 7")
    assert times_throttled(control_groups("cpu", tmp_path, own)) == 7
    own.write_text("0::/../../other\n")
    assert list(control_groups("cpu", tmp_path, own)) == [tmp_path, tmp_path / "cpu"]


def test_pools_shrink_to_fit_a_pair_and_less_memory_is_an_error():
    large = study_of(4, rows=20_000_000)
    roomy, tight = (share_memory(large, available_bytes=size * GIB) for size in (64, 8))
    assert (roomy.at_once, tight.at_once) == (4, 2)
    assert tight.memory.buffer_pool_bytes < roomy.memory.buffer_pool_bytes
    with pytest.raises(HostError, match=r"not even 2 servers fit .* GB is needed"):
        share_memory(study_of(4), available_bytes=GIB // 2)


@pytest.mark.slow
@pytest.mark.server
def test_rounds_pair_contenders_with_the_baseline_on_real_servers(shell, monkeypatch):
    (shell.folder / "my.yaml").write_text(
        'title: pairs\nservers: ["mysql:8.0.15"]\nworkloads: [oltp_point_select]\nthreads: [2]\ntables: 1\n'
        "table_size: 2k\nbuilds: 1\nwarm_up: 1s\nbudget: 12s\nprecision: 20%\n"
        "factors:\n  prepare_mode: [server, client]\n"
        "  transport: [socket, tcp]\n"
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(shell.cache))
    # 0.6 of what is free must hold two servers and not three.
    tight = share_memory(study_of(4), available_bytes=int(1.9 * GIB))
    monkeypatch.setattr(runner, "share_memory", lambda _study, **_limits: tight)
    study = make_study(read_study(shell.folder / "my.yaml"), seed=4)
    run, analysis = run_study(
        study, shell.folder / "runs", Invocation(("test",)), listener=Listener(), stop=threading.Event()
    )
    assert {comparison.contender for comparison in analysis.comparisons} == {"B", "C", "D"}
    slices = run.load_epoch(0).slices
    by_round = {
        number: set(rows["arm"])
        for number, rows in slices.with_columns(round=slices["block"] // ROUND_BLOCKS).by("round").frames().items()
    }
    assert len(by_round) == 3
    assert all("A" in arms and len(arms) == 2 for arms in by_round.values())
    assert run.read_json("memory.json")["at_once"] == 2
    assert set(run.variables(0)) == {"A", "B", "C", "D"}
    assert shell.left_behind() == []


def test_a_contenders_latency_is_compared_with_the_baseline_of_its_own_round():
    # Everything takes twice as long in the second round; both contenders take half as long again as their baseline.
    epochs = [
        epoch_of(
            quads([1.0] * 4),
            epoch=number,
            histograms=[
                latency("A", 10), latency("B", 15),
                latency("A", 20) | {"round": 1}, latency("C", 30) | {"round": 1},
            ],
        )
        for number in range(6)
    ]  # fmt: skip
    found = latency_ratios(epochs, baseline="A", interval_of=lambda mean, sd, *_: around(mean, sd), cells=("c",))
    assert {ratio.contender: ratio.estimate.mean for ratio in found} == {
        "B": pytest.approx(math.log(1.5)), "C": pytest.approx(math.log(1.5)),
    }  # fmt: skip


def latency(arm, milliseconds):
    return {
        "cell": "c", "arm": arm, "operation": "event", "clock": "service", "count": 10_000,
        "quantiles_ns": {"0.95": milliseconds * 1_000_000},
    }  # fmt: skip
