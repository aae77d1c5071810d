"""A run whose whole process group is killed resumes where it stopped."""

import os
import signal
import subprocess
import time
from datetime import UTC, datetime
from types import SimpleNamespace

import psutil
import pytest
from messages import study

from bakeoff.cli import main
from bakeoff.cli import run as run_command
from bakeoff.errors import HostError, ResultsError
from bakeoff.plan import plan_study
from bakeoff.plan.epochs import seed_for
from bakeoff.plan.factorial import make_study
from bakeoff.results import Outcome, RunDirectory, open_run
from bakeoff.run.arms import ArmSetup
from bakeoff.run.resume import (
    budget_began,
    check_machine,
    check_setups,
    check_sources,
    keeping,
    read_before,
    resumed_study,
    setup_digests,
)
from bakeoff.servers import Settings
from bakeoff.spec import Data, Workload
from bakeoff.spec.study_file import read_study
from bakeoff.stats.model import Analysis
from tests.conftest import wait_for

STUDY = """\
title: to be killed
servers: ["mysql:8.0.15"]
factors:
  prepare_mode: [server, client]
workloads: [oltp_point_select]
threads: [1]
tables: 1
table_size: 2k
builds: 2
warm_up: 1s
precision: 20%
budget: 50s
"""


def start_in_a_group(shell, *arguments):
    return subprocess.Popen(
        [*shell.command, *arguments],
        cwd=shell.folder,
        env=shell.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


def alive(process):
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def servers_of(process):
    """Return the running children of a command: servers, engines and their watchdogs."""
    children = psutil.Process(process.pid).children(recursive=True)
    return [each for each in children if alive(each)]


def contents(path):
    return {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in path.iterdir() if file.is_file()}


def what_is_fixed(plan):
    """Return a plan without its slice lengths, which a run increases if slices disturb each other."""
    return {**plan, "cells": [{**cell, "slices": None} for cell in plan["cells"]]}


def slice_lengths_ns(plan):
    return [cell["slices"]["slice_ns"] for cell in plan["cells"]]


@pytest.mark.server
def test_a_killed_run_resumes_and_measures_nothing_twice(shell, capsys):
    (shell.folder / "my.yaml").write_text(STUDY)
    process = start_in_a_group(shell, "run", "my.yaml", "--seed", "3", "--quiet", "--no-verdict")
    try:
        wait_for(lambda: list(shell.folder.glob("runs/*/epochs/001")), 200, "the second epoch")
        wait_for(lambda: any("mysqld" in each.name() for each in servers_of(process)), 30, "a server")
        started = servers_of(process)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def running():
        found = [each for each in shell.left_behind() if not each.startswith(str(shell.cache))]
        return found + [each for each in started if alive(each)]

    wait_for(lambda: not running(), 10, "servers and engine to die")
    assert shell.left_behind()  # on disk; who starts servers next removes it
    (path,) = shell.runs
    run = open_run(path)
    finished = run.finished_epochs()
    assert finished == (0,)
    assert run.abandoned_epochs() == 1
    before = {epoch: contents(path / "epochs" / f"{epoch:03d}") for epoch in finished}
    builds = contents(path / "builds")
    plan = run.read_json("plan.json")
    assert main.run(["report", str(path), "--format", "md"]) == 0
    assert "Is client faster than server" in capsys.readouterr().out

    budget = f"{read_before(run).used_s + 1.5 * run.outcome(0).wall_s:.0f}s"  # room for another epoch
    ran = shell.run("run", "my.yaml", "--resume", path.name, "--quiet", "--budget", budget, limit_s=280)

    assert ran.code == 0, ran
    assert shell.runs == [path]
    after = run.finished_epochs()
    assert after == tuple(range(len(after)))
    assert len(after) > 1
    assert {epoch: contents(path / "epochs" / f"{epoch:03d}") for epoch in finished} == before
    assert contents(path / "builds") == builds
    assert what_is_fixed(run.read_json("plan.json")) == what_is_fixed(plan)
    assert slice_lengths_ns(run.read_json("plan.json")) >= slice_lengths_ns(plan)
    analysis = run.read("analysis.json", Analysis)
    (comparison,) = analysis.comparisons
    assert [point.epoch for point in comparison.points] == list(after)
    assert analysis.epochs_used == len(after)
    assert (path / "epochs" / "001.abandoned-1").is_dir()
    assert run.outcome(1).seeds == {**run.outcome(1).seeds, "order": seed_for(run.study().seed, "order", 1)}


@pytest.mark.server
def test_resume_refuses_another_study_and_a_run_in_use(shell, inside):
    (shell.folder / "my.yaml").write_text(STUDY)
    begun = RunDirectory.create(shell.folder / "runs", make_study(read_study(shell.folder / "my.yaml"), seed=3))
    (shell.folder / "other.yaml").write_text(STUDY.replace("threads: [1]", "threads: [3]"))
    ran = inside("run", "other.yaml", "--resume", begun.name)
    assert ran.code == 2
    assert "threads differ" in ran.complaint
    with begun.hold():
        ran = inside("run", "--resume", begun.name)
    assert ran.code == 3
    assert "another bakeoff" in ran.complaint
    assert shell.runs == [begun.path]


def test_an_unknown_run_or_no_study_is_refused(shell, inside):
    ran = inside("run", "--resume", "no-such-run")
    assert (ran.code, "no-such-run" in ran.complaint) == (2, True)
    ran = inside("run")
    assert ran.code == 2
    assert "list studies" in ran.complaint


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--seed", "7"], "Leave --seed out."),
        (["--control"], "Leave --control out."),
        (["--precision", "2%", "--scale", "demo"], "Leave --scale and --precision out."),
        (["--fail-on", "rows"], "rows can only be seen in a replay"),
    ],
)
def test_only_the_budget_can_be_changed(tmp_path, monkeypatch, capsys, flags, named):
    monkeypatch.setattr(run_command, "run_and_report", lambda *_: pytest.fail("it went on"))
    alone = study().model_copy(update={"arms": study().arms[:2], "seed": 3})
    run = RunDirectory.create(tmp_path, alone)
    assert main.run(["run", "--resume", str(run.path), *flags]) == 2
    assert named in capsys.readouterr().err


