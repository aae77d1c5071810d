"""What epochs of one question measured in several ways say, as log ratios."""

import math
from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from bakeoff.results.epoch import EpochData
from bakeoff.stats.estimate import PairEstimate, epoch_estimates, with_rates
from bakeoff.stats.interval import INFLATION, standard_deviation, t_interval
from bakeoff.stats.model import Estimate

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
