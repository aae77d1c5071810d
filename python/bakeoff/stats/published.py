"""Compare published ratios with measured ones.

A published figure comes from another machine, without an interval: only the order is compared, that is which arm leads.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations, islice
from statistics import median

from bakeoff.spec.study import Design
from bakeoff.stats.effects import contrast, epoch_values
from bakeoff.stats.model import Analysis, Estimate

NO_DIFFERENCE = math.log(1.03)
"""Published log ratios below this count as 'no difference': a single run of each arm resolves no less."""

SETS = 3
"""How many sets of measurements a publication usually has."""

_CHOICES_MAX = 5000


class Judgement(StrEnum):
    """Whether a measured interval agrees with a published ratio."""

    AGREES = "agrees"
    DIFFERS = "differs"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class PublishedRatio:
    """One published ratio; log ratios.

    Attributes:
        factor: the only factor in which the two arms differ.
        measured: None when the cell was not measured.
        size_too: the published ratio lies inside the measured interval.
    """

    cell: str
    factor: str
    numerator: str
    denominator: str
    published: float
    measured: Estimate | None
    judgement: Judgement
    size_too: bool


def published_ratios(analysis: Analysis, design: Design) -> tuple[PublishedRatio, ...]:
    """Compare every pair of `one_factor_pairs` with published figures for both arms in a cell."""
    if design.published is None:
        return ()
    figures = {(figure.cell, figure.arm): figure.value for figure in design.published.figures}
    values = epoch_values(analysis)
    found = []
    for cell in dict.fromkeys(figure.cell for figure in design.published.figures):
        for factor, numerator, denominator in one_factor_pairs(design, analysis.baseline):
            if (cell, numerator) not in figures or (cell, denominator) not in figures:
                continue
            published = math.log(figures[cell, numerator] / figures[cell, denominator])
            measured = contrast(values, analysis, cell=cell, numerator=numerator, denominator=denominator)
            ratio = PublishedRatio(
                cell=cell,
                factor=factor,
                numerator=numerator,
                denominator=denominator,
                published=published,
                measured=measured,
                judgement=judge(published, measured),
                size_too=measured is not None and measured.interval.holds(published),
            )
            found.append(ratio)
    return tuple(found)


def judge(published: float, measured: Estimate | None) -> Judgement:
    """Compare the published order with the measured one; log ratios.

    Returns:
        AGREES when the whole interval lies on the published side of a ratio of 1 (or within 3 % of 1, if that was
        published); DIFFERS when all of it contradicts the published order; else CANNOT_TELL.
    """
    if measured is None or measured.interval.low is None or measured.interval.high is None:
        return Judgement.CANNOT_TELL
    low, high = measured.interval.low, measured.interval.high
    equal = low > -NO_DIFFERENCE and high < NO_DIFFERENCE
    if abs(published) <= NO_DIFFERENCE:
        if equal:
            return Judgement.AGREES
        return Judgement.DIFFERS if low > NO_DIFFERENCE or high < -NO_DIFFERENCE else Judgement.CANNOT_TELL
    if published < 0:
        low, high = -high, -low
    if equal or high < 0:
        return Judgement.DIFFERS
    return Judgement.AGREES if low > 0 else Judgement.CANNOT_TELL


def one_factor_pairs(design: Design, baseline: str) -> tuple[tuple[str, str, str], ...]:
    """(factor, numerator, denominator): arms that differ in it alone, the denominator at the baseline's level."""
    base = design.levels[baseline]
    arms = {levels: arm for arm, levels in reversed(design.levels.items())}
    pairs = []
    for index, factor in enumerate(design.factors):
        for levels, arm in sorted(arms.items(), key=lambda item: list(design.levels).index(item[1])):
            other = (*levels[:index], base[index], *levels[index + 1 :])
            if levels[index] != base[index] and other in arms:
                pairs.append((factor.name, arm, arms[other]))
    return tuple(pairs)


def median_ratios(contender: Mapping[int, float], baseline: Mapping[int, float]) -> tuple[float, ...]:
    """Ratios of medians, as publications report them, for every choice of three epochs; () with fewer.

    Both map an epoch to events per second; epochs that lack one of the two are left out.
    """
    both = sorted(contender.keys() & baseline.keys())
    return tuple(
        median(contender[epoch] for epoch in chosen) / median(baseline[epoch] for epoch in chosen)
        for chosen in islice(combinations(both, SETS), _CHOICES_MAX)
    )
