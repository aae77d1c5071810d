"""Simulates runs over several hosts and counts how often their intervals cover the truth.

An epoch's log ratio is its host's plus noise; a host's is the truth (0) plus its own deviation. Runs have a fixed
number of epochs, or end by the stopping rule. A negative control uses the variance between hosts as it was found, which
bakeoff does not (`_Blocks.shares`); its intervals must cover too seldom.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, cycle, islice, product, repeat

import numpy as np

from bakeoff.stats import hosts as combined
from bakeoff.stats import interval as iv
from bakeoff.stats.hosts import moments
from bakeoff.stats.model import Interval
from validation.check import Checks, Count, Finding, Setting, Size, scaled, summarised
from validation.simulation import stopped

HOST_CHECKS = Checks(Size.REPLAY)

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


def draw(rng: np.random.Generator, hosts: Sequence[str], *, differ: float) -> list[float]:
    """Draw one log ratio per epoch; the truth is 0."""
    names = list(dict.fromkeys(hosts))
    own = dict(zip(names, rng.normal(0, differ * NOISE, len(names)).tolist(), strict=True))
    return [own[host] + NOISE * each for host, each in zip(hosts, rng.standard_normal(len(hosts)), strict=True)]


def fixed(values: Sequence[float], hosts: Sequence[str]) -> Interval:
    return iv.t_interval(*moments(values, hosts), alpha=1 - LEVEL)


def as_found(values: Sequence[float], hosts: Sequence[str]) -> Interval:
    blocks = combined._blocks(values, hosts)
    assert blocks is not None
    weights = blocks.weights(blocks.between)
    mean, variance = blocks.error([weight / math.fsum(weights) for weight in weights])
    error = iv.Moments(mean, math.sqrt(variance * len(values)), len(values), len(blocks.counts) - 1)
    return iv.t_interval(*error, alpha=1 - LEVEL)


def ended(values: Sequence[float], hosts: Sequence[str], *, precision: float) -> Interval:
    """Return the interval of a run that looks after every epoch and ends by the rule or with its last value."""
    _, n = stopped(values, hosts, precision=precision)
    return iv.precision_interval(*moments(values[:n], hosts[:n]))


def simulate(
    seed: int,
    hosts: Sequence[str],
    judge: Callable[[Sequence[float], Sequence[str]], Interval],
    *,
    runs: int,
    differ: float,
) -> int:
    rng = np.random.default_rng([seed, len(hosts), int(differ * 1000)])
    return sum(judge(draw(rng, hosts, differ=differ), hosts).holds(0.0) for _ in range(runs))


@HOST_CHECKS.add("G20", "the interval holds the truth >= 95 %; the variance as found: <= 85 %")
def several_hosts(setting: Setting, scale: float = 1.0) -> Finding:
    """Intervals over several hosts that differ, of a fixed number of epochs and by the stopping rule."""
    runs, counts = scaled(200, scale), []
    for (name, epochs), differ in product(_EPOCHS_BY_HOST.items(), _DIFFER):
        hosts = list(chain.from_iterable(repeat(f"h{at}", count) for at, count in enumerate(epochs)))
        held = simulate(setting.seed, hosts, fixed, runs=runs, differ=differ)
        counts.append(Count(f"{name}, hosts differ by {differ:g} s:", held, runs, at_least=LEVEL))
        if name == _CONTROL and differ:
            held = simulate(setting.seed, hosts, as_found, runs=runs, differ=differ)
            counts.append(Count("negative control:", held, runs, at_most=0.85))
    for count, differ, precision in product(_HOSTS, _DIFFER, (0.002, 0.006)):
        hosts = list(islice(cycle(f"h{at}" for at in range(count)), _EPOCHS_MAX))
        few = scaled(runs / 4, 1)
        held = simulate(setting.seed, hosts, partial(ended, precision=precision), runs=few, differ=differ)
        counts.append(Count(f"{count} hosts, ±{precision:.1%}, differ by {differ:g} s:", held, few, at_least=LEVEL))
    return summarised(counts)
