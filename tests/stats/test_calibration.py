"""The method's promises, by simulation through the deciding code; the full number of runs with `-m slow`."""

import numpy as np
import pytest

from validation import simulation as cal
from validation.simulation import arm_orders


def rng(seed=20):
    return np.random.default_rng(seed)


def keep(*rates):
    for rate in rates:
        assert rate.kept, f"{rate.what}: {rate.share:.2%} of {rate.runs}"


@pytest.mark.parametrize("spread", [0.5, 1.0, 1.5, 2.0])
def test_equal_arms_are_seldom_claimed_different_whatever_the_noise(spread):
    keep(*cal.rule(rng(), runs=800, spread=spread))


@pytest.mark.parametrize("shape", ["t3", "two states", "coin"])
def test_equal_arms_are_seldom_claimed_different_under_non_normal_noise(shape):
    keep(*cal.rule(rng(), runs=600, spread=1.0, shape=shape))


@pytest.mark.parametrize("effect", [1.0, 5.0])
def test_intervals_hold_the_truth_and_the_sign_is_right(effect):
    keep(*cal.rule(rng(), runs=600, spread=1.0, effect=effect))


def test_peeking_is_safe_only_with_the_live_interval():
    keep(cal.peeking(rng(), runs=2000, epochs_max=200))
    keep(cal.naive_peeking(rng(), runs=1000))


def test_a_grid_of_equal_cells_keeps_its_promises():
    keep(*cal.family(rng(), runs=300))


def test_a_broken_promise_is_noticed():
    assert not cal.Count("x", hits=100, runs=1000, at_most=0.05).kept
    assert cal.Count("x", hits=60, runs=1000, at_most=0.05).kept
    assert not cal.Count("x", hits=900, runs=1000, at_least=0.95).kept


@pytest.mark.parametrize(("arms", "blocks"), [(2, 8), (2, 3), (3, 5), (4, 2)])
def test_simulated_arm_orders_are_mirrored_and_balanced(arms, blocks):
    orders = arm_orders(rng(), arms=arms, blocks=blocks)
    assert orders.shape == (blocks, 2 * arms)
    assert (orders == orders[:, ::-1]).all()
    assert all((np.bincount(row) == 2).all() for row in orders)
    if arms == 2 and blocks % 4 == 0:
        assert (orders[:, 0].reshape(-1, 4).sum(axis=1) == 2).all()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_promise_holds_over_many_runs():
    keep(*cal.all_promises(1, scale=2.0))
