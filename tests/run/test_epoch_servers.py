"""The servers of an epoch, with fakes."""

import threading
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from messages import study
from pretended_servers import Pool, Recorder, Server, SignalledPool, Starting, tools_of

from bakeoff.errors import RunInvalid, ServerError, UnreachableError
from bakeoff.plan import epoch_draft, plan_study
from bakeoff.results import Outcome, RunDirectory
from bakeoff.run import epoch_servers, study_run
from bakeoff.run.arms import ArmSetup
from bakeoff.run.epoch import EpochDone, EpochOrder, discards_epoch, run_epoch
from bakeoff.run.epoch_servers import EpochServers, EpochTools, Phases
from bakeoff.run.study_run import StudyRun, ThisMachine
from bakeoff.servers import RemoteServer
from bakeoff.servers.profile import Settings
from bakeoff.spec import parse_server


def test_an_interrupted_epoch_is_dropped_and_a_failed_one_is_discarded(tmp_path):
    run, stop = RunDirectory.create(tmp_path, study()), threading.Event()
    for pool, discarded in ((Pool(), True), (SignalledPool(stop), False)):
        tools, plan = tools_of(pool, stop)
        number = len(run.finished_epochs())
        done = run_epoch(EpochOrder(plan, epoch_draft(plan, study(), number)), tools, run)
        assert (done is not None) == discarded
    assert stop.is_set()
    assert run.finished_epochs() == (0,)
    assert "server B ended with status 1" in run.outcome(0).discard_reason


class Restarting:
    """A running server that answers again after some attempts."""

    def __init__(self, attempts):
        self.attempts = attempts

    def connect(self):
        self.attempts -= 1
        if self.attempts >= 0:
            RemoteServer(parse_server("mysql://me@127.0.0.1:1/")).connect()
        return SimpleNamespace(close=lambda: None)

    def variables(self):
        return {}

    status = variables


@pytest.mark.parametrize(
    ("attempts", "stopped", "waits"), [(0, False, 0), (3, False, 3), (10**9, False, None), (10**9, True, 0)]
)
def test_an_epoch_waits_for_a_running_server_that_was_lost(tmp_path, monkeypatch, attempts, stopped, waits):
    stop, slept = threading.Event(), []
    clock = SimpleNamespace(monotonic=lambda: float(len(slept)), sleep=slept.append)
    monkeypatch.setattr(epoch_servers, "time", clock)
    tools, plan = tools_of(Starting(), stop)
    remote = tuple(ArmSetup(arm, remote=Restarting(attempts)) for arm in study().arms[1:2])
    tools = replace(tools, setups=remote)
    run = RunDirectory.create(tmp_path, study())
    servers = EpochServers(tools, epoch_draft(plan, study(), 0), run.epoch(0, 0), Phases())
    if stopped:
        stop.set()
    if attempts < 10**9:
        servers.start()
    else:
        with pytest.raises(UnreachableError) as lost:
            servers.start()
        assert discards_epoch(lost.value), "the epoch is lost, not the run"
    assert len(slept) == (61 if waits is None else waits)
    assert tools.listener.stages.count(f"epoch 0: waiting for {study().arms[1].label}") == bool(slept)


def test_the_log_of_a_server_that_does_not_start_is_kept(tmp_path):
    asked, recorder = study(), Recorder()
    setups = tuple(ArmSetup(arm, installation=object(), settings=object()) for arm in asked.arms)
    tools = EpochTools(
        asked,
        setups,
        Pool(),
        {(setup.load_key, 0): None for setup in setups},
        recorder,
        threading.Event(),
        at_once=3,
    )
    run = RunDirectory.create(tmp_path, asked)
    draft = epoch_draft(plan_study(asked, overhead_s=0.0, load_s=0.0), asked, 0)
    servers = EpochServers(tools, draft, run.epoch(0, 0), Phases())
    with pytest.raises(ServerError):
        servers.start()
    servers.keep_logs()
    assert run.server_text(0, "B", "error.log") == "[ERROR] B: no space left on device"
    assert run.server_text(0, "A", "error.log") is None
    # Epochs are numbered like their folders.
    assert recorder.stages == ["epoch 0: restoring the data", "epoch 0: starting servers"]


