"""Which signals end a run."""

import signal
import threading

import pytest

from bakeoff.cli.execution import ending_in_order


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def number(request):
    before = signal.getsignal(request.param)
    yield request.param
    signal.signal(request.param, before)


def test_the_first_signal_ends_in_order_and_the_second_at_once(number):
    signal.signal(number, signal.SIG_DFL)
    stop = threading.Event()
    with ending_in_order(stop):
        signal.raise_signal(number)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert signal.getsignal(number) is signal.SIG_DFL


def test_what_nohup_ignores_stays_ignored(number):
    signal.signal(number, signal.SIG_IGN)
    stop = threading.Event()
    with ending_in_order(stop):
        signal.raise_signal(number)
    assert not stop.is_set()
    assert signal.getsignal(number) is signal.SIG_IGN
