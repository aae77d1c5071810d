"""The ways in which servers are compared in published posts, and bakeoff's, made comparable: what each says of a pair.

What counts as a claim is stated here and nowhere else. The ways in use print a ratio without an interval, and a reader
takes it for a difference when it is visible: **more than 1 % away from 1**. bakeoff claims when its verdict says FASTER
or SLOWER. Every way gets the same wall time, starts and warming included, and the serial ways are given their most
careful common form: every run on a freshly started, warmed server, and the servers in turn.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

import numpy as np

from bakeoff.stats.model import Comparison, Word

VISIBLE = math.log(1.01)
"""A log ratio beyond this is a claim when it is printed without an interval."""


class Way(StrEnum):
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


def serial(way: Way, *, wall_s: float, overhead_s: float) -> Serial:
    """How a serial way spends its time.

    Args:
        way: any but BAKEOFF.
        wall_s: all of it.
        overhead_s: to start and warm one server.
    """
    order = ("A", "B") * (1 if way is Way.ONE_LONG else 3)
    return Serial(order=order, seconds=max(wall_s / len(order) - overhead_s, 0.0))


def judge_serial(way: Way, baseline: Sequence[float], contender: Sequence[float]) -> Judgement:
    """What a serial way says.

    Args:
        way: any but BAKEOFF.
        baseline: mean throughput of each of its runs; `contender` likewise. One each for ONE_LONG, else three.
        contender: see there.
    """
    log_ratio = math.log(median(contender) / median(baseline))
    claim = 0 if abs(log_ratio) <= VISIBLE else int(math.copysign(1, log_ratio))
    if way is Way.THREE_APART:
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
