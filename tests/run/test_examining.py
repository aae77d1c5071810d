"""What the doctor sees without a test run."""

import pytest

from bakeoff.results.manifest import read_fact
from bakeoff.run.machine_check import Severity, _processor, _programs, examine
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


@pytest.mark.parametrize(
    ("time_ns", "severity", "said"),
    [
        (47, Severity.OK, "in 47 ns"),
        (430, Severity.NOTE, "in 430 ns"),
        (None, Severity.OK, "not known (one CPU, or busy ones)"),
    ],
)
def test_how_far_two_cpus_are_apart_is_said(monkeypatch, time_ns, severity, said):
    monkeypatch.setattr("bakeoff.run.machine_check.Engine.cache_line_ns", lambda _engine: time_ns)
    (finding,) = [each for each in _programs() if each.subject == "CPU distance"]
    assert (finding.severity, finding.found.endswith(said)) == (severity, True)


@pytest.mark.parametrize(
    ("source", "slow"),
    [("tsc", False), ("kvm-clock", False), ("hyperv_clocksource_tsc_page", False), ("hpet", True), ("acpi_pm", True)],
)
def test_a_clock_that_takes_a_system_call_is_noted(monkeypatch, source, slow):
    facts = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
    monkeypatch.setattr(
        "bakeoff.run.machine_check.read_fact", lambda path: source if path == facts else read_fact(path)
    )
    assert ("clock" in [each.subject for each in _processor()]) is slow


def test_what_a_machine_is_called_may_hold_any_byte(tmp_path):
    (tmp_path / "product_name").write_bytes(b"ProLiant\xae DL380\n")
    assert read_fact(str(tmp_path / "product_name")) == "ProLiant\ufffd DL380"
    assert read_fact(str(tmp_path / "none")) is None
