"""Compares the procedures in common use with bakeoff: what each says of a pair of servers whose true ratio is known.

This module alone says what counts as a claim. The procedures in use print a ratio without an interval, and a reader
takes it for a difference when it is visible: **more than 1 % away from 1**. bakeoff claims when its verdict says FASTER
or SLOWER. Every procedure gets the same wall time, starts and warming included. The serial procedures get their most
careful common form: every run on a newly started, warmed server, and the servers in turn.
"""

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

import numpy as np

from validation.machines import EPOCH_S, OVERHEAD_S, Moments, Recorded, moments
from validation.replay_checks import epochs_in
from validation.replay_runs import Question, single_runs

INJECTED = (0.0, 2.0, 5.0)
"""Uncounted events per 100 of the contender: the truths about which every procedure is asked."""

VISIBLE = math.log(1.01)
"""A log ratio beyond this is a claim when it is printed without an interval."""


class Procedure(StrEnum):
    """A procedure to judge a pair, as the table names it."""

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
class Said:
    """What a procedure says of a pair once.

    Attributes:
        log_ratio: contender over baseline.
        claim: 1: the contender is faster, -1: slower, 0: nothing claimed.
        half_width: of the interval that the procedure reports; None: it reports none.
    """

    log_ratio: float
    claim: int
    half_width: float | None = None


@dataclass(frozen=True)
class Rates:
    """What many judgements of pairs with one known truth add up to.

    Attributes:
        right, wrong: shares that claimed the true sign, and the other one (any claim, when the truth is 0).
        error_95: 95 % of the ratios lie within this of the truth (log): the width that the procedure really has.
        intervals: how many reported an interval with both ends.
        half_width: median of their half-widths; None where there are none.
        held: how many of them hold the truth; None likewise.
    """

    runs: int
    truth: float
    right: int
    wrong: int
    error_95: float
    intervals: int
    half_width: float | None
    held: int | None


def serial(procedure: Procedure, *, wall_s: float, overhead_s: float) -> Serial:
    """How a serial procedure spends its time.

    Args:
        procedure: any but BAKEOFF.
        wall_s: all of it.
        overhead_s: to start and warm one server.
    """
    order = ("A", "B") * (1 if procedure is Procedure.ONE_LONG else 3)
    return Serial(order=order, seconds=max(wall_s / len(order) - overhead_s, 0.0))


def judge_serial(procedure: Procedure, baseline: Sequence[float], contender: Sequence[float]) -> Said:
    """What a serial procedure says.

    Args:
        procedure: any but BAKEOFF.
        baseline: mean throughput of each of its runs; `contender` likewise. One each for ONE_LONG, else three.
        contender: see there.
    """
    log_ratio = math.log(median(contender) / median(baseline))
    claim = 0 if abs(log_ratio) <= VISIBLE else int(math.copysign(1, log_ratio))
    if procedure is Procedure.THREE_APART:
        claim = int(min(contender) > max(baseline)) - int(max(contender) < min(baseline))
    return Said(log_ratio=log_ratio, claim=claim)


def rates(judgements: Sequence[Said], *, truth: float) -> Rates:
    """Add up judgements of pairs whose true log ratio is `truth`; at least one."""
    sign = int(math.copysign(1, truth)) if truth else 0
    errors = np.abs([judgement.log_ratio - truth for judgement in judgements])
    with_interval = [each for each in judgements if each.half_width is not None and math.isfinite(each.half_width)]
    return Rates(
        runs=len(judgements),
        truth=truth,
        right=sum(judgement.claim == sign for judgement in judgements) if sign else 0,
        wrong=sum(judgement.claim not in (0, sign) for judgement in judgements),
        error_95=float(np.quantile(errors, 0.95)),
        intervals=len(with_interval),
        half_width=median(j.half_width or 0.0 for j in with_interval) if with_interval else None,
        held=sum(abs(j.log_ratio - truth) <= (j.half_width or 0.0) for j in with_interval) if with_interval else None,
    )


