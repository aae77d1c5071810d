"""Noisy bisection: the posterior by brute force, where to look next, and simulated bisections."""

import numpy as np
import pytest

from bakeoff.search.first_slow_build import culprits, next_build, posterior
from validation import bisections
from validation.check import fewest

VALUES = {5: [-0.031, -0.027, -0.035], 2: [0.004, -0.006], 3: [-0.028]}


def test_the_posterior_matches_numerical_integration():
    """Mean and log standard deviation on a grid, each with a flat prior."""
    means, log_sds = np.meshgrid(np.linspace(-0.3, 0.3, 1201), np.linspace(-8, 1, 900), indexing="ij")
    weights = []
    for place in range(1, 6):
        log = np.zeros_like(means)
        for build, values in VALUES.items():
            for value in values:
                mean = means if build >= place else 0.0
                log += -log_sds - 0.5 * ((value - mean) / np.exp(log_sds)) ** 2
        weights.append(np.exp(log - 30).sum())
    expected = np.array([0.0, *weights]) / sum(weights)
    assert posterior(VALUES, 6) == pytest.approx(expected, abs=2e-3)


def test_builds_without_a_measurement_between_them_are_equally_likely():
    probabilities = posterior({63: [-0.03, -0.029, -0.031], 31: [0.001]}, 64)
    assert probabilities[0] == 0
    assert np.ptp(probabilities[1:32]) == 0 and np.ptp(probabilities[32:]) == 0
    assert probabilities[32:].sum() > 0.9
    assert culprits(probabilities) is None
    assert culprits(posterior({2: [-0.03, -0.0301, -0.0299], 1: [0.0001] * 5}, 3)) == (2,)


def test_builds_that_cannot_be_measured_are_named_with_the_first_slow_one_after_them():
    probabilities = posterior({5: [-0.03, -0.0301, -0.0299], 4: [-0.03], 1: [0.0001] * 5}, 6)
    assert culprits(probabilities) is None and culprits(probabilities, without=[2]) is None
    assert culprits(probabilities, without=[2, 3]) == (2, 3, 4)
    # Builds elsewhere are not named.
    probabilities = posterior({5: [-0.03, -0.0301, -0.0299] * 2, 3: [-0.03, -0.0301], 2: [0.0001] * 5}, 6)
    assert culprits(probabilities, without=[1, 4]) == (3,)


def test_the_next_build_halves_the_remaining_range():
    values = {63: [-0.03, -0.031, -0.029]}
    probabilities = posterior(values, 64)
    assert next_build(probabilities) in (31, 32)
    assert next_build(probabilities, without=range(25, 40)) in (24, 40)


@pytest.mark.parametrize("percent", [pytest.param(3.0, marks=pytest.mark.slow), 5.0])
def test_simulated_bisections_are_right_in_few_epochs(of_runs, percent):
    runs = of_runs(100)
    ended = bisections.find_build(1, runs=runs, slowdown_percent=percent)
    assert ended.right * runs >= fewest(runs, 0.95)
    assert ended.epochs <= {3.0: 44, 5.0: 26}[percent]  # half of those of a gate for each middle build


def test_builds_that_cannot_be_measured_are_passed_over():
    values = {63: [-0.03, -0.031, -0.029]}
    assert next_build(posterior(values, 64), without=range(20, 44)) in (19, 44)
    assert next_build(posterior({2: [-0.03, -0.031, -0.029]}, 3), without=[1]) == 2
