"""Intervals and p-values of a mean over epochs, with the constants of docs/reference/method.md.

Functions take n values (one per epoch), their mean and their standard deviation `sd`, in natural-log units. The
constants were calibrated by simulation (validation/simulation.py). Student's t and F are at the end, because scipy
would be a third of the installed size.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist, fmean
from typing import NamedTuple

from bakeoff.stats.model import Estimate, Interval

N_MIN = 6  # fewest epochs for a verdict at the target precision
N_MIN_DECISIVE = 5  # fewest epochs for a verdict by the anytime-valid interval
N_MIN_SHOWN = 3  # fewest epochs for an interval that a person sees
RELATIVE_PRECISION = 0.1  # half-width, as a share of the effect, that is always precise enough
INFLATION = 1.08  # factor on the t interval that makes up for stopping when s happens to be small
ALPHA_PRECISE = 0.04  # error share of the t interval; with ALPHA_DECISIVE it adds up to the 5 % of the whole rule
ALPHA_DECISIVE = 0.01  # error share of claims by the anytime-valid interval, divided by the size of the family

ALPHA_LIVE = 0.05
ALPHA_T = 0.05
EPOCHS_MIN_PAIRED = 3  # fewest epochs for the t intervals of what explains a verdict
EPOCHS_MIN_UNPAIRED = 3  # fewest epochs of either run for Welch's interval
POWER = 0.8  # probability with which the minimal detectable effect would have been claimed

_PRIOR_VARIANCE = 4.0  # of the standardised effect; tuned for 5 to 40 epochs


class Moments(NamedTuple):
    """The mean of one value per epoch, and its error: sd / sqrt(n)."""

    mean: float
    sd: float  # of one value; with several hosts, of as many independent epochs with the same error
    n: int
    degrees: int  # of freedom of the error: n - 1, or hosts - 1 (`bakeoff.stats.hosts`)


IntervalOf = Callable[[float, float, int, int | None], Interval]


def t_interval(
    mean: float, sd: float, n: int, degrees: int | None = None, *, alpha: float, inflation: float = 1.0
) -> Interval:
    return around(mean, _t_half_width(sd, n, degrees, alpha=alpha, inflation=inflation))


def precision_half_width(sd: float, n: int, degrees: int | None = None) -> float:
    """Return h_n = 1.08 t_{0.98, n-1} s / sqrt(n); infinite for n < 2."""
    return _t_half_width(sd, n, degrees, alpha=ALPHA_PRECISE, inflation=INFLATION)


def _t_half_width(sd: float, n: int, degrees: int | None, *, alpha: float, inflation: float) -> float:
    return math.inf if n < 2 else inflation * t_quantile(1 - alpha / 2, degrees or n - 1) * sd / math.sqrt(n)


@cache
def anytime_multiplier(n: int, alpha: float, degrees: int | None = None) -> float:
    """Return c_n, the half-width of the confidence sequence in units of s / sqrt(n); infinite while n is too small.

    c_n = sqrt((n-1)(K-1) / (1 - K/g)), g = 1 + 4n, K = (sqrt(g)/alpha)^(2/n); `degrees` replaces n - 1. The intervals
    of all n contain the truth together with probability 1 - alpha, so one may look after every epoch.

    Assumes: independent epochs, normal values; conservative under symmetric heavy tails (simulated).
    Source: Lai 1976; Wang & Ramdas, Anytime-valid t-tests, arXiv 2310.03722.
    """
    if n < 2:
        return math.inf
    g = 1 + _PRIOR_VARIANCE * n
    degrees = degrees or n - 1
    k = (math.sqrt(g) / alpha) ** (2 / (degrees + 1))
    if k >= g:
        return math.inf
    return math.sqrt(degrees * (k - 1) / (1 - k / g))


def anytime_half_width(sd: float, n: int, degrees: int | None = None, *, alpha: float) -> float:
    multiplier = anytime_multiplier(n, alpha, degrees)
    return math.inf if math.isinf(multiplier) else multiplier * sd / math.sqrt(n)


def precision_interval(mean: float, sd: float, n: int, degrees: int | None = None) -> Interval:
    """Return mean ± h_n, the interval that is shown however measuring ended; unbounded below `N_MIN_SHOWN` epochs."""
    return around(mean, precision_half_width(sd, n, degrees) if n >= N_MIN_SHOWN else math.inf)


def live_interval(mean: float, sd: float, n: int, degrees: int | None = None) -> Interval:
    """Return the anytime-valid 95% interval, the only one on which a claim may rest while measuring."""
    return around(mean, anytime_half_width(sd, n, degrees, alpha=ALPHA_LIVE))


def around(mean: float, half_width: float) -> Interval:
    if not math.isfinite(half_width) or not math.isfinite(mean):
        return Interval(low=None, high=None)
    return Interval(low=mean - half_width, high=mean + half_width)


def excludes_zero(interval: Interval) -> bool:
    return interval.low is not None and interval.high is not None and (interval.low > 0 or interval.high < 0)


def p_value(mean: float, sd: float, n: int, degrees: int | None = None, *, inflation: float = INFLATION) -> float:
    """Return the two-sided p of no difference that belongs to h_n: below 0.04 exactly if |mean| > h_n. 1 for n < 2."""
    if n < 2:
        return 1.0
    if sd == 0:
        return 1.0 if mean == 0 else 0.0
    return 2 * t_above(abs(mean) * math.sqrt(n) / (inflation * sd), degrees or n - 1)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjust by Holm's step-down method over a family declared beforehand; a missing p counts as 1 and stays None."""
    family = len(p_values)
    known = [1.0 if p is None else p for p in p_values]
    adjusted: list[float | None] = [None] * family
    largest = 0.0
    for rank, i in enumerate(sorted(range(family), key=known.__getitem__)):
        largest = max(largest, min(1.0, (family - rank) * known[i]))
        adjusted[i] = None if p_values[i] is None else largest
    return adjusted


