"""What a test of the gauntlet is, and what it found."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

import polars as pl
from scipy.stats import binom

from bakeoff.results.epoch_data import EpochData
from bakeoff.stats.estimate import PairEstimate, epoch_estimates, with_rates
from bakeoff.stats.interval import INFLATION, standard_deviation, t_interval
from bakeoff.stats.model import Estimate


class Size(StrEnum):
    """How much is run: `replay` in minutes and without a server of its own, `quick` in 7 minutes, `full` in hours."""

    REPLAY = "replay"
    QUICK = "quick"
    FULL = "full"


@dataclass(frozen=True)
class Setting:
    """What a test may use.

    Attributes:
        size: which size is being run; tests choose their numbers of runs by it.
        seed: everything random follows from it and the test's name.
        folder: of the test's own; what it writes there (journals of duels, traces) is kept with the gauntlet's run.
        server: the server that real tests are run on, as on the command line.
        tell: a line of progress.
    """

    size: Size
    seed: int
    folder: Path
    server: str = "mysql:8.0.15"
    tell: Callable[[str], None] = field(default=lambda text: None)


@dataclass(frozen=True)
class Finding:
    """What a test found.

    Attributes:
        found: the result in the words and units of the test's target.
        passed: whether the target holds; None when the machine cannot run the test, and `found` says why.
        figures: the numbers behind it, by name with unit, as JSON has them.
    """

    found: str
    passed: bool | None
    figures: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """A test of the gauntlet.

    Attributes:
        test: its number in docs/method.md: "G1".
        what: what it does, in a few words.
        target: what must hold.
        sizes: the sizes it belongs to.
        run: does it.
    """

    test: str
    what: str
    target: str
    sizes: frozenset[Size]
    run: Callable[[Setting], Finding]


# How often something may happen in a limited number of runs before its promised rate is refuted.

_TAIL = 0.025
"""Chance that a promise just kept is called broken: 16 of 200 for a rate of 5 %, as the method accepts."""


def most(runs: int, rate: float, *, tail: float = _TAIL) -> int:
    """Most occurrences that `runs` runs may show when the rate is at most `rate`; `tail`: chance of a false alarm."""
    return int(binom.ppf(1 - tail, runs, rate))


def fewest(runs: int, rate: float, *, tail: float = _TAIL) -> int:
    """Fewest occurrences that `runs` runs must show when the rate is at least `rate`."""
    return int(binom.ppf(tail, runs, rate))


# What epochs of one question measured in several ways say, as log ratios.

_ALPHA = 0.05


def by_way(epochs: Sequence[EpochData], *, baseline: str = "A") -> dict[str, list[PairEstimate]]:
    """Pairs of all epochs by the way they were measured."""
    found: dict[str, list[PairEstimate]] = {}
    for epoch in epochs:
        for pair in epoch_estimates(epoch, baseline=baseline).pairs:
            found.setdefault(pair.cell, []).append(pair)
    return found


def of_way(epoch: EpochData, name: str) -> EpochData:
    """What an epoch measured in one of its ways."""
    return replace(epoch, slices=epoch.slices.filter(pl.col("cell") == name))


def rate(epoch: EpochData) -> float:
    """Events per second of an epoch's slices, whatever they are of."""
    slices = with_rates(epoch.slices)
    return float(slices["events"].sum()) / float(slices["seconds"].sum())


def mean_of(values: Sequence[float], *, looks: int = 1) -> Estimate:
    """Mean and interval of 95 % over epochs and over `looks` such estimates together, as wide as a run tells them."""
    n, mean = len(values), math.fsum(values) / len(values)
    interval = t_interval(mean, standard_deviation(values), n, alpha=_ALPHA / looks, inflation=INFLATION)
    return Estimate(mean=mean, interval=interval, n=n)


def agrees(one: Estimate, other: Estimate) -> bool:
    """Whether two independent estimates differ by no more than their intervals together allow."""
    widths = [estimate.interval.half_width or math.inf for estimate in (one, other)]
    return abs(one.mean - other.mean) <= math.hypot(*widths)


def shown(estimate: Estimate) -> str:
    """A log ratio in percent with its half-width."""
    return f"{math.expm1(estimate.mean):+.2%} ± {estimate.interval.half_width or math.inf:.2%}"
