"""Compare off-CPU time per event of two arms, by part of the server and kind of wait.

Only threads that serve connections, inside statements, make an event longer: their waits and their pauses without a
free processor are compared. Waiting for the client is kept apart. Of the server's other threads, which mostly sleep,
only waits for files count: MySQL 8.0 writes and syncs its redo log there while connections wait.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from bakeoff.explain.cpu_profile import OTHER, Column, Subsystems, is_servers
from bakeoff.explain.profiles import KERNEL, PREEMPTED, SERVING, Function, Profile, Stack
from bakeoff.stats.interval import Paired

FILES, LOCK, NETWORK, SLEEP, KERNEL_WAIT = "files and disk", "lock or condition", "network", "sleep", "in the kernel"
NO_PROCESSOR = "no processor free"
"""The part of pauses of a thread that could have run."""

_LATCHES = "latches and mutexes"  # how it waits, not for what
_BY_GROUP = {"kernel: files and disk": FILES, "kernel: network": NETWORK, "kernel: memory": KERNEL_WAIT}
_STATEMENT = frozenset({"dispatch_command", "dispatch_sql_command", "mysql_parse", "mysql_execute_command"})
CONNECTION = frozenset(
    {"do_command", "handle_connection", "handle_one_connection", "do_handle_one_connection", "worker_main"}
)
"""Functions in which a thread is, outside its statements too, that serves a connection; of all servers."""

# Threads of asynchronous I/O sleep here until there is something to do.
_IDLE = frozenset({"read_events", "do_io_getevents", "io_cqring_wait"})


class Waiting(NamedTuple):
    """What a thread waits for.

    Attributes:
        part: of the server.
        way: such as `FILES`; empty with `NO_PROCESSOR`.
        serving: the thread serves a connection.
    """

    part: str
    way: str
    serving: bool


@dataclass(frozen=True)
class OffCpuCost:
    """Off-CPU ns per event. `function` is the server's own in which most of it waits, or empty."""

    waiting: Waiting
    function: str
    time: Paired


@dataclass(frozen=True)
class OffCpuComparison:
    """Two arms in one cell, in ns per event.

    Attributes:
        epochs: how many both have.
        all: threads that serve connections, inside statements; the sum of `statements`.
        statements, others: those threads, and file waits of all others, by size of the difference.
        client: waiting for the client, which is in neither.
    """

    epochs: int
    all: Paired
    statements: tuple[OffCpuCost, ...]
    others: tuple[OffCpuCost, ...]
    client: Paired


def compare_off_cpu(baseline: Mapping[int, Profile], contender: Mapping[int, Profile]) -> OffCpuComparison | None:
    """Compare two arms' profiles, each by epoch, in the epochs that both have; None if there are none."""
    both = sorted(baseline.keys() & contender.keys())
    common = [each for each in both if baseline[each].events and contender[each].events]
    if not common:
        return None
    sides = [[each[epoch] for epoch in common] for each in (baseline, contender)]
    sums: list[dict[Waiting | None, Column]] = [{}, {}]
    functions: dict[Waiting, dict[str, float]] = {}
    for side, profiles in zip(sums, sides, strict=True):
        for epoch, profile in enumerate(profiles):
            for waiting, function, ns in _waits(profile):
                side.setdefault(waiting, np.zeros(len(common)))[epoch] += ns
                if waiting:
                    spent = functions.setdefault(waiting, {})
                    spent[function] = spent.get(function, 0.0) + ns
    none = np.zeros(len(common))

    def paired(chosen: Sequence[Waiting | None]) -> Paired:
        return Paired.of(*(sum((side.get(each, none) for each in chosen), none).tolist() for side in sums))

    costs = [
        OffCpuCost(waiting, max(spent, key=spent.__getitem__), paired([waiting]))
        for waiting, spent in functions.items()
    ]
    costs.sort(key=lambda each: -abs(each.time.difference.mean))
    statements = tuple(each for each in costs if each.waiting.serving)
    return OffCpuComparison(
        epochs=len(common),
        all=paired([each.waiting for each in statements]),
        statements=statements,
        others=tuple(each for each in costs if not each.waiting.serving),
        client=paired([None]),
    )


def _waits(profile: Profile) -> Iterator[tuple[Waiting | None, str, float]]:
    """Yield what is waited for (None for the client), in which function, and ns per event, without idle threads."""
    stacks: list[Stack] = []
    for parent, call, count in zip(profile.parents, profile.calls, profile.counts, strict=True):
        stacks.append((*(stacks[parent] if parent >= 0 else ()), profile.functions[call]))
        if count:
            ns = count * profile.period_ns / profile.events
            first, *stack = stacks[-1]
            found = _serving(stack) if first == SERVING else _background(stack)
            if first == SERVING or found:
                yield found, _own_function(stack), ns


def _serving(stack: Sequence[Function]) -> Waiting | None:
    """Return what a connection's thread waits for; None for its client."""
    if stack and stack[-1] == PREEMPTED:
        return Waiting(NO_PROCESSOR, "", serving=True)
    names = {function.name for function in stack}
    if names & CONNECTION and not names & _STATEMENT:
        return None
    return Waiting(_part(stack), _way(stack), serving=True)


def _background(stack: Sequence[Function]) -> Waiting | None:
    """Return the file that a background thread waits for; None for anything else, mostly work."""
    if (stack and stack[-1] == PREEMPTED) or _way(stack) != FILES or any(each.name in _IDLE for each in stack):
        return None
    return Waiting(_part(stack), FILES, serving=False)


def _part(stack: Sequence[Function]) -> str:
    """Return the part of the innermost function that has one and is not a latch's."""
    groups = [group for each in reversed(stack) if each.object != KERNEL and (group := _group_of(each))]
    return next((each for each in groups if each != _LATCHES), groups[0] if groups else OTHER)


def _way(stack: Sequence[Function]) -> str:
    """Return the kind of wait, from the kernel's functions, innermost first."""
    kernel = [each for each in reversed(stack) if each.object == KERNEL]
    for each in kernel:
        if "futex" in each.name:
            return LOCK
        if "nanosleep" in each.name:
            return SLEEP
        if way := _BY_GROUP.get(_group_of(each)):
            return way
    return KERNEL_WAIT


def _own_function(stack: Sequence[Function]) -> str:
    """Return the server's innermost function that is not a latch's."""
    for each in reversed(stack):
        if is_servers(each) and each.name != "[unknown]" and _group_of(each) != _LATCHES:
            return Subsystems.load().renamed.get(each.name, each.name)
    return ""


@cache
def _group_of(function: Function) -> str:
    return Subsystems.load().group_of(function)
