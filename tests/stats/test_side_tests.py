"""Flags rise where something was put in, and seldom where nothing was."""

import math
from dataclasses import replace

import numpy as np
import pytest
from test_stopping_rule import pair

from bakeoff.plan import plan_study
from bakeoff.stats import diagnostics, hosts
from bakeoff.stats import interval as iv
from bakeoff.stats.analysis import comparisons_so_far
from bakeoff.stats.diagnostics import is_warm
from bakeoff.stats.estimate import EpochEstimates
from bakeoff.stats.model import EpochPoint
from bakeoff.stats.verdict import disagree
from validation.simulation import simulated_study


def points(values, builds=1):
    return tuple(EpochPoint(epoch=e, build=e % builds, value=float(v)) for e, v in enumerate(values))


def pairs(**columns):
    count = len(next(iter(columns.values())))
    base = pair("c/1", "B", 0, 0.0).__dict__
    return [type(pair("c/1", "B", 0, 0.0))(**{**base, **{k: v[i] for k, v in columns.items()}}) for i in range(count)]


def test_carry_over_of_one_arm_moves_the_ratio_by_half_of_it_and_is_flagged():
    found = diagnostics.carry_over(
        pairs(carry_over=[{"A": 0.0001 * (-1) ** e, "B": 0.01 + 0.0005 * (-1) ** e} for e in range(6)])
    )
    assert found.bias.mean == pytest.approx(-0.005) and found.bias.n == 6
    assert "moves the ratio by 0.5%" in diagnostics.carry_over_flag(found, precision=0.01).text
    assert diagnostics.carry_over_flag(found, precision=0.05) is None


def test_with_many_arms_nearly_all_of_a_loss_stays_in_the_ratio():
    each = {"A": 0.0001, "B": 0.0101}
    found = diagnostics.carry_over(pairs(carry_over=[each, each], switched=[0.9, 0.9]))
    assert found.bias.mean == pytest.approx(-0.009)


def test_carry_over_that_both_arms_share_cancels_unless_it_is_large():
    def equal(size):
        return diagnostics.carry_over(pairs(carry_over=[{"A": size, "B": size + 0.0005 * (-1) ** e} for e in range(6)]))

    assert diagnostics.carry_over_flag(equal(0.02), precision=0.01) is None
    flag = diagnostics.carry_over_flag(equal(0.10), precision=0.01)
    assert str(flag).startswith("UNSTABLE: a slice is 11% different")


def test_epochs_before_the_slices_were_doubled_do_not_count_for_carry_over():
    short, long = {"A": 0.01, "B": 0.0}, {"A": 0.001, "B": 0.0}
    found = pairs(carry_over=[short] * 3 + [long] * 2, slice_s=[0.055] * 3 + [0.105] * 2)
    estimate = diagnostics.carry_over(found).common
    assert estimate.mean == pytest.approx(0.0005) and estimate.n == 2
    # Slices that are a fifth longer, to fill a measurement, are of the same plan.
    assert diagnostics.carry_over(pairs(carry_over=[short] * 4, slice_s=[0.055, 0.066] * 2)).bias.n == 4


def test_trend_is_flagged_when_large_and_certain():
    steady = pairs(trend=[0.01 + 0.0005 * (-1) ** e for e in range(6)])
    assert diagnostics.trend_flag(diagnostics.trend(steady), precision=0.01).kind == "UNSTABLE"
    noisy = pairs(trend=[0.01 + 0.05 * (-1) ** e for e in range(6)])
    assert diagnostics.trend_flag(diagnostics.trend(noisy), precision=0.01) is None
    assert diagnostics.trend(pairs(trend=[None, None, 0.1])) is None
    assert (
        diagnostics.trend_flag(None, 0.01) is None
        and diagnostics.carry_over_flag(diagnostics.carry_over([]), 0.01) is None
    )


def test_a_difference_between_builds_is_flagged_after_correction():
    rng = np.random.default_rng(1)
    same = rng.normal(0, 0.01, 10)
    apart = same + np.tile([0.0, 0.1], 5)
    assert diagnostics.build_effect(points(apart, builds=2)) < 1e-6
    assert diagnostics.build_effect(points(same, builds=2)) > 0.05
    assert diagnostics.build_effect(points(same, builds=1)) is None
    assert diagnostics.build_effect(points([0.1, 0.2], builds=2)) is None
    assert diagnostics.build_effect(points([0.0] * 6, builds=2)) is None
    flags = diagnostics.build_flags([0.03, None, 1e-6])
    assert [flag is not None for flag in flags] == [False, False, True]  # 0.03 does not survive Holm


def test_the_build_test_loses_a_degree_of_freedom_per_host():
    rng, by = np.random.default_rng(8), [f"h{e // 2}" for e in range(8)]

    def p_of(values, measured_by):
        own = hosts.without_hosts(values, measured_by)
        found = [
            EpochPoint(epoch=e, build=e % 2, value=value, host=host)
            for e, (value, host) in enumerate(zip(own, measured_by, strict=True))
        ]
        return diagnostics.build_effect(found)

    # Equal builds give p < 0.05 once in twenty; more than 52 of 800 has a chance of 3 %. With 6 degrees it is 150.
    assert sum(p_of(row, by) < 0.05 for row in rng.normal(0, 0.01, (800, 8)).tolist()) <= 52
    assert p_of(rng.normal(0, 0.01, 8).tolist(), [f"h{e}" for e in range(8)]) is None