def test_ignored_settings_are_recorded_and_noted_once_per_arm(tmp_path):
    class Started(Server):
        my_cnf = ""

        def ignored_settings(self):
            return ["flush=1: the server has 2"]

        def variables(self):
            return {}

        status = variables

    class StartedPool(Starting):
        def create(self, name, *_, **__):
            return Started(name)

    asked, notes = study(), []
    recorder = Recorder()
    recorder.note = notes.append
    settings = Settings({}, notes=("thread_concurrency=8 was left out",))
    binaries = SimpleNamespace(provenance="vendor x.tar.xz: SHA-256 in bakeoff's list")
    setups = tuple(ArmSetup(arm, installation=binaries, settings=settings) for arm in asked.arms)
    snapshots = {(setup.load_key, 0): None for setup in setups}
    first = EpochTools(asked, setups[:1], StartedPool(), snapshots, recorder, threading.Event(), at_once=3)
    run = RunDirectory.create(tmp_path, asked)
    draft = epoch_draft(plan_study(asked, overhead_s=0.0, load_s=0.0), asked, 0)
    for number, tools in enumerate((first, replace(first, setups=setups), replace(first, setups=setups))):
        EpochServers(tools, draft, run.epoch(number, 0), Phases()).start()
    said = ["thread_concurrency=8 was left out", "flush=1: the server has 2"]
    assert notes == [f"{setup.arm.label}: {text}" for setup in setups for text in said]
    kept = run.server_json(2, "notes.json", dict[str, list[str]])
    noted = {"settings": said, "binaries": [binaries.provenance]}
    assert kept == {setup.arm.name: noted for setup in setups}, "every epoch is whole by itself"


def test_all_databases_are_read_before_pending_work_is_waited_for(monkeypatch):
    done = []
    monkeypatch.setattr(epoch_servers, "Instance", Server)
    monkeypatch.setattr(epoch_servers, "databases", lambda *_: ("tpcc", "sbtest"))
    monkeypatch.setattr(epoch_servers.readiness, "warm", lambda _server, database, _stop: done.append(database))
    monkeypatch.setattr(epoch_servers.readiness, "finish_pending_work", lambda *_, **__: done.append("pending"))
    asked = study()
    tools = EpochTools(asked, (), Pool(), {}, Recorder(), threading.Event(), at_once=2)
    draft = epoch_draft(plan_study(asked, overhead_s=0.0, load_s=0.0), asked, 0)
    servers = EpochServers(tools, draft, None, Phases())
    servers.all["A"] = Server("A")
    servers.make_ready()
    assert done == ["tpcc", "sbtest", "pending"]


def test_an_endless_statement_is_killed_when_the_run_stops(monkeypatch):
    class Scanned(Server):
        def __init__(self, name):
            super().__init__(name)
            self.killed = threading.Event()

        def kill(self):
            self.killed.set()

    def warm(server, *_):
        stop.set()
        assert server.killed.wait(30)
        raise ServerError("server A: 'SELECT COUNT(*)' failed: Lost connection.")

    stop = threading.Event()
    monkeypatch.setattr(epoch_servers, "Instance", Server)
    monkeypatch.setattr(epoch_servers, "databases", lambda *_: ("sbtest",))
    monkeypatch.setattr(epoch_servers.readiness, "warm", warm)
    pool = Pool()
    pool._instances = [Scanned(name) for name in "AB"]
    tools, plan = tools_of(pool, stop)
    servers = EpochServers(tools, epoch_draft(plan, study(), 0), None, Phases())
    servers.all |= {server.name: server for server in pool._instances}
    with pytest.raises(ServerError, match="Lost connection"):
        servers.make_ready()
    assert all(server.killed.is_set() for server in servers.all.values())


def test_discarded_epochs_have_the_numbers_of_their_folders(tmp_path, monkeypatch):
    directory = RunDirectory.create(tmp_path, study())

    def crashes(order, _tools, run, **_how):
        outcome = Outcome(
            epoch=order.draft.epoch, build=0, valid=False, discard_reason="arm B: server crashed",
            started_at=datetime.now(UTC), wall_s=1.0, measured_s=0.0,
        )  # fmt: skip
        run.epoch(order.draft.epoch, 0).finish(outcome)
        return EpochDone(order.draft.epoch)

    monkeypatch.setattr(study_run, "run_epoch", crashes)
    here = ThisMachine(None, directory)
    run = StudyRun(study(), directory, here, Recorder(), threading.Event(), begin=0.0, builds=1, at_once=2)
    with pytest.raises(RunInvalid, match="epochs 0 and 1 both had to be discarded: arm B: server crashed"):
        run.run()
