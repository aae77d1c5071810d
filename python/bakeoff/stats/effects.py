"""What each factor does, and whether it does the same at every level of another: an epoch-blocked log-linear model.

ln y = epoch + main effects + interactions, estimated epoch by epoch: an effect is the mean, over the combinations of
the other factors that have both levels, of the difference of log throughputs; on a complete factorial, or a regular
fraction of one: least squares.
Its interval is over epochs (docs/method.md), so what moves a whole epoch cancels. Levels are against the baseline's.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from bakeoff.spec.study import Design
from bakeoff.stats import interval as iv
from bakeoff.stats.model import Analysis, Estimate

# Ratios of any two arms, from the epochs of an analysis: contender over contender, not over the baseline alone.
#
# D_e of two contenders differ by the log ratio of the two, whatever the baseline did in that epoch, when all three ran
# together; with rounds (docs/results.md) the baseline of each round cancels what moved the machine between them.

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


Levels = tuple[str, ...]


@dataclass(frozen=True)
class MainEffect:
    """A level of a factor over the baseline's level of it, the other factors averaged; a log ratio.

    Attributes:
        combinations: how many arms have the level in it.
    """

    cell: str
    factor: str
    level: str
    over: str
    combinations: int
    estimate: Estimate


@dataclass(frozen=True)
class Interaction:
    """How much the effect of a level changes from one level of another factor to another: a log ratio of ratios.

    Attributes:
        at_base, at_other: the effect at the other factor's baseline level, and at `other_level`; None when `mixed`.
        mixed: pairs of factors whose interaction cannot be told from this one: the estimate is the sum of them all.
    """

    cell: str
    factor: str
    level: str
    over: str
    other: str
    other_base: str
    other_level: str
    at_base: Estimate | None
    at_other: Estimate | None
    estimate: Estimate
    mixed: tuple[tuple[str, str], ...] = ()


def main_effects(analysis: Analysis, design: Design) -> tuple[MainEffect, ...]:
    """Every level of every factor in every cell; empty below two factors, where the comparisons say it all."""
    if len(_varied(design)) < 2:
        return ()
    values, base = epoch_values(analysis), design.levels[analysis.baseline]
    found = []
    for cell in _cells(analysis):
        for place in _varied(design):
            for level in design.factors[place].levels:
                if level == base[place]:
                    continue
                weights, pairs = _weights(design, {place: (base[place], level)})
                estimate = _estimate(values, analysis, cell, weights)
                if estimate:
                    factor = design.factors[place].name
                    found.append(MainEffect(cell, factor, level, base[place], pairs, estimate))
    return tuple(found)


def interactions(analysis: Analysis, design: Design) -> tuple[Interaction, ...]:
    """Every pair of levels of every pair of factors for which all four corners were measured.

    Of interactions that a fraction cannot tell apart the first is given, with the others' names, and without the
    effects at each level, which are not estimable then.
    """
    values, base = epoch_values(analysis), design.levels[analysis.baseline]
    found = []
    for cell in _cells(analysis):
        for second, first in combinations(_varied(design), 2):
            # The effect of the factor that comes later is told at each level of the earlier one.
            names = design.factors[first].name, design.factors[second].name
            mixed = design.fraction.mixed_with(*names) if design.fraction else ()
            if mixed and not _comes_first(design, names, mixed):
                continue
            for level in design.factors[first].levels:
                for other_level in design.factors[second].levels:
                    if level == base[first] or other_level == base[second]:
                        continue
                    one, other = {first: (base[first], level)}, {second: (base[second], other_level)}
                    both = _estimate(values, analysis, cell, _weights(design, one | other)[0])
                    if both is None:
                        continue
                    at_base, at_other = (
                        None if mixed else _estimate(values, analysis, cell, _weights(design, one, {second: at})[0])
                        for at in (base[second], other_level)
                    )
                    found.append(
                        Interaction(
                            cell, names[0], level, base[first], names[1], base[second], other_level,
                            at_base, at_other, both, mixed,
                        )
                    )  # fmt: skip
    return tuple(found)


Weights = dict[str, float]
"""Arm -> weight; a contrast of log throughputs is the sum of weight times value."""

Steps = dict[int, tuple[str, str]]
"""Place of a factor -> (level over which, level)."""


def _weights(design: Design, steps: Steps, within: dict[int, str] | None = None) -> tuple[Weights, int]:
    """The contrast of one factor's step (or, of two, of the difference of differences), and how many arms have it.

    Arms are matched on the levels of all other factors; a fraction has no two arms that differ in one of its factors
    alone, so when the step is in one of these, its factors are averaged over instead: it is balanced in them.

    Args:
        design: levels of the arms.
        steps: what is contrasted.
        within: only arms with these levels count (place -> level).
    """
    fractioned = _fractioned(design)
    averaged = fractioned if fractioned & steps.keys() else set()
    groups: dict[Levels, dict[Levels, list[str]]] = {}
    for levels, arm in _arms(design).items():
        if any(levels[place] not in pair for place, pair in steps.items()):
            continue
        if any(levels[place] != level for place, level in (within or {}).items()):
            continue
        key = tuple(level for place, level in enumerate(levels) if place not in steps and place not in averaged)
        groups.setdefault(key, {}).setdefault(tuple(levels[place] for place in steps), []).append(arm)
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


def _estimate(values: EpochValues, analysis: Analysis, cell: str, weights: Weights) -> Estimate | None:
    """The contrast in each epoch that has all of its arms, and its mean with an interval over epochs."""
    columns = {arm: values.get((cell, arm), {}) for arm in weights}
    if not columns:
        return None
    epochs = sorted(set.intersection(*(set(column) for column in columns.values())))
    return estimate_of(
        [sum(weight * columns[arm][epoch] for arm, weight in weights.items()) for epoch in epochs], analysis
    )


def _comes_first(design: Design, names: tuple[str, str], mixed: Sequence[tuple[str, str]]) -> bool:
    """Whether a pair of factors is the first of those that cannot be told apart, in the order of the study."""
    order = [factor.name for factor in design.factors]

    def rank(pair: tuple[str, str]) -> list[int]:
        return sorted(order.index(name) for name in pair)

    return all(rank(names) < rank(other) for other in mixed)


def _fractioned(design: Design) -> set[int]:
    """Places of the fraction's factors."""
    named = design.fraction.factors if design.fraction else ()
    return {place for place, factor in enumerate(design.factors) if factor.name in named}


def _arms(design: Design) -> dict[Levels, str]:
    """Levels -> arm; the control, which has its baseline's levels, is left out."""
    return {levels: arm for arm, levels in reversed(design.levels.items())}


def _varied(design: Design) -> list[int]:
    return [place for place, factor in enumerate(design.factors) if len(factor.levels) > 1]


def _cells(analysis: Analysis) -> tuple[str, ...]:
    return tuple(dict.fromkeys(comparison.cell for comparison in analysis.comparisons))
