"""Waits of two arms, on synthetic figures."""

import numpy as np
import pytest

from bakeoff.explain.waits import CellWaits, wait_differences

CELL = "oltp_write_only/4"
FSYNC, MUTEX = "wait/io/file/innodb/innodb_log_file", "wait/synch/mutex/innodb/trx_sys_mutex"


def epochs(times, *, count=4, noise=0.03, seed=1):
    """Return epochs with these ns per event: {arm: {name: ns}}."""
    rng = np.random.default_rng(seed)

    def wait(amount):
        return round(amount * 10_000 * (1 + noise * rng.standard_normal()))

    return [
        {
            arm: {CELL: CellWaits(events=10_000, waits={name: wait(amount) for name, amount in own.items()})}
            for arm, own in times.items()
        }
        for _ in range(count)
    ]


def compared(times, **noise):
    return wait_differences(epochs(times, **noise), cell=CELL, baseline="A", contender="B", event_ns=1e6)


def test_the_wait_that_differs_comes_first_and_is_named():
    found = compared({"A": {FSYNC: 400_000, MUTEX: 5_000}, "B": {FSYNC: 20_000, MUTEX: 5_000}})
    assert [each.name for each in found] == [FSYNC, MUTEX]
    assert [each.differs for each in found] == [True, False]
    assert found[0].difference.mean == pytest.approx(-380_000, rel=0.05)
    assert found[0].ratio.interval.holds(np.log(0.05))


def test_a_wait_on_only_one_arm_has_a_difference_but_no_ratio():
    (found,) = compared({"A": {}, "B": {FSYNC: 30_000}})
    assert found.baseline == 0
    assert found.ratio is None
    assert found.differs


def test_waits_that_are_negligible_per_event_are_left_out():
    assert compared({"A": {MUTEX: 1_000}, "B": {MUTEX: 30}}) == ()


def test_equal_waits_are_seldom_named():
    """Of 400 pairs of equal arms with twenty waits and three epochs, at most one in twenty has a wait named."""
    names = {f"wait/synch/mutex/{number}": 10_000 for number in range(20)}
    named = sum(
        any(each.differs for each in compared({"A": names, "B": names}, count=3, noise=0.1, seed=seed))
        for seed in range(400)
    )
    assert named <= 20
