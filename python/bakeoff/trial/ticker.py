"""An arm's throughput while it is measured, for whoever watches."""

from bakeoff.engine import Message
from bakeoff.trial.listener import Listener


class Ticker:
    """Tells each arm's throughput about twice a second, from its slices since the last time."""

    _PERIOD_NS = 500_000_000

    def __init__(self, cell: str, listener: Listener) -> None:
        self._cell = cell
        self._listener = listener
        self._events: dict[str, int] = {}
        self._seconds: dict[str, float] = {}
        self._told_ns = 0

    def see(self, message: Message) -> None:
        """Take one `slice` message."""
        arm = message["arm"]
        self._events[arm] = self._events.get(arm, 0) + message["events"]
        self._seconds[arm] = self._seconds.get(arm, 0.0) + message["busy_ns"] / message["connections"] / 1e9
        now_ns = message["start_ns"] + message["length_ns"]
        if now_ns - self._told_ns < self._PERIOD_NS:
            return
        self._told_ns = now_ns
        for name, seconds in self._seconds.items():
            if seconds > 0:
                self._listener.throughput(self._cell, name, self._events[name] / seconds)
        self._events.clear()
        self._seconds.clear()
