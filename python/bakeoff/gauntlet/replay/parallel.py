"""The same function over many tasks in a few processes, begun when first needed and ended with the program."""

import atexit
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

_PROCESSES_MAX = 4


def in_parallel(function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterable[Result]:
    """Results in the order of the tasks; a single task is done here.

    Raises:
        Exception: whatever the function raises.
    """
    if len(tasks) < 2:
        return map(function, tasks)
    try:
        return list(_pool().map(function, tasks))
    except BaseException:
        # Also on Ctrl-C: what is queued must not go on behind the user's back.
        _pool().shutdown(wait=False, cancel_futures=True)
        _pool.cache_clear()
        raise


@cache
def _pool() -> ProcessPoolExecutor:
    # Forking a process with polars' threads in it can lock up; spawned ones read this variable before polars does.
    before = os.environ.get("POLARS_MAX_THREADS")
    os.environ["POLARS_MAX_THREADS"] = "1"
    try:
        processes = min(_PROCESSES_MAX, len(os.sched_getaffinity(0)))
        pool = ProcessPoolExecutor(
            processes, mp_context=multiprocessing.get_context("spawn"), initializer=_ignore_interrupts
        )
        for _ in range(processes):
            pool.submit(os.getpid)  # each submission starts one
    finally:
        if before is None:
            del os.environ["POLARS_MAX_THREADS"]
        else:
            os.environ["POLARS_MAX_THREADS"] = before
    atexit.register(pool.shutdown, wait=False, cancel_futures=True)
    return pool


def _ignore_interrupts() -> None:
    """Ctrl-C reaches all processes of a terminal; the first one ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