def test_flags_that_repeat_the_runs_own_values_are_accepted(tmp_path, monkeypatch):
    went_on = []
    monkeypatch.setattr(run_command, "run_and_report", lambda asked, _options: went_on.append(asked) or 0)
    monkeypatch.setattr(run_command, "require_disk", lambda _seen, **_: None)
    run = RunDirectory.create(tmp_path, study())
    assert main.run(["run", "--resume", str(run.path), "--seed", str(study().seed), "--control"]) == 0
    assert went_on == [study()]


def test_a_resumed_run_checks_the_disk_space(tmp_path, monkeypatch, capsys):
    def full(seen, **_):
        assert seen.study == study()
        raise HostError("disk: it is full.")

    monkeypatch.setattr(run_command, "run_and_report", lambda *_: pytest.fail("it went on"))
    monkeypatch.setattr(run_command, "require_disk", full)
    run = RunDirectory.create(tmp_path, study())
    assert main.run(["run", "--resume", str(run.path)]) == 3
    assert "disk: it is full." in capsys.readouterr().err


def test_a_running_server_that_was_upgraded_is_refused(tmp_path):
    def digests(**now):
        remote = SimpleNamespace(variables=lambda: now)
        return setup_digests([ArmSetup(study().arms[1], remote=remote)])

    run = RunDirectory.create(tmp_path, study())
    check_setups(run, digests(version="10.11.6-MariaDB-log"))
    finish_an_epoch(run)
    check_setups(run, digests(version="10.11.6-MariaDB"))
    check_setups(run, digests())  # it does not say
    with pytest.raises(ResultsError, match="arm B was measured with another version"):
        check_setups(run, digests(version="11.4.2-MariaDB"))


def test_another_build_or_other_options_are_refused(tmp_path):
    def setups(binary, **options):
        installation = SimpleNamespace(sha256=binary)
        return [ArmSetup(study().arms[0], installation=installation, settings=Settings(options))]

    run = RunDirectory.create(tmp_path, study())
    for _ in range(2):
        check_setups(run, setup_digests(setups("a", back_log="80", port="1")))
    check_setups(run, setup_digests(setups("b", back_log="80", port="1")))  # nothing was measured
    check_setups(run, setup_digests(setups("a", back_log="80", port="1")))
    finish_an_epoch(run)
    for other in (setups("b", back_log="80", port="1"), setups("a", back_log="90", port="1")):
        with pytest.raises(ResultsError, match="arm A was measured with another version, binary or options"):
            check_setups(run, setup_digests(other))
    # In a cluster, settings that depend on the machine are left out.
    assert setup_digests(setups("a", port="1")) != setup_digests(setups("a", port="2"))
    assert setup_digests(setups("a", port="1"), leave_out={"port"}) == setup_digests(setups("a"))


def finish_an_epoch(run):
    run.epoch(0, 0).finish(Outcome(epoch=0, build=0, started_at=datetime.now(UTC), wall_s=1, measured_s=1))


