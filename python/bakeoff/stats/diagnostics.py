"""Diagnostics that raise flags (docs/reference/method.md), and the end of a warm-up. No verdict depends on them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from statistics import NormalDist, fmean, variance
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bakeoff.results.frame import Frame
from bakeoff.stats import interval as iv
from bakeoff.stats.estimate import PairEstimate, with_rates
from bakeoff.stats.model import CarryOver, Comparison, EpochPoint, Estimate, Flag, FlagKind
from bakeoff.units import percent_text

_SAME_LENGTH = 0.7  # share of the longest slice: a shorter one was measured before slices were doubled
_LEAK_EPOCHS = 3  # two epochs are too few to lengthen slices for
_CARRY_OVER_MAX = 0.05  # log ratio of one arm's throughput
_OUTLIER_EPOCHS = 6  # fewest epochs for the outlier test
_ROUNDING = 1e-9  # values that differ by a smaller share of their size are equal but for rounding
_OUTLIER_ALPHA = 0.01  # strict, because every comparison is tested


def carry_over(pairs: Sequence[PairEstimate], *, comparisons: int = 1) -> CarryOver:
    """Estimate how much faster an arm is right after itself than after another arm.

    Epochs with shorter slices are left out, because a run doubles its slices when it finds carry-over. The t intervals
    have 95% over both estimates of all `comparisons` together.
    """
    longest_s = max((pair.slice_s for pair in pairs), default=0.0)
    pairs = [pair for pair in pairs if pair.slice_s > _SAME_LENGTH * longest_s and len(pair.carry_over) == 2]
    both = [(*pair.carry_over.values(), pair.switched) for pair in pairs]
    alpha = iv.ALPHA_T / (2 * comparisons)
    return CarryOver(
        common=_estimate([(first + second) / 2 for first, second, _ in both], alpha=alpha),
        bias=_estimate([(first - second) * switched for first, second, switched in both], alpha=alpha),
    )


def trend(pairs: Sequence[PairEstimate], *, comparisons: int = 1) -> Estimate | None:
    """Estimate D of the first half of an epoch minus D of the second; None below two epochs."""
    return _estimate([pair.trend for pair in pairs if pair.trend is not None], alpha=iv.ALPHA_T / comparisons)


def carry_over_flag(found: CarryOver, precision: float) -> Flag | None:
    """Flag carry-over of more than a quarter of the target precision in the ratio, or of 5% in an arm."""
    for estimate, limit, finding in (
        (found.bias, precision / 4, "the effect of one slice on the next moves the ratio by {}"),
        (found.common, _CARRY_OVER_MAX, "a slice is {} different right after one of the same arm"),
    ):
        if estimate is not None and abs(estimate.mean) > limit and iv.excludes_zero(estimate.interval):
            return _unstable(f"{finding.format(percent_text(estimate.mean))}; it needs longer slices, or --freeze.")
    return None


def leaking_cells(comparisons: Sequence[Comparison], precision: float) -> frozenset[str]:
    """Return the cells with flagged carry-over in three or more epochs: their slices are too short."""
    return frozenset(
        each.cell
        for each in comparisons
        if (found := each.carry_over).bias and found.bias.n >= _LEAK_EPOCHS and carry_over_flag(found, precision)
    )


def trend_flag(estimate: Estimate | None, precision: float) -> Flag | None:
    """Flag a significant trend larger than half of the target precision."""
    if estimate is None or abs(estimate.mean) <= precision / 2 or not iv.excludes_zero(estimate.interval):
        return None
    change = percent_text(estimate.mean)
    return _unstable(f"the ratio changes by {change} between the halves of an epoch; warm up for longer.")


def build_effect(points: Sequence[EpochPoint]) -> float | None:
    """Return p of the F test between builds; values of several hosts must have their hosts' means removed."""
    groups: dict[int, list[float]] = {}
    for point in points:
        groups.setdefault(point.build, []).append(point.value)
    within_df = len(points) - len(groups) - (len({point.host for point in points}) - 1)
    if len(groups) < 2 or within_df < 1:
        return None
    within = math.fsum((len(group) - 1) * iv.standard_deviation(group) ** 2 for group in groups.values())
    if within == 0:
        return None
    mean = fmean(point.value for point in points)
    between = math.fsum(len(group) * (fmean(group) - mean) ** 2 for group in groups.values())
    between_df = len(groups) - 1
    return iv.f_above((between / between_df) / (within / within_df), between_df, within_df)


