"""The time until a restarted server is warm."""

import math

import pytest

from bakeoff.stats.restart import compare_restarts, warm_at_ns


def ramp(*events, length_ns=500_000_000):
    return [{"start_ns": at * length_ns, "length_ns": length_ns, "events": each} for at, each in enumerate(events)]


@pytest.mark.parametrize(
    ("events", "warm_at_s"),
    [
        ((10, 20, 30, 45, 45, 50), 1.5),
        ((45, 45), 0.0),
        ((10, 100, 10, 10), 0.0),  # 110 events in its first second
        ((10, 70, 10, 10), None),  # one lucky slice is not enough
        ((), None),
        ((50,), None),  # half a second says nothing
    ],
)
def test_warm_means_a_full_second_at_90_percent_of_the_rate(events, warm_at_s):
    found = warm_at_ns(ramp(*events), 100.0)
    assert (None if found is None else found / 1e9) == warm_at_s


def test_equal_servers_have_a_ratio_of_one_and_late_epochs_are_left_out():
    def record(seconds):
        return {"seconds": seconds, "start_s": 1.0}

    epochs = {epoch: {"A": record(8.0 + epoch), "B": record(8.0 + epoch)} for epoch in range(6)}
    epochs[6] = {"A": record(10.0), "B": record(None)}
    baseline, contender = compare_restarts(epochs, "A")
    assert baseline.ratio is None and baseline.late == 0 and len(baseline.seconds) == 7
    assert (contender.ratio.mean, contender.ratio.n, contender.late) == (0.0, 6, 1)
    assert contender.typical_s == pytest.approx(math.exp(sum(math.log(8 + each) for each in range(6)) / 6))
    assert compare_restarts({0: {"A": record(None)}}, "A")[0].typical_s is None
