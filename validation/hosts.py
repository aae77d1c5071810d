"""How often intervals over several hosts hold the truth: by number of hosts, their epochs, and how much they differ.

An epoch's log ratio is that of its host plus noise, and a host's is the truth plus its own. Two kinds of runs: of a
number of epochs fixed beforehand, and ended by the stopping rule that looks after each epoch. A negative control takes
the variance between hosts as it was found, as bakeoff does not (`_Blocks.shares`): its intervals must hold too seldom.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import chain, cycle, islice, product, repeat

import numpy as np

from bakeoff.stats import hosts as combined
from bakeoff.stats import interval as iv
from bakeoff.stats.hosts import moments
from bakeoff.stats.model import Interval, Stop
from validation.simulation import ONE_CELL, stopped

NOISE = 0.01
"""Standard deviation of an epoch's log ratio within its host."""

LEVEL = 0.95


class HostSize(StrEnum):
    """How much is simulated."""

    SMALL = "small"
    FULL = "full"


_TIMES = {HostSize.SMALL: 400, HostSize.FULL: 4000}
_DIFFER = {HostSize.SMALL: (0.0, 1.0), HostSize.FULL: (0.0, 0.3, 1.0, 3.0)}  # of hosts, in units of NOISE
_FEW = {
    "2 × 6": [6] * 2,
    "50 and 1": [50, 1],
    "50, 1, 1": [50, 1, 1],
    "4 × 3": [3] * 4,
    "50 and 9 × 1": [50] + [1] * 9,
    "50 × 2": [2] * 50,
}
_MORE = {
    "2 × 20": [20] * 2,
    "3 × 4": [4] * 3,
    "5 × 6": [6] * 5,
    "50 and 4 × 2": [50] + [2] * 4,
    "6 × 1": [1] * 6,
    "1 2 3 5 8 13 20": [1, 2, 3, 5, 8, 13, 20],
    "10 × 5": [5] * 10,
    "50 and 49 × 1": [50] + [1] * 49,
    "50 × 10": [10] * 50,
}
_CONTROL = "50, 1, 1"  # epochs of the negative control: one host has fifty times as many as the others
_ENDLESS = (2, 3, 6, 20)
_ENDLESS_MORE = (4, 5, 10, 50)
_EPOCHS = 120  # of a run that its rule does not end; 2 an host of more than half as many


@dataclass(frozen=True)
class Line:
    """What many runs of one kind said.

    Attributes:
        differ: standard deviation of hosts over that of epochs within one.
        unlike: how much noisier the last host is than the others.
        held: share of runs whose interval holds the truth; one without ends holds nothing.
        half_width: median, log ratio.
        stops: share that each way of stopping ended; empty of a number fixed beforehand.
        is_control: the negative control.
    """

    epochs: str
    differ: float
    unlike: float
    times: int
    held: float
    half_width: float
    stops: dict[Stop, float]
    is_control: bool = False

    @property
    def error(self) -> float:
        """Standard error of `held`, were it as it should be."""
        return math.sqrt(LEVEL * (1 - LEVEL) / self.times)

    @property
    def holds(self) -> bool:
        """Whether it is not below the level by more than three errors."""
        return self.held >= LEVEL - 3 * self.error

    @property
    def expected(self) -> bool:
        """Whether it holds, and the negative control does not."""
        return self.holds is not self.is_control


def draw(rng: np.random.Generator, hosts: Sequence[str], *, differ: float, unlike: float = 1.0) -> list[float]:
    """One log ratio an epoch, of truth 0."""
    names = list(dict.fromkeys(hosts))
    own = dict(zip(names, rng.normal(0, differ * NOISE, len(names)).tolist(), strict=True))
    noise = {name: NOISE * (unlike if name == names[-1] else 1.0) for name in names}
    return [own[host] + noise[host] * each for host, each in zip(hosts, rng.standard_normal(len(hosts)), strict=True)]


def fixed(values: Sequence[float], hosts: Sequence[str]) -> tuple[Stop, Interval]:
    """The 95 % t interval of a number of epochs that was fixed beforehand."""
    return Stop.BUDGET, iv.t_interval(*moments(values, hosts), alpha=1 - LEVEL)


