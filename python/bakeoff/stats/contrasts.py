"""Ratios of any two arms, from the epochs of an analysis: contender over contender, not over the baseline alone.

D_e of two contenders differ by the log ratio of the two, whatever the baseline did in that epoch, when all three ran
together; with rounds (docs/results.md) the baseline of each round cancels what moved the machine between them.
"""

import math
from collections.abc import Sequence

from bakeoff.stats import interval as iv
from bakeoff.stats.model import Analysis, Estimate

EpochValues = dict[tuple[str, str], dict[int, float]]
"""(cell, arm) -> epoch -> log throughput over the baseline's; the baseline's own are 0."""


def epoch_values(analysis: Analysis) -> EpochValues:
    """Every arm's epochs; those that are not finite (an arm that completed nothing) are left out."""
    values: EpochValues = {}
    for comparison in analysis.comparisons:
        own = {point.epoch: point.value for point in comparison.points if math.isfinite(point.value)}
        values[comparison.cell, comparison.contender] = own
        values.setdefault((comparison.cell, analysis.baseline), {}).update(dict.fromkeys(own, 0.0))
    return values


def estimate_of(values: Sequence[float], analysis: Analysis) -> Estimate | None:
    """Mean and interval over epochs: h_n of the method, or the anytime-valid one where only that may be told."""
    n = len(values)
    if n == 0:
        return None
    mean, sd = math.fsum(values) / n, iv.standard_deviation(values)
    if analysis.stopped.anytime_only:
        half_width = iv.anytime_half_width(sd, n, alpha=0.05)
    else:
        half_width = iv.precision_half_width(sd, n)
    return Estimate(mean=mean, interval=iv.around(mean, half_width), n=n)


def contrast(
    values: EpochValues, analysis: Analysis, *, cell: str, numerator: str, denominator: str
) -> Estimate | None:
    """The log ratio of two arms in a cell, over the epochs that have both; None when none has."""
    upper, lower = values.get((cell, numerator), {}), values.get((cell, denominator), {})
    return estimate_of([upper[epoch] - lower[epoch] for epoch in sorted(upper.keys() & lower.keys())], analysis)
