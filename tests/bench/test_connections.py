"""bench/connections: a hundred connections to the fake server are counted, weighed and treated alike."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bakeoff.engine import engine_path

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def binaries(tmp_path: Path, fakeserver_binary: Path) -> Path:
    """A folder with the engine that the other tests use, and the fake server as it is in the tree."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "bakeoff-engine").symlink_to(engine_path())
    (folder / "bakeoff-fakeserver").symlink_to(fakeserver_binary)
    return folder


def test_a_hundred_connections_cost_one_descriptor_and_less_than_a_megabyte_each(
    binaries: Path, tmp_path: Path
) -> None:
    command = [sys.executable, ROOT / "bench" / "connections" / "run.py", "--connections=100", "--seconds=2"]
    command += ["--latency=constant:10ms"]
    command += [f"--binaries={binaries}", f"--results={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("connections-*.json")
    (found,) = json.loads(path.read_text())["runs"]
    assert found["connections"] == 100
    assert found["descriptors"] < 130
    assert 1e4 < found["memory_bytes"] / 100 < 1e6
    assert found["events_mean"] > 10
    assert found["events_sd"] < 2 * found["events_mean"]
