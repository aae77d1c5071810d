"""bench/connections: a hundred connections to the fake server are counted, weighed and treated alike."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_a_hundred_connections_cost_one_descriptor_and_less_than_a_megabyte_each(
    monkeypatch: pytest.MonkeyPatch, fakeserver_binary: Path, tmp_path: Path
) -> None:
    monkeypatch.setenv("BAKEOFF_FAKESERVER", str(fakeserver_binary))
    command = [sys.executable, ROOT / "bench" / "connections" / "run.py", "--connections=100", "--seconds=2"]
    command += ["--latency=constant:10ms"]
    command += [f"--results={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("connections-*.json")
    (found,) = json.loads(path.read_text())["runs"]
    assert found["connections"] == 100
    assert found["descriptors"] < 130
    assert 1e4 < found["memory_bytes"] / 100 < 1e6
    assert found["events_mean"] > 10
    assert found["events_sd"] < 2 * found["events_mean"]


def test_slice_cost_is_measured_per_number_of_connections(
    monkeypatch: pytest.MonkeyPatch, fakeserver_binary: Path, tmp_path: Path
) -> None:
    monkeypatch.setenv("BAKEOFF_FAKESERVER", str(fakeserver_binary))
    command = [sys.executable, ROOT / "bench" / "connections" / "slices.py", "--connections=4,40", "--blocks=2"]
    command += ["--latency=constant:10ms", f"--results={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("slices-*.json")
    few, many = json.loads(path.read_text())["runs"]
    assert [each["slices"] for each in (few, many)] == [4, 4]
    assert 0 < few["coordinator_ms"] < 400
    assert 0 < few["between_ms"] < 400
    assert few["memory_bytes"] < many["memory_bytes"] < few["memory_bytes"] + 36e6
