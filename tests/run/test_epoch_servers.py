"""The servers of an epoch, pretended."""

import threading
from types import SimpleNamespace

import pytest
from messages import study

from bakeoff.errors import RunInvalid, ServerError
from bakeoff.plan import epoch_draft, plan_study
from bakeoff.report.live import LiveView
from bakeoff.results import RunDirectory
from bakeoff.run.arms import ArmSetup
from bakeoff.run.epoch_servers import EpochServers, EpochTools, Phases
from bakeoff.run.runner import _StudyRun


class Server:
    def __init__(self, name):
        self.name = name

    def error_log_tail(self):
        return "" if self.name == "A" else f"[ERROR] {self.name}: no space left on device"


class Pool:
    """Restores servers of which none starts."""

    def create(self, name, *_, **__):
        return Server(name)

    def start_all(self, _servers):
        raise ServerError("server B ended with status 1 while starting.")


class Recorder(LiveView):
    """Remembers the stages reported."""

    def __init__(self):
        self.stages = []

    def stage(self, text):
        self.stages.append(text)


def test_the_log_of_a_server_that_does_not_start_is_kept(tmp_path):
    asked, recorder = study(), Recorder()
    setups = tuple(ArmSetup(arm, installation=object(), settings=object()) for arm in asked.arms)
    tools = EpochTools(
        asked,
        setups,
        Pool(),
        {(setup.build_key, 0): None for setup in setups},
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
    # Numbers are those of the folders.
    assert recorder.stages == ["epoch 0: restoring the data", "epoch 0: starting servers"]


def test_discarded_epochs_are_named_as_their_folders(tmp_path, monkeypatch):
    monkeypatch.setattr(
        _StudyRun, "_run_epoch", lambda *_: SimpleNamespace(valid=False, discard_reason="arm B: server crashed")
    )
    run = _StudyRun(study(), RunDirectory.create(tmp_path, study()), tools=None, begin=0.0, builds=1)
    with pytest.raises(RunInvalid, match="epochs 0 and 1 both had to be discarded: arm B: server crashed"):
        run.run()
