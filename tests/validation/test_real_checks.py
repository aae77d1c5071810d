"""G12, G13 on writes and G15 on simulated epochs; the sizes quick and full run real servers."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest

from bakeoff.stats.interval import around
from bakeoff.stats.model import Estimate, FlagKind
from validation import causes, real_checks
from validation.check import Setting, Size
from validation.real_epochs import agrees, at_every_length, mean_of
from validation.simulation import Conditions, Noise, simulate_epoch

STILL = Noise(restart_sd=0.002, wander_sd=0.0, slice_sd=0.002)


def simulated_bench(effect):
    """Return a class that replaces `RealBench`; `effect(way)` is B's log level as measured in that way."""

    class SimulatedBench:
        def __init__(self, study, folder, *, report=None):
            self.rng = np.random.default_rng(study.seed)
            self.epochs = 0

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def epoch(self, ways, *, arms=(), **_):
            levels = {"A": 0.0}
            self.epochs += 1
            if arms:
                levels = {arms[0]: effect(ways[0]) if arms[0] == "B" else 0.0}
                ways = ways[:1]
            else:
                levels["B"] = effect(ways[0])
            conditions = Conditions(STILL, seconds=16.0, slice_ns=ways[0].slice_ns)
            return simulate_epoch(self.rng, levels, conditions, epoch=self.epochs, cells=[way.name for way in ways])

    return SimulatedBench


@pytest.fixture
def setting(tmp_path):
    return Setting(size=Size.FULL, seed=3, folder=tmp_path)


def test_interleaved_writes_must_agree_with_each_arm_alone(monkeypatch, setting):
    monkeypatch.setattr(real_checks, "RealBench", simulated_bench(lambda way: -0.1))
    assert real_checks.unequal_pending_work(setting).passed


def test_pending_work_that_slows_the_other_arm_is_caught(monkeypatch, setting):
    monkeypatch.setattr(real_checks, "RealBench", simulated_bench(lambda way: -0.1 if way.name == "alone" else -0.05))
    found = real_checks.unequal_pending_work(setting)
    assert found.passed is False
    assert found.figures["freeze"]["agrees"] is False


def test_interleaved_writes_that_are_too_noisy_are_undecided(monkeypatch, setting):
    chance = np.random.default_rng(1)
    scattered = simulated_bench(lambda way: -0.1 + (chance.normal(0, 0.3) if way.name == "freeze" else 0.0))
    monkeypatch.setattr(real_checks, "RealBench", scattered)
    found = real_checks.unequal_pending_work(setting)
    assert found.figures["alone"]["half_width"] < 0.01 and found.figures["freeze"]["half_width"] > 0.1
    assert found.passed is None and "too busy" in found.found


