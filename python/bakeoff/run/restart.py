"""Time a server that was restarted with empty caches: its start, and the load until it is as fast as before."""

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bakeoff.engine_messages import SliceMessage
from bakeoff.errors import EngineError
from bakeoff.files import sync_file_system
from bakeoff.machine import evict
from bakeoff.plan import Plan, SliceLength
from bakeoff.servers import Instance
from bakeoff.stats.restart import WINDOW_NS, warm_at_ns

RESTART_SLICES = SliceLength(slice_ns=100_000_000, guard_ns=0)
_LIMIT_MAX_S, _POLL_S = 300.0, 0.2
_BUDGET_SHARE = 0.5  # of the budget that the restarts of the fewest epochs may take


def restart_limit_s(plan: Plan) -> float:
    share_s = _BUDGET_SHARE * plan.budget_s / (plan.epochs_min * len(plan.arms))
    return max(min(share_s, _LIMIT_MAX_S), 2 * WINDOW_NS / 1e9)


def throughput(slices: Iterable[Mapping[str, Any]], cell: str, arm: str) -> float:
    own = [each for each in slices if each["cell"] == cell and each["arm"] == arm]
    return 1e9 * sum(int(each["events"]) for each in own) / max(1, sum(int(each["length_ns"]) for each in own))


def start_cold(server: Instance) -> "TimedStart":
    """Stop a server cleanly, so that it may dump its buffer pool, empty the page cache of its files, and start it."""
    server.stop()
    sync_file_system(server.datadir)
    evict(server.datadir)
    begin_s = time.monotonic()
    return TimedStart(begin_s, server.start())


def while_busy(measure: Callable[[], object], limit_s: float, stop: threading.Event) -> None:
    """Measure. Try again while connections cannot be paired because the server is busy loading its buffer pool.

    If it stays busy past the limit, nothing is measured.
    """
    end_s = time.monotonic() + limit_s
    while time.monotonic() < end_s and not stop.is_set():
        try:
            measure()
            return
        except EngineError as error:
            if error.code != "not_paired":
                raise
            time.sleep(_POLL_S)


class TimedStart:
    def __init__(self, begin_s: float, start_s: float) -> None:
        self._begin_s = begin_s
        self._start_s = start_s
        self._load_s = math.inf  # this process's clock when the engine's was zero
        self._warm_ns: int | None = None

    def see(self, message: SliceMessage) -> None:
        end_s = (message["start_ns"] + message["length_ns"]) / 1e9
        self._load_s = min(self._load_s, time.monotonic() - end_s)

    def until_warm(self, warm_per_s: float) -> Callable[[list[SliceMessage]], bool]:
        def ask(slices: list[SliceMessage]) -> bool:
            self._warm_ns = warm_at_ns(slices, warm_per_s)
            return self._warm_ns is not None

        return ask

    def record(self, cell: str, warm_per_s: float, limit_s: float) -> dict[str, Any]:
        """Return `restart.json`. `seconds` count from the start of the process; null if it was not warm in time."""
        seconds = None if self._warm_ns is None else self._load_s - self._begin_s + self._warm_ns / 1e9
        return {
            "cell": cell,
            "seconds": None if seconds is None else round(seconds, 3),
            "start_s": round(self._start_s, 3),
            "limit_s": round(limit_s, 3),
            "warm_per_s": round(warm_per_s, 3),
        }
