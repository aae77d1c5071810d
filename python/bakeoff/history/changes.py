"""Find change points in histories of log ratios, with the standard error of every point.

A series has a change if its order in time matters, so its points are shuffled. The statistic is the largest weighted
difference of two neighbouring stretches over all stretches and divisions; its p-value accounts for having looked
everywhere. Values need not be normal nor errors exact. Holm corrects over the series tested together; then the
stretches on either side of a change are tested again.

Source: Kovacs et al., Seeded binary segmentation, Biometrika 110 (2023); Frick et al., Multiscale change point
inference, JRSS B 76 (2014); Besag and Clifford, Sequential Monte Carlo p-values, Biometrika 78 (1991).
Simulated error rates: docs/reference/history.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bakeoff.stats import interval as iv
from bakeoff.stats.model import Interval

ALPHA = 0.05
"""Probability of finding a change in a history without one, whatever its number of series."""

SIDE_MIN = 3
"""Fewest points on either side of a change: one or two outliers are not a change."""

POINTS_MIN = 8
"""Fewest points of a series that is tested; with fewer, no order is rare enough."""

PLACES = 0.95
"""Probability that the change lies in the range given for it."""

_EXCEEDED = 20  # p is precise enough after this many random orders as extreme as the observed one
_ORDERS_MIN = 999
_BATCH = 100
_NEIGHBOURS = 2  # on either side; their variances are averaged
_FAR = 5.0  # standard deviations

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Change:
    """One change point.

    `at` is the index of the first point after it, and lies from `first` to `last` with probability `PLACES`. `size` is
    the log ratio of the means after and before it, with its 95% interval; as the place was chosen by the size, it is a
    little too far from 0. The p-value is corrected over all series tested together.
    """

    at: int
    first: int
    last: int
    size: float
    low: float
    high: float
    p_value: float

    @property
    def interval(self) -> Interval:
        return Interval(low=self.low, high=self.high)


@dataclass(frozen=True)
class Track:
    values: Sequence[float]
    errors: Sequence[float]


def changes_of(tracks: Sequence[Track], *, alpha: float = ALPHA, seed: int = 0) -> list[tuple[Change, ...]]:
    """Find change points of series tested together; `alpha` is the probability of finding any where there is none."""
    long = [at for at, track in enumerate(tracks) if len(track.values) >= POINTS_MIN]
    found: list[tuple[Change, ...]] = [()] * len(tracks)
    if not long:
        return found
    searches = [_Search(tracks[at], family=len(long), alpha=alpha, seed=seed) for at in long]
    adjusted = iv.holm([search.p_value(0, search.n) for search in searches])
    for at, search, p in zip(long, searches, adjusted, strict=True):
        if p is not None and p <= alpha:
            found[at] = search.changes(p)
    return found


class _Search:
    def __init__(self, track: Track, *, family: int, alpha: float, seed: int) -> None:
        self.values = np.asarray(track.values, dtype=np.float64)
        self.n = len(self.values)
        self.weights = 1 / _variances(self.values, np.asarray(track.errors, dtype=np.float64))
        self.level = alpha / family
        self.orders = max(_ORDERS_MIN, math.ceil(_EXCEEDED * family / alpha))
        self.rng = np.random.default_rng(seed)

    def p_value(self, start: int, end: int) -> float:
        n = end - start
        if n < POINTS_MIN:
            return 1.0
        values, weights, stretches = self.values[start:end], self.weights[start:end], _stretches(n)
        seen = _statistic(values[None], weights[None], stretches)[0] - 1e-9  # ties by rounding count as ties
        exceeded = done = 0
        while done < self.orders:
            order = self.rng.permuted(np.tile(np.arange(n), (_BATCH, 1)), axis=1)
            as_extreme = np.cumsum(_statistic(values[order], weights[order], stretches) >= seen)
            if exceeded + as_extreme[-1] >= _EXCEEDED:
                last = int(np.searchsorted(as_extreme, _EXCEEDED - exceeded)) + 1
                return _EXCEEDED / (done + last)
            exceeded, done = exceeded + int(as_extreme[-1]), done + _BATCH
        return (exceeded + 1) / (done + 1)

    def changes(self, p: float) -> tuple[Change, ...]:
        places = self._places(0, self.n)
        for _ in range(2):  # twice, as not all neighbours were known the first time
            for at in range(len(places)):
                low, high = self._around(places, at)
                places[at] = low + int(np.argmax(self._gains(low, high)))
        return tuple(self._change(places, at, p) for at in range(len(places)))

    def _places(self, start: int, end: int) -> list[int]:
        values, weights, (lows, middles, highs) = (
            self.values[start:end], self.weights[start:end], _stretches(end - start)
        )  # fmt: skip
        best = int(np.argmax(_scores(values[None], weights[None], (lows, middles, highs))[0]))
        at = start + int(middles[best])
        parts = [(start, at), (at, end)]
        # Each part is tested at its share of the level, so all parts together have a false change in `alpha` of cases.
        before, after = (
            self._places(*part) if self.p_value(*part) <= self.level * (part[1] - part[0]) / self.n else []
            for part in parts
        )
        return [*before, at, *after]

    def _around(self, places: Sequence[int], at: int) -> tuple[int, int]:
        return (places[at - 1] if at else 0), (places[at + 1] if at + 1 < len(places) else self.n)

    def _gains(self, low: int, high: int) -> Floats:
        """Log likelihood gained by dividing before each point of a stretch; -inf too close to an end."""
        cuts = np.arange(low + SIDE_MIN, high - SIDE_MIN + 1)
        gains = np.full(high - low, -math.inf)
        whole = (np.full_like(cuts, low), cuts, np.full_like(cuts, high))
        gains[cuts - low] = _differences(self.values[None], self.weights[None], whole)[0] ** 2 / 2
        return gains

    def _change(self, places: Sequence[int], at: int, p: float) -> Change:
        low, high = self._around(places, at)
        place = places[at]
        gains = self._gains(low, high)
        likely = np.exp(gains - gains.max())
        order = np.argsort(-likely)
        kept = order[: int(np.searchsorted(np.cumsum(likely[order]), PLACES * likely.sum())) + 1]
        sides = [(self.values[part], self.weights[part]) for part in (slice(low, place), slice(place, high))]
        before, after = (float(np.average(values, weights=weights)) for values, weights in sides)
        degrees = high - low - 2
        squares = sum(
            float(own @ (values - mean) ** 2) for (values, own), mean in zip(sides, (before, after), strict=True)
        )
        error = math.sqrt(sum(1 / weights.sum() for _, weights in sides) * max(1.0, squares / degrees))
        half = iv.t_quantile(1 - iv.ALPHA_T / 2, degrees) * error
        size = after - before
        return Change(place, low + int(kept.min()), low + int(kept.max()), size, size - half, size + half, p)


def _variances(values: Floats, errors: Floats) -> Floats:
    """Return every point's variance (at least that of its neighbourhood), plus the variance between runs.

    The standard error of six restarts is rough: one that is small by chance must not outweigh ten others. The variance
    between runs comes from the median difference of neighbours, which a few changes do not affect. A point far from the
    median of its neighbourhood has its distance as variance, so an outlier cannot hide a change.
    """
    squares = errors**2
    own = np.maximum(squares, _neighbourhoods(squares).mean(axis=1))
    steps, of_steps = np.abs(np.diff(values)), own[1:] + own[:-1]
    floor = max(float(np.median(steps)) ** 2 * 1e-3, 1e-14)
    low, high = 0.0, float(steps.max()) ** 2 + floor
    normal = 0.6745  # median of the absolute value of a standard normal
    for _ in range(50):
        middle = (low + high) / 2
        fits = np.median(steps / np.sqrt(of_steps + 2 * middle + floor)) <= normal
        low, high = (low, middle) if fits else (middle, high)
    found = own + high + floor
    apart = (values - np.median(_neighbourhoods(values), axis=1)) ** 2
    return np.where(apart > _FAR**2 * found, apart, found)


def _neighbourhoods(values: Floats) -> Floats:
    ends = np.pad(values, _NEIGHBOURS, mode="reflect")
    return np.lib.stride_tricks.sliding_window_view(ends, 2 * _NEIGHBOURS + 1)


Stretches = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


def _stretches(n: int) -> Stretches:
    """Return stretches of n, n / 2, n / 4 … points, each overlapping the next by half, divided everywhere."""
    rows = []
    length = float(n)
    while length >= 2 * SIDE_MIN:
        count = 1 if length == n else 2 * math.ceil(n / length) - 1
        for start in np.linspace(0, n - length, count):
            low, high = math.floor(start), min(math.ceil(start + length), n)
            cuts = np.arange(low + SIDE_MIN, high - SIDE_MIN + 1)
            rows.append(np.stack([np.full_like(cuts, low), cuts, np.full_like(cuts, high)]))
        length /= 2
    low, middle, high = np.concatenate(rows, axis=1)
    return low, middle, high


def _differences(values: Floats, weights: Floats, stretches: Stretches) -> Floats:
    """Return the mean after each division minus that before it, in standard errors. A row is one order."""
    low, middle, high = stretches
    zeros = np.zeros((len(values), 1))
    mass = np.concatenate([zeros, np.cumsum(weights, axis=1)], axis=1)
    sums = np.concatenate([zeros, np.cumsum(weights * values, axis=1)], axis=1)
    left, right = mass[:, middle] - mass[:, low], mass[:, high] - mass[:, middle]
    before, after = (sums[:, middle] - sums[:, low]) / left, (sums[:, high] - sums[:, middle]) / right
    return np.asarray((after - before) * np.sqrt(left * right / (left + right)))


def _scores(values: Floats, weights: Floats, stretches: Stretches) -> Floats:
    """Subtract from the differences what many short stretches reach by chance."""
    lengths = stretches[2] - stretches[0]
    penalty = np.sqrt(2 * np.log(math.e * values.shape[1] / lengths))
    return np.asarray(np.abs(_differences(values - values.mean(), weights, stretches)) - penalty)


def _statistic(values: Floats, weights: Floats, stretches: Stretches) -> Floats:
    return np.asarray(_scores(values, weights, stretches).max(axis=1))
