"""Fit the scaling law to several thread counts: how far throughput grows and what limits it. Not for verdicts.

    X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1))

sigma: share of the work that waits for others (contention); kappa: cost of each pair of threads (crosstalk).
Source: N. J. Gunther, Guerrilla Capacity Planning (2007), the Universal Scalability Law.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from bakeoff.stats.interval import f_above, t_quantile

RUNGS_MIN = 4  # fewest thread counts: three parameters and something left to see whether they fit
EPOCHS_MIN_BOOTSTRAP = 10  # fewest epochs to resample; fewer give no interval
LACK_OF_FIT_P = 0.05  # below it the points deviate from the law by more than the epochs scatter

_RESAMPLES = 200
_STEPS = 60
_ARRIVED = 1e-13
_CURVE_POINTS = 33
_LEVEL = 0.95

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Band:
    """A value with its interval over epochs; the ends are None with too few epochs or several hosts."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class ScalingFit:
    """The law of one arm under one workload."""

    threads: tuple[int, ...]
    epochs: int  # how many measured every thread count; only these are used
    rate: Band  # lambda, events per second
    contention: Band  # sigma
    crosstalk: Band  # kappa
    peak_threads: Band | None  # maximum of the law, at least the first thread count; None if it lies beyond the last
    curve: tuple[tuple[float, Band], ...]  # threads, and throughput by the law
    points: tuple[float, ...]  # measured throughput at each thread count (geometric mean over epochs)
    lack_of_fit_p: float | None  # of the F test of the points against the law; None with one epoch or several hosts

    @property
    def fits(self) -> bool | None:
        return None if self.lack_of_fit_p is None else self.lack_of_fit_p >= LACK_OF_FIT_P


def fit_scaling(
    rates: Mapping[int, Mapping[int, float]], *, seed: int = 0, host_of: Mapping[int, str] = MappingProxyType({})
) -> ScalingFit | None:
    """Fit the law to one arm; None below four thread counts, or if no epoch measured all of them.

    `rates` maps threads to epoch to events/s. The intervals are a cluster bootstrap over whole epochs. With several
    hosts it gives neither intervals nor a test, because their epochs are not independent.
    """
    threads = tuple(sorted(rates))
    epochs = sorted(set.intersection(*(set(rates[n]) for n in threads))) if threads else []
    if len(threads) < RUNGS_MIN or not epochs:
        return None
    counts = np.array(threads, dtype=np.float64)
    logs = np.log(np.array([[rates[n][epoch] for n in threads] for epoch in epochs]))  # (epochs, counts)
    best = _fit(counts, logs.mean(axis=0))
    grid = np.exp(np.linspace(math.log(counts[0]), math.log(counts[-1]), _CURVE_POINTS))
    independent = len({host_of.get(epoch, "") for epoch in epochs}) == 1
    drawn = _resampled(counts, logs, best, seed) if independent and len(epochs) >= EPOCHS_MIN_BOOTSTRAP else best[:0]
    fits = np.vstack([best, *drawn])  # the first is the estimate
    first, last = float(counts[0]), float(counts[-1])
    peaks = np.maximum(_peak(fits), first)
    peak = _band(np.append(peaks[:1], np.minimum(peaks[1:], last)))
    if peak.high is not None and peak.high >= last:
        peak = replace(peak, high=math.inf)
    return ScalingFit(
        threads=threads,
        epochs=len(epochs),
        rate=_band(np.exp(fits[:, 0])),
        contention=_band(fits[:, 1]),
        crosstalk=_band(fits[:, 2]),
        peak_threads=peak if peak.value <= last else None,
        curve=tuple(zip(grid.tolist(), map(_band, np.exp(_law(fits, grid)).T), strict=True)),
        points=tuple(np.exp(logs.mean(axis=0)).tolist()),
        lack_of_fit_p=_lack_of_fit(counts, logs, best) if independent else None,
    )


def _band(values: Floats) -> Band:
    value = float(values[0])
    if len(values) == 1:
        return Band(value)
    low, high = np.quantile(values[1:], ((1 - _LEVEL) / 2, (1 + _LEVEL) / 2))
    return Band(value, min(float(low), value), max(float(high), value))


def _law(parameters: Floats, threads: Floats) -> Floats:
    log_rate, sigma, kappa = np.moveaxis(parameters, -1, 0)[..., None]
    result: Floats = log_rate + np.log(threads) - np.log1p(sigma * (threads - 1) + kappa * threads * (threads - 1))
    return result


