"""Simulates runs over several hosts and counts how often their intervals cover the truth.

An epoch's log ratio is its host's plus noise; a host's is the truth (0) plus its own deviation. Runs have a fixed
number of epochs, or end by the stopping rule. A negative control uses the variance between hosts as it was found, which
bakeoff does not (`_Blocks.shares`); its intervals must cover too seldom.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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

_DIFFER = (0.0, 1.0)  # standard deviation of hosts, in units of NOISE
_EPOCHS_BY_HOST = {
    "2 × 6": [6] * 2,
    "50 and 1": [50, 1],
    "50, 1, 1": [50, 1, 1],
    "4 × 3": [3] * 4,
    "50 and 9 × 1": [50] + [1] * 9,
    "50 × 2": [2] * 50,
}
_CONTROL = "50, 1, 1"
_HOSTS = (2, 3, 6, 20)  # in runs that the stopping rule ends
_EPOCHS_MAX = 120


@dataclass(frozen=True)
class Line:
    """Result of many runs of one kind.

    Attributes:
        differ: standard deviation of hosts over that of epochs within one.
        held: share of runs whose interval covers the truth.
        half_width: median, log ratio.
        stops: share of runs by reason for stopping; empty if the number of epochs was fixed.
    """

    epochs: str
    differ: float
    runs: int
    held: float
    half_width: float
    stops: dict[Stop, float]
    is_control: bool = False

    @property
    def error(self) -> float:
        """Standard error of `held` if the true coverage is LEVEL."""
        return math.sqrt(LEVEL * (1 - LEVEL) / self.runs)

    @property
    def holds(self) -> bool:
        """Whether coverage is at most three standard errors below LEVEL."""
        return self.held >= LEVEL - 3 * self.error

    @property
    def expected(self) -> bool:
        """Whether coverage holds, or fails for the negative control."""
        return self.holds is not self.is_control


def draw(rng: np.random.Generator, hosts: Sequence[str], *, differ: float) -> list[float]:
    """Draw one log ratio per epoch; the truth is 0."""
    names = list(dict.fromkeys(hosts))
    own = dict(zip(names, rng.normal(0, differ * NOISE, len(names)).tolist(), strict=True))
    return [own[host] + NOISE * each for host, each in zip(hosts, rng.standard_normal(len(hosts)), strict=True)]


def fixed(values: Sequence[float], hosts: Sequence[str]) -> tuple[Stop, Interval]:
    """Return the 95 % t interval of a fixed number of epochs."""
    return Stop.BUDGET, iv.t_interval(*moments(values, hosts), alpha=1 - LEVEL)


def as_found(values: Sequence[float], hosts: Sequence[str]) -> tuple[Stop, Interval]:
    """Return the negative control's interval."""
    blocks = combined._blocks(values, hosts)
    assert blocks is not None
    weights = blocks.weights(blocks.between)
    mean, variance = blocks.error([weight / math.fsum(weights) for weight in weights])
    error = iv.Moments(mean, math.sqrt(variance * len(values)), len(values), len(blocks.counts) - 1)
    return Stop.BUDGET, iv.t_interval(*error, alpha=1 - LEVEL)


def ended(values: Sequence[float], hosts: Sequence[str], *, precision: float) -> tuple[Stop, Interval]:
    """Return the interval of a run that looks after every epoch and ends by the rule or with its last value."""
    stop, n = stopped(values, hosts, precision=precision)
    return stop, ONE_CELL.interval(*moments(values[:n], hosts[:n]), stop=stop)


def simulate(
    seed: int,
    name: str,
    hosts: Sequence[str],
    judge: Callable[[Sequence[float], Sequence[str]], tuple[Stop, Interval]],
    *,
    runs: int,
    differ: float,
) -> Line:
    """Draw and judge many runs of one kind."""
    rng = np.random.default_rng([seed, len(hosts), int(differ * 1000)])
    found = [judge(draw(rng, hosts, differ=differ), hosts) for _ in range(runs)]
    stops = [] if judge in (fixed, as_found) else [stop for stop, _ in found]
    return Line(
        epochs=name,
        differ=differ,
        runs=runs,
        held=sum(interval.holds(0.0) for _, interval in found) / runs,
        half_width=float(np.median([interval.half_width or math.inf for _, interval in found])),
        stops={stop: stops.count(stop) / runs for stop in dict.fromkeys(sorted(stops))},
        is_control=judge is as_found,
    )


def all_lines(seed: int, *, runs: int) -> list[Line]:
    """Simulate every kind of run: `runs` of a fixed length, a quarter as many (at least 100) with the stopping rule."""
    lines = []
    for (name, counts), differ in product(_EPOCHS_BY_HOST.items(), _DIFFER):
        hosts = list(chain.from_iterable(repeat(f"h{at}", count) for at, count in enumerate(counts)))
        lines.append(simulate(seed, name, hosts, fixed, runs=runs, differ=differ))
        if name == _CONTROL and differ == 1.0:
            lines.append(simulate(seed, f"*negative control*: {name}", hosts, as_found, runs=runs, differ=differ))
    for count, differ, precision in product(_HOSTS, _DIFFER, (0.002, 0.006)):
        hosts = list(islice(cycle(f"h{at}" for at in range(count)), _EPOCHS_MAX))
        name, judge = f"{count} hosts, ends at ±{precision:.1%}", partial(ended, precision=precision)
        lines.append(simulate(seed, name, hosts, judge, runs=max(runs // 4, 100), differ=differ))
    return lines


def table(lines: Sequence[Line]) -> str:
    """Format the lines as a Markdown table."""
    rows = [
        "| epochs by host | hosts differ | runs | intervals that cover | ± (median) | ended |",
        "|---|---|---|---|---|---|",
    ]
    for each in lines:
        stops = ", ".join(f"{stop} {share:.0%}" for stop, share in each.stops.items())
        mark = "" if each.expected else "**too many** " if each.is_control else "**too few** "
        rows.append(
            f"| {each.epochs} | {each.differ:g} s | {each.runs} | {mark}{each.held:.1%} ± {each.error:.1%} "
            f"| {each.half_width:.2%} | {stops or 'fixed number'} |"
        )
    return "\n".join(rows)
