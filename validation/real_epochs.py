"""Epochs on real servers in which one question is measured in several ways, for tests and measurements of the method.

As a run's epoch: servers started afresh on restored data, gates passed, warmed, measured, stopped. What differs is
that slice length, freezing, connections and CPUs are the experiment's, and that every way has its own name.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bakeoff.engine import Engine, Message
from bakeoff.errors import ServerError
from bakeoff.plan.model import seed_for, shuffled
from bakeoff.plan.timing import guard_ns
from bakeoff.report.live import QuietLive
from bakeoff.results import RunDirectory
from bakeoff.results.epoch_data import EpochData, slices_frame
from bakeoff.run.arms import ArmSetup, address_of, prepare_arms, share_memory
from bakeoff.run.loading import Loader, database_of, script_options
from bakeoff.servers import Instance, ServerPool, readiness
from bakeoff.servers.paths import work_root
from bakeoff.spec import Arm, Data, Study, Workload, parse_server

_SETTLE_LIMIT_S = 30.0
_PATIENCE_S = 10.0
_WARM_SLICE_NS = 50_000_000
Cpus = frozenset[int] | None


@dataclass(frozen=True)
class Way:
    """One way to measure.

    Attributes:
        name: the name of its cell.
        guard_ns: None: as plans have it.
        arms: those measured, by name; empty: all. One alone is measured in slices of itself.
        seconds: wall seconds, at least one block.
        placement: `paired` or `free`: where the threads of a connection run.
    """

    name: str
    slice_ns: int
    seconds: float
    threads: int = 4
    workload: int = 0
    freeze: bool = False
    placement: str = "paired"
    settle_ns: int = 0
    guard_ns: int | None = None
    arms: tuple[str, ...] = ()


def question(
    server: str,
    *others: str,
    slowdown_percent: float = 0.0,
    workloads: Sequence[str] = ("oltp_point_select",),
    threads: int = 4,
    table_size: int = 20_000,
    seed: int = 1,
) -> Study:
    """Arms A, B … of these servers (of one server twice when it is alone), the last of them slowed by shadow events."""
    texts = (server, *(others or (server,)))
    arms = tuple(
        Arm(
            name="ABCDEF"[index],
            label=f"{text} ({'ABCDEF'[index]})",
            server=parse_server(text),
            data=Data(charset="utf8mb4"),
            slowdown_percent=slowdown_percent if index == len(texts) - 1 else 0.0,
        )
        for index, text in enumerate(texts)
    )
    return Study(
        title="gauntlet",
        arms=arms,
        workloads=tuple(Workload(script=script) for script in workloads),
        threads=(threads,),
        tables=2,
        table_size=table_size,
        builds=1,
        seed=seed,
    )


class RealBench:
    """A study's servers, loaded once; a context manager.

    Args:
        study: its arms, workloads and tables; one build is loaded.
        folder: where the record of the load is kept.
        tell: a line of progress.

    Raises:
        BakeoffError: a server cannot be fetched, started or loaded.
    """

    def __init__(self, study: Study, folder: Path, *, tell: Callable[[str], None] = lambda text: None) -> None:
        self._study = study
        self._tell = tell
        self._stack = ExitStack()
        self._epochs = 0
        try:
            memory = share_memory(study).memory
            self._setups = prepare_arms(study, memory, passwords={}, on_progress=lambda *_: None)
            self._pool = self._stack.enter_context(ServerPool(work_root()))
            run = RunDirectory.create(folder, study)
            tell("loading")
            with Engine() as engine:
                self._snapshots = Loader(study, self._pool, run, QuietLive(), engine).load_all(self._setups)
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def epoch(
        self,
        ways: Sequence[Way],
        *,
        arms: Sequence[str] = (),
        warm_s: float = 3.0,
        client_cpus: Cpus = None,
        server_cpus: Cpus = None,
        in_order: bool = False,
        around: Callable[[Way], AbstractContextManager[object]] = lambda way: nullcontext(),
    ) -> EpochData:
        """One epoch: every way in turn, in a random order unless `in_order`.

        Args:
            ways: how to measure.
            arms: those whose servers are started; empty: all.
            warm_s: seconds of load before, all arms together.
            client_cpus: that the engine may use; None: all.
            server_cpus: that the servers may use; None: all.
            in_order: measure the ways in the order given.
            around: entered while a way is measured.

        Raises:
            BakeoffError: a server or the engine fails.
        """
        number, self._epochs = self._epochs, self._epochs + 1
        self._tell(f"epoch {number + 1}")
        setups = [setup for setup in self._setups if not arms or setup.arm.name in arms]
        with ExitStack() as stack:
            servers = self._started(setups, number, server_cpus, stack)
            with ThreadPoolExecutor(max_workers=len(servers)) as pool:
                list(pool.map(self._settle, servers.values()))
            engine = stack.enter_context(Engine(stop=threading.Event(), cpus=client_cpus))
            seed = seed_for(self._study.seed, "way", number)
            for workload in sorted({way.workload for way in ways}):
                if warm_s:
                    way = next(way for way in ways if way.workload == workload)
                    warming = Way("warm", _WARM_SLICE_NS, warm_s, way.threads, workload)
                    self._measure(engine, setups, servers, warming, seed)
            order = {way.name: way for way in ways}
            names = list(order) if in_order else shuffled(order, self._study.seed, "ways", number)
            slices: list[Message] = []
            histograms: list[Message] = []
            for name in names:
                with around(order[name]):
                    found, rows = self._measure(engine, setups, servers, order[name], seed_for(seed, name))
                slices += found
                histograms += rows
            variables = {name: server.variables() for name, server in servers.items()}
        return EpochData(
            epoch=number,
            build=0,
            valid=True,
            discard_reason="",
            slices=slices_frame(slices, epoch=number, build=0),
            histograms=histograms,
            variables=variables,
        )

    def _started(self, setups: Sequence[ArmSetup], number: int, cpus: Cpus, stack: ExitStack) -> dict[str, Instance]:
        """Servers on restored data; tried once more when other servers on the machine have used up what they need."""
        for patience in (True, False):
            with ExitStack() as attempt:
                servers = {setup.arm.name: self._restore(setup, number, cpus, attempt) for setup in setups}
                try:
                    self._pool.start_all(servers.values())
                except ServerError as error:
                    if not patience:
                        raise
                    self._tell(str(error))
                else:
                    stack.push(attempt.pop_all())
                    return servers
            time.sleep(_PATIENCE_S)
        raise AssertionError("the second attempt returns or raises")

    def _restore(self, setup: ArmSetup, number: int, cpus: Cpus, stack: ExitStack) -> Instance:
        assert setup.installation
        assert setup.settings
        instance = self._pool.restore(
            setup.arm.name,
            self._snapshots[(setup.build_key, 0)],
            setup.installation,
            setup.settings,
            cpus=cpus,
            padding_bytes=seed_for(self._study.seed, "padding", number, setup.arm.name) % 4096,
        )
        stack.callback(instance.remove)
        return instance

    def _settle(self, server: Instance) -> None:
        for database in dict.fromkeys(database_of(workload) for workload in self._study.workloads):
            readiness.settle(server, _SETTLE_LIMIT_S, readiness.warm(server, database))

    def _measure(
        self, engine: Engine, setups: Sequence[ArmSetup], servers: dict[str, Instance], way: Way, seed: int
    ) -> tuple[list[Message], list[Message]]:
        workload = self._study.workloads[way.workload]
        chosen = [setup for setup in setups if not way.arms or setup.arm.name in way.arms]
        engine.open(
            address_of(setup, servers[setup.arm.name], database_of(workload), pid=servers[setup.arm.name].pid)
            for setup in chosen
        )
        measured = engine.measure(
            {
                "cell": way.name,
                "script": workload.script,
                "options": script_options(self._study, workload, self._study.baseline.data),
                "threads": way.threads,
                "arms": [setup.arm.name for setup in chosen],
                "seconds": way.seconds,
                "blocks": None,
                "slice_ns": way.slice_ns,
                "guard_ns": guard_ns(way.slice_ns) if way.guard_ns is None else way.guard_ns,
                "order_seed": seed_for(seed, "order"),
                "key_seed": seed_for(seed, "keys"),
                "load": {"model": "closed"},
                "placement": way.placement,
                "freeze": way.freeze,
                "settle_ns": way.settle_ns,
            }
        )
        return measured.slices, measured.histograms


def usable_cpus() -> tuple[int, ...]:
    """Numbers of the CPUs that we may use."""
    return tuple(sorted(os.sched_getaffinity(0)))
