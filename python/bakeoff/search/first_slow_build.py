"""Bisect a regression by noisy measurements: which build of an ordered list is the first slow one.

Every value is an epoch's log ratio of one build over build 0, which is good. If k is the first slow one, builds before
k have mean 0, those from k on one unknown mean, all one unknown variance. With flat priors of k, mean and log variance

    p(k | values) ~ n_k^(-1/2) RSS_k^(-(n - 1)/2)

n_k: number of values from build k on; RSS_k: squares of the values before k, plus squares about the mean from k on.
Source: R. M. Karp, R. Kleinberg, Noisy binary search and its applications, SODA 2007.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.99
EPOCHS_FIRST = 3  # epochs of the last build that first show the size of the regression and the noise
Values = Mapping[int, Sequence[float]]  # build -> its epochs' log ratios over build 0


def posterior(values: Values, builds: int) -> NDArray[np.float64]:
    """Return the probability that each build is the first slow one. Needs `EPOCHS_FIRST` values of the last build."""
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
    """Return the first slow build once it is likely enough, and builds `without` a measurement just before it."""
    last = int(probabilities.argmax())
    while last in without:
        last += 1
    first = last
    while first - 1 in without:
        first -= 1
    return tuple(range(first, last + 1)) if probabilities[first : last + 1].sum() >= CONFIDENCE else None


def next_build(probabilities: NDArray[np.float64], *, without: Collection[int] = ()) -> int:
    """Return the build whose epoch tells most: as likely slow as not, as information is concave in that probability."""
    uneven = np.abs(np.cumsum(probabilities) - 0.5)
    # The last build shows the difference alone, which is the next question when no other can be measured.
    uneven[[0, *without]], uneven[-1] = 2.0, 1.0
    return int(uneven.argmin())