class Claim(NamedTuple):
    made: bool
    p_value: float | None = None
    p_adjusted: float | None = None


def family_claims(samples: Sequence[Moments], *, anytime: bool) -> list[Claim]:
    """Claim differences from 0 among many means: by Holm at 4%, or by the anytime-valid interval at 5% / M."""
    if anytime:
        level = ALPHA_LIVE / max(1, len(samples))
        return [Claim(abs(each.mean) > anytime_half_width(*each[1:], alpha=level)) for each in samples]
    p_values = [p_value(*sample) for sample in samples]
    adjusted = holm(p_values)
    return [Claim(q is not None and q <= ALPHA_PRECISE, p, q) for p, q in zip(p_values, adjusted, strict=True)]


def claim_interval(mean: float, sd: float, n: int, degrees: int | None = None, *, anytime: bool) -> Interval:
    """Return what a claim rests on: mean ± h_n, or the anytime-valid interval below `N_MIN` epochs or if `anytime`."""
    allowed = live_interval if anytime or n < N_MIN else precision_interval
    return allowed(mean, sd, n, degrees)


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjust by Benjamini and Hochberg's method (false discovery rate), for exploratory metrics only."""
    family = len(p_values)
    adjusted = [1.0] * family
    smallest = 1.0
    for rank, i in sorted(enumerate(sorted(range(family), key=lambda i: p_values[i])), reverse=True):
        smallest = min(smallest, p_values[i] * family / (rank + 1))
        adjusted[i] = smallest
    return adjusted


def minimal_detectable_effect(sd: float, n: int, degrees: int | None = None, *, family: int, anytime: bool) -> float:
    """Return the log ratio that n epochs would have claimed with probability POWER, if `sd` were the true one.

    The threshold is that of the first claim among a family of M (Holm), by the anytime-valid interval or by h_n. The
    noncentral t is approximated to about 1% (Johnson & Welch, Biometrika 31, 1940).
    """
    if n < 2:
        return math.inf
    degrees = degrees or n - 1
    if anytime:
        multiplier = anytime_multiplier(n, ALPHA_LIVE / family, degrees)
    else:
        multiplier = INFLATION * t_quantile(1 - ALPHA_PRECISE / family / 2, degrees)
    if math.isinf(multiplier):
        return math.inf
    spread = math.sqrt(1 + multiplier**2 / (2 * degrees))
    effect = multiplier * (1 - 1 / (4 * degrees)) + NormalDist().inv_cdf(POWER) * spread
    return effect * sd / math.sqrt(n)


def epochs_needed(sd: float, precision: float) -> int:
    """Return the fewest epochs, from N_MIN on, whose h_n would reach the target with this `sd` (Stein's formula)."""
    low = high = N_MIN
    while precision_half_width(sd, high) > precision:
        low, high = high + 1, 2 * high
    while low < high:
        middle = (low + high) // 2
        if precision_half_width(sd, middle) <= precision:
            high = middle
        else:
            low = middle + 1
    return high


def standard_deviation(values: Sequence[float]) -> float:
    n = len(values)
    if n < 2:
        return 0.0
    mean = fmean(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))


def moments(values: Sequence[float]) -> Moments:
    n = len(values)
    return Moments(fmean(values) if values else 0.0, standard_deviation(values), n, n - 1)


def estimate(found: Moments, interval_of: IntervalOf) -> Estimate:
    return Estimate(mean=found.mean, interval=interval_of(*found), n=found.n)


def estimate_of(values: Sequence[float], interval_of: IntervalOf) -> Estimate:
    return estimate(moments(values), interval_of)