def build_flags(p_values: Sequence[float | None]) -> list[Flag | None]:
    """Flag comparisons whose ratio differs between loads of the data (Holm over all of them, 5%)."""
    text = "the ratio differs between loads of the data (F test, p = {:.2g}); it holds for these loads only."
    return [_unstable(text.format(p)) if p is not None and p < iv.ALPHA_T else None for p in iv.holm(p_values)]


def outlier_flag(points: Sequence[EpochPoint]) -> Flag | None:
    """Flag one epoch far from the others (Grubbs' test at 1%, six or more epochs)."""
    n = len(points)
    if n < _OUTLIER_EPOCHS:
        return None
    values = np.array([point.value for point in points])
    sd = values.std(ddof=1)
    if sd == 0:
        return None
    distance = np.abs(values - values.mean()) / sd
    t2 = iv.t_quantile(1 - _OUTLIER_ALPHA / (2 * n), n - 2) ** 2
    if distance.max() <= (n - 1) / math.sqrt(n) * math.sqrt(t2 / (n - 2 + t2)):
        return None
    epoch = points[int(distance.argmax())].epoch
    return _unstable(f"epoch {epoch} is far from the others; it is kept.")


def _unstable(text: str) -> Flag:
    return Flag(kind=FlagKind.UNSTABLE, text=text)


def _estimate(values: Sequence[float], *, alpha: float) -> Estimate | None:
    return iv.estimate_of(values, partial(iv.t_interval, alpha=alpha)) if len(values) >= 2 else None


def _best_split(values: NDArray[np.float64]) -> tuple[int, float]:
    """Split sorted values in two; return the lower group's size and the share of the sum of squares explained."""
    n = values.size
    if np.ptp(values) <= _ROUNDING * np.abs(values).max():
        return 1, 0.0
    centred = values - values.mean()
    total = float(centred @ centred)
    low = np.arange(1, n)
    sums = np.cumsum(centred)[low - 1]
    between = sums**2 / low + sums**2 / (n - low)
    best = int(between.argmax())
    return int(low[best]), float(between[best]) / total if total > 0 else 0.0


_WARM_MOVE = 0.015  # log ratio
_WARM_BLOCKS = 4  # fewest in a window
_WARM_WINDOWS = (1 / 6, 1 / 3, 2 / 3)  # of the planned warm-up: 0.5, 1 and 2 s of 3 s


def is_warm(slices: Sequence[Mapping[str, Any]], *, planned_s: float) -> bool:
    """Whether a warm-up may end: early once the ratios of the arms have stopped moving, late while they still move.

    Before `planned_s`, every arm's log ratio to the first must have moved by less than 1.5% between the last two
    thirds of it. Later the warm-up continues while an arm has moved by more than that between the last two windows of
    a sixth, a third or two thirds of `planned_s`. Either must be shown at 95%, over all arms (Bonferroni).
    """
    end_s = (slices[-1]["start_ns"] + slices[-1]["length_ns"]) / 1e9 if slices else 0.0
    if end_s < planned_s:
        move = _largest_move(slices, end_s, planned_s / 3, side=1)
        return move is not None and move < _WARM_MOVE
    moves = [_largest_move(slices, end_s, planned_s * share, side=-1) for share in _WARM_WINDOWS]
    return all(move is None or move < _WARM_MOVE for move in moves)


