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

from bakeoff.engine import Engine, Message
from bakeoff.gauntlet.duels import Frozen, Machine, machine_of
from bakeoff.plan.seeds import seed_for
from bakeoff.report.live import QuietLive
from bakeoff.results import RunDirectory
from bakeoff.results.frames import slices_frame
from bakeoff.results.manifest import checkout_commit
from bakeoff.servers import ServerHouse, Snapshot, gates
from bakeoff.spec import Arm, Study, Workload, parse_server
from bakeoff.trial.arms import ArmSetup, address_of, prepare_arms
from bakeoff.trial.loading import Loader, database_of, script_options
from bakeoff.trial.memory import share_memory

WARM_S = 5.0
_SETTLE_LIMIT_S = 60.0
_SLICE_NS, _GUARD_NS = 100_000_000, 5_000_000


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
        server: as on the command line.
        threads: connections.
        seed: of the data and of the keys.
        tables: of the data, as in the duel compared with.
        table_size: rows each.
    """

    def __init__(self, server: str, *, threads: int, seed: int, tables: int, table_size: int) -> None:
        arms = tuple(Arm(name=name, label=name, server=parse_server(server)) for name in ("A", "B"))
        self._study = Study(
            title="serial runs",
            arms=arms,
            workloads=(Workload(script="oltp_point_select"),),
            threads=(threads,),
            tables=tables,
            table_size=table_size,
            builds=1,
            seed=seed,
        )
        self._exit = ExitStack()
        self._runs = 0
        self._setup: ArmSetup
        self._snapshot: Snapshot
        self._house: ServerHouse
        self._engine: Engine

    def __enter__(self) -> Self:
        """Load.

        Raises:
            BakeoffError: the server cannot be had, started or loaded.
        """
        study = self._study
        try:
            memory = share_memory(study).memory
            setups = prepare_arms(study, memory, passwords={}, on_progress=lambda *_: None)
            self._setup = setups[0]
            self._house = self._exit.enter_context(ServerHouse())
            self._engine = self._exit.enter_context(Engine())
            with tempfile.TemporaryDirectory(prefix="bakeoff-serial-") as folder:
                run = RunDirectory.create(Path(folder), study, command=("serial",), engine=self._engine.hello)
                loader = Loader(study=study, house=self._house, run=run, listener=QuietLive(), engine=self._engine)
                (self._snapshot,) = loader.load_all(setups).values()
        except BaseException:
            self._exit.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    def run(self, seconds: float) -> SerialRun:
        """Start a server, measure it for that long, stop it."""
        assert self._setup.installation
        assert self._setup.settings
        started_at, begin = datetime.now(UTC), time.monotonic()
        number, self._runs = self._runs, self._runs + 1
        padding = seed_for(self._study.seed, "padding", number) % 4096
        instance = self._house.restore(
            "A", self._snapshot, self._setup.installation, self._setup.settings, padding_bytes=padding
        )
        try:
            instance.start()
            database = database_of(self._study.workloads[0])
            gates.settle(instance, _SETTLE_LIMIT_S, gates.warm(instance, database))
            self._engine.open([address_of(self._setup, instance, database, pid=instance.pid)])
            self._measure(WARM_S, number, "warm")
            slices = self._measure(seconds, number, "keys")
        finally:
            instance.remove()
        frame = slices_frame(slices, epoch=0, build=0)
        busy_s = sum(each["busy_ns"] / each["connections"] for each in slices) / 1e9
        return SerialRun(
            started_at=started_at,
            per_s=sum(each["events"] for each in slices) / busy_s,
            seconds=round(busy_s, 3),
            wall_s=round(time.monotonic() - begin, 3),
            machine=machine_of(frame.lazy()),
            commit=checkout_commit(),
        )

    def _measure(self, seconds: float, number: int, what: str) -> list[Message]:
        study = self._study
        workload = study.workloads[0]
        return self._engine.measure(
            {
                "cell": "serial",
                "script": workload.script,
                "options": script_options(study, workload, study.baseline.data),
                "arm_options": {},
                "threads": study.threads[0],
                "arms": [self._setup.arm.name],
                "seconds": seconds,
                "blocks": None,
                "slice_ns": _SLICE_NS,
                "guard_ns": _GUARD_NS,
                "order_seed": 0,
                "key_seed": seed_for(study.seed, what, number),
                "load": {"model": "closed"},
                "freeze": False,
                "settle_ns": 0,
            }
        ).slices