def _slopes(parameters: Floats, threads: Floats) -> Floats:
    _, sigma, kappa = np.moveaxis(parameters, -1, 0)[..., None]
    waiting = 1 + sigma * (threads - 1) + kappa * threads * (threads - 1)
    columns = (np.ones_like(waiting), -(threads - 1) / waiting, -threads * (threads - 1) / waiting)
    return np.stack(columns, axis=-1)


def _fit(threads: Floats, logs: Floats) -> Floats:
    first = float(logs[0] - math.log(threads[0]))
    starts = np.array([(first, sigma, kappa) for sigma in (0.01, 0.3) for kappa in (1e-5, 1e-2)])
    found = _descended(starts, threads, logs)
    best: Floats = found[np.argmin(((logs - _law(found, threads)) ** 2).sum(axis=-1))]
    return best


def _resampled(threads: Floats, logs: Floats, best: Floats, seed: int) -> Floats:
    """Fit the law to means of epochs drawn with replacement.

    Each drawn mean is moved away from the mean of all by as much as a t interval is wider than percentiles.
    """
    rng, n, centre = np.random.default_rng(seed), len(logs), logs.mean(axis=0)
    means = logs[rng.integers(0, n, (_RESAMPLES, n))].mean(axis=1)  # (resamples, counts)
    tail = (1 + _LEVEL) / 2
    wider = math.sqrt(n / (n - 1)) * t_quantile(tail, n - 1) / NormalDist().inv_cdf(tail)
    return _descended(np.tile(best, (_RESAMPLES, 1)), threads, centre + wider * (means - centre))


def _descended(parameters: Floats, threads: Floats, logs: Floats) -> Floats:
    """Minimise squares on ln X by Levenberg-Marquardt, with sigma and kappa between 0 and 1, from many starts at once.

    A parameter at its bound that would leave it stays there for the step.
    """
    each = np.arange(3)
    damping, off = np.full(len(parameters), 1e-3), ((logs - _law(parameters, threads)) ** 2).sum(axis=-1)
    for _ in range(_STEPS):
        slopes = _slopes(parameters, threads)
        pull = np.einsum("brp,br->bp", slopes, logs - _law(parameters, threads))
        stuck = ((parameters <= 0.0) & (pull < 0)) | ((parameters >= 1.0) & (pull > 0))
        stuck[:, 0] = False  # ln lambda has no bound
        slopes[np.broadcast_to(stuck[:, None, :], slopes.shape)] = 0.0
        squares = np.einsum("brp,brq->bpq", slopes, slopes)
        squares[:, each, each] = squares[:, each, each] * (1 + damping[:, None]) + stuck + 1e-12
        steps = np.linalg.solve(squares, np.where(stuck, 0.0, pull)[:, :, None])[:, :, 0]
        if np.abs(steps).max() < _ARRIVED:
            break
        tried = parameters + steps
        tried[:, 1:] = np.clip(tried[:, 1:], 0.0, 1.0)
        tried_off = ((logs - _law(tried, threads)) ** 2).sum(axis=-1)
        better = tried_off <= off
        parameters = np.where(better[:, None], tried, parameters)
        damping, off = np.where(better, damping / 10, damping * 10), np.minimum(off, tried_off)
    return parameters


def _peak(parameters: Floats) -> Floats:
    sigma, kappa = parameters[:, 1], parameters[:, 2]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(kappa > 1e-12, np.sqrt(np.maximum(1 - sigma, 0.0) / kappa), math.inf)


def _lack_of_fit(threads: Floats, logs: Floats, best: Floats) -> float | None:
    """P of F = (mean square of the thread counts' means off the law) / (mean square of their scatter)."""
    epochs, counts = logs.shape
    if epochs < 2:
        return None
    left = logs - logs.mean(axis=0) - logs.mean(axis=1, keepdims=True) + logs.mean()
    error = float((left**2).sum()) / ((epochs - 1) * (counts - 1))
    free = counts - 1 - int(((best[1:] > 0) & (best[1:] < 1)).sum())
    off = epochs * float(((logs.mean(axis=0) - _law(best, threads)) ** 2).sum()) / free
    if error <= 0:
        return 1.0 if off <= 1e-12 else 0.0
    return f_above(off / error, free, (epochs - 1) * (counts - 1))


def rates_by_threads(
    cells: Sequence[tuple[str, str, int]], rates: Mapping[tuple[str, str], Mapping[int, float]], arm: str
) -> dict[str, dict[int, Mapping[int, float]]]:
    """Return rates of one arm by workload, threads and epoch."""
    found: dict[str, dict[int, Mapping[int, float]]] = {}
    for cell, workload, threads in cells:
        if rates.get((cell, arm)):
            found.setdefault(workload, {})[threads] = rates[cell, arm]
    return found