def _largest_move(slices: Sequence[Mapping[str, Any]], end_s: float, window_s: float, *, side: int) -> float | None:
    """Return the upper (`side` 1) or lower (-1) 95% bound of the largest move of an arm, None if too few blocks."""
    begin_s, middle_s = end_s - 2 * window_s, end_s - window_s
    if begin_s < 0:
        return None
    before = _contrasts(each for each in slices if begin_s <= each["start_ns"] / 1e9 < middle_s)
    now = _contrasts(each for each in slices if each["start_ns"] / 1e9 >= middle_s)
    if not now or before.keys() != now.keys() or min(map(len, [*before.values(), *now.values()])) < _WARM_BLOCKS:
        return None
    errors = side * NormalDist().inv_cdf(1 - 0.025 / len(now))
    moves = []
    for arm in now:
        error = math.sqrt(math.fsum(variance(values) / len(values) for values in (before[arm], now[arm])))
        moves.append(abs(fmean(now[arm]) - fmean(before[arm])) + errors * error)
    return max(moves)


def _contrasts(slices: Iterable[Mapping[str, Any]]) -> dict[str, list[float]]:
    blocks: dict[int, dict[str, list[float]]] = {}
    for each in slices:
        if each["busy_ns"] and each["events"]:
            rate = math.log(each["events"] * each["connections"] / each["busy_ns"])
            blocks.setdefault(each["block"], {}).setdefault(each["arm"], []).append(rate)
    arms = sorted({arm for found in blocks.values() for arm in found})
    whole = [found for found in blocks.values() if len(found) == len(arms)]
    return {arm: [fmean(found[arm]) - fmean(found[arms[0]]) for found in whole] for arm in arms[1:]}


_WINDOW_S = 0.5
_WINDOWS_MIN = 16
_EXPLAINED = 0.85  # share of the sum of squares; two groups explain 64 % of many normal values, 75 % of uniform ones
_APART = math.log(1.25)
_SHARE_MIN = 0.1  # of the windows, in either state


def two_states(windows: Frame) -> dict[tuple[str, str], Flag]:
    """Flag arms, by (cell, arm), that alternated between a fast and a slow state, each for seconds at a time.

    Two groups of windows must explain 85% of the spread and be 25% apart, each with a tenth of at least 16 windows.
    """
    if not len(windows):
        return {}
    log_rate, arms, hosts = windows["log_rate"], windows.by("cell", "arm"), windows.by("cell", "arm", "host")
    # Remove the differences between hosts of a cluster: they are not states of a server.
    of_host = hosts.mean(log_rate)[hosts.ids] - arms.mean(log_rate)[arms.ids]
    groups = windows.with_columns(log_rate=log_rate - of_host).by("cell", "arm").frames()
    return {(cell, arm): flag for (cell, arm), group in groups.items() if (flag := _states_flag(arm, group))}


def _states_flag(arm: str, windows: Frame) -> Flag | None:
    windows = windows.sort("log_rate")
    rates = windows["log_rate"]
    n = rates.size
    if n < _WINDOWS_MIN:
        return None
    count, explained = _best_split(rates)
    apart = float(rates[count:].mean() - rates[:count].mean())
    if explained < _EXPLAINED or apart < _APART or not _SHARE_MIN <= count / n <= 1 - _SHARE_MIN:
        return None
    slow, fast = (
        float(each["events"].sum()) / float(each["seconds"].sum())
        for each in (windows.rows(slice(count)), windows.rows(slice(count, None)))
    )
    return _unstable(
        f"arm {arm} ran at {fast:,.0f} or at {slow:,.0f} events/s, the slower for {count / n:.0%} of the time."
    )


def windows(slices: Frame) -> Frame:
    """Cut each arm's slices of an epoch into windows of half a second: cell, arm, log_rate, events, seconds."""
    rated = with_rates(slices)
    worked = rated.rows(rated["events"] > 0).sort("start_ns")
    arms = worked.by("cell", "arm")
    spent_s = np.concatenate([np.empty(0), *(np.cumsum(seconds) for seconds in arms.split(worked["seconds"]))])
    worked = worked.rows(arms.order).with_columns(window=np.floor(spent_s / _WINDOW_S))
    by = worked.by("cell", "arm", "window")
    found = by.keys.with_columns(events=by.sum(worked["events"]), seconds=by.sum(worked["seconds"]))
    found = found.rows(found["seconds"] > 0)
    return found.with_columns(log_rate=np.log(found["events"] / found["seconds"]))