@pytest.mark.parametrize(("finished", "is_new"), [(False, True), (True, True), (False, False)])
def test_a_new_run_that_fails_without_an_epoch_leaves_nothing(tmp_path, finished, is_new):
    run = RunDirectory.create(tmp_path, study())
    if finished:
        finish_an_epoch(run)
    with pytest.raises(HostError), keeping(run, is_new=is_new):
        raise HostError("no memory")
    assert run.path.exists() is (finished or not is_new)


@pytest.mark.parametrize("changed", ["own.lua", "app.capture", "shop.sql", "a file of dumps"])
def test_another_script_capture_or_dump_is_refused_once_epochs_are_finished(tmp_path, changed):
    names = ("own.lua", "app.capture", "shop.sql")
    files = {name: tmp_path / name for name in names}
    (tmp_path / "dumps").mkdir()
    files["a file of dumps"] = tmp_path / "dumps" / "shop.t-schema.sql"
    for file in files.values():
        file.write_text("as it was")
    arms = [
        arm.model_copy(update={"data": Data(source=str(tmp_path / source))})
        for arm, source in zip(study().arms, ("shop.sql", "dumps"), strict=False)
    ]
    scripts = ("oltp_read_only", str(files["own.lua"]), str(files["app.capture"]))
    workloads = tuple(Workload(script=script) for script in scripts)
    asked = study().model_copy(update={"arms": tuple(arms), "workloads": workloads})
    run = RunDirectory.create(tmp_path / "runs", asked)
    check_sources(run, asked)
    files[changed].write_text("other")
    check_sources(run, asked)  # nothing was measured
    finish_an_epoch(run)
    check_sources(run, asked)
    before = files[changed].stat()
    files[changed].write_text("another")
    with pytest.raises(ResultsError, match="has changed since its epochs were measured") as caught:
        check_sources(run, asked)
    assert (changed if changed in names else "dumps") in caught.value.message
    files[changed].write_text("other")
    os.utime(files[changed], ns=(before.st_atime_ns, before.st_mtime_ns))
    check_sources(run, asked)


def test_a_run_started_without_digests_records_them_on_resume(tmp_path):
    script = tmp_path / "own.lua"
    script.write_text("as it was")
    asked = study().model_copy(update={"workloads": (Workload(script=str(script)),)})
    run = RunDirectory.create(tmp_path / "runs", asked)
    finish_an_epoch(run)
    check_sources(run, asked)
    script.write_text("other")
    with pytest.raises(ResultsError, match=r"own\.lua has changed"):
        check_sources(run, asked)


def test_resuming_on_another_machine_names_what_differs(tmp_path):
    run = RunDirectory.create(tmp_path, study())
    check_machine(run)
    host = run.manifest().host
    for changed, refused in (
        ({"memory_bytes": round(1.01 * host.memory_bytes)}, ""),
        ({"memory_bytes": 2 * host.memory_bytes}, ": memory "),
        (
            {"memory_bytes": 2 * host.memory_bytes, "cpus": host.cpus + 1},
            f": CPUs {host.cpus + 1} and {host.cpus}, memory ",
        ),
        ({"cpus_usable": host.cpus_usable + 8}, f": usable CPUs {host.cpus_usable + 8} and {host.cpus_usable}"),
    ):
        other = run.manifest().model_copy(update={"host": host.model_copy(update=changed)})
        run.write_json("manifest.json", other)
        if refused:
            with pytest.raises(ResultsError, match=refused):
                check_machine(run)
        else:
            check_machine(run)


def test_loads_of_a_killed_run_count_towards_its_budget(tmp_path):
    def load(arm, minute, seconds):
        started_at = datetime(2026, 12, 1, 12, minute, tzinfo=UTC).isoformat()
        run.write_json(f"builds/{arm}-0.json", {"arm": arm, "build": 0, "started_at": started_at, "seconds": seconds})

    run = RunDirectory.create(tmp_path, study())
    before, began = read_before(run), time.monotonic() - 5
    load("A", 0, 60.0)
    assert budget_began(run, before, began) == began
    before = read_before(run)  # it was killed, and A is loaded again
    load("B", 30, 50.0)
    assert time.monotonic() - budget_began(run, before, began) == pytest.approx(110, abs=1)


def test_no_more_builds_are_loaded_than_the_run_was_planned_with(tmp_path):
    run = RunDirectory.create(tmp_path, study())
    assert resumed_study(run, budget_s=60.0).builds == study().builds == 2
    run.write_json("plan.json", plan_study(study(), overhead_s=1.0, load_s=1.0, builds=1))
    assert resumed_study(run, budget_s=None).builds == 1
    assert resumed_study(run, budget_s=None).budget_s == study().budget_s
