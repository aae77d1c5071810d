"""What a run reports while it goes on. The run itself prints nothing: whoever listens decides what a person sees."""

import os
import signal
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, Protocol

from bakeoff.spec import Arm
from bakeoff.stats.model import Comparison
from bakeoff.stats.resolution import NoiseCard

_THROUGHPUT_PERIOD_NS = 500_000_000


class Listener(Protocol):
    """Called from the run's own thread, and from the loaders' threads for `progress`; must return at once."""

    def stage(self, text: str) -> None:
        """What happens now: `loading mysql:8.0.15 (build 1 of 2)`."""

    def progress(self, label: str, done: int, total: int | None, unit: str) -> None:
        """`done` of `total` of `label` (`mysql:8.0.15 rows`), in `bytes`, `rows`, …; None: the total is not known."""

    def throughput(self, cell: str, arm: str, per_s: float) -> None:
        """Events per second of an arm in its latest slices."""

    def noise_card(self, card: NoiseCard) -> None:
        """What this machine can resolve; reported once, after the pilot epochs."""

    def epoch_finished(
        self, epoch: int, comparisons: tuple[Comparison, ...], elapsed_s: float, remaining_s: float | None
    ) -> None:
        """An epoch was added to the evidence; `remaining_s` is an estimate or None."""

    def arm_joins(self, arm: Arm) -> None:
        """A bisection measures one more arm from now on."""

    def note(self, text: str) -> None:
        """Something worth a line: a discarded epoch, a setting that the server ignored."""

    def left_behind(self, text: str) -> None:
        """What stays on a running server when the run has ended, in whatever way; shown with --quiet, too."""


class ThroughputReporter:
    """Reports each arm's throughput about twice a second, from its slices since the last report."""

    def __init__(self, cell: str, listener: Listener) -> None:
        self._cell = cell
        self._listener = listener
        self._events: Counter[str] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._reported_ns = 0

    def add_slice(self, message: dict[str, Any]) -> None:
        """Take one `slice` message of the engine."""
        arm = message["arm"]
        self._events[arm] += message["events"]
        self._seconds[arm] += message["length_ns"] / 1e9
        now_ns = message["start_ns"] + message["length_ns"]
        if now_ns - self._reported_ns < _THROUGHPUT_PERIOD_NS:
            return
        self._reported_ns = now_ns
        for name, seconds in self._seconds.items():
            if seconds > 0:
                self._listener.throughput(self._cell, name, self._events[name] / seconds)
        self._events.clear()
        self._seconds.clear()


def download_reporter(listener: Listener, stop: threading.Event) -> Callable[[str, int, int | None], None]:
    """A callback for downloads: (what, bytes done, bytes in all or None).

    A known total is reported as progress, an unknown one (unpacking) as a stage. Once `stop` is set the callback
    ends the download with KeyboardInterrupt in the main thread.
    """
    interrupted = threading.Event()
    last_stage = ""

    def report(what: str, done: int, total: int | None) -> None:
        nonlocal last_stage
        if stop.is_set() and threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        if stop.is_set() and not interrupted.is_set():
            # This is a thread that watches a download: the main thread waits for its end, and only a signal wakes it.
            interrupted.set()
            ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as of a shell's background job
            os.kill(os.getpid(), signal.SIGTERM if ignored else signal.SIGINT)
        if total:
            listener.progress(what, done, total, "bytes")
        elif what != last_stage:
            last_stage = what
            listener.stage(what)

    return report