@dataclass(frozen=True)
class Asked:
    """One judgement of one procedure, and the slowdown that was injected."""

    procedure: Procedure
    slowdown_percent: float
    judgement: Said

    @property
    def truth(self) -> float:
        """Log ratio that is known to hold."""
        return -math.log1p(self.slowdown_percent / 100)


def table(asked: Sequence[Asked]) -> str:
    """A row for each procedure and truth, as Markdown."""
    rows = [
        "| the same server twice, B slowed by | procedure | judgements | false or wrong claims | right claims "
        "| 95 % of ratios are off by at most | interval | held |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for percent in INJECTED:
        for procedure in Procedure:
            known = [a.judgement for a in asked if a.procedure is procedure and a.slowdown_percent == percent]
            if not known:
                continue
            found = rates(known, truth=-math.log1p(percent / 100))
            right = _share(found.right, found.runs) if percent else ""
            width = f"±{found.half_width:.1%}" if found.half_width is not None else "none"
            held = _share(found.held, found.intervals) if found.held is not None else ""
            rows.append(
                f"| {f'{percent:g} %' if percent else 'nothing'} | {procedure} | {found.runs} "
                f"| {_share(found.wrong, found.runs)} | {right} | {math.expm1(found.error_95):.1%} | {width} | {held} |"
            )
    return "\n".join(rows)


def _share(count: int, of: int) -> str:
    return f"{count / of:.0%}"


# On recorded traces. A serial run draws a start (its level) and takes the machine as it was recorded, from a random
# moment on; the next run follows in the next moments, as time goes by. A recorded start stands for the wall time of an
# epoch. A recording lasts about ten minutes, so the rates of the serial procedures come from a few independent parts of
# it. bakeoff's runs are those of the size `replay`; `validation.machines` says why that is sound.

WALL_S = 240.0
"""Of each judgement."""

_PRECISION = 0.01


def replayed(machine: Recorded, *, repeats: int, seed: int) -> list[Asked]:
    """Judgements of every procedure and every injected slowdown."""
    said = []
    for percent in INJECTED:
        effect = -math.log1p(percent / 100)
        for procedure in Procedure:
            own = (seed, zlib.crc32(f"{machine}/{procedure}/{percent}".encode()))
            judged = (
                _by_bakeoff(machine, effect, repeats=repeats, seed=own)
                if procedure is Procedure.BAKEOFF
                else by_serial(procedure, moments(machine.name), effect, repeats=repeats, seed=own)
            )
            said += [Asked(procedure, percent, judgement) for judgement in judged]
    return said


def by_serial(
    procedure: Procedure, recorded: Moments, effect: float, *, repeats: int, seed: Sequence[int]
) -> list[Said]:
    """What a serial procedure says, `repeats` times."""
    rng = np.random.default_rng(seed)
    order = serial(procedure, wall_s=WALL_S, overhead_s=0.0).order
    starts, moments_of_start = recorded.seconds.shape
    length = round(WALL_S / len(order) / (EPOCH_S + OVERHEAD_S) * moments_of_start)  # moments of a run
    per_s = recorded.events.ravel(), recorded.seconds.ravel()
    said = []
    for _ in range(repeats):
        levels = recorded.levels[rng.permutation(starts)[: len(order)]]
        begin = int(rng.integers(per_s[0].size))
        tps: dict[str, list[float]] = {"A": [], "B": []}
        for place, arm in enumerate(order):
            events, seconds = (
                np.take(each, np.arange(begin + place * length, begin + (place + 1) * length), mode="wrap").sum()
                for each in per_s
            )
            tps[arm].append(float(events / seconds * np.exp(levels[place] + (effect if arm == "B" else 0.0))))
        said.append(judge_serial(procedure, tps["A"], tps["B"]))
    return said


def _by_bakeoff(machine: Recorded, effect: float, *, repeats: int, seed: Sequence[int]) -> list[Said]:
    question = Question(precision=_PRECISION, epochs_max=epochs_in(WALL_S / 60), effect=effect)
    ends = single_runs(machine, question, runs=repeats, seed=seed)
    return [Said((end.low + end.high) / 2, end.claim, end.half_width) for end in ends]
