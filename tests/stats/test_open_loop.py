"""Open loops: the schedule decides throughput, so no word may be about it unless an arm falls short of the rate."""

import numpy as np
import pytest
from slices import epoch_of, slice_row

from bakeoff.spec import Workload
from bakeoff.stats.analysis import analyse
from bakeoff.stats.model import Stop, Word
from validation.simulation import simulated_study

SLICE_S = 1.0
CONNECTIONS = 4


def question(rate_per_s, connections):
    workload = Workload(script="oltp_point_select", rate_per_s=rate_per_s)
    return simulated_study(precision=0.01, cells=(connections,)).model_copy(update={"workloads": (workload,)})


def ended_s(starts_s, service_s, connections):
    """Return when the last event ends if each takes `service_s` on the first free connection."""
    free_s = np.zeros(connections)
    for start_s in starts_s:
        first = int(np.argmin(free_s))
        free_s[first] = max(start_s, free_s[first]) + service_s
    return float(free_s.max())


def epoch(number, *, rate_per_s, service_s, connections, blocks=5, **fields):
    """Make slices as the engine reports them: arms of a block share its arrivals, and draining may outlast a slice."""
    rng = np.random.default_rng(number)
    rows, now_s = [], 0.0
    for block in range(blocks):
        arrivals = [np.sort(rng.uniform(0, SLICE_S, rng.poisson(rate_per_s * SLICE_S))) for _ in range(2)]
        turns = {"A": iter(arrivals), "B": iter(arrivals)}
        for position, arm in enumerate("ABBA"):
            starts_s = next(turns[arm])
            seconds = max(SLICE_S, ended_s(starts_s, service_s[arm], connections))
            whole = {"connections": connections, "busy_ns": int(seconds * 1e9) * connections}
            row = slice_row(
                arm, block, position, events=len(starts_s), seconds=seconds, start_s=now_s,
                cell=f"oltp_point_select/{connections}", **fields,
            )  # fmt: skip
            rows.append(row | whole)
            now_s += seconds
    return epoch_of(rows, epoch=number)


def analysed(rate_per_s, service_s, *, epochs=8, connections=CONNECTIONS, **fields):
    asked = {"rate_per_s": rate_per_s, "service_s": service_s, "connections": connections}
    made = [epoch(number, **asked, **fields) for number in range(epochs)]
    return analyse(made, question(rate_per_s, connections), ended=Stop.BUDGET)


@pytest.mark.parametrize(("rate_per_s", "slow_s"), [(100, 0.01), (20, 0.01), (20, 0.1), (200, 0.002)])
@pytest.mark.parametrize("epochs", [3, 8])
def test_arms_that_keep_up_with_the_rate_are_not_distinguished_by_throughput(rate_per_s, slow_s, epochs):
    analysis = analysed(rate_per_s, {"A": 0.001, "B": slow_s}, epochs=epochs)
    (comparison,) = analysis.comparisons
    assert comparison.verdict.words == (Word.RATE_FIXED,)
    assert f"The rate is fixed at {rate_per_s}" in comparison.verdict.sentence
    assert comparison.verdict.sentence.endswith("compare response times.")
    assert not [flag for flag in comparison.flags if flag.kind == "NO VERDICT"]
    assert all(arm.tps == pytest.approx(rate_per_s, rel=0.1) for arm in analysis.arms)
    assert analysis.geometric_mean == {}


def test_a_long_drain_is_not_a_shortfall():
    (comparison,) = analysed(100, {"A": 0.005, "B": 0.15}, connections=32).comparisons
    assert comparison.verdict.words == (Word.RATE_FIXED,)


def test_an_arm_that_falls_short_of_the_rate_is_slower():
    analysis = analysed(500, {"A": 0.001, "B": 0.012})  # B can do 333 events a second
    (comparison,) = analysis.comparisons
    assert comparison.verdict.words == (Word.SLOWER,)
    assert np.exp(comparison.estimate.mean) == pytest.approx(333 / 500, rel=0.03)


def test_arms_that_fall_short_alike_are_not_called_equivalent():
    (comparison,) = analysed(500, {"A": 0.012, "B": 0.012}).comparisons
    assert comparison.verdict.words == (Word.RATE_FIXED,)


def test_events_that_began_late_or_never_are_flagged():
    service_s = {"A": 0.001, "B": 0.001}
    (comparison,) = analysed(100, service_s, late_starts=3, dropped=1).comparisons
    assert [flag.kind for flag in comparison.flags[:2]] == ["CLIENT BOUND", "CLIENT BOUND"]
    assert "client overloaded, 3.0% of the events of arm A" in comparison.flags[0].text
    assert "of a million events that were due" in comparison.flags[1].text
    (comparison,) = analysed(1000, service_s, late_starts=3).comparisons
    assert not [flag for flag in comparison.flags if flag.kind == "CLIENT BOUND"]
