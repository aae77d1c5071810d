"""The soak test reads only its own duel; long commands stop their child processes when terminated."""

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


def test_an_earlier_run_in_the_folder_is_not_mistaken_for_the_duels(tmp_path):
    make_run(tmp_path, duel_study(), epochs=1)
    with pytest.raises(ServerError, match="left no run directory"):
        soak(tmp_path, server="mysql:nonsense", minutes=1, seed=1, report=lambda text: None)


@pytest.fixture
def endless(tmp_path, monkeypatch):
    """Replace bakeoff with a process that sleeps for minutes."""
    script = tmp_path / "endless"
    script.write_text("#!/bin/sh\nexec sleep 300\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sys, "executable", str(script))


def ended(*_):
    raise SystemExit(130)


def children():
    return [child for child in psutil.Process().children() if child.name() in ("endless", "sh", "sleep")]


def test_terminating_a_soak_test_terminates_its_duel(tmp_path, monkeypatch, endless):
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
def test_sigterm_ends_long_commands_with_exit_code_130(monkeypatch, words, module, name):
    monkeypatch.setattr(module, name, lambda *_, **__: signal.getsignal(signal.SIGTERM)(signal.SIGTERM, None))
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as exit_code:
            program.run(words)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert exit_code.value.code == 130
