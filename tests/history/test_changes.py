"""Change points in simulated histories. Test G22 of the validation suite simulates more."""

import math

import numpy as np
import pytest

from bakeoff.history.changes import POINTS_MIN, Track, changes_of

STEP = math.log(0.98)


def track(rng, count=40, *, steps=(), scale=None, between=0.002):
    """Points of eight epochs each, whose log ratios scatter by 1 %."""
    scale = np.ones(count) if scale is None else scale
    epochs = rng.normal(0, 0.01, (count, 8)) * scale[:, None]
    level = np.zeros(count)
    for at, size in steps:
        level[at:] += size
    values = level + epochs.mean(axis=1) + rng.normal(0, between, count)
    return Track(values.tolist(), (epochs.std(axis=1, ddof=1) / math.sqrt(8)).tolist())


@pytest.mark.parametrize(("series", "runs", "limit"), [(1, 120, 12), (4, 40, 6)])
def test_few_stationary_histories_show_a_change(series, runs, limit):
    """At a rate of 5 %, the limit is exceeded once in a hundred runs of this test."""
    rng = np.random.default_rng(7)
    noisy = np.where(np.arange(40) // 5 == 4, 3.0, 1.0)
    alarms = sum(
        any(changes_of([track(rng, scale=noisy) for _ in range(series)], seed=number)) for number in range(runs)
    )
    assert alarms <= limit


def test_a_step_of_two_percent_is_found_within_a_run_with_its_size():
    rng = np.random.default_rng(8)
    found = [changes_of([track(rng, steps=((25, STEP),))], seed=number)[0] for number in range(40)]
    right = [changes for changes in found if any(abs(change.at - 25) <= 1 for change in changes)]
    assert len(right) >= 38
    sizes = [change.size for changes in right for change in changes if abs(change.at - 25) <= 1]
    assert np.mean(sizes) == pytest.approx(STEP, abs=0.001)
    assert sum(change.low < STEP < change.high for changes in right for change in changes) >= 36
    assert sum(change.first <= 25 <= change.last for changes in right for change in changes) >= 36


def test_both_of_two_changes_are_found():
    rng = np.random.default_rng(9)
    histories = [changes_of([track(rng, steps=((12, STEP), (28, -STEP)))], seed=number)[0] for number in range(40)]
    assert sum(len(changes) == 2 for changes in histories) >= 36
    assert {change.size < 0 for changes in histories for change in changes[:1]} == {True}


def test_an_outlier_is_not_a_change():
    rng = np.random.default_rng(10)
    steps = ((20, 0.2), (21, -0.2))
    assert sum(any(changes_of([track(rng, steps=steps)], seed=number)) for number in range(40)) <= 4


def test_an_outlier_neither_moves_nor_hides_a_nearby_change():
    rng = np.random.default_rng(12)
    for out in (0.5, -0.5):
        steps = ((20, out), (21, -out), (25, STEP), (33, -STEP))
        found = [
            [change.at for change in changes_of([track(rng, steps=steps)], seed=number)[0]] for number in range(20)
        ]
        near = [[min(abs(at - place) for at in places) <= 1 for place in (25, 33)] for places in found if places]
        assert sum(map(all, near)) >= 17


def test_a_change_belongs_to_its_own_series():
    rng = np.random.default_rng(11)
    first, *others = changes_of([track(rng, steps=((20, 2 * STEP),)), *(track(rng) for _ in range(5))])
    assert [change.at for change in first] == [20] and not any(others)


def test_series_with_too_few_points_are_not_tested():
    rng = np.random.default_rng(12)
    short = track(rng, POINTS_MIN - 1, steps=((4, 1.0),))
    long = track(rng, steps=((20, STEP),))
    assert changes_of([short]) == [()]
    alone, beside = changes_of([long]), changes_of([short, long])
    assert beside == [(), *alone] and alone[0]


def test_constant_and_empty_series_are_handled():
    assert changes_of([]) == []
    assert changes_of([Track([0.0] * 20, [0.0] * 20)]) == [()]
    (change,) = changes_of([Track([0.0] * 10 + [0.1] * 10, [0.0] * 20)])[0]
    assert (change.at, change.size) == (10, pytest.approx(0.1))
    assert math.isfinite(change.low) and math.isfinite(change.high)


def test_the_result_is_reproducible():
    rng = np.random.default_rng(13)
    tracks = [track(rng, steps=((20, STEP / 2),))]
    assert changes_of(tracks) == changes_of(tracks)
