"""Main effects and interactions of a study's factors, ratios of any two arms, and published ratios.

The model is ln y = epoch + main effects + interactions, estimated epoch by epoch: an effect is the mean difference of
log throughputs over the combinations of the other factors. Intervals are over epochs.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations, product

from bakeoff.spec.study import Design, PublishedClaim
from bakeoff.stats import hosts
from bakeoff.stats import interval as iv
from bakeoff.stats.model import Analysis, Estimate

EpochValues = dict[tuple[str, str], dict[int, float]]
"""(cell, arm) -> epoch -> log throughput over the baseline's; the baseline's own are 0."""

Levels = tuple[str, ...]  # the level of each factor, in the order of the factors
Weights = dict[str, float]  # arm -> weight; a contrast of log throughputs is the sum of weight times value
Steps = dict[int, tuple[str, str]]  # index of a factor -> (level over which, level)


def epoch_values(analysis: Analysis) -> EpochValues:
    """Return every arm's epochs; none for an arm that completed nothing in one of them."""
    values: EpochValues = {}
    for comparison in analysis.comparisons:
        # Without an estimate the points are only those of the other epochs.
        own = {point.epoch: point.value for point in comparison.points} if comparison.estimate.n else {}
        values[comparison.cell, comparison.contender] = own
        values.setdefault((comparison.cell, analysis.baseline), {}).update(dict.fromkeys(own, 0.0))
    return values


def estimate_of(values: Mapping[int, float], analysis: Analysis) -> Estimate | None:
    measured_by = analysis.hosts_of(values)
    return hosts.estimate_of([*values.values()], measured_by, iv.precision_interval) if values else None


def contrast(
    values: EpochValues, analysis: Analysis, *, cell: str, numerator: str, denominator: str
) -> Estimate | None:
    """Return the log ratio of any two arms in a cell over the epochs that have both, or None if there are none."""
    upper, lower = values.get((cell, numerator), {}), values.get((cell, denominator), {})
    return estimate_of({epoch: upper[epoch] - lower[epoch] for epoch in sorted(upper.keys() & lower.keys())}, analysis)


@dataclass(frozen=True)
class MainEffect:
    """Log ratio of a level over the baseline's level, averaged over the other factors."""

    cell: str
    factor: str
    level: str
    over: str
    combinations: int
    estimate: Estimate


@dataclass(frozen=True)
class Interaction:
    """How much the effect of a level changes between two levels of another factor: a log ratio of ratios."""

    cell: str
    factor: str
    level: str
    over: str
    other: str
    other_base: str
    other_level: str
    at_base: Estimate | None  # the effect at `other_base`; None if `mixed`
    at_other: Estimate | None  # the effect at `other_level`; None if `mixed`
    estimate: Estimate
    mixed: tuple[tuple[str, str], ...] = ()  # pairs of factors aliased with this one, and summed with it


def main_effects(analysis: Analysis, design: Design) -> tuple[MainEffect, ...]:
    """Estimate every level of every factor in every cell; empty below two factors."""
    values, base, varied = epoch_values(analysis), design.levels[analysis.baseline], _varied(design)
    found = []
    for cell, index in product(_cells(analysis), varied if len(varied) > 1 else ()):
        for level in _other_levels(design, index, base):
            weights, combinations = contrast_weights(design, {index: (base[index], level)})
            estimate = estimate_of(epoch_contrasts(values, cell, weights), analysis)
            if estimate:
                factor = design.factors[index].name
                found.append(MainEffect(cell, factor, level, base[index], combinations, estimate))
    return tuple(found)


def interactions(analysis: Analysis, design: Design) -> tuple[Interaction, ...]:
    """Estimate every pair of levels of two factors for which all four corners were measured.

    Returns only the first of interactions that a fraction aliases.
    """
    values, base = epoch_values(analysis), design.levels[analysis.baseline]
    found = []
    for cell, (second, first) in product(_cells(analysis), combinations(_varied(design), 2)):
        names = design.factors[first].name, design.factors[second].name
        mixed = design.fraction.mixed_with(*names) if design.fraction else ()
        if mixed and not _comes_first(design, names, mixed):
            continue
        for level, other_level in product(_other_levels(design, first, base), _other_levels(design, second, base)):
            one, other = {first: (base[first], level)}, {second: (base[second], other_level)}
            weights = contrast_weights(design, one | other)[0]
            epochs = epoch_contrasts(values, cell, weights)
            both = estimate_of(epochs, analysis)
            if both is None:
                continue
            # From the same arms and epochs as the estimate, so that the two are consistent.
            at_base, at_other = (
                None if mixed else estimate_of(epoch_contrasts(values, cell, half, epochs), analysis)
                for sign, at in ((-1, base[second]), (1, other_level))
                for half in [{arm: sign * w for arm, w in weights.items() if design.levels[arm][second] == at}]
            )
            found.append(
                Interaction(
                    cell, names[0], level, base[first], names[1], base[second], other_level,
                    at_base, at_other, both, mixed,
                )
            )  # fmt: skip
    return tuple(found)


