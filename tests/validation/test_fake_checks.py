"""The checks on fake servers pass the sound method, fail a broken one, and say when the machine is too busy."""

import math
from dataclasses import replace
from types import MappingProxyType, SimpleNamespace

import pytest
from simulated_bench import option, simulated_bench

from bakeoff.errors import EngineError
from bakeoff.results.frame import Frame
from bakeoff.stats import interval as iv
from bakeoff.stats.model import Estimate, Interval
from validation import fake_checks, fake_server, fault_injection
from validation.check import Setting, Size, fewest, most
from validation.fake_server import FakeArm, FakeBench, Load, judge
from validation.simulation import Noise

NOISY = Noise(restart_sd=0.0, wander_sd=0.0, slice_sd=0.9)


@pytest.fixture
def setting(tmp_path):
    return Setting(size=Size.QUICK, seed=5, folder=tmp_path)


def test_limits_on_counts_allow_for_chance():
    assert most(200, 0.05) == 16
    assert fewest(100, 0.93) == 88
    assert most(1, 0.0) == 0


def test_intervals_cover_the_injected_effects(monkeypatch, setting):
    monkeypatch.setattr(fake_checks, "FakeBench", simulated_bench())
    assert fake_checks.injected(setting).passed


def test_an_interval_over_slices_is_caught(monkeypatch, setting):
    """With slices as n, the interval reflects the noise within a start and misses the variation between starts."""
    monkeypatch.setattr(fake_checks, "FakeBench", simulated_bench(Noise(restart_sd=0.02, wander_sd=0, slice_sd=0.01)))
    assert fake_checks.injected(setting).passed

    monkeypatch.setattr(iv, "precision_half_width", lambda sd, n, *_: 1.96 * sd / math.sqrt(n * 40))
    monkeypatch.setattr(iv, "anytime_half_width", lambda sd, n, *_, alpha: 1.96 * sd / math.sqrt(n * 40))
    assert fake_checks.injected(setting).passed is False


def test_starts_that_differ_fool_nobody(monkeypatch, setting):
    monkeypatch.setattr(fake_checks, "FakeBench", simulated_bench())
    found = fake_checks.restarts(setting)
    assert found.passed, found
    assert found.figures["within_start_claims"] > 0.3 * found.figures["starts"]


def test_a_method_without_restarts_is_caught(monkeypatch, setting):
    monkeypatch.setattr(fake_checks, "FakeBench", simulated_bench(restarts=False))
    found = fake_checks.restarts(setting)
    assert found.passed is False
    assert found.figures["false_claims"] == found.figures["duels"]


def test_slices_that_swallow_an_effect_are_caught(monkeypatch, setting):
    setting = replace(setting, size=Size.FULL)  # six epochs of this simulated machine are too noisy for a finding
    monkeypatch.setattr(fake_checks, "FakeBench", simulated_bench())
    assert fake_checks.slice_lengths(setting).passed
    swallowing = simulated_bench(attenuate=lambda slice_ns: 0.4 if slice_ns < 30_000_000 else 0.0)
    monkeypatch.setattr(fake_checks, "FakeBench", swallowing)
    assert fake_checks.slice_lengths(setting).passed is False


def test_a_machine_too_noisy_to_tell_neither_passes_nor_fails(monkeypatch, setting):
    monkeypatch.setattr(fake_checks, "FakeBench", simulated_bench(NOISY))
    found = fake_checks.slice_lengths(setting)
    assert found.passed is None
    assert "too busy" in found.found


def test_drifts_that_both_share_cancel(monkeypatch, setting):
    monkeypatch.setattr(fake_checks, "FakeBench", simulated_bench())
    assert fake_checks.drifts(setting).passed
    monkeypatch.setattr(fake_checks, "FakeBench", simulated_bench(bias=0.02))
    assert fake_checks.drifts(setting).passed is False


def test_stalls_are_reported_and_flagged(monkeypatch, setting):
    monkeypatch.setattr(fake_checks, "FakeBench", simulated_bench())
    found = fake_checks.stalls(setting)
    assert found.passed, found
    assert found.figures["disagree"] == 1


def test_an_estimate_that_leaves_stalls_out_is_caught(monkeypatch, setting):
    monkeypatch.setattr(fake_checks, "FakeBench", simulated_bench())
    honest = fake_checks.judge

    def trimmed(*arguments, **more):
        analysis = honest(*arguments, **more)
        (found,) = analysis.comparisons
        points = tuple(point.model_copy(update={"value": found.trimmed.mean}) for point in found.points)
        return analysis.model_copy(update={"comparisons": (found.model_copy(update={"points": points}),)})

    monkeypatch.setattr(fake_checks, "judge", trimmed)
    assert fake_checks.stalls(setting).passed is False


