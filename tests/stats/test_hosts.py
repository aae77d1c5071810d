"""Epochs from several hosts: how they are combined, when a run stops, and that one host gives the plain result."""

import math
from itertools import chain, cycle, islice, repeat

import numpy as np
import pytest

from bakeoff.stats import hosts
from bakeoff.stats import interval as iv
from bakeoff.stats.model import Interval, Stop
from bakeoff.stats.stopping import stop_state
from validation.hosts import NOISE, as_found, draw, ended, fixed, simulate

RNG = np.random.default_rng(5)
VALUES = RNG.normal(0.1, 0.01, 12).tolist()


def names(*counts):
    """Return a host name for each epoch, with `counts` epochs per host."""
    return list(chain.from_iterable(repeat(f"h{at}", count) for at, count in enumerate(counts)))


@pytest.mark.parametrize("measured_by", [(), [""] * 12, ["h0"] * 12])
def test_one_host_is_the_plain_mean_to_the_last_bit(measured_by):
    assert (
        hosts.moments(VALUES, measured_by)
        == iv.moments(VALUES)
        == iv.Moments(math.fsum(VALUES) / 12, iv.standard_deviation(VALUES), 12, 11)
    )
    assert hosts.without_hosts(VALUES, measured_by) is VALUES
    assert hosts.spread(VALUES, measured_by) is None
    assert hosts.epochs_needed(VALUES, measured_by, 0.002) == iv.epochs_needed(iv.standard_deviation(VALUES), 0.002)


def test_hosts_with_one_epoch_each_count_like_plain_epochs():
    found = hosts.moments(VALUES, names(*[1] * 12))
    assert found == pytest.approx(iv.moments(VALUES))
    assert hosts.spread(VALUES, names(*[1] * 12)) is None
    assert hosts.sd_within(VALUES, names(*[1] * 12)) is None


def test_degrees_of_freedom_come_from_the_number_of_hosts():
    found = hosts.moments(VALUES, names(6, 6))
    assert (found.n, found.degrees) == (12, 1)
    assert iv.t_interval(*found, alpha=0.05).half_width > iv.t_interval(*iv.moments(VALUES), alpha=0.05).half_width


def test_balanced_hosts_give_the_t_interval_of_their_means():
    values = [mean + each for mean in (0.0, 0.05, 0.08) for each in (-0.001, 0.0, 0.001)]
    found = hosts.moments(values, names(3, 3, 3))
    means = iv.moments([0.0, 0.05, 0.08])
    assert found.mean == pytest.approx(means.mean)
    assert found.sd / math.sqrt(found.n) == pytest.approx(means.sd / math.sqrt(3))


def test_one_host_with_fifty_times_the_epochs_does_not_outvote_the_rest():
    values = [0.10] * 25 + [0.11] * 25 + [0.0, 0.01]
    found = hosts.moments(values, names(50, 1, 1))
    assert found.mean == pytest.approx((0.105 + 0.0 + 0.01) / 3, abs=0.005)
    assert iv.moments(values).mean > 0.1


@pytest.mark.parametrize("counts", [(50, 1), (50, 1, 1), (6, 6)])
def test_no_host_weighs_more_than_twice_another(counts):
    values = draw(np.random.default_rng(2), names(*counts), differ=0.0)
    blocks = hosts._blocks(values, names(*counts))
    shares = blocks.shares()
    assert sum(shares) == pytest.approx(1)
    assert max(shares) <= 2 * min(shares) + 1e-9


def test_an_interval_is_never_narrower_than_the_noise_within_hosts():
    alike = [0.1 + each for _ in range(3) for each in (-0.02, 0.0, 0.02)]  # by chance the same mean on each
    found = iv.t_interval(*hosts.moments(alike, names(3, 3, 3)), alpha=0.05)
    noise = iv.t_quantile(0.975, 6) * 0.02 / 3
    assert found.half_width == pytest.approx(noise)


