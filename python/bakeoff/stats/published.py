"""Published ratios beside measured ones, and whether they agree.

A published figure comes without an interval, from another machine. So what is asked is the order: which arm is ahead.
Ratios within 3 % of 1 are taken for 'no difference', as a single run on each side cannot tell less.
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
"""Published log ratios below this say that the arms are equal."""


class Judgement(StrEnum):
    """What a measured interval says of a published ratio."""

    AGREES = "agrees"
    DIFFERS = "differs"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class PublishedRatio:
    """One published ratio; log ratios.

    Attributes:
        factor: the one factor in which the two arms differ.
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
    """Pairs of arms that differ in one factor, over the baseline's level of it, with figures for both in a cell."""
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
            found.append(
                PublishedRatio(
                    cell=cell,
                    factor=factor,
                    numerator=numerator,
                    denominator=denominator,
                    published=published,
                    measured=measured,
                    judgement=judge(published, measured),
                    size_too=_inside(published, measured),
                )
            )
    return tuple(found)


def judge(published: float, measured: Estimate | None) -> Judgement:
    """Compare the order that was published with the one that was measured.

    Args:
        published: log ratio without an interval.
        measured: with its interval, or None.

    Returns:
        AGREES when the whole interval lies on the published side of 1 (or within 3 % of it, if that was published);
        DIFFERS when it lies where the published order cannot be; else CANNOT_TELL.
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
    for place, factor in enumerate(design.factors):
        for levels, arm in sorted(arms.items(), key=lambda item: list(design.levels).index(item[1])):
            other = (*levels[:place], base[place], *levels[place + 1 :])
            if levels[place] != base[place] and other in arms:
                pairs.append((factor.name, arm, arms[other]))
    return tuple(pairs)


def _inside(published: float, measured: Estimate | None) -> bool:
    if measured is None or measured.interval.low is None or measured.interval.high is None:
        return False
    return measured.interval.low <= published <= measured.interval.high


# The median of a few sets, as publications report it: computed from epochs, to stand beside an interval.

SETS = 3
"""How many sets a publication usually measures."""

_CHOICES_MAX = 5000


def median_ratios(contender: Mapping[int, float], baseline: Mapping[int, float]) -> tuple[float, ...]:
    """Ratio of medians for every choice of three epochs, the first three in time first; () with fewer.

    Args:
        contender: epoch -> events per second.
        baseline: likewise; epochs that lack one of the two are left out.
    """
    both = sorted(contender.keys() & baseline.keys())
    return tuple(
        median(contender[epoch] for epoch in chosen) / median(baseline[epoch] for epoch in chosen)
        for chosen in islice(combinations(both, SETS), _CHOICES_MAX)
    )
