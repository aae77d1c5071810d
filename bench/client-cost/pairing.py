"""Pairing: the client's and the server's thread of each connection on one CPU, where the server reports its threads.

Unpaired, the time of a wake-up depends on where the kernel happens to put the two threads, and that hides what a client
costs. Connection i of every client runs on CPU i of a list, modulo its length. The clients do it themselves.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pymysql
from case import Server

_THREAD = "SELECT THREAD_OS_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = CONNECTION_ID()"


class CannotPair(Exception):
    """Why connections to this server cannot be paired, in one line."""


def cpus_for(server: Server) -> tuple[int, ...]:
    """Return the CPUs that client and server may both use, one of each core first, like bakeoff's engine.

    Raises:
        CannotPair: the server does not report its threads, or they may not be pinned from here.
    """
    _try_to_pin(server)
    usable = os.sched_getaffinity(0) & os.sched_getaffinity(server.pid or 0)
    if not usable:
        raise CannotPair("client and server may not use the same CPUs")
    return tuple(sorted(usable, key=lambda cpu: (sum(each < cpu for each in _siblings(cpu) & usable), cpu)))


def _try_to_pin(server: Server) -> None:
    try:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(_THREAD)
            row = cursor.fetchone() or ("",)
            thread = str(row[0])
            if server.pid is None or not thread.isdigit() or not Path(f"/proc/{server.pid}/task/{thread}").exists():
                raise CannotPair("the server does not report which of its threads serves a connection")
            os.sched_setaffinity(int(thread), os.sched_getaffinity(int(thread)))
    except pymysql.MySQLError as error:
        raise CannotPair(f"the server does not report its threads: {error}") from None
    except OSError as error:
        raise CannotPair(f"the server's threads cannot be pinned from here: {error}") from None


def _siblings(cpu: int) -> set[int]:
    """Return the CPUs of the same core; none if the kernel does not say."""
    with suppress(OSError):
        return set(_listed(Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text()))
    return set()


def _listed(text: str) -> Iterator[int]:
    """The CPUs of the kernel's lists, as in `0-1,4`."""
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def paired(client_pid: int, serving: Iterable[int]) -> int:
    """Count the server threads that are pinned to a CPU to which a client thread is pinned, too."""
    own = {_only_cpu(int(task.name)) for task in Path(f"/proc/{client_pid}/task").iterdir()} - {None}
    return sum(_only_cpu(thread) in own for thread in serving)


def _only_cpu(thread: int) -> int | None:
    """Return the thread's CPU, or None if it may use several or has ended."""
    with suppress(ProcessLookupError):
        cpus = os.sched_getaffinity(thread)
        return cpus.pop() if len(cpus) == 1 else None
    return None


def release(server: Server) -> None:
    """Let all server threads use all of its CPUs again: a thread that is kept for a later connection stays pinned.

    Only while no client is paired.
    """
    if not server.cpus or server.pid is None:
        return
    with suppress(FileNotFoundError, ProcessLookupError):
        cpus = os.sched_getaffinity(server.pid)
        for task in Path(f"/proc/{server.pid}/task").iterdir():
            with suppress(OSError):  # it has ended, or is one of the kernel's for io_uring
                os.sched_setaffinity(int(task.name), cpus)
