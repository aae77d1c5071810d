"""Load of our own beside a measurement: random bursts on random numbers of processors, as other people's work comes."""

import contextlib
import os
import random
import subprocess
import sys
import threading
from typing import Self

BURST_S = (1.0, 20.0)
"""Shortest and longest burst (method, G2)."""

# Counts, until its time is over or its parent is gone: no burner outlives the campaign, however that ends.
_BURNER = """
import os, sys, time
end, parent = time.monotonic() + float(sys.argv[1]), int(sys.argv[2])
while time.monotonic() < end and os.getppid() == parent:
    for _ in range(200_000):
        pass
"""


class Background:
    """Bursts one after the other between `__enter__` and `__exit__`, each on 0 to all processors.

    Args:
        seed: of the lengths and numbers.
        cpus: the most that are loaded; None: all of the machine.
    """

    def __init__(self, seed: int, *, cpus: int | None = None) -> None:
        self._random = random.Random(seed)
        self._cpus = cpus or os.cpu_count() or 1
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="background", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._ended.is_set():
            seconds = self._random.uniform(*BURST_S)
            burners = [_burner(seconds) for _ in range(self._random.randint(0, self._cpus))]
            self._ended.wait(seconds)
            for burner in burners:
                burner.kill()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    burner.wait(timeout=5)


def _burner(seconds: float) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-I", "-S", "-c", _BURNER, f"{seconds + 5}", str(os.getpid())])
