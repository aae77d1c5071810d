"""Bisect a regression by noisy measurements: which build of an ordered list is the first slow one.

Every value is an epoch's log ratio of one build over build 0, which is known to be good; the last build is known to be
slow. Under 'the culprit is k' the builds before k have mean 0, those from k on have one unknown mean, and all share one
unknown variance. Flat priors of mean and log variance integrate both out, so nothing is estimated beforehand, and k has
a flat prior, too:

    p(k | values) ~ n_k^(-1/2) RSS_k^(-(n - 1)/2)

n_k: values of builds from k on; RSS_k: squares of the values before k, and of those from k on about their mean.

Assumes: one change in the list, epochs independent and roughly normal, one variance.
Source: R. M. Karp, R. Kleinberg, Noisy binary search and its applications, SODA 2007; M. Ben-Or, A. Hassidim, The
Bayesian learner is optimal for noisy binary search, FOCS 2008 (the posterior over the place, and where to look next).
"""

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.99
"""Probability of the likeliest culprit at which measuring ends: recorded noise has longer tails than the model's."""

EPOCHS_FIRST = 3
"""Epochs of the last build, by which the size of the regression and the noise are first known."""

Values = Mapping[int, Sequence[float]]
"""Build -> its epochs' log ratios over build 0."""

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(40)


def posterior(values: Values, builds: int) -> NDArray[np.float64]:
    """Probability that each build is the first slow one. Needs `EPOCHS_FIRST` values of the last build."""
    sums = np.zeros((3, builds))  # of values: their number, sum and squares
    for build, of_build in values.items():
        sums[:, build] = len(of_build), math.fsum(of_build), math.fsum(value * value for value in of_build)
    count, total, squares = (np.array([*accumulate(row[::-1])][::-1]) for row in sums)  # of the builds from k on
    n = count[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        residuals = squares[0] - total**2 / count
        log = -0.5 * np.log(count) - (n - 1) / 2 * np.log(np.maximum(residuals, 1e-300))
    log[0] = -math.inf
    weights: NDArray[np.float64] = np.exp(log - log.max())
    weights /= weights.sum()
    return weights


def culprits(probabilities: NDArray[np.float64], *, without: Collection[int] = ()) -> tuple[int, ...] | None:
    """Return the first slow build once it is likely enough; None before that.

    Builds `without` a measurement right before the first slow one may be it as well.
    """
    last = int(probabilities.argmax())
    while last in without:
        last += 1
    first = last
    while first - 1 in without:
        first -= 1
    return tuple(range(first, last + 1)) if probabilities[first : last + 1].sum() >= CONFIDENCE else None


def next_build(
    values: Values,
    probabilities: NDArray[np.float64],
    *,
    without: Collection[int] = (),
) -> int:
    """Return the build whose next epoch is expected to be most informative about the culprit."""
    builds = len(probabilities)
    slow = np.minimum(np.cumsum(probabilities), 1.0)  # probability that each build is slow
    shares, of_build = np.unique(slow, return_inverse=True)  # equal ones tie, and the first of them is taken
    bits = _information(shares, _distance(values, probabilities))[of_build]
    # The last build shows the difference alone, which is the next question when no other can be measured.
    bits[[0, *without]], bits[builds - 1] = -1.0, -0.5
    return int(np.argmax(bits))


def _distance(values: Values, probabilities: NDArray[np.float64]) -> float:
    best = int(probabilities.argmax())
    slow = np.array([value for build, own in values.items() if build >= best for value in own])
    fast = np.array([value for build, own in values.items() if build < best for value in own])
    residuals = float(((slow - slow.mean()) ** 2).sum() + (fast**2).sum())
    sd = math.sqrt(residuals / max(slow.size + fast.size - 1, 1))
    return abs(float(slow.mean())) / max(sd, 1e-12)


def _information(shares: NDArray[np.float64], distance: float) -> NDArray[np.float64]:
    """Bits that one normal value gives about whether its mean is 0 or `distance`, the latter with this probability.

    The entropy of that question less its expected entropy after the value, by Gauss-Hermite quadrature.
    """
    left = np.zeros(len(shares))
    with np.errstate(divide="ignore"):
        before = np.log(shares) - np.log1p(-shares)  # infinite where nothing is asked, which gives 0 bits
    for probability, mean in ((1 - shares, 0.0), (shares, distance)):
        value = mean + _NODES
        odds = before[:, None] + np.clip(distance * value - distance**2 / 2, -600, 600)
        with np.errstate(over="ignore"):
            after = 1 / (1 + np.exp(-odds))
        left += probability * (_entropy(after) @ _WEIGHTS) / math.sqrt(2 * math.pi)
    return _entropy(shares) - left


def _entropy(share: NDArray[np.float64]) -> NDArray[np.float64]:
    inside = np.clip(share, 1e-300, 1 - 1e-16)
    return -(inside * np.log2(inside) + (1 - inside) * np.log2(1 - inside))
