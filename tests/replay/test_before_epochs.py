"""Servers that answer a capture's queries before the first epoch."""

import threading
from types import SimpleNamespace

import pytest
from pretended_servers import Starting

from bakeoff.errors import ServerError
from bakeoff.replay.before_epochs import _started
from bakeoff.stats.progress import Listener


@pytest.mark.parametrize(("stopped", "expected"), [(False, ServerError), (True, KeyboardInterrupt)])
def test_stopping_an_answer_comparison_kills_its_servers(stopped, expected):
    pool, stop = Starting(), threading.Event()
    killed = threading.Event()
    pool._instances = [SimpleNamespace(kill=killed.set)]
    setup = SimpleNamespace(arm=SimpleNamespace(name="A"), installation=None, settings=None, remote=object())
    tools = SimpleNamespace(setups=[setup], listener=Listener(), pool=pool, stop=stop)
    with pytest.raises(expected), _started(tools, ["A"]):
        if stopped:
            stop.set()
            assert killed.wait(5)
        raise ServerError("it is gone")
    assert killed.is_set() is stopped
