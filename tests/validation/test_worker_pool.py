"""Work in several processes comes back in order, with its errors, and leaves nobody behind."""

import os

import psutil
import pytest

from bakeoff.errors import HostError
from validation import replay_runs


def workers():
    return [child.pid for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())]


def test_results_come_in_the_order_of_the_tasks():
    assert replay_runs.in_parallel(abs, [-3, -1, -2] * 10) == [3, 1, 2] * 10
    assert replay_runs.in_parallel(abs, [-7]) == [7]
    assert replay_runs.in_parallel(abs, []) == []


def test_an_error_comes_back_and_ends_the_workers():
    with pytest.raises(ZeroDivisionError):
        replay_runs.in_parallel((1.0).__truediv__, [1.0, 0.0, 2.0])
    assert workers() == []
    assert replay_runs.in_parallel(abs, [-1, -2]) == [1, 2]  # others are begun


def test_a_killed_worker_is_reported():
    with pytest.raises(HostError, match="worker"):
        replay_runs.in_parallel(os._exit, [3, 3])
    assert workers() == []
