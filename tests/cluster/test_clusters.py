"""Studies over a Ray cluster of three nodes on this machine, and recovery when parts of it are killed."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from bakeoff.plan.epochs import seed_for
from bakeoff.results import open_run
from bakeoff.servers.paths import cache_root, make_open_folder
from tests.conftest import wait_for

STUDY = """\
title: over a cluster
servers: ["mysql:8.0.15"]
factors:
  prepare_mode: [server, client]
workloads: [oltp_point_select]
threads: [2]
tables: 1
table_size: 2k
builds: 1
warm_up: 1s
precision: 20%
budget: 30s
"""
# Equal arms and an unreachable precision, so the run uses up its budget.
LONG = (
    STUDY.replace("precision: 20%", "precision: 0.2%")
    .replace("budget: 30s", "budget: 100s")
    .replace("prepare_mode: [server, client]", "option.back_log: [80, 81]")
)


class Cluster:
    """A running Ray cluster on this machine."""

    def __init__(self, names):
        self.folder = Path(tempfile.mkdtemp(prefix="br-"))  # short: sockets lie below it
        self.folder.chmod(0o755)
        for name in names:
            own = self.folder / name / "bakeoff"
            own.mkdir(parents=True)
            for shared in ("servers", "templates", "locks"):
                (own / shared).symlink_to(make_open_folder(cache_root() / shared))
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("nodes.py")), str(self.folder), *names],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        self.reported = json.loads(self.process.stdout.readline())

    @property
    def env(self):
        return {"RAY_TMPDIR": str(self.folder), "RAY_AUTH_TOKEN_PATH": str(self.folder / "token")}

    def on(self, name, word):
        """Processes of a node whose command line has a word."""
        own, found = str(self.folder / name), []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                command = " ".join(process.cmdline())
                here = own in command or process.environ().get("XDG_CACHE_HOME") == own
                if here and word in command and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def servers(self):
        return [each for name in self.reported["raylets"] for each in self.on(name, "mysqld")]

    def close(self):
        with contextlib.suppress(subprocess.TimeoutExpired, BrokenPipeError):
            self.process.communicate(timeout=40)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("RAY_TMPDIR") == str(self.folder):
                    process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture
def cluster():
    running = Cluster("abc")
    yield running
    running.close()


def begin(shell, cluster, study, *more):
    (shell.folder / "my.yaml").write_text(study)
    return shell.start(
        "run", "my.yaml", "--ray", cluster.reported["address"], "--on", "bench", "--seed", "3",
        "--no-verdict", "--quiet", *more, **cluster.env,
    )  # fmt: skip


def finished(shell):
    return [open_run(path).finished_epochs() for path in shell.runs] or [()]


def measuring_node(cluster, shell):
    """A node that measures while at least one epoch is finished."""
    if not finished(shell)[0]:
        return None
    return next((name for name in cluster.reported["raylets"] if cluster.on(name, "mysqld")), None)


def outcomes_of(run):
    files = {epoch: run.path / "epochs" / f"{epoch:03d}" / "outcome.json" for epoch in run.finished_epochs()}
    return {epoch: file.read_bytes() for epoch, file in files.items()}


def names_in(path):
    return {file.name for file in path.iterdir() if not file.name.startswith(".")}


@pytest.fixture
def two_nodes():
    running = Cluster("ab")
    yield running
    running.close()


@pytest.mark.server
def test_a_cluster_run_has_the_same_directory_layout_as_a_local_one(shell, two_nodes):
    cluster = two_nodes
    ran = shell.finish(begin(shell, cluster, STUDY))
    assert ran.code == 0, ran
    (path,) = shell.runs
    run = open_run(path)
    outcomes = [run.outcome(epoch) for epoch in run.finished_epochs()]
    assert {outcome.host for outcome in outcomes} <= {"a", "b"}
    assert names_in(path / "hosts") == {"a.json", "b.json"}
    assert names_in(path) == {
        "analysis.json", "builds", "epochs", "hosts", "manifest.json", "memory.json", "pilot.json", "plan.json",
        "report.html", "rows", "setups.json", "study.json", "wall.json",
    }  # fmt: skip
    first = path / "epochs" / "000"
    assert names_in(first) >= {"outcome.json", "slices.parquet", "histograms.jsonl", "servers"}
    # All arms of an epoch are measured on its host, in the order of the plan.
    for outcome in outcomes:
        assert set(run.load_epoch(outcome.epoch).slices["arm"]) == {"A", "B"}
        assert outcome.seeds["order"] == seed_for(run.study().seed, "order", outcome.epoch)
    assert cluster.servers() == []
    assert [path for name in "ab" for path in (cluster.folder / name / "bakeoff" / "work").glob("*")] == []
    ran = shell.run("cluster", "check", cluster.reported["client"], **cluster.env)
    assert ran.code == 1, ran
    assert "a and b and head are one machine" in ran.out


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.timeout(600)
def test_a_study_through_rays_client_follows_the_same_plan_as_a_local_one(shell, cluster):
    asked = ("run", "prepare-mode", "--scale", "demo", "--seed", "3", "--quiet")
    ran = shell.run(*asked, "--ray", cluster.reported["client"], "--on", "bench", **cluster.env, limit_s=500)
    assert ran.code == 0, ran
    (path,) = shell.runs
    run = open_run(path)
    assert {run.outcome(epoch).host for epoch in run.finished_epochs()} == set("abc")
    assert all(comparison["points"] for comparison in run.read_json("analysis.json")["comparisons"])
    shell.run(*asked, "--budget", "20s", "--no-verdict", limit_s=200)
    (alone,) = (open_run(each) for each in shell.runs if each != path)
    assert alone.study().arms == run.study().arms
    for mine, others in ((alone.outcome(epoch), run.outcome(epoch)) for epoch in alone.finished_epochs()):
        assert (mine.seeds, mine.start_order) == (others.seeds, others.start_order)


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.parametrize("part", ["worker", "raylet"])
def test_a_killed_worker_or_node_costs_its_epoch_and_no_other(shell, cluster, part):
    process = begin(shell, cluster, LONG)
    victim = wait_for(lambda: measuring_node(cluster, shell), 120, "a node that measures")
    if part == "raylet":
        os.kill(cluster.reported["raylets"][victim], signal.SIGKILL)
    else:
        (worker,) = {server.parent().pid for server in cluster.on(victim, "mysqld") if server.parent()}
        os.kill(worker, signal.SIGKILL)
    wait_for(lambda: not cluster.on(victim, "mysqld"), 30, "its servers to end")
    ran = shell.finish(process)
    assert ran.code == 0, ran
    run = open_run(shell.runs[0])
    lost = [outcome for epoch in run.finished_epochs() if not (outcome := run.outcome(epoch)).valid]
    assert [outcome.host for outcome in lost] == [victim]
    assert f"node {victim} was lost" in lost[0].discard_reason
    later = [run.outcome(epoch).host for epoch in run.finished_epochs() if epoch > lost[0].epoch]
    assert later and victim not in later
    assert cluster.servers() == []


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.parametrize("part", ["driver", "head"])
def test_a_run_that_lost_its_driver_or_head_resumes_on_other_nodes(shell, cluster, part):
    # Ray waits a minute for a head that is gone, and the run goes on meanwhile.
    process = begin(shell, cluster, LONG if part == "driver" else LONG.replace("100s", "160s"))
    wait_for(lambda: measuring_node(cluster, shell), 120, "a node that measures")
    os.kill(process.pid if part == "driver" else cluster.reported["gcs"], signal.SIGKILL)
    _, said = process.communicate(timeout=230)
    assert process.returncode != 0, said
    wait_for(lambda: not cluster.servers(), 200, "the servers to end")
    run = open_run(shell.runs[0])
    before = outcomes_of(run)
    assert before
    others = Cluster("de")
    try:
        ran = shell.run(
            "run", "--resume", run.name, "--ray", others.reported["address"], "--on", "bench", "--budget", "200s",
            "--quiet", **others.env,
        )  # fmt: skip
    finally:
        others.close()
    assert ran.code == 0, ran
    after = {epoch: run.outcome(epoch).host for epoch in run.finished_epochs()}
    assert {after[epoch] for epoch in after if epoch not in before} <= {"d", "e"}
    assert len(after) > len(before)
    assert before.items() <= outcomes_of(run).items()