def contrast_weights(design: Design, steps: Steps) -> tuple[Weights, int]:
    """Return the contrast of a step of one or two factors, and how many arms are at the upper end.

    Arms are matched on all other factors, but a step within a fraction averages over those of the fraction.
    """
    names = design.fraction.factors if design.fraction else ()
    fractioned = {index for index, factor in enumerate(design.factors) if factor.name in names}
    averaged = fractioned if fractioned & steps.keys() else set()
    arms_by_levels = {levels: arm for arm, levels in reversed(design.levels.items())}  # the baseline, not its control
    groups: dict[Levels, dict[Levels, list[str]]] = {}
    for levels, arm in arms_by_levels.items():
        if any(levels[index] not in pair for index, pair in steps.items()):
            continue
        key = tuple(level for index, level in enumerate(levels) if index not in steps and index not in averaged)
        groups.setdefault(key, {}).setdefault(tuple(levels[index] for index in steps), []).append(arm)
    whole = [corners for corners in groups.values() if len(corners) == 2 ** len(steps)]
    weights: Weights = {}
    upper = 0
    for corners in whole:
        for corner, arms in corners.items():
            tops = sum(level == pair[1] for level, pair in zip(corner, steps.values(), strict=True))
            sign = 1.0 if (len(steps) - tops) % 2 == 0 else -1.0
            upper += len(arms) if tops == len(steps) else 0
            for arm in arms:
                weights[arm] = sign / len(arms) / len(whole)
    return weights, upper


def epoch_contrasts(
    values: EpochValues, cell: str, weights: Weights, among: Collection[int] | None = None
) -> dict[int, float]:
    columns = {arm: values.get((cell, arm), {}) for arm in weights}
    if not columns:
        return {}
    shared = set.intersection(*(set(column) for column in columns.values()))
    epochs = sorted(shared if among is None else shared.intersection(among))
    return {epoch: sum(weight * columns[arm][epoch] for arm, weight in weights.items()) for epoch in epochs}


def _comes_first(design: Design, names: tuple[str, str], mixed: Sequence[tuple[str, str]]) -> bool:
    order = [factor.name for factor in design.factors]

    def rank(pair: tuple[str, str]) -> list[int]:
        return sorted(order.index(name) for name in pair)

    return all(rank(names) < rank(other) for other in mixed)


def _varied(design: Design) -> list[int]:
    return [index for index, factor in enumerate(design.factors) if len(factor.levels) > 1]


def _other_levels(design: Design, index: int, base: Levels) -> list[str]:
    return [level for level in design.factors[index].levels if level != base[index]]


def _cells(analysis: Analysis) -> tuple[str, ...]:
    return tuple(dict.fromkeys(comparison.cell for comparison in analysis.comparisons))


NO_DIFFERENCE = math.log(1.03)
"""Published log ratios below this count as 'no difference': a single run of each arm cannot resolve less."""

_SIZE_AGREES = 0.1  # log ratio: sizes that differ by less agree, as published ratios have no interval


class Agreement(StrEnum):
    AGREES = "agrees"
    ORDER_ONLY = "same order, different size"
    DIFFERS = "differs"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class PublishedRatio:
    """A published log ratio beside the measured one. It comes from another machine and has no interval.

    For a claim, `published` is the ratio within its bounds that is nearest to the measured one.
    """

    cell: str
    numerator: str
    denominator: str
    published: float
    measured: Estimate | None  # None if the cell was not measured
    agreement: Agreement
    claim: PublishedClaim | None = None