@pytest.mark.parametrize(
    ("size", "quantiles", "passed"),
    [(Size.FULL, (0.5, 0.95, 0.99), True), (Size.FULL, (0.5, 0.95), None), (Size.QUICK, (0.5,), True)],
)
def test_the_full_size_needs_estimates_of_every_quantile(monkeypatch, setting, size, quantiles, passed):
    def ratios(epochs, **_):
        estimate = Estimate(mean=0.0, interval=Interval(low=-1.0, high=1.0), n=6)
        return [
            SimpleNamespace(operation="event", quantile=quantile, estimate=estimate if quantile in quantiles else None)
            for quantile in (0.5, 0.9, 0.95, 0.99)
        ]

    monkeypatch.setattr(fake_checks, "FakeBench", simulated_bench())
    monkeypatch.setattr(fake_checks, "latency_ratios", ratios)
    found = fake_checks.intervals(replace(setting, size=size))
    assert found.passed is passed
    duels = 40 if size is Size.FULL else 3
    assert f"p95 {duels if 0.95 in quantiles else 0} of" in found.found
    assert ("too few events" in found.found) is (passed is None)


@pytest.mark.parametrize(("misses", "passed"), [(0, True), (6, True), (7, False)])
def test_one_quantile_with_too_many_misses_fails_whatever_the_others_hold(monkeypatch, setting, misses, passed):
    left = iter(range(40))

    def ratios(epochs, **_):
        bad = next(left) < misses
        holding, missing = Interval(low=-1.0, high=1.0), Interval(low=0.9, high=1.1)
        return [
            SimpleNamespace(
                operation="event",
                quantile=quantile,
                estimate=Estimate(mean=0.0, interval=missing if bad and quantile == 0.95 else holding, n=6),
            )
            for quantile in (0.5, 0.95, 0.99)
        ]

    monkeypatch.setattr(fake_checks, "FakeBench", simulated_bench())
    monkeypatch.setattr(fake_checks, "latency_ratios", ratios)
    assert fake_checks.intervals(replace(setting, size=Size.FULL)).passed is passed


def test_one_duel_without_disagree_fails(monkeypatch, setting):
    monkeypatch.setattr(fake_checks, "FakeBench", simulated_bench())
    honest = fake_checks.judge

    def blind(*arguments, **more):
        analysis = honest(*arguments, **more)
        comparisons = tuple(each.model_copy(update={"disagree": False}) for each in analysis.comparisons)
        return analysis.model_copy(update={"comparisons": comparisons})

    monkeypatch.setattr(fake_checks, "judge", blind)
    found = fake_checks.stalls(setting)
    assert found.passed is False and "DISAGREE 0/1" in found.found


def test_a_quantile_interval_that_misses_fails_the_check(monkeypatch, setting):
    missing = Estimate(mean=1.0, interval=Interval(low=0.9, high=1.1), n=6)
    ratio = SimpleNamespace(operation="event", quantile=0.5, estimate=missing)
    monkeypatch.setattr(fake_checks, "FakeBench", simulated_bench())
    monkeypatch.setattr(fake_checks, "latency_ratios", lambda epochs, **_: [ratio])
    assert fake_checks.intervals(replace(setting, size=Size.REPLAY)).passed is False


@pytest.mark.parametrize(("counted_too", "passed"), [(False, True), (True, False)])
def test_deadlocks_that_are_counted_as_events_are_caught(monkeypatch, setting, counted_too, passed):
    class Bench:
        counters = MappingProxyType({"B": {"questions": 8000}})
        __init__ = __exit__ = lambda *_: None

        def __enter__(self):
            return self

        def epoch(self, arms, load):
            if "--fault" in arms["B"].law:
                raise EngineError("lost", code="server_lost")
            statements, every = 4000, int(option(arms["B"].law, "--error", "").partition("/")[2])
            retries = statements // every
            events = statements if counted_too else statements - retries
            return SimpleNamespace(slices=Frame({"arm": ["B"], "events": [events], "retries": [retries]}))

    monkeypatch.setattr(fault_injection, "FakeBench", Bench)
    found = fault_injection.errors(setting)
    assert found.passed is passed
    assert ("none counted as an event" in found.found) is passed


def test_without_the_binary_a_check_says_what_to_do(monkeypatch, setting):
    monkeypatch.setenv("BAKEOFF_FAKESERVER", "/nowhere/bakeoff-fakeserver")
    found = fake_server.on_fake_server(fake_checks.injected)(setting)
    assert found.passed is None
    assert "cargo build" in found.found


def test_through_the_engine_a_factor_of_two_is_seen(monkeypatch, setting, fakeserver_binary):
    """With processes: fake servers, the engine, the analysis."""
    monkeypatch.setenv("BAKEOFF_FAKESERVER", str(fakeserver_binary))
    load = Load(seconds=0.3, threads=4)
    with FakeBench(setting, "test") as bench:
        epochs = [bench.epoch({"A": FakeArm(), "B": FakeArm(slowdown_percent=100)}, load) for _ in range(6)]
        answered = bench.counters["A"]["questions"]
    (found,) = judge(epochs, load).comparisons
    # Half is exact; how near one comes depends on what else the machine does.
    assert -1.2 < found.estimate.mean < -0.3
    assert 0 < int(epochs[-1].slices["events"].sum()) <= 2 * answered
    assert fault_injection.errors(setting).passed


def test_a_whole_run_on_fake_servers_outlives_a_crash(monkeypatch, setting, fakeserver_binary):
    monkeypatch.setenv("BAKEOFF_FAKESERVER", str(fakeserver_binary))
    monkeypatch.setattr(fault_injection, "_BUDGET_S", 8.0)
    monkeypatch.setattr(fault_injection, "_CRASH_AT", 2000)  # while its first epoch is warmed or measured
    found = fault_injection.crash(setting)
    assert found.passed, found
