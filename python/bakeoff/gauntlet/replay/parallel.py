"""The same function over many tasks in a few processes, begun when first needed and ended with the program.

Workers are programs of their own that take pickles on standard input and give pickles on standard output. Python's own
pools either fork, which can lock up with polars' threads in the process, or run the caller's main program once more.
"""

import atexit
import os
import pickle
import queue
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from bakeoff.errors import HostError

Task = TypeVar("Task")
Result = TypeVar("Result")

_WORKERS_MAX = 4


def in_parallel(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
    """Results in the order of the tasks; a single task is done here.

    Args:
        function: of a module, so that it can be sent by name.
        tasks: values that can be pickled.

    Raises:
        Exception: whatever the function raises.
        HostError: a worker was killed.
    """
    if len(tasks) < 2:
        return [function(task) for task in tasks]
    crew = _crew()
    try:
        with ThreadPoolExecutor(crew.size) as threads:
            try:
                return list(threads.map(lambda task: crew.do(function, task), tasks))
            except BaseException:
                # Also on Ctrl-C: what is queued must not go on behind the user's back.
                threads.shutdown(wait=False, cancel_futures=True)
                crew.end()
                raise
    except BaseException:
        _crew.cache_clear()
        raise


class _Crew:
    """Workers, and which of them are idle."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        self._all = [self._start() for _ in range(size)]
        for worker in self._all:
            self._idle.put(worker)

    def do(self, function: Callable[[Task], Result], task: Task) -> Result:
        """Have the next idle worker do one task."""
        worker = self._idle.get()
        assert worker.stdin
        assert worker.stdout
        try:
            pickle.dump((function, task), worker.stdin)
            worker.stdin.flush()
            done, value = pickle.load(worker.stdout)
        except (OSError, EOFError):
            raise HostError(
                f"a worker process of the gauntlet ended (status {worker.poll()}).", hint="Is memory short?"
            ) from None
        finally:
            self._idle.put(worker)
        if not done:
            raise value
        result: Result = value
        return result

    def end(self) -> None:
        """End all of them, whatever they do."""
        for worker in self._all:
            worker.kill()
            worker.communicate()

    @staticmethod
    def _start() -> subprocess.Popen[bytes]:
        # A session of its own: Ctrl-C at the terminal must reach the caller alone.
        return subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"POLARS_MAX_THREADS": "1"},
            start_new_session=True,
        )


@cache
def _crew() -> _Crew:
    crew = _Crew(min(_WORKERS_MAX, len(os.sched_getaffinity(0))))
    atexit.register(crew.end)
    return crew


def serve() -> None:
    """Be a worker until standard input ends."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # what is printed must not get between the answers
    while True:
        try:
            function, task = pickle.load(source)
        except EOFError:
            return
        try:
            answer = True, function(task)
        except Exception as error:
            answer = False, error
        pickle.dump(answer, sink)
        sink.flush()
