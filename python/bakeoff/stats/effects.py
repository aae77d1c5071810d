"""What each factor does, and whether it does the same at every level of another: an epoch-blocked log-linear model.

ln y = epoch + main effects + interactions, estimated epoch by epoch: an effect is the mean, over the combinations of
the other factors that have both levels, of the difference of log throughputs; on a complete factorial: least squares.
Its interval is over epochs (docs/method.md), so what moves a whole epoch cancels. Levels are against the baseline's.
"""

from dataclasses import dataclass
from itertools import combinations

from bakeoff.spec.design import Design
from bakeoff.stats.contrasts import EpochValues, epoch_values, estimate_of
from bakeoff.stats.model import Analysis, Estimate

Levels = tuple[str, ...]


@dataclass(frozen=True)
class MainEffect:
    """A level of a factor over the baseline's level of it, the other factors averaged; a log ratio.

    Attributes:
        combinations: how many combinations of the other factors it is averaged over.
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
        at_base, at_other: the effect at the other factor's baseline level, and at `other_level`.
    """

    cell: str
    factor: str
    level: str
    over: str
    other: str
    other_base: str
    other_level: str
    at_base: Estimate
    at_other: Estimate
    estimate: Estimate


def main_effects(analysis: Analysis, design: Design) -> tuple[MainEffect, ...]:
    """Every level of every factor in every cell; empty below two factors, where the comparisons say it all."""
    if len(_varied(design)) < 2:
        return ()
    values, arms = epoch_values(analysis), _arms(design)
    base = design.levels[analysis.baseline]
    found = []
    for cell in _cells(analysis):
        for place in _varied(design):
            for level in design.factors[place].levels:
                if level == base[place]:
                    continue
                pairs = [
                    (arm, arms[_moved(levels, place, base[place])])
                    for levels, arm in arms.items()
                    if levels[place] == level and _moved(levels, place, base[place]) in arms
                ]
                estimate = _mean_over_pairs(values, analysis, cell, pairs)
                if estimate:
                    factor = design.factors[place].name
                    found.append(MainEffect(cell, factor, level, base[place], len(pairs), estimate))
    return tuple(found)


def interactions(analysis: Analysis, design: Design) -> tuple[Interaction, ...]:
    """Every pair of levels of every pair of factors for which all four corners were measured."""
    values, arms = epoch_values(analysis), _arms(design)
    base = design.levels[analysis.baseline]
    found = []
    for cell in _cells(analysis):
        for place, other in combinations(_varied(design), 2):
            # The effect of the factor that comes later is told at each level of the earlier one.
            first, second = other, place
            for level in design.factors[first].levels:
                for other_level in design.factors[second].levels:
                    if level == base[first] or other_level == base[second]:
                        continue
                    corner = _corners(arms, first, level, base[first], second, other_level, base[second])
                    at_base = _mean_over_pairs(values, analysis, cell, [pair for pair, _ in corner])
                    at_other = _mean_over_pairs(values, analysis, cell, [pair for _, pair in corner])
                    both = _difference(values, analysis, cell, corner)
                    if at_base and at_other and both:
                        names = design.factors[first].name, design.factors[second].name
                        found.append(
                            Interaction(
                                cell, names[0], level, base[first], names[1], base[second], other_level,
                                at_base, at_other, both,
                            )
                        )  # fmt: skip
    return tuple(found)


Pair = tuple[str, str]  # numerator and denominator


def _corners(
    arms: dict[Levels, str], first: int, level: str, base: str, second: int, other_level: str, other_base: str
) -> list[tuple[Pair, Pair]]:
    """For each combination of the remaining factors: the effect's pair at the other's base, and at its level."""
    found = []
    for levels in arms:
        if levels[first] != level or levels[second] != other_level:
            continue
        corners = (
            _moved(levels, second, other_base),
            _moved(_moved(levels, second, other_base), first, base),
            levels,
            _moved(levels, first, base),
        )
        if all(corner in arms for corner in corners):
            a, b, c, d = (arms[corner] for corner in corners)
            found.append(((a, b), (c, d)))
    return found


def _mean_over_pairs(values: EpochValues, analysis: Analysis, cell: str, pairs: list[Pair]) -> Estimate | None:
    return estimate_of(_per_epoch(values, cell, [((*pair,), 1.0) for pair in pairs]), analysis) if pairs else None


def _difference(
    values: EpochValues, analysis: Analysis, cell: str, corners: list[tuple[Pair, Pair]]
) -> Estimate | None:
    signed = [((*pair,), sign) for at_base, at_other in corners for pair, sign in ((at_base, -1.0), (at_other, 1.0))]
    if not signed:
        return None
    # Two pairs make one difference of differences.
    return estimate_of([2 * value for value in _per_epoch(values, cell, signed)], analysis)


def _per_epoch(values: EpochValues, cell: str, signed: list[tuple[Pair, float]]) -> list[float]:
    """Mean of the signed differences in each epoch that has all of the arms."""
    needed = {arm for pair, _ in signed for arm in pair}
    columns = {arm: values.get((cell, arm), {}) for arm in needed}
    epochs = sorted(set.intersection(*(set(column) for column in columns.values())))
    return [
        sum(sign * (columns[upper][epoch] - columns[lower][epoch]) for (upper, lower), sign in signed) / len(signed)
        for epoch in epochs
    ]


def _arms(design: Design) -> dict[Levels, str]:
    """Levels -> arm; the control, which has its baseline's levels, is left out."""
    return {levels: arm for arm, levels in reversed(design.levels.items())}


def _varied(design: Design) -> list[int]:
    return [place for place, factor in enumerate(design.factors) if len(factor.levels) > 1]


def _moved(levels: Levels, place: int, level: str) -> Levels:
    return (*levels[:place], level, *levels[place + 1 :])


def _cells(analysis: Analysis) -> tuple[str, ...]:
    return tuple(dict.fromkeys(comparison.cell for comparison in analysis.comparisons))