def published_ratios(analysis: Analysis, design: Design, precision: float) -> tuple[PublishedRatio, ...]:
    """Compare the published ratios with the measured ones; `precision` is the study's target half-width."""
    if design.published is None:
        return ()
    figures = {(figure.cell, figure.arm): figure.value for figure in design.published.figures}
    values = epoch_values(analysis)
    found = []
    for cell in dict.fromkeys(figure.cell for figure in design.published.figures):
        for numerator, denominator in one_factor_pairs(design, analysis.baseline):
            if (cell, numerator) not in figures or (cell, denominator) not in figures:
                continue
            published = math.log(figures[cell, numerator] / figures[cell, denominator])
            measured = contrast(values, analysis, cell=cell, numerator=numerator, denominator=denominator)
            agreement = judge(published, measured, precision)
            found.append(PublishedRatio(cell, numerator, denominator, published, measured, agreement))
    for claim in design.published.claims:
        pair = {"cell": claim.cell, "numerator": claim.numerator, "denominator": claim.denominator}
        measured = contrast(values, analysis, **pair)
        published, agreement = judge_claim(claim, measured, precision)
        found.append(PublishedRatio(**pair, published=published, measured=measured, agreement=agreement, claim=claim))
    return tuple(found)


def judge_claim(claim: PublishedClaim, measured: Estimate | None, precision: float) -> tuple[float, Agreement]:
    """Return the ratio within the claim's bounds that is nearest to the measured one, and how they agree.

    A claim of direction alone agrees if the whole interval is on its side.
    """
    low = -math.inf if claim.low is None else math.log(claim.low)
    high = math.inf if claim.high is None else math.log(claim.high)
    middle = measured.mean if measured else 0.0
    nearest = min(max(middle, low), high)
    if claim.low is not None and claim.high is not None:
        return nearest, judge(nearest, measured, precision)
    if measured is None or measured.interval.low is None or measured.interval.high is None:
        return nearest, Agreement.CANNOT_TELL
    if low < measured.interval.low and measured.interval.high < high:
        return nearest, Agreement.AGREES
    near = NO_DIFFERENCE if nearest == 0 or abs(middle) < NO_DIFFERENCE else 0.0  # equal, but more was claimed
    outside = measured.interval.high < low + near or measured.interval.low > high - near
    return nearest, Agreement.DIFFERS if outside else Agreement.CANNOT_TELL


def judge(published: float, measured: Estimate | None, precision: float) -> Agreement:
    """Compare a published ratio with the measured one: the order, then the size. Ratios within 3% of 1 count as 1.

    Sizes agree if the published ratio lies in the measured interval or near its middle, unless the interval is too wide
    to tell the order, or reaches across 1 without the published ratio.
    """
    if measured is None or measured.interval.low is None or measured.interval.high is None:
        return Agreement.CANNOT_TELL
    near, middle = max(precision, _SIZE_AGREES), measured.mean
    low, high = measured.interval.low, measured.interval.high
    if published < 0:
        published, middle, low, high = -published, -middle, -high, -low
    equal = low > -NO_DIFFERENCE and high < NO_DIFFERENCE
    is_one = published <= NO_DIFFERENCE
    if high < (-NO_DIFFERENCE if is_one else 0) or (low > NO_DIFFERENCE if is_one else equal):
        return Agreement.DIFFERS
    if low < 0 < high and high - low > 2 * near:
        return Agreement.CANNOT_TELL
    is_near = abs(published - middle) < near
    if low <= published <= high or (is_near and (is_one or low > 0)):
        return Agreement.AGREES
    if is_one or is_near:
        return Agreement.CANNOT_TELL
    return Agreement.ORDER_ONLY if low > 0 else Agreement.DIFFERS  # narrow, and far from what was published


def one_factor_pairs(design: Design, baseline: str) -> tuple[tuple[str, str], ...]:
    """Return (numerator, denominator) for arms that differ in one factor alone, over the baseline's level."""
    base = design.levels[baseline]
    arms = {levels: arm for arm, levels in reversed(design.levels.items())}
    pairs = []
    for index in range(len(design.factors)):
        for levels, arm in sorted(arms.items(), key=lambda item: list(design.levels).index(item[1])):
            other = (*levels[:index], base[index], *levels[index + 1 :])
            if levels[index] != base[index] and other in arms:
                pairs.append((arm, arms[other]))
    return tuple(pairs)
