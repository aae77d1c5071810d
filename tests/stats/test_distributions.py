"""Probabilities and quantiles against scipy over a wide grid."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import optimize, special

from bakeoff.stats import scaling
from bakeoff.stats.interval import f_above, t_above, t_quantile

DEGREES = (1, 1.1, 2, 2.3, 3, 4, 5, 7, 10, 19.5, 33, 100, 1000, 12_345, 1e5)
BOUND = 1e-9


@pytest.mark.parametrize("degrees", DEGREES)
def test_student_t_matches_scipy(degrees):
    for t in (-40, -3, -1, 0, 0.1, 0.7, 1, 1.5, 2, 3, 5, 10, 50, 1e3):
        assert t_above(t, degrees) == pytest.approx(special.stdtr(degrees, -t), rel=BOUND, abs=1e-290)
    for p in (1e-9, 1e-4, 0.01, 0.3, 0.5, 0.7, 0.9, 0.975, 0.98, 0.9999, 1 - 1e-9):
        assert t_quantile(p, degrees) == pytest.approx(special.stdtrit(degrees, p), rel=BOUND, abs=1e-12)
    assert math.isnan(t_quantile(0.975, 0))


@pytest.mark.parametrize("between", (1, 2, 3, 4, 7, 20, 100, 1000))
def test_f_distribution_matches_scipy(between):
    for within, f in product((1, 2, 3, 5, 9, 40, 333, 5000), (0, 1e-6, 0.1, 1, 1.3, 2, 4, 10, 100, 1e4)):
        assert f_above(f, between, within) == pytest.approx(special.fdtrc(between, within, f), rel=BOUND, abs=1e-290)
    assert f_above(math.inf, between, 5) == 0


@pytest.mark.parametrize("seed", range(20))
def test_scaling_law_fit_matches_scipy(seed):
    """Contention and crosstalk are drawn inside their bounds and at the bounds."""
    rng = np.random.default_rng(seed)
    threads = np.array([1.0, 2, 4, 8, 16, 32, 64])
    truth = np.array([9.0, rng.choice([0.0, 0.03, 0.4, 1.0]), rng.choice([0.0, 1e-4, 0.01])])
    logs = scaling._law(truth, threads) + rng.normal(0, rng.choice([0.001, 0.05]), threads.size)
    best = scaling._fit(threads, logs)

    def off(parameters):
        return scaling._law(parameters, threads) - logs

    theirs = min(
        (
            optimize.least_squares(
                off, (9.0, sigma, kappa), bounds=([-math.inf, 0, 0], [math.inf, 1, 1]), x_scale=(1, 0.1, 0.01),
                ftol=1e-15, xtol=1e-15, gtol=1e-15,
            )
            for sigma in (0.01, 0.3) for kappa in (1e-5, 1e-2)
        ),
        key=lambda solution: solution.cost,
    )  # fmt: skip
    assert (off(best) ** 2).sum() <= 2 * theirs.cost * (1 + 1e-9)
    assert best == pytest.approx(theirs.x, rel=1e-5, abs=1e-6)


def test_nan_gives_nan_and_infinity_gives_zero():
    assert math.isnan(t_above(math.nan, 5))
    assert math.isnan(f_above(math.nan, 2, 3))
    assert t_above(math.inf, 5) == 0
