"""What the doctor sees without a test run."""

import os

import pytest

from bakeoff.results.manifest import read_fact
from bakeoff.run.machine_check import Severity, examine
from bakeoff.servers.paths import bytes_on_disk
from bakeoff.units import format_bytes


def test_the_whole_cache_is_summed_with_dumps_and_work(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache = tmp_path / "bakeoff"
    for number, name in enumerate(("servers", "templates", "dumps", "work"), start=1):
        (cache / name).mkdir(parents=True)
        (cache / name / "file").write_bytes(b"x" * number * 1_000_000)
    (finding,) = [each for each in examine(cache) if each.subject == "cache"]
    assert f"{cache} holds {format_bytes(bytes_on_disk(cache))} (" in finding.found
    for name in ("servers", "templates", "dumps", "work"):
        assert f"{name} {format_bytes(bytes_on_disk(cache / name))}" in finding.found


def test_a_cache_that_is_not_there_yet_holds_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (finding,) = [each for each in examine(tmp_path) if each.subject == "cache"]
    assert finding.found.endswith("holds 0 B")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU")
def test_how_far_two_cpus_are_apart_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (finding,) = [each for each in examine(tmp_path) if each.subject == "CPU distance"]
    (time_ns,) = [int(word) for word in finding.found.split() if word.isdigit()]
    assert 5 < time_ns < 20_000
    assert finding.severity is (Severity.NOTE if time_ns > 250 else Severity.OK)


def test_what_a_machine_is_called_may_hold_any_byte(tmp_path):
    (tmp_path / "product_name").write_bytes(b"ProLiant\xae DL380\n")
    assert read_fact(str(tmp_path / "product_name")) == "ProLiant\ufffd DL380"
    assert read_fact(str(tmp_path / "none")) is None
