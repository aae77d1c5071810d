"""Measures epochs on real servers in several variants and compares them.

As in a run's epoch, servers are started on restored data, warmed, measured and stopped. Here the experiment chooses
slice length, freezing, connections and CPUs.
"""

import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Self

from bakeoff.engine import Engine
from bakeoff.engine_messages import HistogramMessage, SliceMessage
from bakeoff.errors import ServerError
from bakeoff.plan.epochs import seed_for, shuffled
from bakeoff.plan.timing import guard_ns
from bakeoff.plan.workloads import database_of
from bakeoff.results import RunDirectory
from bakeoff.results.epoch_data import EpochData, slices_frame
from bakeoff.run.arms import ArmSetup, address_of, prepare_arms, share_memory
from bakeoff.run.loading import Loader, families
from bakeoff.run.measuring import script_options
from bakeoff.servers import Instance, ServerPool, readiness
from bakeoff.servers.paths import work_root
from bakeoff.spec import Arm, Data, Study, Workload, parse_server
from bakeoff.stats.estimate import PairEstimate, epoch_estimates, with_rates
from bakeoff.stats.interval import INFLATION, estimate_of, t_interval
from bakeoff.stats.model import Estimate
from bakeoff.stats.progress import Listener
from validation.check import TOO_BUSY, Finding

_READINESS_LIMIT_S = 30.0
_PATIENCE_S = 10.0
_WARM_SLICE_NS = 50_000_000
Cpus = frozenset[int] | None


@dataclass(frozen=True)
class Variant:
    """How a cell is measured; None and empty take the plan's defaults and all arms."""

    name: str
    slice_ns: int
    seconds: float
    threads: int = 4
    workload: int = 0
    freeze: bool = False
    placement: str = "paired"
    guard_ns: int | None = None
    arms: tuple[str, ...] = ()
    blocks: int | None = None


def question(
    server: str,
    *others: str,
    slowdown_percent: float = 0.0,
    workloads: Sequence[str] = ("oltp_point_select",),
    threads: int = 4,
    table_size: int = 20_000,
    seed: int = 1,
) -> Study:
    """Make a study with arms A, B … on these servers (twice on a single one); the last arm is slowed."""
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
        title="validation",
        arms=arms,
        workloads=tuple(Workload(script=script) for script in workloads),
        threads=(threads,),
        tables=2,
        table_size=table_size,
        builds=1,
        seed=seed,
    )


class RealBench:
    """Context manager of a study's servers, loaded once; raise BakeoffError if that fails."""

    def __init__(self, study: Study, folder: Path, *, report: Callable[[str], None] = lambda text: None) -> None:
        self._study = study
        self._report = report
        self._stack = ExitStack()
        self._epochs = 0
        self._kept: dict[str, Instance] = {}
        try:
            memory = share_memory(study).memory
            self._setups = prepare_arms(study, memory, passwords={}, on_progress=lambda *_: None)
            self._pool = self._stack.enter_context(ServerPool(work_root()))
            run = RunDirectory.create(folder, study)
            report("loading")
            with Engine() as engine:
                self._snapshots = Loader(study, self._pool, run, Listener(), engine).load_all(self._setups)
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def keep(self, arm: str) -> None:
        """Start an arm's server once for all later epochs."""
        setups = [setup for setup in self._setups if setup.arm.name == arm]
        self._kept |= self._started(setups, 0, None, self._stack)
        self._make_ready(self._kept[arm])

    def epoch(
        self,
        variants: Sequence[Variant],
        *,
        arms: Sequence[str] = (),
        warm_s: float = 3.0,
        client_cpus: Cpus = None,
        server_cpus: Cpus = None,
        around: Callable[[Variant], AbstractContextManager[object]] = lambda variant: nullcontext(),
    ) -> EpochData:
        """Measure one epoch with every variant in random order.

        Args:
            arms: names of the arms whose servers are started; empty for all.
            warm_s: seconds of warm-up with all arms together.
            around: entered while a variant is measured.
        """
        number, self._epochs = self._epochs, self._epochs + 1
        self._report(f"epoch {number + 1}")
        setups = [setup for setup in self._setups if not arms or setup.arm.name in arms]
        with ExitStack() as stack:
            started = [setup for setup in setups if setup.arm.name not in self._kept]
            fresh = self._started(started, number, server_cpus, stack)
            with ThreadPoolExecutor(max_workers=len(fresh)) as pool:
                list(pool.map(self._make_ready, fresh.values()))
            servers = self._kept | fresh
            engine = stack.enter_context(Engine(stop=threading.Event(), cpus=client_cpus))
            seed = seed_for(self._study.seed, "way", number)
            for workload in sorted({variant.workload for variant in variants}):
                if warm_s:
                    variant = next(variant for variant in variants if variant.workload == workload)
                    warming = replace(variant, name="warm", slice_ns=_WARM_SLICE_NS, seconds=warm_s, blocks=None)
                    warming = replace(warming, freeze=False, guard_ns=None, arms=())
                    self._measure(engine, setups, servers, warming, seed)
            order = {variant.name: variant for variant in variants}
            slices: list[SliceMessage] = []
            histograms: list[HistogramMessage] = []
            for name in shuffled(order, self._study.seed, "ways", number):
                with around(order[name]):
                    found, rows = self._measure(engine, setups, servers, order[name], seed_for(seed, name))
                slices += found
                histograms += rows
            variables = {name: server.variables() for name, server in servers.items()}
        return EpochData(
            epoch=number, slices=slices_frame(slices, epoch=number, build=0), histograms=histograms, variables=variables
        )

    def _started(self, setups: Sequence[ArmSetup], number: int, cpus: Cpus, stack: ExitStack) -> dict[str, Instance]:
        """Start servers on restored data; try again if other servers have taken the memory or ports they need."""
        for patience in (True, False):
            with ExitStack() as attempt:
                servers = {setup.arm.name: self._restore(setup, number, cpus, attempt) for setup in setups}
                try:
                    self._pool.start_all(servers.values())
                except ServerError as error:
                    if not patience:
                        raise
                    self._report(str(error))
                else:
                    stack.push(attempt.pop_all())
                    return servers
            time.sleep(_PATIENCE_S)
        raise AssertionError("the second attempt returns or raises")

    def _restore(self, setup: ArmSetup, number: int, cpus: Cpus, stack: ExitStack) -> Instance:
        assert setup.installation
        assert setup.settings
        instance = self._pool.create(
            setup.arm.name,
            setup.installation,
            setup.settings,
            snapshot=self._snapshots[(setup.load_key, 0)],
            padding_bytes=seed_for(self._study.seed, "padding", number, setup.arm.name) % 4096,
        )
        instance.place.cpus = cpus
        stack.callback(instance.remove)
        return instance

    def _make_ready(self, server: Instance) -> None:
        for database, _ in families(self._study):
            readiness.warm(server, database)
            readiness.finish_pending_work(server, _READINESS_LIMIT_S)

    def _measure(
        self, engine: Engine, setups: Sequence[ArmSetup], servers: dict[str, Instance], variant: Variant, seed: int
    ) -> tuple[list[SliceMessage], list[HistogramMessage]]:
        workload = self._study.workloads[variant.workload]
        chosen = [setup for setup in setups if not variant.arms or setup.arm.name in variant.arms]
        engine.open(
            address_of(
                setup, servers[setup.arm.name], database_of(self._study, workload), pid=servers[setup.arm.name].pid
            )
            for setup in chosen
        )
        measured = engine.measure(
            {
                "cell": variant.name,
                "script": workload.script,
                "options": script_options(self._study, workload, self._study.baseline.data),
                "threads": variant.threads,
                "arms": [setup.arm.name for setup in chosen],
                "seconds": None if variant.blocks else variant.seconds,
                "blocks": variant.blocks,
                "slice_ns": variant.slice_ns,
                "guard_ns": guard_ns(variant.slice_ns) if variant.guard_ns is None else variant.guard_ns,
                "order_seed": seed_for(seed, "order"),
                "key_seed": seed_for(seed, "keys"),
                "load": {"model": "closed"},
                "placement": variant.placement,
                "freeze": variant.freeze,
            }
        )
        return measured.slices, measured.histograms


