"""Time spent where it is needed: seconds shared by noise, epochs shortened to keep the budget."""

import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.plan import Plan
from bakeoff.plan.epochs import rounds, turns
from bakeoff.plan.timing import (
    EpochCost,
    EpochTime,
    epoch_time,
    fit_seconds,
    guarded,
    seconds_min,
    shared_seconds,
)


def test_noisy_cells_get_more_time_within_the_same_epoch():
    shares = shared_seconds(10.0, {"quiet": 1e-6, "middle": 2e-6, "noisy": 4e-6}, least_s=seconds_min(2, guarded(0)))
    assert shares["quiet"] < shares["middle"] < shares["noisy"]
    assert math.fsum(shares.values()) == pytest.approx(30.0)
    # Unless a bound applies, all cells end up with the same variance within an epoch: rate over seconds.
    assert shares["noisy"] / shares["middle"] == pytest.approx(2.0)


@given(st.lists(st.one_of(st.none(), st.floats(1e-9, 1e-2)), min_size=1, max_size=12), st.floats(2.0, 60.0))
def test_no_cell_gets_less_than_half_or_more_than_twice(rates, seconds):
    shares = shared_seconds(
        seconds, {str(place): rate for place, rate in enumerate(rates)}, least_s=seconds_min(2, guarded(0))
    )
    low = max(seconds / 2, seconds_min(2, guarded(0))) * (1 - 1e-6)
    assert all(low <= share <= 2 * seconds * (1 + 1e-6) for share in shares.values())
    if min(shares.values()) > seconds_min(2, guarded(0)):
        assert math.fsum(shares.values()) == pytest.approx(seconds * len(rates), rel=1e-6)


def test_a_cell_whose_noise_is_unknown_counts_as_the_median():
    shares = shared_seconds(10.0, {"a": 1e-6, "b": 2e-6, "c": 3e-6, "writes": None}, least_s=seconds_min(2, guarded(0)))
    assert shares["writes"] == shares["b"]
    assert shared_seconds(10.0, {"a": None, "b": None}, least_s=seconds_min(2, guarded(0))) == {"a": 10.0, "b": 10.0}


@given(st.floats(30, 7200), st.floats(0.5, 60), st.integers(1, 20), st.integers(2, 40), st.floats(5, 20))
def test_the_last_epoch_that_fits_ends_with_the_budget(budget_s, overhead_s, cells, arms, ideal_s):
    seconds = fit_seconds(
        ideal_s, rest_s=budget_s, overhead_s=overhead_s, cells=cells, least_s=seconds_min(arms, guarded(0))
    )
    assert seconds >= seconds_min(arms, guarded(0))
    epochs = budget_s / (overhead_s + cells * seconds)
    if epochs >= 6:
        assert epochs == pytest.approx(round(epochs), abs=1e-6)


@given(st.integers(2, 40), st.integers(2, 12))
def test_turns_count_the_arms_of_all_rounds(arms, at_once):
    names = tuple(map(str, range(arms)))
    assert turns(arms, at_once=at_once) == sum(map(len, rounds(names, at_once=at_once, seed=1, epoch=0)))


@pytest.mark.parametrize(("arms", "at_once"), [(2, 2), (3, 2), (5, 2), (9, 3), (4, 4)])
def test_measuring_counts_the_baseline_in_every_round(arms, at_once):
    names, cell = tuple("ABCDEFGHI"[:arms]), SimpleNamespace(name="c", seconds=None)
    plan = Plan.model_construct(arms=names, turns=turns(arms, at_once=at_once), seconds_per_cell=20.0, cells=(cell,))
    for left in range(2, arms + 1):
        served = sum(map(len, rounds(names[:left], at_once=at_once, seed=1, epoch=0)))
        assert plan.measuring_seconds({"c": left}) == pytest.approx(served * plan.arm_seconds("c"))
    assert plan.measuring_seconds({"c": arms}) == pytest.approx(20.0)


def test_epoch_time_is_estimated_from_the_last_three_epochs():
    slow, quick = EpochCost(overhead_s=60, measured_s=40, planned_s=20), EpochCost(10, 21, 20)
    assert epoch_time([]) is None
    assert epoch_time([slow, quick, quick, quick]) == EpochTime(overhead_s=10, wall_per_planned=1.05)
    assert epoch_time([slow]).epoch_s(20) == 100


def test_an_epoch_is_shortened_only_while_fewer_than_six_fit():
    epoch_time = EpochTime(overhead_s=10, wall_per_planned=1.0)
    asked = {"least_s": 4}
    assert epoch_time.share(20, room_s=180, epochs=0, **asked) == 1.0
    assert epoch_time.share(20, room_s=120, epochs=0, **asked) == pytest.approx(0.5)
    assert epoch_time.share(20, room_s=60, epochs=0, **asked) == 0.4  # the least
    assert epoch_time.share(5, room_s=60, epochs=0, **asked) == 0.8  # the least seconds
    assert epoch_time.share(20, room_s=1, epochs=6, **asked) == 1.0
