"""Seeds by path, and seconds from the budget and from the noise."""

import hashlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.plan import SliceLength, guard_ns, ideal_seconds, least_seconds, pilot_slice_max_ns, whole_blocks
from bakeoff.plan.epochs import seed_for, shuffled
from bakeoff.plan.timing import LONG_S, fit_seconds, guarded, longest_slice_ns, seconds_min, seconds_with_hosts


def test_seed_scheme_is_the_documented_one():
    digest = hashlib.sha256(b"bakeoff/1/42/start/3/A").hexdigest()
    assert seed_for(42, "start", 3, "A") == int(digest[:16], 16) >> 11


def test_orders_are_a_published_function_of_the_seed():
    assert shuffled("ABCDE", 1, "cells", 0) == shuffled("EDCBA", 1, "cells", 0)
    assert {shuffled("ABC", 0, "start", epoch) for epoch in range(200)} == {
        ("A", "B", "C"), ("A", "C", "B"), ("B", "A", "C"), ("B", "C", "A"), ("C", "A", "B"), ("C", "B", "A"),
    }  # fmt: skip


def test_each_arm_starts_first_about_equally_often():
    first = sum(shuffled("AB", seed, "start", 0)[0] == "A" for seed in range(2000))
    assert 900 < first < 1100  # 4.5 standard deviations


@pytest.mark.parametrize(
    ("budget_s", "overhead_s", "cells", "expected"),
    [
        (600, 10, 1, 20.0),  # as long as is comfortable
        (180, 10, 1, (180 / 8 - 10)),  # eight epochs, all of the budget
        (120, 10, 1, 5.0),  # eight would leave less than 5 s: six, no longer than 5 s
        (84, 10, 1, 4.0),  # six epochs, what they leave
        (60, 30, 4, 2.0),  # does not fit at all
        (86400, 10, 3, (86400 / 1234 - 10) / 3),  # a long budget does not make the shortest run long
    ],
)
def test_measuring_time_is_fitted_to_the_budget(budget_s, overhead_s, cells, expected):
    got = fit_seconds(20.0, rest_s=budget_s, overhead_s=overhead_s, cells=cells, least_s=seconds_min(2, guarded(0)))
    assert got == pytest.approx(expected)


def first_seconds(*, overhead_s, cells, **least):
    bounds = (least_seconds(**{"turns": 2, **least}), LONG_S)
    return ideal_seconds(overhead_s=overhead_s, cells=cells, bounds=bounds)


@given(st.floats(15, 20), st.floats(1e-6, 1e-2), st.floats(0, 1e-3), st.integers(1, 3))
def test_measuring_as_long_as_a_restart_costs_is_at_worst_half_as_good_as_the_best(overhead_s, rate, restart, cells):
    def cost(m):
        return (restart + rate / m) * (overhead_s + cells * m)

    first = first_seconds(overhead_s=overhead_s, cells=cells)
    assert all(cost(first) <= 2.01 * cost(m) for m in (0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0))


def test_measuring_time_suffices_for_every_arm_and_long_slices():
    assert first_seconds(overhead_s=8, cells=1) == 8.0
    assert first_seconds(overhead_s=8, cells=4) == 5.0  # 2.5 s for each of two arms
    assert first_seconds(overhead_s=8, cells=4, turns=4) == 10.0
    assert first_seconds(overhead_s=8, cells=4, events_per_s=10_000 / 9) == pytest.approx(9.0)
    assert first_seconds(overhead_s=100, cells=1) == 20.0
    longest = pilot_slice_max_ns(budget_s=600, cells=1, turns=2)
    assert longest == 1_240_000_000  # with a guard of 10 ms
    assert least_seconds(slice_ns=longest, events_per_s=1e6, turns=2) == pytest.approx(20.0)  # four blocks


def test_slow_events_are_measured_long_enough_for_a_99th_percentile():
    assert least_seconds(slice_ns=100_000_000, events_per_s=1000.0, turns=2) == 10.0
    assert least_seconds(slice_ns=100_000_000, events_per_s=100_000.0, turns=2) == 5.0  # 2.5 s an arm
    assert least_seconds(slice_ns=400_000_000, events_per_s=0.0, turns=2) == pytest.approx(6.56)  # four blocks


@pytest.mark.parametrize("turns", [2, 5])
@pytest.mark.parametrize("slice_ms", [320, 400, 500, 800, 1000])
def test_four_blocks_fit_into_what_is_planned_for_them(slice_ms, turns):
    chosen = SliceLength(slice_ns=slice_ms * 1_000_000, guard_ns=guard_ns(slice_ms * 1_000_000))
    seconds = least_seconds(slice_ns=chosen.slice_ns, events_per_s=1e6, turns=turns)
    assert whole_blocks(chosen, seconds=seconds, turns=turns)[1] == 4
    longest = longest_slice_ns(seconds=seconds, turns=turns)
    slices = SliceLength(slice_ns=longest, guard_ns=guard_ns(longest))
    assert whole_blocks(slices, seconds=seconds, turns=turns)[1] == 4


def test_a_noisy_cell_is_measured_until_six_epochs_reach_the_target():
    seconds = ideal_seconds(overhead_s=10, cells=1, bounds=(1.0, 100.0), rate_s=1e-3, precision=0.01)
    assert math.sqrt(1e-3 / seconds) == pytest.approx(0.75 * 0.01)


@pytest.mark.parametrize(
    ("slice_ms", "guard_ms"), [(50, 5), (100, 5), (200, 10), (2000, 10), (40, 4), (1000, 10), (150, 7.5)]
)
def test_the_guard_grows_with_the_slice_up_to_10_ms(slice_ms, guard_ms):
    assert guard_ns(int(slice_ms * 1e6)) == int(guard_ms * 1e6)


def test_several_hosts_share_the_epochs_after_loading_and_the_pilot():
    def seconds(hosts, **changed):
        return seconds_with_hosts(hosts, **{"epochs": 21, "load_s": 10.0, "epoch_s": 20.0, **changed})

    assert seconds(1) == 10 + 21 * 20
    assert seconds(2) == 10 + 20 + 10 * 20  # the pilot's epoch on one host, then ten on each
    assert seconds(1000) == 10 + 20 + 20
    assert seconds(4, epochs=1) == 30
    assert seconds(2, load_s=100.0) == 360  # 13 epochs on the first, 8 on the second, which is ready after 200 s
