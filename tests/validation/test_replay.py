"""The size `replay` holds, and breaking the method makes it fail."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from bakeoff.results import decode_histogram
from validation import bisections, gates, histories, hosts, machines, methods, number_checks, replay_checks, simulation
from validation.check import Count, Setting, Size, finding
from validation.histograms import encode_values
from validation.machines import TRACES, Recorded, Simulated, Traces, recorded_sets, shipped_traces
from validation.methods import SOUND, one_value_an_epoch
from validation.replay_runs import Question, run_batch, single_runs
from validation.simulation import CONTENDER
from validation.suite import SuiteRun, run_checks


@pytest.fixture
def setting(tmp_path):
    return Setting(size=Size.REPLAY, seed=1, folder=tmp_path)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("scale", [0.1, pytest.param(1.0, marks=pytest.mark.slow)])
def test_every_target_holds(tmp_path, scale):
    journal = SuiteRun.begin(tmp_path, size=Size.REPLAY, only=(), seed=1, server="mysql:8.0.15", command=("pytest",))
    checks = (*replay_checks.REPLAY_CHECKS, *number_checks.NUMBER_CHECKS)
    record = run_checks(journal, [replace(check, run=partial(check.run, scale=scale)) for check in checks])
    assert {entry.test for entry in record.entries} == {
        "G1", "G2", "G3", "G4", "G5", "G6", "G7", "G8", "G10", "G11", "G16", "G17", "G19",
    }  # fmt: skip
    assert not [(entry.test, entry.found) for entry in record.entries if not entry.passed]


@pytest.mark.parametrize(
    ("check", "method", "scale"),
    [
        (replay_checks.quantiles, methods.PERCENTILES_OF_REQUESTS, 0.05),
        (replay_checks.instances, methods.SLICES_AS_N, 0.05),
        (replay_checks.instances, methods.NO_RESTARTS, 0.1),
        (replay_checks.adversary, methods.PEEKING_AT_P, 0.1),
        (replay_checks.grid, methods.NO_HOLM, 0.1),
    ],
    ids=["G10: requests as n", "G6: slices as n", "G6: no restarts", "G7: peeking at p", "G11: no correction"],
)
def test_a_broken_method_is_caught(setting, check, method, scale):
    if scale != 0.1:  # test_every_target_holds makes the same runs at this scale
        assert check(setting, scale=scale).passed, "so few runs must not fail the sound method"
    found = check(setting, method=method, scale=scale)
    assert not found.passed, found.found


def test_broken_rules_are_caught(setting, monkeypatch):
    """Each of the tests G20 to G24 fails when what it checks is wrong."""
    with monkeypatch.context() as patch:
        patch.setattr(hosts, "fixed", hosts.as_found)
        assert not hosts.several_hosts(setting, scale=0.3).passed
    with monkeypatch.context() as patch:
        patch.setattr(gates, "answers", lambda samples, **_: [gates.Answer.PASS] * len(samples))
        assert not gates.known_slowdowns(setting, scale=0.2).passed
    with monkeypatch.context() as patch:
        patch.setattr(histories, "changes_of", lambda tracks, **_: [() for _ in tracks])
        assert not histories.changes(setting, scale=0.2).passed
    with monkeypatch.context() as patch:
        patch.setattr(bisections, "searched", lambda study, measure: bisections.Bisected((1,), 5))
        assert not bisections.culprits(setting, scale=0.5).passed
    with monkeypatch.context() as patch:
        patch.setattr(simulation, "may_claim", lambda **_: True)
        patch.setattr(simulation.iv, "excludes_zero", lambda _: True)
        assert not simulation.promises(setting, scale=0.02).passed


def test_the_same_seed_gives_the_same_runs(setting):
    machine, question = Simulated("quiet"), Question(epochs_max=6)
    together = single_runs(machine, question, runs=260, seed=(1, 2))  # two batches: processes
    assert together == single_runs(machine, question, runs=260, seed=(1, 2))
    assert together != single_runs(machine, question, runs=260, seed=(1, 3))


def test_a_set_of_traces_ships_and_says_where_it_comes_from():
    names = shipped_traces()
    assert names
    assert sum((TRACES / f"{name}.npz").stat().st_size for name in names) < 400_000
    for name in names:
        origin = Traces.read(name).origin
        assert origin.server
        assert origin.machine
        assert 0 <= origin.load <= 1
        assert "validation.record" in origin.command


@pytest.mark.parametrize("machine", [Simulated("quiet"), *recorded_sets()], ids=str)
def test_an_injected_effect_shows_in_the_estimates(machine):
    rng = np.random.default_rng(3)
    levels = np.zeros((300, 2))
    cells = [f"cell {i}" for i in range(300)]
    epoch = machine.epoch(rng, number=0, cells=cells, levels=levels, effect=-0.05)
    values = np.array([pair.value for pair in one_value_an_epoch(epoch)[0].pairs])
    assert values.mean() == pytest.approx(-0.05, abs=4 * values.std() / math.sqrt(300))


def test_levels_are_drawn_from_the_recorded_starts():
    machine = recorded_sets()[0]
    recorded = machines.moments(machine.name)
    levels = machine.levels(np.random.default_rng(1), 1000)
    assert set(levels.ravel()) <= set(recorded.levels)
    assert recorded.levels.sum() == pytest.approx(0, abs=1e-9)


def test_starts_sd_adds_to_the_spread_of_levels():
    machine = Recorded(recorded_sets()[0].name, starts_sd=0.05)
    plain = recorded_sets()[0].levels(np.random.default_rng(1), 2000).std()
    spread = machine.levels(np.random.default_rng(1), 2000).std()
    assert spread == pytest.approx(math.hypot(plain, 0.05), rel=0.05)


@pytest.mark.parametrize("name", list(machines.DISTURBANCES))
def test_disturbances_give_a_finite_level_for_every_slice(name):
    time_s = np.arange(80) * 0.105
    level = machines.DISTURBANCES[name](np.random.default_rng(1), 5, time_s)
    assert level.shape == (5, 80)
    assert np.isfinite(level).all()
    assert (level.std() > 0) == bool(name)


def test_the_encoder_of_histograms_is_exact_up_to_2048():
    values = np.arange(1, 2048)
    decoded = decode_histogram(encode_values(values))
    assert decoded.highest_ns.tolist() == values.tolist()
    assert decoded.counts.tolist() == [1] * 2047


def test_a_promise_is_kept_within_the_binomial_bound():
    assert Count("x", 73, 1000, at_most=0.05).kept
    assert not Count("x", 74, 1000, at_most=0.05).kept
    assert Count("x", 904, 1000, at_least=0.93).kept
    assert not Count("x", 903, 1000, at_least=0.93).kept
    assert not Count("x", 1, 1000, at_most=0.0).kept
    assert not finding([Count("x", 0, 10), Count("y", 0, 100, at_least=0.5)]).passed


def test_slowed_by_25_percent_leaves_80_percent_of_the_throughput():
    assert math.exp(replay_checks.slowed_by(25)) == pytest.approx(0.8)


def test_every_block_counts_gives_one_estimate_per_block():
    machine = Simulated("quiet")
    rng = np.random.default_rng(1)
    epoch = machine.epoch(rng, number=0, cells=["one"], levels=np.zeros((1, 2)), effect=0.0)
    many = methods.every_block_counts(epoch)
    assert len(many) == len(set(epoch.slices["block"]))
    assert {pair.contender for estimates in many for pair in estimates.pairs} == {CONTENDER}


def test_run_batch_returns_one_end_per_run_and_cell():
    machine, question = Simulated("quiet"), Question(cells=3, epochs_max=6)
    ends = run_batch(machine, question, SOUND, (2, (1,)))
    assert [len(run) for run in ends] == [3, 3]