def t_estimate(values: Sequence[float]) -> Estimate:
    """Estimate the mean with a 95% t interval, unbounded below `EPOCHS_MIN_PAIRED` epochs."""
    found = moments(values)
    sd = found.sd if found.n >= EPOCHS_MIN_PAIRED else math.inf
    return Estimate(mean=found.mean, interval=t_interval(found.mean, sd, found.n, alpha=ALPHA_T), n=found.n)


@dataclass(frozen=True)
class Paired:
    """The cost of an event on two arms measured in the same epochs; the difference is contender minus baseline."""

    baseline: float
    contender: float
    difference: Estimate

    @property
    def is_clear(self) -> bool:
        return excludes_zero(self.difference.interval)

    @staticmethod
    def of(baseline: Sequence[float], contender: Sequence[float]) -> "Paired":
        return Paired(
            fmean(baseline), fmean(contender), t_estimate([b - a for a, b in zip(baseline, contender, strict=True)])
        )


def throughput_interval(found: Moments) -> tuple[float, float, float]:
    """Return mean throughput with the ends of its 95% t interval, at least 0; the mean itself for n = 1."""
    interval = t_interval(*found, alpha=ALPHA_T)
    if interval.low is None or interval.high is None:
        return found.mean, found.mean, found.mean
    return found.mean, max(interval.low, 0.0), interval.high


@dataclass(frozen=True)
class Unpaired:
    estimate: Estimate
    p_value: float | None  # None below three epochs


def welch(later: Moments, earlier: Moments) -> Unpaired | None:
    """Compare two runs of different hours: the mean of `later` minus that of `earlier`; None if one is empty.

    Source: B. L. Welch, The generalization of Student's problem when several different population variances are
    involved, Biometrika 34 (1947).
    """
    n, m = later.n, earlier.n
    if not n or not m:
        return None
    mean = later.mean - earlier.mean
    a, b = later.sd**2 / n, earlier.sd**2 / m
    half_width, p = math.inf, None
    if min(n, m) >= EPOCHS_MIN_UNPAIRED and a + b == 0:
        half_width, p = 0.0, float(mean == 0)
    elif min(n, m) >= EPOCHS_MIN_UNPAIRED:
        degrees = (a + b) ** 2 / (a**2 / later.degrees + b**2 / earlier.degrees)
        error = math.sqrt(a + b)
        half_width = t_quantile(1 - ALPHA_T / 2, degrees) * error
        p = 2 * t_above(abs(mean) / error, degrees)
    return Unpaired(Estimate(mean=mean, interval=around(mean, half_width), n=min(n, m)), p)


_ROUNDING = 3e-16
_TERMS = 100_000  # some hundred suffice; the limit ends the loop on NaN


def t_above(t: float, degrees: float) -> float:
    """Return the probability that Student's t is above `t`; degrees of freedom need not be whole."""
    half = _beta(degrees / 2, 0.5, degrees / (degrees + t * t), t * t / (degrees + t * t)) / 2
    return half if t >= 0 else 1 - half


@cache
def t_quantile(probability: float, degrees: float) -> float:
    """Return a quantile of Student's t; NaN without a degree of freedom."""
    if degrees <= 0:
        return math.nan
    tail = min(probability, 1 - probability)
    log_scale = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - math.log(degrees * math.pi) / 2
    t, step = -NormalDist().inv_cdf(tail), math.inf
    while step > 1e-15 * t:  # from below: the tail is convex there, so that Newton's steps never go too far
        density = math.exp(log_scale - (degrees + 1) / 2 * math.log1p(t * t / degrees))
        step = (t_above(t, degrees) - tail) / density
        t += step
    return t if probability > 0.5 else -t


def f_above(f: float, between: float, within: float) -> float:
    whole = within + between * f
    return _beta(within / 2, between / 2, within / whole, between * f / whole)


def _beta(a: float, b: float, x: float, y: float) -> float:
    """Regularised incomplete beta function I_x(a, b), y = 1 - x, by its continued fraction.

    Source: NIST Digital Library of Mathematical Functions, 8.17.22, by Lentz's method (Thompson and Barnett).
    """
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(b, a, y, x)
    if x <= 0:
        return 0.0
    above, below, fraction = 1.0, 0.0, 1.0
    for k in range(1, _TERMS):
        m = k // 2
        coefficient = m * (b - m) if k % 2 == 0 else -(a + m) * (a + b + m)
        coefficient *= x / ((a + k - 1) * (a + k))
        above, below = 1 + coefficient / above, 1 / (1 + coefficient * below)
        fraction *= above * below
        if abs(above * below - 1) < _ROUNDING:
            break
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(y)
    return math.exp(log_front) / (a * fraction)
