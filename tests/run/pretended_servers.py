"""Fake servers and pools that start nothing."""

import threading

from messages import study

from bakeoff.errors import ServerError
from bakeoff.plan import plan_study
from bakeoff.run.arms import ArmSetup
from bakeoff.run.epoch_servers import EpochTools
from bakeoff.servers import ServerPool
from bakeoff.stats.progress import Listener


class Server:
    def __init__(self, name):
        self.name = name

    def error_log_tail(self):
        return "" if self.name == "A" else f"[ERROR] {self.name}: no space left on device"


class Pool:
    """A pool whose servers all fail to start."""

    killed_once, _instances = ServerPool.killed_once, ()

    def create(self, name, *_, **__):
        return Server(name)

    def start_all(self, _servers):
        raise ServerError("server B ended with status 1 while starting.")

    def remove_all(self, _servers):
        pass


class Starting(Pool):
    """Let the servers start."""

    def start_all(self, _servers):
        pass


class SignalledPool(Pool):
    """A signal ends the servers, and reaches bakeoff itself a moment later."""

    def __init__(self, stop):
        self.stop = stop

    def start_all(self, servers):
        threading.Timer(0.02, self.stop.set).start()
        super().start_all(servers)


class Recorder(Listener):
    """Remembers the stages reported."""

    def __init__(self):
        self.stages = []

    def stage(self, text):
        self.stages.append(text)


def tools_of(pool, stop):
    """Return the tools for two arms and a control, and the first plan of their run."""
    asked, recorder = study(), Recorder()
    recorder.note = recorder.stage
    setups = tuple(ArmSetup(arm, installation=object(), settings=object()) for arm in asked.arms)
    snapshots = {(setup.load_key, build): None for setup in setups for build in range(asked.builds)}
    plan = plan_study(asked, overhead_s=0.0, load_s=0.0)
    return EpochTools(asked, setups, pool, snapshots, recorder, stop, at_once=3), plan
