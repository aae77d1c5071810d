"""Throughput and downloads, as a run reports them to its listener."""

import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from bakeoff.plan import Cell
from bakeoff.stats.progress import Listener

_THROUGHPUT_PERIOD_NS = 500_000_000


class ThroughputReporter:
    """Reports each arm's throughput about twice a second, from its slices since the last report."""

    def __init__(self, cell: Cell, listener: Listener) -> None:
        self._cell = cell
        self._listener = listener
        self._events: Counter[str] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._reported_ns = 0

    def add_slice(self, message: dict[str, Any]) -> None:
        arm = message["arm"]
        self._events[arm] += message["events"]
        busy_ns = message["busy_ns"] / max(message["connections"], 1)
        self._seconds[arm] += (message["length_ns"] if self._cell.open_loop else busy_ns) / 1e9
        now_ns = message["start_ns"] + message["length_ns"]
        if now_ns - self._reported_ns < _THROUGHPUT_PERIOD_NS:
            return
        self._reported_ns = now_ns
        for name, seconds in self._seconds.items():
            if seconds > 0:
                self._listener.throughput(self._cell.name, name, self._events[name] / seconds)
        self._events.clear()
        self._seconds.clear()


def download_reporter(listener: Listener, stop: threading.Event) -> Callable[[str, int, int | None], None]:
    """Make a callback for downloads: (what, bytes done, bytes in all or None).

    A known total is reported as progress, an unknown one (unpacking) as a stage. Once `stop` is set it raises
    KeyboardInterrupt, which ends the download.
    """
    last_stage = ""

    def report(what: str, done: int, total: int | None) -> None:
        nonlocal last_stage
        if stop.is_set():
            raise KeyboardInterrupt
        if total:
            listener.progress(what, done, total, "bytes")
        elif what != last_stage:
            last_stage = what
            listener.stage(what)

    return report
