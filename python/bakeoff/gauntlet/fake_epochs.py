"""Whole epochs through the real engine against fake servers: started afresh, measured, stopped, in about a second."""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bakeoff.engine import Engine, Message
from bakeoff.gauntlet.fakeserver import FakeServer
from bakeoff.gauntlet.model import Setting
from bakeoff.plan.seeds import seed_for
from bakeoff.plan.timing import guard_ns
from bakeoff.results.epoch import EpochData
from bakeoff.results.frames import slices_frame
from bakeoff.stats.analysis import analyse
from bakeoff.stats.model import Analysis, Stop
from bakeoff.stats.simulate import simulated_study

_SCRIPT = "oltp_point_select"  # one statement an event: an event's law is the statement's
MS = 1_000_000


@dataclass(frozen=True)
class FakeArm:
    """An arm on a fake server.

    Attributes:
        law: options of the fake server's command line.
        shadow_per_100: uncounted events per 100 counted; the true ratio is then exactly 100 / (100 + k).
    """

    law: tuple[str, ...] = ("--latency", "lognormal:500us,0.1")
    shadow_per_100: float = 0.0


@dataclass(frozen=True)
class Load:
    """What an epoch of one cell measures; times as in the engine's contract."""

    seconds: float = 0.4
    slice_ns: int = 20 * MS
    threads: int = 8
    rate_per_s: float | None = None
    arrivals: str = "poisson"

    @property
    def cell(self) -> str:
        """Name of the cell."""
        return f"{_SCRIPT}/{self.threads}"


class FakeBench:
    """An engine, and a place for fake servers' sockets; a context manager.

    Args:
        setting: seeds follow from it.
        name: the check's own, so that two checks draw different numbers.
        cpus: that the engine may use; None: all.
    """

    def __init__(self, setting: Setting, name: str, *, cpus: frozenset[int] | None = None) -> None:
        self._seed = seed_for(setting.seed, "gauntlet", name)
        self._folder = Path(tempfile.mkdtemp(prefix="bakeoff-fake-"))  # short: a socket's path has 107 bytes at most
        try:
            self._engine = Engine(cpus=cpus)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._epochs = 0
        self.counters: dict[str, dict[str, int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def epoch(self, arms: Mapping[str, FakeArm], load: Load) -> EpochData:
        """Start a server for every arm, measure, stop them; `counters` then has what each of them counted.

        Raises:
            EngineError: as the engine says.
        """
        number, self._epochs = self._epochs, self._epochs + 1
        servers: dict[str, FakeServer] = {}
        try:
            for index, (name, arm) in enumerate(arms.items()):
                start = seed_for(self._seed, "start", number, name)
                servers[name] = FakeServer(self._folder / f"{index}.sock", *arm.law, "--seed", str(start))
            self._engine.open(
                servers[name].address(name, shadow_per_100=arm.shadow_per_100) for name, arm in arms.items()
            )
            measured = self._engine.measure(self._request(list(arms), load, number))
        finally:
            for server in servers.values():
                server.close()
            self.counters = {name: server.counters for name, server in servers.items()}
        return EpochData(
            epoch=number,
            build=0,
            valid=True,
            void_reason="",
            slices=slices_frame(measured.slices, epoch=number, build=0),
            histograms=measured.histograms,
            variables={},
        )

    def _request(self, arms: list[str], load: Load, number: int) -> Message:
        model: Message = {"model": "closed"}
        if load.rate_per_s is not None:
            model = {"model": "open", "rate_per_s": load.rate_per_s, "arrivals": load.arrivals}
        return {
            "cell": load.cell,
            "script": _SCRIPT,
            "options": {"tables": 1, "table_size": 1000},
            "threads": load.threads,
            "arms": arms,
            "seconds": load.seconds,
            "blocks": None,
            "slice_ns": load.slice_ns,
            "guard_ns": min(guard_ns(load.slice_ns), load.slice_ns // 10),
            "order_seed": seed_for(self._seed, "order", number),
            "key_seed": seed_for(self._seed, "keys", number),
            "load": model,
            "freeze": False,
            "settle_ns": 0,
        }


def judge(epochs: Sequence[EpochData], load: Load, *, precision: float = 0.01) -> Analysis:
    """What a run of these epochs would have told at the end of its budget; the first arm measured is the baseline."""
    arms = tuple(dict.fromkeys(sorted(epochs[0].slices["arm"])))
    study = simulated_study(arms=arms, precision=precision, cells=(load.threads,))
    return analyse(epochs, study, ended=Stop.BUDGET)
