"""A slow and lossy link between two network namespaces: packets pass through this program; ends with standard input.

`python link.py SPACE_A ADDRESS_A SPACE_B ADDRESS_B ONE_WAY_S LOST_SHARE` prints a line when both ends are up.
"""

import contextlib
import ctypes
import fcntl
import os
import random
import select
import struct
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
MOST_WAITING = 2_000  # packets a direction; more are dropped, as by a switch
PACKET = 65_536


def main(ends: list[tuple[str, str]], delay_s: float, lost: float) -> None:
    first, second = (open_end(*end) for end in ends)
    with contextlib.suppress(PermissionError):  # the delay is the link's, however busy the machine is
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    print("up", flush=True)
    rng = random.Random(1)
    other, waiting = {first: second, second: first}, {first: deque(), second: deque()}
    while True:
        due = [queue[0][0] for queue in waiting.values() if queue]
        timeout_s = max(0.0, min(due) - time.monotonic()) if due else None
        ready, _, _ = select.select([first, second, sys.stdin], [], [], timeout_s)
        if sys.stdin in ready:
            return
        now = time.monotonic()
        for end in ready:
            queue = waiting[other[end]]
            for packet in packets(end):
                if len(queue) < MOST_WAITING and rng.random() >= lost:
                    queue.append((now + delay_s, packet))
        now = time.monotonic()
        for end, queue in waiting.items():
            while queue and queue[0][0] <= now:
                os.write(end, queue.popleft()[1])


def packets(end: int):
    for _ in range(64):
        try:
            yield os.read(end, PACKET)
        except BlockingIOError:
            return


def open_end(space: str, address: str) -> int:
    """Create a network device `link` in a namespace; packets written to the file arrive there."""
    with Path(f"/run/netns/{space}").open() as entry:
        if ctypes.CDLL(None, use_errno=True).setns(entry.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {space}")
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", b"link", IFF_TUN | IFF_NO_PI))
    for command in (["address", "add", f"{address}/24", "dev", "link"], ["link", "set", "dev", "link", "up"]):
        subprocess.run(["ip", *command], check=True)
    return device


if __name__ == "__main__":
    space_a, address_a, space_b, address_b, one_way_s, share = sys.argv[1:]
    main([(space_a, address_a), (space_b, address_b)], float(one_way_s), float(share))
