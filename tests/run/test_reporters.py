"""Throughput as reported during a measurement."""

from types import SimpleNamespace

import pytest

from bakeoff.run.measuring import ThroughputReporter
from bakeoff.stats.progress import Listener


@pytest.mark.parametrize(("open_loop", "expected"), [(False, 100 / 0.6), (True, 100.0)])
def test_live_throughput_is_computed_as_in_the_report(open_loop, expected):
    """One of two connections had work for a second and the other for 0.2 s; a schedule counts the whole slice."""
    said = []
    listener = Listener()
    listener.throughput = lambda _cell, arm, per_s: said.append((arm, per_s))
    cell = SimpleNamespace(name="c", open_loop=open_loop)
    message = {"arm": "A", "events": 100, "start_ns": 0, "length_ns": 10**9, "busy_ns": 12 * 10**8, "connections": 2}
    ThroughputReporter(cell, listener).add_slice(message)
    assert said == [("A", pytest.approx(expected))]