def usable_cpus() -> tuple[int, ...]:
    return tuple(sorted(os.sched_getaffinity(0)))


_ALPHA = 0.05


def by_variant(epochs: Sequence[EpochData], *, baseline: str = "A") -> dict[str, list[PairEstimate]]:
    found: dict[str, list[PairEstimate]] = {}
    for epoch in epochs:
        for pair in epoch_estimates(epoch, baseline=baseline).pairs:
            found.setdefault(pair.cell, []).append(pair)
    return found


def of_variant(epoch: EpochData, name: str) -> EpochData:
    return replace(epoch, slices=epoch.slices.rows(epoch.slices["cell"] == name))


def rate(epoch: EpochData) -> float:
    slices = with_rates(epoch.slices)
    return float(slices["events"].sum()) / float(slices["seconds"].sum())


def mean_of(values: Sequence[float], *, looks: int = 1) -> Estimate:
    """Return the mean of epochs and its 95 % interval, as wide as a run reports it, for `looks` estimates together."""
    return estimate_of(values, partial(t_interval, alpha=_ALPHA / looks, inflation=INFLATION))


def agrees(one: Estimate, other: Estimate) -> bool:
    """Return whether two independent estimates differ by no more than their intervals together allow."""
    widths = [estimate.interval.half_width or math.inf for estimate in (one, other)]
    return abs(one.mean - other.mean) <= math.hypot(*widths)


def shown(estimate: Estimate) -> str:
    return f"{math.expm1(estimate.mean):+.2%} ± {estimate.interval.half_width or math.inf:.2%}"


SAME_AT_EVERY_LENGTH = "each within 5 % of the effect, or 1.5 half-widths, of the truth; these below half the effect"


def at_every_length(estimates: Mapping[str, Estimate], truth: float) -> Finding:
    """Check that every slice length shows the true log ratio within 5 % of it or one and a half half-widths.

    If that is half of the truth or more, the machine is too busy to tell, because half the effect would pass.
    """
    half_widths = {name: each.interval.half_width or math.inf for name, each in estimates.items()}
    # With half a width more, one of three 95 % intervals misses once in a hundred.
    limits = {name: max(1.5 * half, 0.05 * abs(truth)) for name, half in half_widths.items()}
    apart = [name for name, each in estimates.items() if abs(each.mean - truth) > limits[name]]
    too_noisy = not apart and max(limits.values()) >= abs(truth) / 2
    return Finding(
        found=f"injected {math.expm1(truth):+.2%}: "
        + ", ".join(f"{shown(each)} at {name}" for name, each in estimates.items())
        + (TOO_BUSY if too_noisy else ""),
        passed=None if too_noisy else not apart,
        figures={"truth": truth} | {name: figures_of(each) for name, each in estimates.items()},
    )


def figures_of(estimate: Estimate) -> dict[str, object]:
    return {"mean": estimate.mean, "half_width": estimate.interval.half_width, "n": estimate.n}