def test_disagree_compares_the_host_weighted_means():
    by = ["h0"] * 36 + ["h1"] * 2 + ["h2"] * 2
    values = [0.001 * (-1) ** e for e in range(40)]
    stalls = [0.0] * 36 + [0.003] * 4  # on the hosts with few epochs, which count for more than a tenth together
    trimmed = [value + stall for value, stall in zip(values, stalls, strict=True)]
    first, second = (hosts.moments(each, by) for each in (values, trimmed))
    half_width = iv.precision_half_width(*first[1:])
    assert math.fsum(stalls) / 40 < half_width < second.mean - first.mean
    assert disagree(values, trimmed, by)


def test_an_outlier_epoch_is_named():
    rng = np.random.default_rng(2)
    values = rng.normal(0, 0.01, 12)
    values[4] = 0.5
    assert "epoch 4" in diagnostics.outlier_flag(points(values)).text
    assert diagnostics.outlier_flag(points([0.1] * 8)) is None
    assert diagnostics.outlier_flag(points([0, 0, 0, 0, 9])) is None  # five are too few to say


def test_outlier_flags_are_rare_on_normal_values():
    rng = np.random.default_rng(4)
    for n in (6, 9, 20):
        samples = [points(row) for row in rng.normal(0, 1, (1500, n))]
        assert sum(diagnostics.outlier_flag(sample) is not None for sample in samples) < 1500 * 0.02


def test_no_epochs_no_flags():
    assert diagnostics.carry_over([]).bias is None and diagnostics.trend([]) is None
    assert diagnostics.outlier_flag(()) is None
    assert diagnostics.build_effect(()) is None and math.isclose(len(diagnostics.build_flags([])), 0)


def warm_up(*, seconds, ratio=lambda at_s: 1.0, level=lambda at_s: 1.0, noise=0.01, seed=1):
    """Make 20 ms slices in ABBA blocks; `ratio` and `level` are functions of time."""
    rng = np.random.default_rng(seed)
    found = []
    for index in range(int(seconds / 0.02)):
        at_s, arm = index * 0.02, "ABBA"[index % 4]
        rate = 1000 * level(at_s) * (ratio(at_s) if arm == "B" else 1.0) * math.exp(rng.normal(0, noise))
        place = {"arm": arm, "block": index // 4, "start_ns": int(at_s * 1e9), "connections": 1}
        found.append(place | {"length_ns": 20_000_000, "busy_ns": 20_000_000, "events": int(rate * 10)})
    return found


def ends_at_s(planned_s=5, **more):
    """Return when the warm-up ends."""
    slices = warm_up(seconds=40, **more)
    return next(n for n in range(len(slices)) if is_warm(slices[:n], planned_s=planned_s)) * 0.02


def test_a_warm_up_ends_early_when_the_arms_have_stopped_moving_apart():
    assert ends_at_s() < 3.5
    assert ends_at_s(level=lambda at_s: 1.0 - 0.04 * at_s) < 3.5  # both slow down alike
    assert 4 < ends_at_s(ratio=lambda at_s: min(1.0, 0.9 + 0.05 * at_s)) < 5


def test_a_noisy_warm_up_lasts_as_long_as_planned():
    """Noise can hide a change: 5.7 against 8.0 once moved by 10 % within three seconds on a noisy machine."""
    assert {round(ends_at_s(noise=0.1, seed=seed)) for seed in range(10)} == {5}


def test_a_warm_up_goes_on_while_the_arms_are_seen_to_move():
    assert 10 < ends_at_s(ratio=lambda at_s: max(1.0, 2.0 - 0.1 * at_s), noise=0.05) < 16


def test_a_longer_warm_up_outlasts_a_slow_change():
    """A ratio that moves by 0.8 % a second hardly differs between one second and the next."""

    def slow(at_s):
        return min(1.0, 0.9 + 0.008 * at_s)

    assert ends_at_s(3, ratio=slow) < 3
    assert ends_at_s(15, ratio=slow) > 15


def test_a_warm_up_without_events_ends_after_the_planned_time():
    nothing = [each | {"events": 0} for each in warm_up(seconds=6.0)]
    assert not is_warm([], planned_s=5)
    assert not is_warm(nothing[:200], planned_s=5)
    assert is_warm(nothing, planned_s=5)


def test_a_warm_up_goes_on_where_a_ratio_rises_and_falls_again():
    def hump(at_s):
        return 1 + 0.25 * max(0.0, 1 - abs(at_s - 1.25) / 1.25)

    slices = warm_up(seconds=20, ratio=hump, noise=0.01)
    ended_s = next(n for n in range(len(slices)) if is_warm(slices[:n], planned_s=2)) * 0.02
    assert 2.5 < ended_s < 6


@pytest.mark.parametrize(("replay", "raised"), [(False, {"stalls", "the ratio changes"}), (True, set())])
def test_replay_chunks_that_differ_raise_no_stall_or_trend_flag(replay, raised):
    study = simulated_study(precision=0.01, budget_s=600.0)
    plan = plan_study(study, overhead_s=10, load_s=20)
    (cell,) = plan.cells
    plan = plan.model_copy(update={"cells": (cell.model_copy(update={"fixed_work": replay}),)})
    found = [replace(pair(cell.name, "B", e, 0.2 + 0.001 * (-1) ** e), trimmed=0.0, trend=0.3) for e in range(8)]
    history = [EpochEstimates(epoch=each.epoch, pairs=(each,)) for each in found]
    (comparison,) = comparisons_so_far(history, study, plan)
    said = " ".join(flag.text for flag in comparison.flags)
    assert {text for text in ("stalls", "the ratio changes") if text in said} == raised
