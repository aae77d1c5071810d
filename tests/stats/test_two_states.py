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


def epochs(rate, *, seconds=0.5, count=40, noise=0.05, seed=1, baseline=6000.0):
    """Make epochs that alternate slices of A and B, with B at `rate(epoch, index)`."""
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


def test_replay_chunks_do_not_raise_two_states():
    run = reduced(epochs(lambda _, index: 4000.0 if index < 15 else 6000.0), simulated_study())
    of_script, of_capture = cell(), cell().model_copy(update={"script": "shop.capture", "fixed_work": True})
    flags = [_states_flags(run, SimpleNamespace(cells=(each,))) for each in (of_script, of_capture)]
    assert [*map(len, flags)] == [1, 0]


def test_hosts_of_unequal_speed_are_not_two_states():
    def two_hosts(states):
        fast = epochs(lambda _, index: 4000.0 if states and index % 20 < 8 else 6000.0)
        slow = epochs(lambda _, index: 2000.0 if states and index % 20 < 8 else 3000.0, baseline=3000.0, seed=2)
        return [replace(each, host=name) for name, own in (("a", fast), ("b", slow)) for each in own]

    assert two_states(two_hosts(states=False)) == {}
    assert [*two_states(two_hosts(states=True))] == [(CELL, "B")]


def test_a_start_that_stays_slow_is_a_state_too():
    assert [*two_states(epochs(lambda epoch, _: 3500.0 if epoch == 1 else 6000.0))] == [(CELL, "B")]


@pytest.mark.parametrize("seed", range(20))
def test_noise_drift_and_rare_stalls_are_not_two_states(seed):
    assert two_states(epochs(lambda *_: 6000.0, noise=0.2, seed=seed)) == {}
    assert two_states(epochs(lambda _, index: 6000.0 - 50 * index, seed=seed)) == {}
    assert two_states(epochs(lambda _, index: 600.0 if index == 5 else 6000.0, seed=seed)) == {}


def test_two_states_need_enough_slices():
    assert two_states([]) == {}
    assert two_states(epochs(lambda _, index: 4000.0 if index % 2 else 6000.0, count=5)) == {}
