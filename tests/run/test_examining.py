"""What the doctor sees without a test run."""

import ctypes
import os
import shutil

import pytest

from bakeoff.results.manifest import read_fact
from bakeoff.run import machine_check
from bakeoff.run.machine_check import Severity, _disk, _processor, _programs, _servers
from bakeoff.servers.paths import bytes_on_disk
from bakeoff.servers.process import Identity
from bakeoff.units import format_bytes


def test_the_cache_size_includes_dumps_and_work(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache = tmp_path / "bakeoff"
    for number, name in enumerate(("servers", "templates", "dumps", "work"), start=1):
        (cache / name).mkdir(parents=True)
        (cache / name / "file").write_bytes(b"x" * number * 1_000_000)
    (finding,) = [each for each in _disk(cache) if each.subject == "cache"]
    assert f"{cache} holds {format_bytes(bytes_on_disk(cache))} (" in finding.found
    for name in ("servers", "templates", "dumps", "work"):
        assert f"{name} {format_bytes(bytes_on_disk(cache / name))}" in finding.found


def test_a_cache_that_is_not_there_yet_holds_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (finding,) = [each for each in _disk(tmp_path) if each.subject == "cache"]
    assert finding.found.endswith("holds 0 B")


def refuse(*_arguments, **_more):
    raise PermissionError(13, "Permission denied")


@pytest.mark.parametrize(
    ("place", "name", "refused", "subject", "severity", "said"),
    [
        (os, "access", lambda *_: False, "folder", Severity.PROBLEM, "{} may not be written to"),
        (shutil, "disk_usage", refuse, "disk", Severity.PROBLEM, "{} cannot be used: Permission denied"),
        (machine_check, "bytes_on_disk", refuse, "cache", Severity.WARNING, "cannot be read: Permission denied"),
    ],
)
def test_an_unusable_folder_is_a_finding(tmp_path, monkeypatch, place, name, refused, subject, severity, said):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "bakeoff/servers").mkdir(parents=True)
    monkeypatch.setattr(place, name, refused)
    (finding,) = [each for each in _disk(tmp_path) if each.subject == subject]
    assert finding.severity is severity and finding.advice.startswith("Set XDG_CACHE_HOME")
    assert finding.found.endswith(said.format(tmp_path))


def test_a_place_that_servers_may_not_enter_is_a_problem(tmp_path, monkeypatch):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    monkeypatch.setattr(machine_check, "server_identity", lambda make: Identity(4242, 4242, switch=True))
    (finding,) = [each for each in _disk(closed / "work") if each.severity is Severity.PROBLEM]
    assert finding.subject == "account" and "may not enter" in finding.found and "chmod o+x" in finding.advice


def test_missing_libraries_are_named_with_their_package(tmp_path, monkeypatch):
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "PATH"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(ctypes, "CDLL", refuse)
    found = list(_servers())
    assert {each.severity for each in found} == {Severity.WARNING}
    for what, package in (("needs libaio.so.1", "libaio1"), ("needs libnuma.so.1", "libnuma1")):
        (finding,) = [each for each in found if what in each.found]
        assert finding.advice.startswith(f"Run: apt-get install {package}")


def test_nothing_is_reported_if_nothing_is_missing(tmp_path, monkeypatch):
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "PATH"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("mvn", "npm", "apt-get"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: None)
    assert list(_servers()) == []


@pytest.mark.parametrize(
    ("time_ns", "severity", "said"),
    [
        (47, Severity.OK, "in 47 ns"),
        (430, Severity.NOTE, "in 430 ns"),
        (None, Severity.OK, "an unknown time (only one CPU, or the CPUs are busy)"),
    ],
)
def test_the_cpu_distance_is_reported(monkeypatch, time_ns, severity, said):
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


@pytest.mark.parametrize(
    ("groups", "quota"),
    [
        ([{"cpu.max": "50000 100000"}, {"cpu.max": "max 100000"}], "0.5"),
        ([{}, {"cpu.cfs_quota_us": "25000", "cpu.cfs_period_us": "100000"}, {"cpu.max": "50000 100000"}], "0.25"),
        ([{"cpu.max": "max 100000"}, {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}], None),
        ([{"cpu.max": "100000000 100000"}], None),
    ],
)
def test_a_cpu_quota_below_the_number_of_cpus_is_a_warning(tmp_path, monkeypatch, groups, quota):
    folders = [tmp_path / str(number) for number in range(len(groups))]
    for folder, group in zip(folders, groups, strict=True):
        folder.mkdir()
        for name, text in group.items():
            (folder / name).write_text(f"{text}\n")
    monkeypatch.setattr(machine_check, "control_groups", lambda _: iter(folders))
    found = {each.subject: each for each in _processor()}
    cpus = len(os.sched_getaffinity(0))
    if quota is None:
        assert "CPU quota" not in found and "quota" not in found["CPUs"].found
    else:
        assert found["CPU quota"].severity is Severity.WARNING
        assert found["CPU quota"].found.endswith(f"has {quota} of {cpus} CPUs")
        assert f"{cpus} usable ({quota} at a time, by a quota)" in found["CPUs"].found


def test_a_machine_name_may_contain_any_bytes(tmp_path):
    (tmp_path / "product_name").write_bytes(b"ProLiant\xae DL380\n")
    assert read_fact(str(tmp_path / "product_name")) == "ProLiant\ufffd DL380"
    assert read_fact(str(tmp_path / "none")) is None
