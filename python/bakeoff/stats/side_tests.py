"""Free tests on the side: does a slice leak into the next, does the ratio drift, do builds or epochs differ?

None of them touches the verdict; each can raise a flag that says what to distrust, and why.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import f_oneway

from bakeoff.stats.estimate import PairEstimate
from bakeoff.stats.interval import excludes_zero, holm, standard_deviation, t_interval, t_quantile
from bakeoff.stats.model import Comparison, EpochPoint, Estimate

ALPHA = 0.05
_SAME_LENGTH = 0.7  # of the longest: a slice of the same plan, stretched to fill its measuring
_LEAK_EPOCHS = 3  # of two, one may lie anywhere
_STEADY_WINDOW_NS, _STEADY_SLICES = 500_000_000, 4
_STEADY_MOVE, _STEADY_RISE = 0.01, 0.1
_SHAPE_ALPHA = 0.01  # of outlier and bimodality: every comparison is looked at, so 5 % would cry wolf

# 99 % quantiles, under normal values, of the largest share of the sum of squares that a split into two groups of at
# least two explains: `python -m bakeoff.stats.calibration bimodal`.
_BIMODAL_N = (6, 7, 8, 10, 12, 15, 20, 30, 40, 60)
_BIMODAL_SHARE = (0.967, 0.952, 0.938, 0.908, 0.886, 0.860, 0.829, 0.794, 0.772, 0.746)


def carry_over(pairs: Sequence[PairEstimate], *, comparisons: int = 1) -> Estimate | None:
    """How much faster an arm is right after itself than after another arm; the arm for which it is larger.

    A t interval over epochs, of 95 % over both arms and all `comparisons` of the run together. None below two epochs.
    Epochs with shorter slices than others do not count: a run that finds carry-over doubles its slices.
    """
    longest_s = max((pair.slice_s for pair in pairs), default=0.0)
    pairs = [pair for pair in pairs if pair.slice_s > _SAME_LENGTH * longest_s]
    largest: Estimate | None = None
    arms = sorted({arm for pair in pairs for arm in pair.carry_over})
    for arm in arms:
        values = [pair.carry_over[arm] for pair in pairs if arm in pair.carry_over]
        estimate = _estimate(values, alpha=ALPHA / (len(arms) * comparisons))
        if estimate is not None and (largest is None or abs(estimate.mean) > abs(largest.mean)):
            largest = estimate
    return largest


def trend(pairs: Sequence[PairEstimate], *, comparisons: int = 1) -> Estimate | None:
    """D of the first half of an epoch minus D of the second; None below two epochs.

    A t interval over epochs, of 95 % over all `comparisons` of the run together.
    """
    return _estimate([pair.trend for pair in pairs if pair.trend is not None], alpha=ALPHA / comparisons)


def carry_over_flag(estimate: Estimate | None, precision: float) -> str | None:
    """A flag when it is significant and larger than a quarter of the target precision."""
    if estimate is None or abs(estimate.mean) <= precision / 4 or not excludes_zero(estimate.interval):
        return None
    return (
        f"CARRY-OVER: a slice is {_percent(estimate.mean)} different right after one of the same arm; "
        "longer slices are needed, or arms measured one after the other."
    )


def leaking_cells(comparisons: Sequence[Comparison], precision: float) -> frozenset[str]:
    """Cells whose slices are too short: carry-over is flagged, from three epochs on."""
    return frozenset(
        each.cell
        for each in comparisons
        if each.carry_over and each.carry_over.n >= _LEAK_EPOCHS and carry_over_flag(each.carry_over, precision)
    )


def trend_flag(estimate: Estimate | None, precision: float) -> str | None:
    """A flag when it is significant and larger than half of the target precision."""
    if estimate is None or abs(estimate.mean) <= precision / 2 or not excludes_zero(estimate.interval):
        return None
    return (
        f"DRIFT: the ratio changes by {_percent(estimate.mean)} between the halves of an epoch; "
        "it depends on the time since the start, warm up for longer."
    )


def build_effect(points: Sequence[EpochPoint]) -> float | None:
    """p-value of the one-way F test between builds; None with one build or nothing to compare spreads within."""
    groups: dict[int, list[float]] = {}
    for point in points:
        groups.setdefault(point.build, []).append(point.value)
    if len(groups) < 2 or len(points) <= len(groups):
        return None
    if all(standard_deviation(group) == 0 for group in groups.values()):
        return None
    p = float(f_oneway(*groups.values()).pvalue)
    return p if math.isfinite(p) else None


def build_flags(p_values: Sequence[float | None]) -> list[str | None]:
    """For each comparison the flag that its ratio holds for this data build only (Holm over all of them, 5 %)."""
    return [
        f"BUILD: the ratio differs between loads of the data (F test, p = {adjusted:.2g}): valid for this build only."
        if adjusted is not None and adjusted < ALPHA
        else None
        for adjusted in holm(p_values)
    ]


def outlier_flag(points: Sequence[EpochPoint]) -> str | None:
    """A flag for one epoch far from the others (Grubbs' test, 1 %). It is shown and kept."""
    n = len(points)
    if n < 6:
        return None
    values = np.array([point.value for point in points])
    sd = values.std(ddof=1)
    if sd == 0:
        return None
    distance = np.abs(values - values.mean()) / sd
    t2 = t_quantile(1 - _SHAPE_ALPHA / (2 * n), n - 2) ** 2
    if distance.max() <= (n - 1) / math.sqrt(n) * math.sqrt(t2 / (n - 2 + t2)):
        return None
    return f"OUTLIER: epoch {points[int(distance.argmax())].epoch} lies far from the others; it is kept."


def bimodal_flag(points: Sequence[EpochPoint]) -> str | None:
    """A flag when two groups of epochs explain nearly all of the spread (1 %): restarts then come in two kinds."""
    n = len(points)
    if n < 6:
        return None
    values = np.sort([point.value for point in points])
    centred = values - values.mean()
    total = float(centred @ centred)
    if total == 0:
        return None
    left = np.arange(2, n - 1)  # size of the lower group
    sums = np.cumsum(centred)[left - 1]
    between = sums**2 / left + sums**2 / (n - left)
    if between.max() / total <= np.interp(n, _BIMODAL_N, _BIMODAL_SHARE):
        return None
    low = int(left[between.argmax()])
    return f"BIMODAL: {low} epochs lie together and {n - low} apart from them; the mean stands for neither."


def _estimate(values: Sequence[float], *, alpha: float) -> Estimate | None:
    n = len(values)
    if n < 2:
        return None
    mean = math.fsum(values) / n
    return Estimate(mean=mean, interval=t_interval(mean, standard_deviation(values), n, alpha=alpha), n=n)


def _percent(log_ratio: float) -> str:
    return f"{abs(math.expm1(log_ratio)) * 100:.2g}%"


def is_steady(slices: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a warm-up has done its work: for a second or more nothing but noise has changed between the arms.

    The last half second (longer with many arms, for four slices of each) is compared with the one before. Throughput
    itself is never steady on a shared machine, so the arms are compared: the log ratio to the first arm has moved by at
    most 1 % or two standard errors, and no arm has become faster by more than a tenth.

    Args:
        slices: the engine's messages so far.
    """
    windows = ([], []) if not slices else _last_windows(slices)
    rates = [_mean_and_error(window) for window in windows]
    if not all(rates) or rates[0].keys() != rates[1].keys():
        return False
    before, now = rates
    first = next(iter(now))
    for arm in now:
        moves = [now[each][0] - before[each][0] for each in (arm, first)]
        error = math.sqrt(math.fsum(found[each][1] ** 2 for found in rates for each in {arm, first}))
        if moves[0] > _STEADY_RISE or abs(moves[0] - moves[1]) > max(_STEADY_MOVE, 2 * error):
            return False
    return True


def _last_windows(slices: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The slices of the last half second but one, and of the last; nothing before a whole second has gone by."""
    end_ns = slices[-1]["start_ns"] + slices[-1]["length_ns"]
    arms = len({each["arm"] for each in slices})
    window_ns = max(_STEADY_WINDOW_NS, _STEADY_SLICES * arms * end_ns // len(slices))
    if end_ns < 2 * window_ns:
        return [], []
    middle_ns, begin_ns = end_ns - window_ns, end_ns - 2 * window_ns
    return (
        [each for each in slices if begin_ns <= each["start_ns"] < middle_ns],
        [each for each in slices if each["start_ns"] >= middle_ns],
    )


def _mean_and_error(slices: Iterable[Mapping[str, Any]]) -> dict[str, tuple[float, float]]:
    """Mean log throughput of each arm and its standard error; nothing when an arm has fewer than three slices."""
    logs: dict[str, list[float]] = {}
    for each in slices:
        if each["busy_ns"] and each["events"]:
            rate = math.log(each["events"] * each["connections"] / each["busy_ns"])
            logs.setdefault(each["arm"], []).append(rate)
    if any(len(values) < 3 for values in logs.values()):
        return {}
    return {
        arm: (math.fsum(values) / len(values), statistics.stdev(values) / math.sqrt(len(values)))
        for arm, values in logs.items()
    }