@pytest.mark.parametrize(("name", "bias"), [("freeze", 0.0), ("freeze", 0.05), ("no freeze", 0.05)])
def test_noise_shared_by_a_round_cancels_between_interleaved_and_alone(monkeypatch, setting, name, bias):
    of_round, asked = np.random.default_rng(1).normal(0, 0.1, 12), itertools.count()
    in_a_round = 2 + 4  # an epoch of each variant, and B alone four times

    def effect(way):
        return -0.1 + of_round[next(asked) // in_a_round] + (bias if way.name == name else 0.0)

    monkeypatch.setattr(real_checks, "RealBench", simulated_bench(effect))
    found = real_checks.unequal_pending_work(setting)
    apart = found.figures[name]["minus_alone"]
    assert found.figures[name]["half_width"] > 0.03 and apart["half_width"] < 0.01
    assert apart["mean"] == pytest.approx(bias, abs=apart["half_width"]) and apart["n"] == 12
    assert f"{name} minus alone {math.expm1(apart['mean']):+.2%} ± {apart['half_width']:.2%}" in found.found


@pytest.mark.parametrize(
    ("mean", "half_width", "bound", "passed"),
    [
        (0.001, 0.002, False, True),
        (0.009, 0.003, False, False),
        (0.009, 0.006, False, None),  # anything from 0.3 % to 1.5 %
        (0.001, 0.006, False, None),
        (0.020, 0.006, False, False),
        (0.009, 0.006, True, True),
    ],
)
def test_a_second_client_cpu_must_change_less_than_half_a_percent(
    monkeypatch, setting, mean, half_width, bound, passed
):
    class Bench:
        def __init__(self, setting, name, *, cpus):
            self.cpus = len(cpus)
            self.epochs = 0

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def epoch(self, arms, load):
            self.epochs += 1
            sign = 1 if self.epochs % 2 else -1
            # Of 40 values, half of them d above and half d below their mean, the half-width is 0.324 d.
            return math.exp((mean + sign * half_width / 0.324) * (self.cpus - 1))

    flags = [SimpleNamespace(kind=FlagKind.CLIENT_BOUND)] if bound else []
    monkeypatch.setattr(real_checks, "FakeBench", Bench)
    monkeypatch.setattr(real_checks, "rate", lambda epoch: epoch)
    monkeypatch.setattr(real_checks, "judge", lambda *_: SimpleNamespace(comparisons=[SimpleNamespace(flags=flags)]))
    monkeypatch.setattr(real_checks, "usable_cpus", lambda: (0, 1))
    found = real_checks.client_cpus_doubled(setting)
    assert found.figures["half_width"] == pytest.approx(half_width, rel=0.01)
    assert found.passed is passed


def test_slices_of_writes_that_lose_the_effect_are_caught(monkeypatch, setting):
    truth = -math.log(1.05)
    monkeypatch.setattr(real_checks, "RealBench", simulated_bench(lambda way: truth))
    assert real_checks.slice_lengths(setting).passed
    monkeypatch.setattr(real_checks, "RealBench", simulated_bench(lambda way: truth / 2))
    assert real_checks.slice_lengths(setting).passed is False


@pytest.mark.parametrize(
    ("mean", "half_width", "passed"),
    [(0.0, 0.04, None), (-0.0488, 0.0163, None), (-0.0488, 0.016, True), (-0.0244, 0.016, False)],
)
def test_an_interval_too_wide_to_exclude_half_the_effect_is_undecided(mean, half_width, passed):
    exact = Estimate(mean=-0.0488, interval=around(-0.0488, 0.001), n=12)
    noisy = Estimate(mean=mean, interval=around(mean, half_width), n=12)
    found = at_every_length({"0.5 s": noisy, "2 s": exact}, -math.log1p(0.05))
    assert found.passed is passed
    assert ("too busy" in found.found) is (passed is None)


def test_estimates_agree_within_their_combined_widths():
    near, far = mean_of([0.0, 0.01, -0.01, 0.0]), mean_of([0.2, 0.21, 0.19, 0.2])
    assert agrees(near, near)
    assert not agrees(near, far)
    assert mean_of([0.0, 0.1], looks=3).interval.half_width > mean_of([0.0, 0.1]).interval.half_width


@pytest.mark.server
def test_settings_that_nobody_declared_are_listed(tmp_path):
    folder = tmp_path / "settings"
    folder.mkdir()
    found = real_checks.settings(Setting(size=Size.QUICK, seed=1, folder=folder))
    assert found.passed, found


@pytest.mark.parametrize(("wrong", "passed"), [(0, True), (1, True), (2, False)])
def test_the_check_fails_if_more_than_one_cause_in_ten_is_missed(monkeypatch, setting, wrong, passed):
    bad = list(causes.CAUSES)[:wrong]

    def plant(name, folder, *, seed):
        return causes.Reported(name, seed, claimed=True, named=(), right=name not in bad, sentence="said")

    monkeypatch.setattr(causes, "plant", plant)
    found = causes.planted(setting)
    assert found.passed is passed and all(f"{name}: said" in found.found for name in bad)
