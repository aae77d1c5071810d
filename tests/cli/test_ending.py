"""Which signals end a run."""

import signal
import subprocess
import threading
import time

import pytest

from bakeoff.cli.run import ending_in_order
from bakeoff.results.manifest import bakeoff_version
from tests.conftest import COMMAND


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


@pytest.mark.parametrize("after_s", [0.2, 0.5, 0.9])
def test_ctrl_c_during_the_imports_ends_in_silence(after_s):
    command = subprocess.Popen([*COMMAND, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(after_s)
    command.send_signal(signal.SIGINT)
    _, err = command.communicate(timeout=30)
    assert command.returncode in (0, 1, 130, -signal.SIGINT)
    # What Python itself says before the first line of bakeoff is not ours to silence.
    assert "bakeoff" not in err or err == "bakeoff: interrupted.\n"


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version(inside, option):
    ran = inside(option)
    assert (ran.code, ran.out) == (0, f"bakeoff {bakeoff_version()}\n")


def test_sysbench_starts_before_anything_else_is_imported():
    imported = subprocess.run(
        [*COMMAND[:1], "-X", "importtime", *COMMAND[1:], "sysbench", "--version"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert imported.stdout == "sysbench 1.0.20\n"
    modules = {line.rsplit("|", 1)[-1].strip() for line in imported.stderr.splitlines()}
    assert {name for name in modules if name.startswith("bakeoff")} == {
        "bakeoff", "bakeoff.cli", "bakeoff.find_engine",
    }  # fmt: skip
    assert not modules & {"typer", "numpy", "arro3", "subprocess"}
