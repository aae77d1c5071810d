"""Complete runs take as long as the doctor forecasts from a one-minute test run."""

import statistics

import numpy as np
import pytest

from bakeoff.plan import ideal_seconds, least_seconds
from bakeoff.plan.timing import LONG_S
from bakeoff.report import numbers
from bakeoff.stats.estimate import epoch_estimates
from bakeoff.stats.resolution import resolution
from validation.simulation import CLOUD, LOADED, QUIET, Conditions, run_to_end, simulate_epoch

RUNS = 60
OVERHEAD_S = 6.0
MEASURED_S = ideal_seconds(overhead_s=OVERHEAD_S, cells=1, bounds=(least_seconds(turns=2), LONG_S))


def simulated_runs(rng, *, runs, epochs, noise, seconds):
    """Simulate `runs` independent cells over `epochs` epochs of two equal arms, slice by slice."""
    cells = [f"oltp_point_select/{i + 1}" for i in range(runs)]
    drawn = (
        simulate_epoch(rng, {"A": 0.0, "B": 0.0}, Conditions(noise, seconds), epoch=n, cells=cells)
        for n in range(epochs)
    )
    return [epoch_estimates(epoch, baseline="A") for epoch in drawn]


def values_of(history):
    return [[epoch.pairs[i].value for epoch in history] for i in range(len(history[0].pairs))]


def forecast(noise, *, epochs=6, seconds=3.0, seed=1):
    """A prediction from each of `RUNS` short test runs."""
    rng = np.random.default_rng(seed)
    history = simulated_runs(rng, runs=RUNS, epochs=epochs, noise=noise, seconds=seconds)
    return [
        resolution([epoch.pairs[run] for epoch in history], overhead_s=OVERHEAD_S, load_s=20.0) for run in range(RUNS)
    ]


def taken_s(noise, half_width, *, seed=2, epochs_max=200):
    """Return how many seconds complete runs take to reach the target."""
    rng = np.random.default_rng(seed)
    history = simulated_runs(rng, runs=RUNS, epochs=epochs_max, noise=noise, seconds=MEASURED_S)
    ends = [run_to_end(values, precision=half_width) for values in values_of(history)]
    return [20.0 + end.n * (OVERHEAD_S + MEASURED_S) for end in ends]


@pytest.mark.parametrize(
    ("noise", "half_width"),
    [
        pytest.param(QUIET, 0.005, marks=pytest.mark.slow, id="quiet"),
        pytest.param(CLOUD, 0.01, id="cloud"),
        pytest.param(LOADED, 0.02, marks=pytest.mark.slow, id="loaded"),
    ],
)
def test_complete_runs_take_as_long_as_forecast(noise, half_width):
    lines = [next(each for each in r.forecast if each.half_width == half_width) for r in forecast(noise)]
    taken = statistics.median(taken_s(noise, half_width))
    assert 0.6 < statistics.median(line.seconds for line in lines) / taken < 1.7
    # "At worst" is a limit of 90 %: only a few forecasts may be below the median run.
    assert sum(line.at_worst_s < 0.95 * taken for line in lines) <= 0.2 * RUNS


def test_narrower_targets_take_longer_and_the_worst_case_is_no_shorter():
    for each in forecast(CLOUD):
        seconds = [line.seconds for line in each.forecast]
        assert seconds == sorted(seconds) and seconds[-1] > seconds[0]
        assert all(line.at_worst_s >= line.seconds for line in each.forecast)


def test_two_epochs_are_too_few_for_a_forecast():
    history = simulated_runs(np.random.default_rng(3), runs=1, epochs=2, noise=QUIET, seconds=3.0)
    assert resolution([epoch.pairs[0] for epoch in history], overhead_s=5.0, load_s=5.0) is None


def test_the_sentence_says_which_precision_is_within_reach():
    quiet, loaded = forecast(QUIET)[0], forecast(LOADED)[0]
    assert numbers.resolution(quiet).startswith("This machine now resolves ±")
    assert "out of reach" in numbers.resolution(loaded)
    assert "From 6 restarts of two equal servers (mysql:8.0.15)" in numbers.resolution_basis(quiet, "mysql:8.0.15")
