"""The pilot's choice follows the machine's noise, and keeps its bounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slices import epoch_of, slice_row

from bakeoff.plan import guard_ns
from bakeoff.plan.timing import SLICE_MIN_NS
from bakeoff.stats.slice_length import LONGEST_NS, choose_slice_length, contrast_variance, pilot_slice_ns
from validation.simulation import Conditions, Noise, simulate_epoch

CELL = "oltp_point_select/4"
MS = 1_000_000


def choose(slices, **more):
    return choose_slice_length(slices, cell=CELL, pilot_ns=50 * MS, **more)


def pilot(noise, *, seconds=40.0, rate_per_s=50_000.0, seed=1):
    rng = np.random.default_rng(seed)
    conditions = Conditions(noise, seconds, slice_ns=50 * MS, rate_per_s=rate_per_s)
    return simulate_epoch(rng, {"A": 0.0, "B": -0.3}, conditions).slices


def test_slow_noise_wants_short_slices():
    choice = choose(pilot(Noise(wander_sd=0.2, wander_s=0.5, slice_sd=0.001)))
    assert choice.slice_ns == 50 * MS
    known = [point.j_s for point in choice.curve if point.j_s is not None]
    assert len(known) >= 3 and known == sorted(known)


def test_pilot_slices_hold_20_events_within_5_to_100_ms():
    assert pilot_slice_ns(pilot(Noise(), seconds=2.0)) == 5 * MS
    # 20 of arm B's, 1,850 and 370 a second.
    assert pilot_slice_ns(pilot(Noise(), seconds=2.0, rate_per_s=2500.0)) == pytest.approx(10.8 * MS, rel=0.1)
    assert pilot_slice_ns(pilot(Noise(), seconds=2.0, rate_per_s=500.0)) == pytest.approx(54 * MS, rel=0.1)
    assert pilot_slice_ns(pilot(Noise(), seconds=2.0, rate_per_s=100.0)) == 100 * MS
    assert pilot_slice_ns(pilot(Noise(), seconds=2.0).rows(slice(0))) == 100 * MS


def test_many_connections_that_take_long_to_wake_want_longer_slices():
    quiet = pilot(Noise(wander_sd=0.0, slice_sd=0.05))
    slow = quiet.sort("start_ns").with_columns(start_ns=np.arange(len(quiet)) * 500 * MS)

    def price_of_short_ones(slices):
        j = {point.slice_ns: point.j_s for point in choose(slices).curve}
        return j[50 * MS] / j[200 * MS]

    assert price_of_short_ones(quiet) < 1.3
    assert price_of_short_ones(slow) > 2 * price_of_short_ones(quiet)


def test_a_longer_slice_must_be_better_beyond_the_pilots_error():
    quiet = [pilot(Noise(wander_sd=0.0, slice_sd=0.05), seconds=20, seed=seed) for seed in range(20)]
    assert sum(choose(slices).slice_ns == 50 * MS for slices in quiet) >= 14
    # Half a second to wake the workers, as with very many connections.
    slow = (each.sort("start_ns").with_columns(start_ns=np.arange(len(each)) * 500 * MS) for each in quiet)
    assert all(choose(slices).slice_ns > 50 * MS for slices in slow)


def test_white_noise_makes_longer_slices_no_worse_and_the_guard_decides():
    curves = [choose(pilot(Noise(wander_sd=0.0, slice_sd=0.05), seed=seed)).curve for seed in range(20)]
    mean = {
        point.slice_ns: np.mean([curve[i].j_s for curve in curves])
        for i, point in enumerate(curves[0])
        if point.j_s is not None
    }
    assert 1.0 < mean[50 * MS] / mean[200 * MS] < 1.15  # (50 + 5) / 50 over (200 + 10) / 200


def test_few_events_want_long_slices():
    choice = choose(pilot(Noise(), rate_per_s=200.0))
    # Arm B, 148 a second, needs 0.135 s for 20 completions.
    assert [point.slice_ns // MS for point in choice.curve if point.allowed] == [200, 500, 1000, 2000]
    assert choice.slice_ns >= 200 * MS


@pytest.mark.parametrize(("rate_per_s", "shortest"), [(490, 50), (415, 100)])
def test_a_length_slightly_short_of_20_events_is_allowed(rate_per_s, shortest):
    # Arm B needs 55 ms and 65 ms for 20 completions.
    curve = choose(pilot(Noise(slice_sd=0.01), rate_per_s=rate_per_s)).curve
    assert next(point.slice_ns for point in curve if point.allowed) == shortest * MS


def test_two_seconds_are_enough_even_for_few_completions():
    assert choose(pilot(Noise(), rate_per_s=5.0)).slice_ns == 2000 * MS


def test_long_latencies_forbid_short_slices():
    rows = [slice_row("AB"[i % 2], i // 4, i % 4, events=40, seconds=0.05, start_s=i * 0.055) for i in range(800)]
    slow = epoch_of([row | {"connections": 64, "busy_ns": int(64 * 0.05e9)} for row in rows]).slices
    # 64 connections, 800 a second: a latency is 80 ms, five are 0.4 s.
    assert choose(slow).slice_ns >= 500 * MS


@pytest.mark.parametrize("ceiling", [2000, 100, 50])
def test_the_chosen_length_respects_the_ceiling(ceiling):
    # Noise from slice to slice and a long time between two of them: without a ceiling 200 ms or more are chosen.
    slow = pilot(Noise(wander_sd=0.0, slice_sd=0.05), seconds=20).sort("start_ns")
    slow = slow.with_columns(start_ns=np.arange(len(slow)) * 500 * MS)
    assert choose(slow).slice_ns > 100 * MS
    assert 50 * MS <= choose(slow, ceiling_ns=ceiling * MS).slice_ns <= ceiling * MS


def test_a_short_pilot_does_not_guess_long_lengths():
    choice = choose(pilot(Noise(), seconds=2.0))
    assert all(point.j_s is None for point in choice.curve if point.slice_ns >= 200 * MS)
    assert choice.slice_ns <= 100 * MS


@pytest.mark.parametrize("dead", ["empty", "zero", "other cell"])
def test_a_dead_pilot_gives_a_length_all_the_same(dead):
    slices = pilot(Noise(), seconds=2.0)
    if dead == "empty":
        slices = slices.rows(slice(0))
    elif dead == "zero":
        slices = slices.with_columns(events=0)
    else:
        slices = slices.with_columns(cell="another/1")
    choice = choose(slices)
    assert SLICE_MIN_NS <= choice.slice_ns <= LONGEST_NS and choice.reason


@given(st.integers(0, 1000), st.floats(0, 0.3), st.floats(100, 1e5))
@settings(max_examples=20)
def test_guard_is_at_most_a_tenth(seed, wander, rate):
    choice = choose(pilot(Noise(wander_sd=wander), seconds=5, rate_per_s=rate, seed=seed))
    assert choice.guard_ns == guard_ns(choice.slice_ns) <= choice.slice_ns / 10
    assert choice.slices.slice_ns == choice.slice_ns


def test_contrast_variance_of_white_noise_and_of_a_line():
    white = np.random.default_rng(3).normal(0, 1, 40_000)
    for windows in (1, 4):
        variance, blocks = contrast_variance(white, windows)
        assert variance == pytest.approx(1 / windows, rel=0.05)
        assert blocks == 10_000 // windows
    assert contrast_variance(np.arange(1000.0), 5)[0] == pytest.approx(0.0, abs=1e-18)
    assert contrast_variance(white[:3], 1)[1] == 0


def test_a_stall_in_the_pilot_does_not_make_every_epoch_longer():
    steady = np.random.default_rng(4).normal(0, 0.02, 340)
    stalled = steady.copy()
    stalled[100] = -0.7  # half of the events of one slice
    assert contrast_variance(stalled, 1)[0] < 1.3 * contrast_variance(steady, 1)[0]
