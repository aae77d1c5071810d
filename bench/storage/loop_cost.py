"""What a loop image costs: random direct reads, and small synced writes, on the disk and on images on the same disk.

Run as root: `python bench/storage/loop_cost.py [FOLDER]`. The places take turns, so that whatever else uses the disk
meets all of them; the ratios are to the disk itself, with the range over rounds.
"""

import argparse
import mmap
import os
import random
import shutil
import tempfile
import threading
import time
from pathlib import Path
from statistics import geometric_mean, median

from bakeoff.machine import Undo, images, undo

FILE_BYTES, PAGE, SECONDS, ROUNDS, THREADS = 256 << 20, 16 << 10, 1.5, 8, 4


def reads_per_s(file):
    done, end_s = [0] * THREADS, time.monotonic() + SECONDS

    def read(me):
        descriptor, page, own = os.open(file, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, PAGE), random.Random(me)
        while time.monotonic() < end_s:
            os.preadv(descriptor, [page], own.randrange(FILE_BYTES // PAGE) * PAGE)
            done[me] += 1
        os.close(descriptor)

    threads = [threading.Thread(target=read, args=(me,)) for me in range(THREADS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return sum(done) / SECONDS


def syncs_per_s(file):
    """Append 512 bytes and sync, as a redo log does for a commit."""
    done, end_s = 0, time.monotonic() + SECONDS
    with file.with_name("log").open("r+b", buffering=0) as log:
        while time.monotonic() < end_s:
            log.seek(done % 4096 * 512)
            log.write(b"x" * 512)
            os.fdatasync(log.fileno())
            done += 1
    return done / SECONDS


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default="/var/tmp", help="on the disk to compare with")
    root = Path(tempfile.mkdtemp(prefix="loop-cost-", dir=parser.parse_args().folder))
    record = Undo(root)
    places = {"the disk": root / "disk"} | {kind: root / kind for kind in ("ext4", "xfs", "btrfs")}
    try:
        for name, place in places.items():
            place.mkdir()
            if name != "the disk":
                images.mount_image(place, name, size_bytes=1 << 30, latency_ms=0, undo=record, name=name)
            with (place / "data").open("wb") as file:
                for _ in range(FILE_BYTES >> 20):
                    file.write(os.urandom(1 << 20))
            (place / "log").write_bytes(bytes(2 << 20))
            os.sync()
        for what, rate in (("reads", reads_per_s), ("syncs", syncs_per_s)):
            rounds = [{name: rate(place / "data") for name, place in places.items()} for _ in range(ROUNDS)]
            for name in places:
                ratios = [each[name] / each["the disk"] for each in rounds]
                typical = median(each[name] for each in rounds)
                spread = f"{geometric_mean(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
                print(f"{what:6} {name:9} {typical:9.0f}/s   {spread}", flush=True)
    finally:
        undo(root)
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