def test_equal_values_have_zero_spread():
    assert hosts.moments([0.1] * 6, names(3, 3)) == iv.Moments(pytest.approx(0.1), pytest.approx(0), 6, 1)
    assert hosts.spread([0.1] * 6, names(3, 3)).p_value == 1.0


def test_a_value_that_is_not_finite_is_left_to_the_caller():
    assert not math.isfinite(hosts.moments([0.1, math.inf, 0.2], names(1, 2)).mean)


@pytest.mark.parametrize(("counts", "differ"), [((6, 6), 1), ((50, 1, 1), 1), ((50, *[1] * 9), 1), ([2] * 30, 0)])
def test_intervals_hold_the_truth(counts, differ):
    assert simulate(3, names(*counts), fixed, runs=300, differ=differ) > 0.91 * 300  # three errors below 95 %


def test_weighting_by_the_estimated_host_variance_undercovers():
    assert simulate(3, names(50, 1, 1), as_found, runs=300, differ=1.0) < 0.9 * 300
    assert simulate(3, names(50, 1, 1), fixed, runs=300, differ=1.0) > 0.91 * 300


def test_an_unbounded_interval_does_not_count_as_covering():
    def nothing(values, hosts):
        return Interval(low=None, high=None)

    assert simulate(3, names(3, 3), nothing, runs=20, differ=0.0) == 0


def test_the_plain_interval_undercovers_when_hosts_differ():
    rng, measured_by = np.random.default_rng(3), names(20, 20, 20)
    found = [iv.t_interval(*iv.moments(draw(rng, measured_by, differ=1)), alpha=0.05) for _ in range(200)]
    assert sum(each.holds(0.0) for each in found) < 120


@pytest.mark.parametrize("count", [3, 20])
def test_checking_after_every_epoch_keeps_the_coverage(count):
    measured_by = list(islice(cycle(f"h{at}" for at in range(count)), 60))
    rng = np.random.default_rng(count)
    found = [ended(draw(rng, measured_by, differ=1.0), measured_by, precision=0.006) for _ in range(100)]
    assert sum(interval.holds(0.0) for interval in found) >= 88


def test_five_hosts_are_never_precise_and_six_may_be():
    for count, stop in ((5, Stop.RUNNING), (6, Stop.PRECISE)):
        measured_by = names(*[10] * count)
        values = draw(np.random.default_rng(1), measured_by, differ=0.0)
        assert stop_state(values, measured_by, precision=0.02, family=1) is stop


def test_epochs_needed_is_the_number_that_reaches_the_target():
    measured_by = names(*[4] * 10)
    values = draw(np.random.default_rng(4), measured_by, differ=1.0)
    target = iv.precision_half_width(*hosts.moments(values, measured_by)[1:])
    assert hosts.epochs_needed(values, measured_by, target) == pytest.approx(40, abs=1)
    assert hosts.epochs_needed(values, measured_by, target / 100) is None  # hosts differ: no number would do
    assert hosts.epochs_needed(values, names(20, 20), 0.1) is None  # two hosts are never precise


def test_spread_between_hosts_is_told_from_noise():
    rng, measured_by = np.random.default_rng(8), names(*[5] * 8)
    found = [hosts.spread(draw(rng, measured_by, differ=1.0), measured_by) for _ in range(100)]
    assert sum(each.p_value < 0.05 for each in found) >= 88
    assert 0.8 * NOISE < np.mean([each.sd for each in found]) < 1.2 * NOISE
    none = [hosts.spread(draw(rng, measured_by, differ=0.0), measured_by) for _ in range(100)]
    assert sum(each.p_value < 0.05 for each in none) <= 12


def test_the_anytime_multiplier_defaults_to_n_minus_1_degrees():
    for n in (5, 20, 300):
        assert iv.anytime_multiplier(n, 0.05, n - 1) == iv.anytime_multiplier(n, 0.05)
    assert math.isinf(iv.anytime_multiplier(20, 0.01, 1))
    assert iv.anytime_multiplier(100, 0.05, 9) > iv.anytime_multiplier(100, 0.05)
