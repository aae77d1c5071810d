"""One number an epoch: by hand, and the symmetries that any ratio must have."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slices import epoch_of, quads, slice_row

from bakeoff.stats.estimate import epoch_estimates, trimmed_mean, variance_of_mean
from validation.simulation import CLOUD, Conditions, simulate_epoch


def only(epoch, baseline="A"):
    (pair,) = epoch_estimates(epoch, baseline=baseline).pairs
    return pair


def simulated(seed=1, **options):
    return simulate_epoch(np.random.default_rng(seed), {"A": 0.0, "B": -0.05}, Conditions(CLOUD, **options))


def test_ratio_of_sums_not_mean_of_ratios():
    rows = [
        slice_row("A", 0, 0, events=1000),
        slice_row("B", 0, 1, events=1000),
        slice_row("B", 0, 2, events=100, seconds=2.0),  # a stall: counted in full
        slice_row("A", 0, 3, events=1000),
    ]
    pair = only(epoch_of(rows))
    assert pair.value == pytest.approx(math.log((1100 / 3) / (2000 / 2)))
    assert pair.trimmed == pytest.approx((math.log(1000) + math.log(50)) / 2 - math.log(1000))


def test_trimming_takes_a_fifth_from_each_side():
    pair = only(epoch_of(quads([0.01, 0.9, 0.9, 0.9, 50.0], level=10_000)))
    assert pair.trimmed == pytest.approx(math.log(0.9))
    assert pair.value != pytest.approx(math.log(0.9), abs=0.5)


def test_an_empty_slice_is_ignored_and_keeps_the_trimmed_ratio_finite():
    rows = quads([1.0] * 5)
    rows[1] |= {"events": 0, "busy_ns": 0}
    pair = only(epoch_of(rows))
    assert pair.value == pytest.approx(0.0)
    assert math.isfinite(pair.trimmed)


def test_a_stall_within_a_window_is_charged_in_full():
    rows = quads([1.0] * 5)
    rows[1] |= {"events": 1}
    assert only(epoch_of(rows)).value == pytest.approx(math.log(9.001 / 10))


def slow_slice(rng, arm, block, position, mean_s, slice_s=1.25, guard_s=0.01):
    """One connection as the engine counts it: events started in the guard do not count, and the last one is drained."""
    at_s, events, first_s = 0.0, 0, None
    while at_s < slice_s:
        if first_s is None and at_s >= guard_s:
            first_s = at_s
        at_s += rng.exponential(mean_s)
        events += first_s is not None
    busy_s = at_s - first_s if first_s is not None else 0.0
    times = {"length_ns": int(at_s * 1e9), "busy_ns": int(busy_s * 1e9)}
    return (
        slice_row(arm, block, position, events=events, start_s=block * 100 + position * 20) | times | {"connections": 1}
    )


@pytest.mark.parametrize(("a_s", "b_s"), [(0.5, 1.0), (0.5, 0.55), (0.01, 0.02)])
def test_events_nearly_as_long_as_slices_do_not_exaggerate_the_ratio(a_s, b_s):
    rng = np.random.default_rng(3)
    rows = [
        slow_slice(rng, arm, block, position, {"A": a_s, "B": b_s}[arm])
        for block in range(1500)
        for position, arm in enumerate("ABBA")
    ]
    assert only(epoch_of(rows)).value == pytest.approx(math.log(a_s / b_s), abs=0.05)


@pytest.mark.parametrize(("dead", "expected"), [("B", -math.inf), ("A", math.inf)])
def test_an_arm_that_completes_nothing_gives_no_finite_ratio(dead, expected):
    rows = [row | ({"events": 0} if row["arm"] == dead else {}) for row in quads([1.0] * 4)]
    assert only(epoch_of(rows)).value == expected


def test_two_dead_arms_are_not_equal():
    rows = [row | {"events": 0} for row in quads([1.0] * 4)]
    assert math.isnan(only(epoch_of(rows)).value)


def test_nothing_measured_gives_no_pairs():
    assert epoch_estimates(epoch_of([]), baseline="A").pairs == ()
    assert epoch_estimates(epoch_of(quads([1.0])), baseline="X").pairs == ()


def test_a_block_cut_short_counts_for_neither_arm():
    rows = [*quads([0.9] * 4), slice_row("A", 4, 0, events=10), slice_row("B", 4, 1, events=99_999)]
    pair = only(epoch_of(rows))
    assert (pair.value, pair.blocks) == (pytest.approx(math.log(0.9)), 4)


def test_null_counts_count_as_zero():
    rows = quads([1.0] * 4)
    rows[1] |= {"events": None, "busy_ns": None}
    assert only(epoch_of(rows)).value == pytest.approx(0.0)


def test_cells_and_contenders_in_measured_order():
    rows = quads([1.1] * 4, cell="b/1") + quads([0.9] * 4, cell="a/1")
    found = epoch_estimates(epoch_of(rows), baseline="A").pairs
    assert [(pair.cell, round(math.exp(pair.value), 2)) for pair in found] == [("b/1", 1.1), ("a/1", 0.9)]


def test_linear_drift_cancels():
    rows = [row | {"events": round(10_000 * math.exp(0.01 * i))} for i, row in enumerate(quads([1.0] * 8))]
    pair = only(epoch_of(rows))
    assert pair.trimmed == pytest.approx(0.0, abs=1e-4)
    assert pair.value == pytest.approx(0.0, abs=1e-3)


def test_trend_compares_the_halves():
    assert only(epoch_of(quads([1.2, 1.2, 9.0, 1.0, 1.0]))).trend == pytest.approx(math.log(1.2))
    assert only(epoch_of(quads([1.2, 1.0, 1.0]))).trend is None


def test_injected_carry_over_is_found():
    rng = np.random.default_rng(2)
    rows, previous, time_s = [], None, 0
    for block in range(200):
        for position, arm in enumerate("ABBA" if rng.random() < 0.5 else "BAAB"):
            warm = 1.03 if arm == previous else 1.0
            rows.append(slice_row(arm, block, position, events=round(100_000 * warm), start_s=time_s))
            previous, time_s = arm, time_s + 1
    found = only(epoch_of(rows))
    assert found.switched == pytest.approx(5 / 8, abs=0.03)
    assert found.carry_over == pytest.approx({"A": math.log(1.03), "B": math.log(1.03)}, abs=0.002)


def test_variance_of_mean_needs_three_blocks_and_batches_autocorrelated_ones():
    assert variance_of_mean(np.array([1.0, 2.0])) is None
    independent = np.array([0.0, 2.0, 1.0, 1.0])
    assert variance_of_mean(independent) == pytest.approx(np.var(independent, ddof=1) / 4)
    slow = np.repeat([0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0], 4)
    assert variance_of_mean(slow) == pytest.approx(np.var(slow[::4], ddof=1) / 8)
    assert variance_of_mean(np.array([1.0, np.nan, 1.0, 1.0])) == 0.0


def test_stalls_in_a_tenth_of_an_arms_slices_are_trimmed():
    rows = quads([1.0] * 20)
    stalled = [row for row in rows if row["arm"] == "B"][::10]
    for row in stalled:
        row["events"] = 500
    pair = epoch_estimates(epoch_of(rows), baseline="A").pairs[0]
    assert len({row["block"] for row in stalled}) == 4
    assert pair.trimmed == pytest.approx(0.0, abs=1e-9)
    assert pair.value == pytest.approx(math.log(0.95))


def test_trimmed_mean_of_few_and_none():
    assert trimmed_mean(np.array([1.0, 5.0])) == 3.0
    assert math.isnan(trimmed_mean(np.empty(0)))


@given(st.integers(0, 10_000))
@settings(max_examples=15)
def test_swapping_the_labels_flips_every_sign(seed):
    epoch = simulated(seed)
    there, back = only(epoch), only(epoch, baseline="B")
    assert there.value == pytest.approx(-back.value, abs=1e-12)
    assert there.trimmed == pytest.approx(-back.trimmed, abs=1e-12)
    assert there.trend == pytest.approx(-back.trend, abs=1e-12)
    assert there.variance_of_mean == pytest.approx(back.variance_of_mean)


@given(st.integers(0, 10_000), st.integers(2, 50))
@settings(max_examples=15)
def test_a_machine_n_times_as_fast_changes_nothing(seed, factor):
    epoch = simulated(seed)
    faster = only(epoch_like(epoch, epoch.slices.with_columns(events=epoch.slices["events"] * factor)))
    same = only(epoch)
    assert (faster.value, faster.trimmed) == pytest.approx((same.value, same.trimmed), abs=1e-12)


@given(st.integers(0, 10_000))
@settings(max_examples=10)
def test_the_order_of_rows_does_not_matter(seed):
    epoch = simulated(seed)
    order = np.random.default_rng(seed).permutation(len(epoch.slices))
    mixed = only(epoch_like(epoch, epoch.slices.rows(order)))
    same = only(epoch)
    assert (mixed.value, mixed.trimmed, mixed.trend) == pytest.approx((same.value, same.trimmed, same.trend), abs=1e-12)
    assert mixed.carry_over == pytest.approx(same.carry_over, abs=1e-9)


def epoch_like(epoch, slices):
    return type(epoch)(epoch.epoch, slices, epoch.build)
