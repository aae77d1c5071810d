"""Thousands of connections of which few are active, against the fake server, which holds 10,000."""

import json
import re
import resource
import subprocess
from pathlib import Path

import pytest

from bakeoff.engine import engine_path

CONNECTIONS = 5000
ACTIVE = 50
# The promise of issue 4.
LIMIT_BYTES = 500 * 10**6


@pytest.fixture
def fake_server(tmp_path, fakeserver_binary):
    """Socket of a running fake server, and its process."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 3 * CONNECTIONS:
        pytest.skip(f"fewer than {3 * CONNECTIONS} open files are allowed here (ulimit -Hn)")
    socket = tmp_path / "fake.sock"

    def allow_many_files():
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    server = subprocess.Popen(
        [fakeserver_binary, "--socket", socket], stdout=subprocess.PIPE, text=True, preexec_fn=allow_many_files
    )
    assert server.stdout is not None
    assert json.loads(server.stdout.readline())["type"] == "ready"
    yield socket, server
    server.terminate()
    server.wait()


def test_5000_connections_of_which_1_per_cent_are_active_run_in_500_mb(fake_server):
    socket, server = fake_server
    command = [str(engine_path()), "sysbench", "oltp_point_select", f"--mysql-socket={socket}"]
    command += [f"--threads={ACTIVE}", f"--idle-connections={CONNECTIONS - ACTIVE}", "--time=2", "--rate=500", "run"]
    engine = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert engine.stdout is not None
    most_bytes = 0
    lines = []
    for line in engine.stdout:
        lines.append(line)
        if line.startswith("Threads started!"):
            status = Path(f"/proc/{engine.pid}/status").read_text()
            most_bytes = int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024
    assert engine.wait() == 0, "".join(lines)
    server.terminate()
    assert server.stdout is not None
    ended = json.loads(server.stdout.readline())
    assert ended["counters"]["connections"] == CONNECTIONS
    assert ended["counters"]["questions"] > 500
    assert 0 < most_bytes < LIMIT_BYTES, f"{most_bytes / 1e6:.0f} MB"
