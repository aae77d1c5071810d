"""A server that runs in two states is recognised; noise is not."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from slices import epoch_of, slice_row

from bakeoff.plan import Cell, SliceLength
from bakeoff.spec import Placement
from bakeoff.stats import diagnostics
from bakeoff.stats.analysis import _states_flags, reduced, stacked
from validation.simulation import simulated_study

CELL = "oltp_update_non_index/4"


def two_states(epochs):
    return diagnostics.two_states(stacked(reduced(epochs, simulated_study()).windows, "cell"))


def stalls(epochs):
    run = reduced(epochs, simulated_study())
    return diagnostics.stalls(stacked(run.sums, "epoch"), stacked(run.waits, "epoch"))


def epochs(rate, *, seconds=0.5, count=40, noise=0.05, seed=1, baseline=6000.0):
    """Slices of A and B in turn, B at `rate(epoch, index)`."""
    rng = np.random.default_rng(seed)
    found = []
    for epoch in range(3):
        rows = []
        for index in range(count):
            of = {"A": baseline, "B": rate(epoch, index)}
            for position, arm in enumerate("AB"):
                events = round(of[arm] * seconds * np.exp(rng.normal(0, noise)))
                row = slice_row(arm, index, position, events=events, seconds=seconds, start_s=index + position * 0.5)
                rows.append(row | {"cell": CELL})
        found.append(epoch_of(rows, epoch=epoch))
    return found


def cell():
    return Cell(
        name=CELL, workload="oltp_update_non_index", workload_index=0, script="oltp_update_non_index", threads=4,
        writes=True, freeze=True, placement=Placement.PAIRED, open_loop=False,
        slices=SliceLength(slice_ns=500_000_000, guard_ns=10_000_000),
    )  # fmt: skip


def test_two_states_are_found():
    (found,) = two_states(epochs(lambda _, index: 4000.0 if index % 20 < 8 else 6000.0)).values()
    assert "arm B ran at 5,984 or at 3,994 events/s" in found.text
    assert "the slower for 40% of the time" in found.text


def test_the_parts_of_a_capture_are_no_states():
    run = reduced(epochs(lambda _, index: 4000.0 if index < 15 else 6000.0), simulated_study())
    of_script, of_capture = cell(), cell().model_copy(update={"script": "shop.capture", "fixed_work": True})
    flags = [_states_flags(run, SimpleNamespace(cells=(each,))) for each in (of_script, of_capture)]
    assert [*map(len, flags)] == [1, 0]


def test_hosts_that_are_not_equally_fast_are_no_states():
    def two_hosts(states):
        fast = epochs(lambda _, index: 4000.0 if states and index % 20 < 8 else 6000.0)
        slow = epochs(lambda _, index: 2000.0 if states and index % 20 < 8 else 3000.0, baseline=3000.0, seed=2)
        return [replace(each, host=name) for name, own in (("a", fast), ("b", slow)) for each in own]

    assert two_states(two_hosts(states=False)) == {}
    assert [*two_states(two_hosts(states=True))] == [(CELL, "B")]


def test_a_start_that_stays_slow_is_a_state_too():
    assert [*two_states(epochs(lambda epoch, _: 3500.0 if epoch == 1 else 6000.0))] == [(CELL, "B")]


@pytest.mark.parametrize("seed", range(20))
def test_noise_drift_and_rare_stalls_are_no_states(seed):
    assert two_states(epochs(lambda *_: 6000.0, noise=0.2, seed=seed)) == {}
    assert two_states(epochs(lambda _, index: 6000.0 - 50 * index, seed=seed)) == {}
    assert two_states(epochs(lambda _, index: 600.0 if index == 5 else 6000.0, seed=seed)) == {}


def test_little_is_not_judged():
    assert two_states([]) == {}
    assert two_states(epochs(lambda _, index: 4000.0 if index % 2 else 6000.0, count=5)) == {}


def with_a_stop(*, events, latency_s, cpu=0.0, length_s=3.0, usual_cpus=1.5):
    """Slices of half a second of A and B, and one of B that was different."""
    rows = [
        slice_row(
            arm, index, position, events=500, seconds=0.5, server_cpu_ns=int(usual_cpus * 5e8), latency_max_ns=10**6
        )
        for index in range(20)
        for position, arm in enumerate("AB")
    ]
    rows.append(
        slice_row(
            "B", 20, 0, events=events, seconds=length_s, latency_max_ns=int(latency_s * 1e9),
            server_cpu_ns=int(cpu * usual_cpus * length_s * 1e9),
        )
    )  # fmt: skip
    return [epoch_of(rows, epoch=7)]


@pytest.mark.parametrize(("events", "latency_s"), [(0, 0.0), (300, 2.6)])
def test_a_server_that_was_stopped_is_reported(events, latency_s):
    (found,) = stalls(with_a_stop(events=events, latency_s=latency_s, cpu=0.1)).items()
    assert found[0] == ("oltp_point_select/4", "B")
    assert "stalled" in found[1].text
    assert "2." in found[1].text and "epoch 7" in found[1].text


@pytest.mark.parametrize(
    "slices",
    [
        {"events": 300, "latency_s": 2.6, "cpu": 1.0},  # one statement waited for a lock, the others went on
        {"events": 300, "latency_s": 0.2, "cpu": 0.1},  # every statement waited a little
        {"events": 38, "latency_s": 3.0, "length_s": 3.05, "usual_cpus": 1.9, "cpu": 0.6},  # a query of 3 s on one CPU
        {"events": 0, "latency_s": 0.0, "cpu": 0.1, "length_s": 0.9},
        {"events": 0, "latency_s": 0.0, "usual_cpus": 0.05},  # a server with next to nothing to do
    ],
)
def test_what_is_no_standstill(slices):
    assert stalls(with_a_stop(**slices)) == {}
    assert stalls([]) == {}
