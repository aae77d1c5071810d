"""Servers measured one after the other, each freshly started on the same data and alone: what the ways in use do.

Server, settings, data, warming and client are those of a duel between two such servers, so that nothing but the way of
comparing differs.
"""

import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from bakeoff.gauntlet.duels import Duel, Frozen, Machine, machine_of
from bakeoff.gauntlet.real_epochs import RealBench, Way
from bakeoff.results.manifest import checkout_commit
from bakeoff.spec import Arm, Data, Study, Workload, parse_server
from bakeoff.units import parse_duration_s

_SLICE_NS = 100_000_000
_ALONE = "A"


class SerialRun(Frozen):
    """One server, started, warmed, measured and stopped.

    Attributes:
        per_s: mean throughput, events per second.
        seconds: measured; `wall_s` of it all, restoring and stopping included.
    """

    started_at: datetime
    per_s: float
    seconds: float
    wall_s: float
    machine: Machine | None
    commit: str | None


class SerialServer:
    """Loads the data of a server once; then `run` as often as asked.

    Args:
        duel: of two such servers: its first server, workload, connections, data and warming are taken.
    """

    def __init__(self, duel: Duel) -> None:
        self._study = Study(
            title="serial runs",
            # Two, for the memory that each of a duel's servers has; only the first is ever started.
            arms=tuple(
                Arm(name=name, label=name, server=parse_server(duel.servers[0]), data=Data(charset="utf8mb4"))
                for name in (_ALONE, "B")
            ),
            workloads=tuple(Workload(script=script) for script in duel.workloads),
            threads=duel.threads,
            tables=duel.tables,
            table_size=duel.table_size,
            builds=1,
            seed=duel.seed,
        )
        self._warm_s = parse_duration_s(duel.warm_up)
        self._exit = ExitStack()
        self._bench: RealBench

    def __enter__(self) -> Self:
        """Load.

        Raises:
            BakeoffError: the server cannot be had, started or loaded.
        """
        with tempfile.TemporaryDirectory(prefix="bakeoff-serial-") as folder:
            self._bench = self._exit.enter_context(RealBench(self._study, Path(folder)))
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    def run(self, seconds: float) -> SerialRun:
        """Start a server, measure it for that long, stop it."""
        started_at, begin = datetime.now(UTC), time.monotonic()
        way = Way("serial", _SLICE_NS, seconds, threads=self._study.threads[0])
        slices = self._bench.epoch([way], arms=(_ALONE,), warm_s=self._warm_s).slices
        wall_s = time.monotonic() - begin
        busy_s = float((slices["busy_ns"] / slices["connections"]).sum()) / 1e9
        return SerialRun(
            started_at=started_at,
            per_s=float(slices["events"].sum()) / busy_s,
            seconds=round(busy_s, 3),
            wall_s=round(wall_s, 3),
            machine=machine_of(slices.lazy()),
            commit=checkout_commit(),
        )
