"""Kill servers of ours once the user ends the run: what waits for one then fails at once, in whatever thread."""

import contextlib
import threading
from collections.abc import Iterable, Iterator

from bakeoff.servers import Instance

_POLL_S = 0.5  # longer than what ends by itself when it sees the stop flag


@contextlib.contextmanager
def killed_once(stop: threading.Event, servers: Iterable[Instance]) -> Iterator[None]:
    """Kill these servers once `stop` is set inside the block, which may add to them.

    A scan, a start or a shutdown may take an hour, and nothing else ends the threads that wait for one.
    """
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_POLL_S):
            for server in tuple(servers) if stop.is_set() else ():
                server.kill()

    watcher = threading.Thread(target=watch, name="bakeoff-killing", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
