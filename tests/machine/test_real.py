"""The kernel's own control groups, loop devices and huge pages, as root."""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from bakeoff.errors import BakeoffError
from bakeoff.machine import Undo, huge_pages, open_place, require, undo
from bakeoff.machine.devices import device_counters, device_of
from bakeoff.machine.groups import Group, find_tree
from bakeoff.servers.process import Identity, Launch, spawn
from bakeoff.spec.machine import Machine, Storage

MEMORY = Path("/dev/shm")  # a disk that is always fast enough
WINDOW_S, WINDOWS = 4.0, 4  # a busy machine may not keep the reader running in each


@pytest.fixture(autouse=True)
def root():
    if os.geteuid() != 0:
        pytest.skip("takes root")
    try:
        require([Machine(storage=Storage(read_iops=1), file_system="ext4")], Path("/"))
    except BakeoffError as error:
        pytest.skip(error.message)


@pytest.fixture
def folder():
    made = Path(tempfile.mkdtemp(prefix="pool-", dir=MEMORY))
    yield made
    undo(made)
    shutil.rmtree(made)


def mounts():
    return Path("/proc/self/mountinfo").read_text()


def loops():
    return subprocess.run(["losetup", "--list", "--noheadings"], capture_output=True, text=True, check=False).stdout


READER = """
    import mmap, os, random, sys, threading
    def read(me):
        file, page, own = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 16384), random.Random(me)
        while True:
            os.preadv(file, [page], own.randrange(2048) * 16384)
    [threading.Thread(target=read, args=(me,)).start() for me in range(8)]
"""


@pytest.mark.parametrize("limit", [1_000, 3_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_reads_reach_but_do_not_exceed_the_limit(folder, limit):
    home = folder / "001"
    home.mkdir()
    place = open_place(Machine(Storage(read_iops=limit), file_system="ext4"), home, data_bytes=0, undo=Undo(folder))
    (home / "data").write_bytes(os.urandom(2048 * 16384))
    os.sync()
    argv = [sys.executable, "-c", textwrap.dedent(READER), str(home / "data")]
    launch = Launch(argv, os.environ, Identity(0, 0, switch=False), groups=place.group.procs)
    reader = spawn(launch, cwd=folder, log=folder / "log")
    try:
        time.sleep(1)
        device = device_of(home)
        free = device_counters(device)
        time.sleep(0.5)
        if (device_counters(device)["device.reads"] - free["device.reads"]) / 0.5 < 1.3 * limit:
            pytest.skip("this machine is too busy to read that fast")
        assert place.limit_storage(home, {"innodb_flush_method": "O_DIRECT"}, "innodb") == ""
        time.sleep(1)
        rates = []
        # cgroup v1 has two files, between which the kernel may let through a burst: 100 ms of reads.
        burst_bytes = 0 if find_tree("io").v2 else 0.1 * limit * 16384
        for _ in range(WINDOWS):
            before, began_s = place.counters(), time.monotonic()
            time.sleep(WINDOW_S)
            after, took_s = place.counters(), time.monotonic() - began_s
            rates.append(min((after[name] - before[name]) / took_s for name in ("device.reads", "storage.reads")))
            assert after["device.reads"] - before["device.reads"] < 1.05 * limit * took_s
            assert after["storage.read_bytes"] - before["storage.read_bytes"] == pytest.approx(
                16384 * (after["storage.reads"] - before["storage.reads"]), rel=0.01, abs=burst_bytes
            )
            if rates[-1] > 0.95 * limit:
                break
        assert max(rates) > 0.95 * limit, rates
    finally:
        reader.kill()
        reader.wait()
        place.close()
    assert not place.group.folders[0].exists()


def test_exceeding_the_memory_limit_kills_the_process(folder):
    group = Group("bakeoff-test-memory", ("memory",), Undo(folder))
    group.limit_memory(128 << 20)
    assert not group.killed_at_memory_limit()
    code = "import sys; held = bytearray(1 << 30); print(len(held))"
    launch = Launch([sys.executable, "-c", code], os.environ, Identity(0, 0, switch=False), groups=group.procs)
    child = spawn(launch, cwd=folder, log=folder / "log")
    assert child.wait(60) == -signal.SIGKILL
    assert group.killed_at_memory_limit()


def test_huge_pages_can_be_disabled_for_one_process(folder):
    """THP_enabled in /proc/PID/status is 0 if the process may not use huge pages."""
    said = {}
    for flags in (None, 0):
        code = "print(next(line for line in open('/proc/self/status') if line.startswith('THP_enabled')))"
        launch = Launch([sys.executable, "-c", code], os.environ, Identity(0, 0, switch=False), huge_pages=flags)
        assert spawn(launch, cwd=folder, log=folder / f"log-{flags}").wait(30) == 0
        said[flags] = (folder / f"log-{flags}").read_text().split()[1]
    assert said == {None: "1", 0: "0"}


def test_the_mode_of_huge_pages_is_restored(folder):
    before = huge_pages.mode_now()
    other = next(mode for mode in ("always", "madvise") if mode != before)
    record = Undo(folder)
    if huge_pages.raise_machine([other], record) and before != "always":
        assert huge_pages.mode_now() == other
    undo(folder)
    assert huge_pages.mode_now() == before


KILLED = """
    import sys
    from pathlib import Path
    from bakeoff.machine import Undo, open_place, raise_machine
    from bakeoff.spec.machine import Machine, Storage
    folder = Path(sys.argv[1])
    record = Undo(folder)
    print("begun", flush=True)
    raise_machine(["always"], record)
    for number in range(1000):
        home = folder / f"{number:03d}"
        home.mkdir()
        asked = Machine(Storage(read_iops=100), file_system="ext4", memory_bytes=1 << 30)
        place = open_place(asked, home, data_bytes=0, undo=record)
        (home / "x").write_bytes(b"x")
        place.close()
"""


def test_kill_9_at_any_moment_leaves_nothing_once_the_next_bakeoff_has_begun(folder):
    mode, moments, mine = huge_pages.mode_now(), random.Random(50), f"{folder}/"
    for _ in range(8):
        child = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(KILLED), str(folder)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout.readline() == "begun\n"
        time.sleep(moments.uniform(0.0, 0.6))
        child.kill()
        child.wait()
        undo(folder)
        assert mine not in mounts()
        end_s = time.monotonic() + 30
        while mine in loops() and time.monotonic() < end_s:  # mkfs, which it had started, has the device open
            time.sleep(0.1)
        assert mine not in loops()
        assert huge_pages.mode_now() == mode
        for controller in ("io", "memory"):
            assert not list(find_tree(controller).parent.glob(f"bakeoff-{folder.name.rpartition('-')[2]}*"))
        for each in folder.iterdir():
            assert each.suffix != ".img"
            if each.is_dir():
                each.rmdir()
