"""However a paired run ends, the threads of a running server get their CPUs back."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.conftest import wait_for

CPUS = os.sched_getaffinity(0)
THREADS = 3
SLEEP = """
function thread_init() con = sysbench.sql.driver():connect() end
function event() con:query("SELECT SLEEP(0.01)") end
"""
EXIT = "function event() ffi.C.usleep(1e6) os.exit(3) end ffi.cdef('int usleep(unsigned int);')"

pytestmark = [pytest.mark.server, pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")]


class Paired:
    """A paired run against the session's server."""

    def __init__(self, ours, server, tmp_path):
        self.ours, self.server, self.folder = ours, server, tmp_path

    def start(self, script=SLEEP, **how):
        """Start the run, and wait until every connection's thread is pinned."""
        assert self.pinned() == []
        (self.folder / "it.lua").write_text(script)
        options = (*self.server.options, "--placement=paired", f"--threads={THREADS}", "--time=60")
        words = [*self.ours.words, "it.lua", *options, "run"]
        run = subprocess.Popen(words, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **how)
        wait_for(lambda: len(self.pinned()) == THREADS, limit_s=20, what="pinned threads")
        return run

    def pinned(self):
        """Threads of the server that may not run on every CPU."""
        found = []
        for folder in Path(f"/proc/{self.server.pid}/task").iterdir():
            try:
                if os.sched_getaffinity(int(folder.name)) != CPUS:
                    found.append(int(folder.name))
            except ProcessLookupError:
                continue
        return found


@pytest.fixture
def paired(ours, server, tmp_path):
    return Paired(ours, server, tmp_path)


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "QUIT", "PIPE", "USR1", "ABRT", "SEGV"])
def test_a_signal_ends_the_run_and_unpins(paired, name):
    number = signal.Signals[f"SIG{name}"]
    run = paired.start()
    run.send_signal(number)
    assert run.wait(20) == -number
    assert paired.pinned() == []


def test_a_script_that_ends_the_program_unpins(paired):
    run = paired.start(SLEEP + EXIT)
    assert run.wait(20) == 3
    assert paired.pinned() == []


def test_a_signal_that_is_ignored_stays_ignored(paired):
    run = paired.start(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))  # as nohup does
    run.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        run.wait(1)
    assert len(paired.pinned()) == THREADS
    run.send_signal(signal.SIGINT)
    assert run.wait(20) == -signal.SIGINT
    assert paired.pinned() == []


def test_the_next_start_unpins_what_a_killed_run_left(paired, ours):
    run = paired.start()
    run.kill()
    run.wait(20)
    left = paired.pinned()
    assert len(left) == THREADS, "the server keeps the threads of ended connections"
    other = subprocess.Popen(["sleep", "60"])  # a process that bakeoff did not pin
    try:
        os.sched_setaffinity(other.pid, {min(CPUS)})
        assert ours("--version").code == 0
        assert paired.pinned() == []
        assert os.sched_getaffinity(other.pid) == {min(CPUS)}
    finally:
        other.kill()
        other.wait()
    assert not list(Path("/dev/shm").glob("bakeoff-pinned-*"))


def test_a_start_does_not_unpin_a_live_run(paired, ours):
    run = paired.start()
    assert ours("--version").code == 0
    assert len(paired.pinned()) == THREADS
    run.terminate()
    run.wait(20)
    assert paired.pinned() == []
