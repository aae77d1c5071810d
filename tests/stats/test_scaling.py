"""The scaling law is found where it holds, and said not to fit where it does not."""

import math

import numpy as np
import pytest

from bakeoff.stats.scaling import fit_scaling

COUNTS = (1, 2, 4, 8, 16, 32, 64)


def law(threads, rate=1000.0, sigma=0.03, kappa=4e-4):
    return rate * threads / (1 + sigma * (threads - 1) + kappa * threads * (threads - 1))


def measured(truth=law, *, epochs=12, counts=COUNTS, noise=0.01, seed=1):
    """Make epochs that shift all thread counts together by 5 % and each one by `noise`."""
    rng = np.random.default_rng(seed)
    level = rng.normal(0, 0.05, epochs)
    return {
        n: {e: truth(n) * math.exp(level[e] + rng.normal(0, noise)) for e in range(epochs)} for n in counts
    }  # fmt: skip


def test_the_law_is_found_with_its_peak():
    found = fit_scaling(measured(noise=0.001), seed=1)
    assert found.contention.value == pytest.approx(0.03, rel=0.05)
    assert found.crosstalk.value == pytest.approx(4e-4, rel=0.05)
    assert found.peak_threads.value == pytest.approx(math.sqrt(0.97 / 4e-4), rel=0.05)
    assert found.fits


def test_intervals_hold_the_truth_and_come_from_whole_epochs():
    held = 0
    for seed in range(20):
        found = fit_scaling(measured(seed=seed), seed=seed)
        held += found.contention.low <= 0.03 <= found.contention.high
        assert found.rate.low <= found.rate.value <= found.rate.high
        # All thread counts of an epoch move by 5 %: the level is as uncertain as the epochs are, the shape is not.
        assert math.log(found.rate.high / found.rate.low) > 0.02
    assert held >= 15


def test_epochs_from_several_hosts_give_no_intervals():
    rates = measured()
    found = fit_scaling(rates, host_of={epoch: f"h{epoch % 2}" for epoch in rates[1]})
    assert found.points == fit_scaling(rates).points
    assert (found.contention.low, found.curve[0][1].low, found.lack_of_fit_p, found.fits) == (None, None, None, None)
    assert fit_scaling(rates, host_of=dict.fromkeys(rates[1], "h0")) == fit_scaling(rates)


def test_intervals_of_ten_epochs_hold_the_truth_as_often_as_they_say():
    held = 0
    for seed in range(150):
        found = fit_scaling(measured(seed=seed, epochs=10), seed=seed)
        truths = ((found.contention, 0.03), (found.crosstalk, 4e-4), (found.peak_threads, math.sqrt(0.97 / 4e-4)))
        held += sum(band.low <= truth <= band.high for band, truth in truths)
    assert held / 450 >= 0.93  # 0.90 by plain percentiles


def test_an_interval_of_the_maximum_that_reaches_the_last_thread_count_is_open():
    # The maximum is at 30 threads.
    found = fit_scaling(measured(lambda n: law(n, kappa=0.97 / 30**2), counts=(1, 2, 4, 8, 16, 32), noise=0.05))
    assert found.peak_threads.low < 30 and math.isinf(found.peak_threads.high)
    clear = fit_scaling(measured(noise=0.001)).peak_threads
    assert 49 < clear.high < 64


def test_below_ten_epochs_there_is_no_interval():
    found = fit_scaling(measured(epochs=6))
    assert (found.rate.low, found.contention.high, found.curve[0][1].low) == (None, None, None)
    assert found.lack_of_fit_p is not None


def test_nothing_is_reported_beyond_the_last_thread_count():
    found = fit_scaling(measured(counts=(1, 2, 4, 8)))
    assert found.peak_threads is None  # the law's maximum is at 49 threads
    assert (found.curve[0][0], found.curve[-1][0]) == (pytest.approx(1), pytest.approx(8))


def test_a_throughput_cliff_does_not_fit_the_law():
    cliff = fit_scaling(measured(lambda n: law(n) * (0.4 if n == 16 else 1.0)))
    assert cliff.fits is False
    held = [fit_scaling(measured(seed=seed, epochs=8)).fits for seed in range(40)]
    assert held.count(False) <= 7  # one in twenty by chance


@pytest.mark.parametrize("truth", [lambda n: 1000.0 * n, lambda n: 1000.0], ids=["linear", "flat"])
@pytest.mark.parametrize("counts", [COUNTS, (1, 2, 4, 8)], ids=len)
def test_a_law_at_its_bounds_is_refused_no_more_often_than_by_chance(truth, counts):
    held = [fit_scaling(measured(truth, seed=seed, epochs=8, counts=counts)).fits for seed in range(400)]
    assert held.count(False) <= 32  # one in twenty by chance


def test_a_maximum_below_the_first_thread_count_is_reported_there():
    found = fit_scaling(measured(lambda n: 1000 / n, counts=(4, 8, 16, 32)))
    assert found.peak_threads.value == found.peak_threads.low == found.peak_threads.high == 4


def test_too_few_thread_counts_or_common_epochs_are_not_fitted():
    assert fit_scaling(measured(counts=(1, 4, 16))) is None
    assert fit_scaling({}) is None
    apart = {n: {epoch: 1.0} for epoch, n in enumerate((1, 2, 4, 8))}
    assert fit_scaling(apart) is None
    uneven = measured(epochs=8)
    del uneven[64][0], uneven[8][1]
    assert fit_scaling(uneven).epochs == 6
