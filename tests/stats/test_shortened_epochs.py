"""Epochs of unequal length: the interval still holds the truth (docs/explanation/decisions/where-time-goes.md)."""

import math

import numpy as np
import pytest

from bakeoff.stats import interval as iv
from bakeoff.stats.model import Stop
from bakeoff.stats.stopping import stop_state

PRECISION = 0.01
RUNS = 1500


@pytest.mark.parametrize("lengths", [(1.0,), (1.0, 0.4), (1.0, 1.0, 1.0, 0.4), (1.0, 0.8, 0.6, 0.5, 0.4)])
def test_shortened_epochs_keep_the_coverage(lengths):
    """The worst case: all noise is within epochs, so the variance is a whole epoch's divided by the length."""
    rng = np.random.default_rng(5)
    missed = 0
    for _ in range(RUNS):
        values = []
        for epoch in range(20):
            values.append(rng.normal(0, PRECISION / math.sqrt(lengths[min(epoch, len(lengths) - 1)])))
            stop = stop_state(values, precision=PRECISION, family=1)
            if stop is not Stop.RUNNING:
                break
        n, sd = len(values), iv.standard_deviation(values)
        missed += abs(math.fsum(values) / n) > iv.precision_half_width(sd, n)
    assert missed / RUNS <= 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / RUNS)
