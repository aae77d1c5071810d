"""Ratios of latency quantiles: one log ratio an epoch, the same interval over epochs. Exploratory, no verdict.

L_e(q) = ln Q_B,e(q) - ln Q_A,e(q) from the engine's histograms of a whole epoch. Requests are never pooled over
epochs and never resampled: within one start they are no independent witnesses.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bakeoff.results.epoch import EpochData
from bakeoff.stats.interval import benjamini_hochberg, p_value, standard_deviation
from bakeoff.stats.model import Estimate, Interval, LatencyRatio

TAIL_MIN = 50
"""Observations beyond a quantile that every arm and epoch must have: N (1 - q) >= 50."""

_FALSE_DISCOVERY = 0.05

Place = tuple[int, int]
"""Epoch and round: arms of one place ran together."""

IntervalOf = Callable[[float, float, int], Interval]
"""(mean, sd, n) -> the interval that may be told."""


def latency_ratios(
    epochs: Sequence[EpochData], *, baseline: str, interval_of: IntervalOf, cells: Sequence[str]
) -> tuple[LatencyRatio, ...]:
    """Compare every quantile of every operation that the baseline and a contender both have.

    Args:
        epochs: those that count. A histogram's `round` (0 when it has none) says with which baseline it ran.
        baseline: the arm that ratios are over.
        interval_of: how an interval is made of the epochs' values.
        cells: order of the output.
    """
    rows: dict[tuple[str, str, str], dict[str, dict[Place, Mapping[str, Any]]]] = {}
    for epoch in epochs:
        for row in epoch.histograms:
            key = (row["cell"], row["operation"], row["clock"])
            rows.setdefault(key, {}).setdefault(row["arm"], {})[epoch.epoch, row.get("round", 0)] = row
    found: list[tuple[LatencyRatio, float | None]] = []
    place = {cell: i for i, cell in enumerate(cells)}
    for (cell, operation, clock), arms in sorted(rows.items(), key=lambda item: (place.get(item[0][0], 0), item[0])):
        base = arms.get(baseline, {})
        for contender in sorted(arms.keys() - {baseline}):
            pairs = [(base[at], row) for at, row in sorted(arms[contender].items()) if at in base]
            if not pairs:
                continue
            for quantile in sorted(pairs[0][0]["quantiles_ns"], key=float):
                estimate, p, note = _ratio(pairs, quantile, clock, interval_of)
                found.append(
                    (
                        LatencyRatio(
                            cell=cell,
                            contender=contender,
                            operation=operation,
                            clock=clock,
                            quantile=float(quantile),
                            estimate=estimate,
                            note=note,
                        ),
                        p,
                    )
                )
    return _with_discoveries(found)


def _ratio(
    pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], quantile: str, clock: str, interval_of: IntervalOf
) -> tuple[Estimate | None, float | None, str]:
    fewest = min(min(base["count"], row["count"]) for base, row in pairs)
    needed = math.ceil(TAIL_MIN / (1 - float(quantile)) - 1e-6) if float(quantile) < 1 else math.inf
    if fewest < needed:
        return None, None, f"n/a: {fewest} events in an epoch, {needed} are needed beyond this quantile"
    values = []
    for base, row in pairs:
        theirs, ours = row["quantiles_ns"].get(quantile) or 0, base["quantiles_ns"].get(quantile) or 0
        if theirs <= 0 or ours <= 0:
            return None, None, "n/a: the quantile is missing in an epoch"
        values.append(math.log(theirs / ours))
    n = len(values)
    mean, sd = math.fsum(values) / n, standard_deviation(values)
    note = "exploratory" if clock == "response" else "service time at saturation, exploratory"
    return Estimate(mean=mean, interval=interval_of(mean, sd, n), n=n), p_value(mean, sd, n), note


def _with_discoveries(found: Sequence[tuple[LatencyRatio, float | None]]) -> tuple[LatencyRatio, ...]:
    """Mark those that differ at a false discovery rate of 5 % over all of them (Benjamini and Hochberg)."""
    adjusted = iter(benjamini_hochberg([p for _, p in found if p is not None]))
    ratios = []
    for ratio, p in found:
        if p is not None and next(adjusted) <= _FALSE_DISCOVERY and ratio.clock == "response":
            ratio = ratio.model_copy(update={"note": f"{ratio.note}; differs (false discovery rate 5%)"})
        ratios.append(ratio)
    return tuple(ratios)
