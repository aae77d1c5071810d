"""The soak test looks at its own duel alone; long commands end what they started when they are ended."""

import signal
import stat
import sys
from types import SimpleNamespace

import psutil
import pytest
from synthetic import duel_study, make_run

from bakeoff.errors import ServerError
from validation import __main__ as program
from validation import soak as soaking
from validation.soak import soak


def test_an_earlier_run_in_the_folder_is_not_taken_for_that_of_the_duel(tmp_path):
    make_run(tmp_path, duel_study(), epochs=1)
    with pytest.raises(ServerError, match="left no run directory"):
        soak(tmp_path, server="mysql:nonsense", minutes=1, seed=1, report=lambda text: None)


@pytest.fixture
def endless(tmp_path, monkeypatch):
    """In the place of bakeoff: a process that does nothing for minutes."""
    script = tmp_path / "endless"
    script.write_text("#!/bin/sh\nexec sleep 300\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sys, "executable", str(script))


def ended(*_):
    raise SystemExit(130)


def children():
    return [child for child in psutil.Process().children() if child.name() in ("endless", "sh", "sleep")]


def test_a_soak_test_that_is_ended_ends_its_duel(tmp_path, monkeypatch, endless):
    monkeypatch.setattr(soaking, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=ended))
    with pytest.raises(SystemExit):
        soak(tmp_path, server="mysql", minutes=1, seed=1, report=lambda text: None)
    assert children() == []


@pytest.mark.parametrize(
    ("words", "module", "name"),
    [
        (["soak", "--folder", "."], program, "soak"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_sigterm_ends_long_commands_as_an_error_does(monkeypatch, words, module, name):
    monkeypatch.setattr(module, name, lambda *_, **__: signal.getsignal(signal.SIGTERM)(signal.SIGTERM, None))
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as exit_code:
            program.run(words)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert exit_code.value.code == 130
