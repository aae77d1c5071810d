"""The ways in which servers are compared in published posts, and bakeoff's, made comparable: what each says of a pair.

What counts as a claim is stated here and nowhere else. The ways in use print a ratio without an interval, and a reader
takes it for a difference when it is visible: **more than 1 % away from 1**. bakeoff claims when its verdict says FASTER
or SLOWER. Every way gets the same wall time, starts and warming included, and the serial ways are given their most
careful common form: every run on a freshly started, warmed server, and the servers in turn.
"""

import math
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from statistics import median
from typing import Self

import numpy as np

from bakeoff.results.manifest import checkout_commit
from bakeoff.spec import Arm, Data, Study, Workload, parse_server
from bakeoff.stats.model import Comparison, Word
from bakeoff.units import parse_duration_s
from validation.duels import Duel, Frozen, Machine, machine_of
from validation.real_epochs import RealBench, Way

VISIBLE = math.log(1.01)
"""A log ratio beyond this is a claim when it is printed without an interval."""


class Procedure(StrEnum):
    """A way to judge a pair, as the table names it."""

    ONE_LONG = "one long run each"
    MEDIAN_OF_THREE = "median of three runs each"
    THREE_APART = "three runs each, claimed only when all of one beat all of the other"
    BAKEOFF = "bakeoff"


@dataclass(frozen=True)
class Serial:
    """Runs after each other, each on a server started for it alone.

    Attributes:
        order: the arm of each run, A the baseline.
        seconds: measured in each.
    """

    order: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Judgement:
    """What a way said of a pair once.

    Attributes:
        log_ratio: contender over baseline.
        claim: 1: the contender is faster, -1: slower, 0: nothing claimed.
        half_width: of the interval that the way told with it; None: it tells none.
    """

    log_ratio: float
    claim: int
    half_width: float | None = None


@dataclass(frozen=True)
class Rates:
    """What many judgements of pairs with one known truth add up to.

    Attributes:
        right, wrong: shares that claimed the true sign, and the other one (any claim, when the truth is 0).
        error_95: 95 % of the ratios lie within this of the truth (log): the width that the way really has.
        told: median of the half-widths that were told with them; None where none are told.
        held: share of the told intervals that hold the truth; None likewise.
    """

    runs: int
    truth: float
    right: int
    wrong: int
    error_95: float
    told: float | None
    held: int | None

    @property
    def missed(self) -> int:
        """Judgements that did not claim a difference that is there; of equal arms there is none to miss."""
        return 0 if self.truth == 0 else self.runs - self.right


def serial(way: Procedure, *, wall_s: float, overhead_s: float) -> Serial:
    """How a serial way spends its time.

    Args:
        way: any but BAKEOFF.
        wall_s: all of it.
        overhead_s: to start and warm one server.
    """
    order = ("A", "B") * (1 if way is Procedure.ONE_LONG else 3)
    return Serial(order=order, seconds=max(wall_s / len(order) - overhead_s, 0.0))


def judge_serial(way: Procedure, baseline: Sequence[float], contender: Sequence[float]) -> Judgement:
    """What a serial way says.

    Args:
        way: any but BAKEOFF.
        baseline: mean throughput of each of its runs; `contender` likewise. One each for ONE_LONG, else three.
        contender: see there.
    """
    log_ratio = math.log(median(contender) / median(baseline))
    claim = 0 if abs(log_ratio) <= VISIBLE else int(math.copysign(1, log_ratio))
    if way is Procedure.THREE_APART:
        claim = int(min(contender) > max(baseline)) - int(max(contender) < min(baseline))
    return Judgement(log_ratio=log_ratio, claim=claim)


def judge_bakeoff(comparison: Comparison) -> Judgement:
    """What bakeoff's verdict says."""
    words = comparison.verdict.words
    return Judgement(
        log_ratio=comparison.estimate.mean,
        claim=int(Word.FASTER in words) - int(Word.SLOWER in words),
        half_width=comparison.estimate.interval.half_width,
    )


def rates(judgements: Sequence[Judgement], *, truth: float) -> Rates:
    """Add up judgements of pairs whose true log ratio is `truth`; at least one."""
    sign = int(math.copysign(1, truth)) if truth else 0
    errors = np.abs([judgement.log_ratio - truth for judgement in judgements])
    told = [judgement for judgement in judgements if judgement.half_width is not None]
    return Rates(
        runs=len(judgements),
        truth=truth,
        right=sum(judgement.claim == sign for judgement in judgements) if sign else 0,
        wrong=sum(judgement.claim not in (0, sign) for judgement in judgements),
        error_95=float(np.quantile(errors, 0.95)),
        told=median(judgement.half_width or 0.0 for judgement in told) if told else None,
        held=sum(abs(j.log_ratio - truth) <= (j.half_width or 0.0) for j in told) if told else None,
    )


# Servers measured one after the other, each freshly started on the same data and alone: what the ways in use do.
#
# Server, settings, data, warming and client are those of a duel between two such servers, so that nothing but the way of
# comparing differs.

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