def as_found(values: Sequence[float], hosts: Sequence[str]) -> tuple[Stop, Interval]:
    """The negative control of `fixed`."""
    blocks = combined._blocks(values, hosts)
    assert blocks is not None
    weights = blocks.weights(blocks.between)
    mean, variance = blocks.error([weight / math.fsum(weights) for weight in weights])
    error = iv.Moments(mean, math.sqrt(variance * len(values)), len(values), len(blocks.counts) - 1)
    return Stop.BUDGET, iv.t_interval(*error, alpha=1 - LEVEL)


def ended(values: Sequence[float], hosts: Sequence[str], *, precision: float) -> tuple[Stop, Interval]:
    """The interval of a run that looks after every epoch and ends by the rule, or with its last value."""
    stop, n = stopped(values, hosts, precision=precision)
    return stop, ONE_CELL.interval(*moments(values[:n], hosts[:n]), stop=stop)


def simulate(
    seed: int,
    name: str,
    hosts: Sequence[str],
    judge: Callable[[Sequence[float], Sequence[str]], tuple[Stop, Interval]],
    *,
    times: int,
    differ: float,
    unlike: float = 1.0,
) -> Line:
    """Draw and judge many runs of one kind."""
    rng = np.random.default_rng([seed, len(hosts), int(differ * 1000), int(unlike * 1000)])
    found = [judge(draw(rng, hosts, differ=differ, unlike=unlike), hosts) for _ in range(times)]
    stops = [] if judge in (fixed, as_found) else [stop for stop, _ in found]
    return Line(
        epochs=name,
        differ=differ,
        unlike=unlike,
        times=times,
        held=sum(interval.holds(0.0) for _, interval in found) / times,
        half_width=float(np.median([interval.half_width or math.inf for _, interval in found])),
        stops={stop: stops.count(stop) / times for stop in dict.fromkeys(sorted(stops))},
        is_control=judge is as_found,
    )


def all_lines(seed: int, *, size: HostSize, times: int = 0) -> list[Line]:
    """Every kind of run of a size; `times` runs of each, or as many as the size has."""
    times, full = times or _TIMES[size], size is HostSize.FULL
    lines = []
    for (name, counts), differ, unlike in product(
        (_FEW | _MORE if full else _FEW).items(), _DIFFER[size], (1.0, 3.0) if full else (1.0,)
    ):
        hosts = list(chain.from_iterable(repeat(f"h{at}", count) for at, count in enumerate(counts)))
        lines.append(simulate(seed, name, hosts, fixed, times=times, differ=differ, unlike=unlike))
        if name == _CONTROL and differ == unlike == 1.0:
            control = f"*negative control*: {name}"
            lines.append(simulate(seed, control, hosts, as_found, times=times, differ=differ))
    for count, differ, precision in product(
        _ENDLESS + _ENDLESS_MORE if full else _ENDLESS, _DIFFER[size], (0.002, 0.006)
    ):
        hosts = list(islice(cycle(f"h{at}" for at in range(count)), max(_EPOCHS, 2 * count)))
        name, judge = f"{count} hosts, ends at ±{precision:.1%}", partial(ended, precision=precision)
        lines.append(simulate(seed, name, hosts, judge, times=max(times // 4, 100), differ=differ))
    return lines


def table(lines: Sequence[Line]) -> str:
    """A Markdown table."""
    rows = [
        "| epochs by host | hosts differ | last host's noise | runs | intervals that hold | ± (median) | ended |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in lines:
        stops = ", ".join(f"{stop} {share:.0%}" for stop, share in each.stops.items())
        mark = "" if each.expected else "**too many** " if each.is_control else "**too few** "
        rows.append(
            f"| {each.epochs} | {each.differ:g} s | {each.unlike:g} s | {each.times} | "
            f"{mark}{each.held:.1%} ± {each.error:.1%} | {each.half_width:.2%} | "
            f"{stops or 'fixed number'} |"
        )
    return "\n".join(rows)
