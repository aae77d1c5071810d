"""Intervals and p-values: the method's vectors, exact values, and properties."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bakeoff.stats import interval as iv
from bakeoff.stats.interval import t_quantile

RUNS, EPOCHS = 4000, 40

# docs/reference/method.md, "Vectors": multiplier of s/sqrt(n) by n.
LIVE = {4: 7.21, 5: 5.36, 6: 4.73, 8: 4.20, 10: 3.97, 15: 3.73, 20: 3.63, 40: 3.54}
DECISIVE = {5: 9.73, 6: 7.13, 8: 5.66, 10: 5.11, 15: 4.57, 20: 4.36, 40: 4.11}

values = st.lists(st.floats(-1, 1), min_size=2, max_size=12)


@pytest.mark.parametrize(("n", "expected"), LIVE.items())
def test_anytime_multiplier_at_5_percent(n, expected):
    assert iv.anytime_multiplier(n, 0.05) == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize(("n", "expected"), DECISIVE.items())
def test_anytime_multiplier_at_1_percent(n, expected):
    assert iv.anytime_multiplier(n, 0.01) == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize(("n", "alpha"), [(0, 0.05), (1, 0.05), (2, 0.05), (3, 0.05), (4, 0.01), (5, 0.01 / 24)])
def test_no_anytime_interval_while_epochs_are_few(n, alpha):
    assert iv.anytime_multiplier(n, alpha) == math.inf
    assert iv.around(0.1, iv.anytime_half_width(0.0, n, alpha=alpha)) == iv.Interval(low=None, high=None)


def test_t_quantiles_to_nine_digits_for_all_n():
    for n in (*range(2, 100), 500, 1000):
        for probability in (0.975, 0.98, 0.995):
            assert t_quantile(probability, n - 1) == pytest.approx(stats.t.ppf(probability, n - 1), rel=1e-9)


def test_precision_half_width_is_the_formula():
    assert iv.precision_half_width(0.01, 6) == pytest.approx(1.08 * 2.756508521909493 * 0.01 / math.sqrt(6), rel=1e-12)
    assert iv.precision_half_width(0.01, 1) == math.inf


@given(st.floats(-0.1, 0.1), st.floats(1e-6, 0.1), st.integers(2, 60))
def test_p_below_4_percent_exactly_when_the_interval_excludes_zero(mean, sd, n):
    half = iv.precision_half_width(sd, n)
    if abs(abs(mean) - half) > 1e-9:
        assert (iv.p_value(mean, sd, n) < iv.ALPHA_PRECISE) == (abs(mean) > half)


@pytest.mark.parametrize(("mean", "sd", "n", "p"), [(0.0, 0.0, 6, 1.0), (0.1, 0.0, 6, 0.0), (0.1, 0.1, 1, 1.0)])
def test_p_without_spread_or_epochs(mean, sd, n, p):
    assert iv.p_value(mean, sd, n) == p


def test_holm_by_hand():
    assert iv.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert iv.holm([0.01, None]) == [0.02, None]
    assert iv.holm([]) == []
    assert iv.holm([0.9, 0.8]) == [1.0, 1.0]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_adjusted_p_never_shrinks_and_keeps_the_order(p_values):
    for adjusted in (iv.holm(p_values), iv.benjamini_hochberg(p_values)):
        assert all(q >= p * (1 - 1e-12) for p, q in zip(p_values, adjusted, strict=True))
        pairs = sorted(zip(p_values, adjusted, strict=True))
        assert all(a[1] <= b[1] for a, b in pairwise(pairs))


def test_benjamini_hochberg_against_scipy():
    p_values = [0.001, 0.008, 0.039, 0.041, 0.042, 0.06, 0.5]
    assert iv.benjamini_hochberg(p_values) == pytest.approx(stats.false_discovery_control(p_values))


@given(st.floats(1e-4, 0.2), st.floats(1e-3, 0.05))
def test_epochs_needed_is_the_fewest(sd, precision):
    n = iv.epochs_needed(sd, precision)
    assert n >= iv.N_MIN and iv.precision_half_width(sd, n) <= precision
    assert n == iv.N_MIN or iv.precision_half_width(sd, n - 1) > precision


def test_an_extended_run_keeps_its_promise_with_the_live_interval_and_not_with_the_precise_one():
    x = np.random.default_rng(3).normal(size=(RUNS, EPOCHS))
    n = np.arange(1, EPOCHS + 1)
    mean = np.cumsum(x, axis=1) / n
    sd = np.array([x[:, : max(k, 2)].std(axis=1, ddof=1) for k in n]).T
    precise = np.abs(mean) > sd * [iv.precision_half_width(1.0, int(k)) for k in n]
    live = np.abs(mean) > sd * [iv.anytime_half_width(1.0, int(k), alpha=iv.ALPHA_LIVE) for k in n]
    shown = precise[:, 7]  # BUDGET after eight epochs; then extended, and ended at the luckiest moment
    later = slice(iv.N_MIN - 1, EPOCHS)
    assert np.mean(shown | live[:, later].any(axis=1)) < 0.05
    assert np.mean(shown | precise[:, later].any(axis=1)) > 0.1


@pytest.mark.parametrize("family", [1, 8, 24])
@pytest.mark.parametrize("anytime", [False, True])
def test_minimal_detectable_effect_has_its_power(family, anytime):
    rng = np.random.default_rng(5)
    n, effect = 10, iv.minimal_detectable_effect(1.0, 10, family=family, anytime=anytime)
    found = []
    for row in rng.normal(effect, 1.0, (4000, n)):
        mean, sd = row.mean(), row.std(ddof=1)
        if anytime:
            found.append(mean > iv.anytime_half_width(sd, n, alpha=iv.ALPHA_LIVE / family))
        else:
            found.append(family * iv.p_value(mean, sd, n) <= iv.ALPHA_PRECISE)
    assert 0.77 < np.mean(found) < 0.83  # five standard errors around 0.8


def test_no_effect_is_detectable_while_nothing_could_be_claimed():
    assert iv.minimal_detectable_effect(0.0, 1, family=1, anytime=False) == math.inf
    assert iv.minimal_detectable_effect(0.0, 4, family=24, anytime=True) == math.inf


@given(values)
def test_standard_deviation_matches_numpy(sample):
    assert iv.standard_deviation(sample) == pytest.approx(np.std(sample, ddof=1), abs=1e-12)
    assert iv.standard_deviation(sample[:1]) == 0.0


def test_live_interval_is_the_anytime_one():
    sample = [0.05 * (-1) ** epoch for epoch in range(7)]
    sd = iv.standard_deviation(sample)
    live = iv.estimate_of(sample, iv.live_interval).interval
    assert live.half_width == pytest.approx(iv.anytime_half_width(sd, 7, alpha=0.05))
    assert iv.estimate_of(sample[:3], iv.live_interval).interval.low is None
