"""Two runs of different hours compared: unpaired, so that whatever changed between the hours is in the difference.

Each run gives one value an epoch. The difference of their means has Welch's t interval: the runs may scatter
differently, and no epoch of one belongs to an epoch of the other.

Source: B. L. Welch, The generalization of Student's problem when several different population variances are involved,
Biometrika 34 (1947).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import stdtr, stdtrit

from bakeoff.stats.interval import standard_deviation
from bakeoff.stats.model import Estimate, Interval

ALPHA = 0.05
EPOCHS_MIN = 3
"""Fewest epochs of either run for an interval."""


@dataclass(frozen=True)
class Unpaired:
    """A later run against an earlier one; log ratio.

    Attributes:
        estimate: difference of the means with a 95 % interval (ends None below three epochs); n is that of the smaller.
        p_value: two-sided, of no difference; None below three epochs.
    """

    estimate: Estimate
    p_value: float | None


def welch(later: Sequence[float], earlier: Sequence[float]) -> Unpaired | None:
    """Compare the means of two samples of logarithms.

    Args:
        later: one value an epoch.
        earlier: likewise.

    Returns:
        The mean of `later` less that of `earlier`; None when one of them is empty.

    Assumes: epochs of a run independent and roughly normal. The interval covers the scatter of restarts and what moved
    the machine within each run, not what moved it between them.
    """
    n, m = len(later), len(earlier)
    if not n or not m:
        return None
    mean = math.fsum(later) / n - math.fsum(earlier) / m
    if min(n, m) < EPOCHS_MIN:
        return Unpaired(Estimate(mean=mean, interval=Interval(low=None, high=None), n=min(n, m)), None)
    a, b = standard_deviation(later) ** 2 / n, standard_deviation(earlier) ** 2 / m
    if a + b == 0:
        return Unpaired(
            Estimate(mean=mean, interval=Interval(low=mean, high=mean), n=min(n, m)), 1.0 if mean == 0 else 0.0
        )
    degrees = (a + b) ** 2 / (a**2 / (n - 1) + b**2 / (m - 1))
    error = math.sqrt(a + b)
    half = float(stdtrit(degrees, 1 - ALPHA / 2)) * error
    return Unpaired(
        Estimate(mean=mean, interval=Interval(low=mean - half, high=mean + half), n=min(n, m)),
        float(2 * stdtr(degrees, -abs(mean) / error)),
    )
