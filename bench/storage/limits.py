"""What a limit of reads lets through: eight threads read at random with direct I/O, in slices and at a stretch.

Run as root: `python bench/storage/limits.py [FOLDER]`. Slices show in which lumps the kernel lets requests through; the
second table compares the device's and the control group's counters with limits held for four seconds.
"""

import argparse
import mmap
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

from bakeoff.machine import Undo, open_place, undo
from bakeoff.servers.process import Identity, Launch, spawn
from bakeoff.spec.machine import Machine, Storage

PAGES, PAGE, THREADS = 16_384, 16 << 10, 8
SLICES = ((1.0, 0.3, 2), (0.1, 0.1, 6))  # seconds on, seconds off, how often
LIMIT, LIMITS, HELD_S = 3_000, (1_000, 3_000, 10_000), 4.0


def read(file, begins_s, ends_s, done, me):
    descriptor, page, own = os.open(file, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, PAGE), random.Random(me)
    time.sleep(max(0.0, begins_s - time.monotonic()))
    while time.monotonic() < ends_s:
        os.preadv(descriptor, [page], own.randrange(PAGES) * PAGE)
        done[me] += time.monotonic() < ends_s
    os.close(descriptor)


def slices(file, on_s, off_s, times):
    """Print completed reads a second of each slice."""
    begins_s = time.monotonic() + 1.0  # the limit is set meanwhile
    for _ in range(times):
        done, ends_s = [0] * THREADS, begins_s + on_s
        threads = [threading.Thread(target=read, args=(file, begins_s, ends_s, done, me)) for me in range(THREADS)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        print(f"{sum(done) / on_s:,.0f}", end="  ", flush=True)
        begins_s = max(ends_s + off_s, time.monotonic() + off_s)
    print(flush=True)


def limited(root, limit, *reader):
    """Start a reader in a control group, limit its reads after half a second, and return the place and the process."""
    home = Path(tempfile.mkdtemp(dir=root, prefix="home-"))
    (root / "log").unlink(missing_ok=True)
    place = open_place(Machine(Storage(read_iops=limit)), home, data_bytes=0, undo=Undo(root))
    argv = [sys.executable, __file__, str(root), "--reader", *map(str, reader)]
    process = spawn(
        Launch(argv, os.environ, Identity(0, 0, switch=False), groups=place.group.procs), cwd=root, log=root / "log"
    )
    time.sleep(0.5)
    place.limit_storage(root, {"innodb_flush_method": "O_DIRECT"}, "innodb")
    return place, process


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default="/var/tmp", help="on the disk whose reads are limited")
    parser.add_argument("--reader", nargs=3, metavar=("ON_S", "OFF_S", "TIMES"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.reader:
        on_s, off_s, times = options.reader
        return slices(Path(options.folder) / "data", float(on_s), float(off_s), int(times))
    root = Path(tempfile.mkdtemp(prefix="limits-", dir=options.folder))
    try:
        (root / "data").write_bytes(os.urandom(PAGES * PAGE))
        os.sync()
        print(f"limit of {LIMIT:,} reads a second: completed reads a second while on")
        for on_s, off_s, times in SLICES:
            place, process = limited(root, LIMIT, on_s, off_s, times)
            process.wait()
            place.close()
            print(f"{on_s:g} s on, {off_s:g} s off:  {(root / 'log').read_text().strip()}", flush=True)
        print(f"\nlimits held for {HELD_S:g} s: reads a second that the device and the group counted")
        for limit in LIMITS:
            place, process = limited(root, limit, HELD_S + 2, 0, 1)
            time.sleep(1.5)
            before = place.counters()
            time.sleep(HELD_S)
            after = place.counters()
            process.kill()
            process.wait()
            place.close()
            device, group = (
                f"{(after[name] - before[name]) / HELD_S:,.0f}" for name in ("device.reads", "storage.reads")
            )
            print(f"{limit:6,}  device {device}, group {group}", flush=True)
    finally:
        undo(root)
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
