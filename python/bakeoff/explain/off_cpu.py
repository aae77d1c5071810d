"""Record where server threads wait off the CPU, in explaining epochs, and compare it between two arms.

The kernel notes every switch, so off-CPU time is exact. The reason comes from sampled stacks, each weighted by the
switches since the last sample. They are unwound with DWARF, because the C library's lock waits have no frame pointers.

Only threads that serve connections make an event longer, and only inside statements. Other threads mostly sleep, so
only their waits for files count: MySQL 8.0 syncs its redo log there while connections wait.
"""

import contextlib
import re
import tempfile
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bakeoff.engine_messages import SliceMessage
from bakeoff.errors import HostError
from bakeoff.explain import perf
from bakeoff.explain.perf import Recorder, Slices, Stacks, Window, records_of, without_beginning
from bakeoff.explain.profiles import (
    BACKGROUND,
    KERNEL,
    OTHER,
    PREEMPTED,
    RENAMED,
    SERVING,
    Column,
    Function,
    Profile,
    Stack,
    group_of,
    is_servers,
)
from bakeoff.plan import Cell
from bakeoff.results import EpochWriter
from bakeoff.run.epoch_servers import EpochServers
from bakeoff.stats.interval import Paired

_EVENT = "context-switches"
_SAMPLES_A_S = 600  # at most, over all connections; each sample copies its stack
_TURNS = 2  # slices of each arm that must fit into one recording
_RATE_LEAST = 10  # samples a second per thread
_BUFFER = "8M"  # of each processor
_LOST_MAX = 0.02  # share of the records
# mysqld's frames are large: half of a commit's stacks are incomplete with 8 KiB, 1 % with 16.
_STACK_BYTES = 16_384
_STACKS_BYTES = 32e6  # per recording
_BYTES_MAX = "96M"  # perf then ends, and later slices are left out
_US = 1_000  # ns
_HEADER = re.compile(
    r"\s(\d+)/(\d+)\s+\[(\d+)\]\s+(\d+)\.(\d{9}):\s*"
    r"(?:PERF_RECORD_SWITCH\S*\s+(IN|OUT)( preempt)?|PERF_RECORD_LOST(?:_SAMPLES)?\s+lost (\d+))?"
)


def hindrance() -> str:
    return perf.permission().reason or _reason()


@cache
def _reason() -> str:
    if perf.permission().event.endswith(":u"):
        return (
            "No off-CPU data: kernel.perf_event_paranoid allows samples of user code only, but the kernel switches "
            "threads."
        )
    asked = perf.probe(*_sampling(1, 1.0))
    return "" if asked.returncode == 0 else f"No off-CPU data: perf says “{perf.complaint(asked.stderr)}”."


def _sampling(connections: int, seconds: float) -> tuple[str, ...]:
    """Return arguments of `perf record`. Each thread has its own rate, so that rare waits are seen, too."""
    samples_a_s = min(_SAMPLES_A_S, _STACKS_BYTES / _STACK_BYTES / seconds)
    rate = max(_RATE_LEAST, int(samples_a_s / max(1, connections)))
    return (
        "--event", _EVENT, "--freq", str(rate), "--call-graph", f"dwarf,{_STACK_BYTES}", "--sample-cpu",
        "--switch-events", "--max-size", _BYTES_MAX, *_buffer(),
    )  # fmt: skip


@cache
def _buffer() -> tuple[str, ...]:
    """Ask for a larger buffer than perf's default, if that much memory may be locked."""
    larger = ("--mmap-pages", _BUFFER)
    return larger if perf.probe("--event", "cpu-clock:u", *larger).returncode == 0 else ()


class OffCpu:
    """A `bakeoff.run.epoch.Watch` that records switches and adds each cell to the arm's `profile.json.gz`."""

    def __init__(self, writer: EpochWriter) -> None:
        self._writer = writer
        self._folds: defaultdict[str, dict[str, Fold]] = defaultdict(dict)

    @contextlib.contextmanager
    def __call__(self, servers: EpochServers, cell: Cell) -> Iterator[Callable[[SliceMessage], None]]:
        slices = Slices(cell.guard_ns)
        turn_s = len(servers.pids) * (cell.slices.slice_ns + cell.slices.guard_ns) / 1e9
        with recorded(servers.pids, cell.threads, self._writer.path, seconds=_TURNS * turn_s) as recording:
            yield slices.add
            recording.read()
        for arm, pid in servers.pids.items():
            windows = [each for each in slices.of(arm) if each.end_ns <= recording.end_ns]
            if windows:
                self._folds[arm].setdefault(cell.name, Fold()).add(recording.pauses[pid], windows)
                perf.write_profiles(self._writer, arm, self._folds[arm], (_EVENT, _US))


class Pause(NamedTuple):
    """A thread's time off the CPU, by CLOCK_MONOTONIC. `stands_for` counts the pauses that its stack represents."""

    tid: int
    begin_ns: int
    end_ns: int
    preempted: bool
    stack: Stack
    stands_for: int

    def inside_ns(self, windows: Sequence[Window], ends: Sequence[int]) -> int:
        found = 0
        for window in windows[bisect_right(ends, self.begin_ns) :]:
            if window.begin_ns >= self.end_ns:
                break
            found += min(window.end_ns, self.end_ns) - max(window.begin_ns, self.begin_ns)
        return found


@dataclass
class Recording:
    """Pauses by process, and the moment of the last record."""

    recorder: Recorder
    pauses: dict[int, list[Pause]]
    end_ns: int = 0

    def read(self) -> None:
        """Stop recording and read it; raises HostError if perf failed or lost too much."""
        self.recorder.end()
        fields = ("--show-switch-events", "--show-lost-events", "--fields", "comm,pid,tid,cpu,time,ip,sym,dso")
        with self.recorder.text(*fields) as lines:
            for pid, pause in self._pauses(lines):
                self.pauses[pid].append(pause)

    def _pauses(self, lines: Iterable[str]) -> Iterator[tuple[int, Pause]]:
        records = lost = 0
        leaving: dict[int, tuple[Stack, int]] = {}  # a sample comes right before its thread's switch
        away: dict[int, tuple[int, Pause]] = {}
        since: Counter[tuple[int, int]] = Counter()  # switches of a thread on a CPU since its last sample there
        for header, stack in records_of(lines):
            found = _HEADER.search(header)
            if not found or found[8]:
                lost += int(found[8]) if found else 0
                continue
            records += 1
            pid, tid, cpu = int(found[1]), int(found[2]), int(found[3])
            self.end_ns = int(found[4]) * 10**9 + int(found[5])
            if not found[6]:
                leaving[tid] = stack, since.pop((tid, cpu), 0) + 1
                continue
            if pid not in self.pauses:
                continue
            if found[6] == "OUT":  # a return that was lost is overwritten
                since[tid, cpu] += tid not in leaving  # a sample counts its own switch
                away[tid] = pid, Pause(tid, self.end_ns, 0, bool(found[7]), *leaving.pop(tid, ((), 0)))
            elif tid in away:
                _, pause = away.pop(tid)
                yield pid, pause._replace(end_ns=self.end_ns)
        if lost > _LOST_MAX * (records + lost):
            raise HostError(f"perf lost {lost / (records + lost):.0%} of the threads' switches.")
        for pid, pause in away.values():
            yield pid, pause._replace(end_ns=self.end_ns)


@contextlib.contextmanager
def recorded(pids: dict[str, int], connections: int, folder: Path, *, seconds: float) -> Iterator[Recording]:
    """Record the switches of `connections` busy threads for about `seconds`; the block calls `read` last."""
    with tempfile.TemporaryDirectory(prefix=".perf-", dir=folder) as name:
        recorder = Recorder(pids, Path(name).resolve(), _sampling(connections, seconds), whole=False)
        with recorder:
            yield Recording(recorder, {pid: [] for pid in pids.values()})


class Fold(Stacks):
    """Off-CPU time [µs] of one arm in one cell, of all rounds, inside its slices."""

    def add(self, pauses: Sequence[Pause], windows: Sequence[Window]) -> None:
        """Add the time off the CPU inside these ascending windows.

        Connection threads share one total, split by their stacks; the time of each other thread is split by its own.
        """
        serving = {each.tid for each in pauses if any(function.name in CONNECTION for function in each.stack)}
        ends = [window.end_ns for window in windows]
        whole_ns: Counter[tuple[int, bool]] = Counter()
        known: defaultdict[tuple[int, bool], Counter[Stack]] = defaultdict(Counter)
        for each in pauses:
            inside_ns = each.inside_ns(windows, ends)
            whose = (0 if each.tid in serving else each.tid), each.preempted
            whole_ns[whose] += inside_ns
            if each.stands_for and inside_ns:
                known[whose][each.stack] += inside_ns * each.stands_for
        for whose, stacks in known.items():
            part = whole_ns[whose] / stacks.total() / _US
            for stack, weight in stacks.items():
                self._add(stack, round(weight * part), serving=not whose[0], preempted=whose[1])
        self.count(windows)

    def _add(self, stack: Stack, count: int, *, serving: bool, preempted: bool) -> None:
        whole = without_beginning(stack)
        if whole is stack:
            self.incomplete += count
        while whole and whole[0].object == "[unknown]":  # beyond the copy of the stack
            whole = whole[1:]
        last = (PREEMPTED,) if preempted else ()
        self.stacks[(SERVING if serving else BACKGROUND, *whole, *last)] += count


FILES, LOCK, NETWORK, SLEEP, KERNEL_WAIT = "files and disk", "lock or condition", "network", "sleep", "in the kernel"
NO_PROCESSOR = "no processor free"  # the part of pauses of a thread that could have run
_LATCHES = "latches and mutexes"  # how it waits, not for what
_BY_GROUP = {"kernel: files and disk": FILES, "kernel: network": NETWORK, "kernel: memory": KERNEL_WAIT}
_STATEMENT = frozenset({"dispatch_command", "dispatch_sql_command", "mysql_parse", "mysql_execute_command"})
CONNECTION = frozenset(
    {"do_command", "handle_connection", "handle_one_connection", "do_handle_one_connection", "worker_main"}
)
"""Functions on the stack of every thread that serves a connection, also between statements; of all servers."""

# Asynchronous I/O threads idle here.
_IDLE = frozenset({"read_events", "do_io_getevents", "io_cqring_wait"})


class Waiting(NamedTuple):
    """What a thread waits for: a part of the server, and a way such as `FILES` (empty with `NO_PROCESSOR`)."""

    part: str
    way: str
    serving: bool


@dataclass(frozen=True)
class OffCpuCost:
    waiting: Waiting
    function: str
    time: Paired


@dataclass(frozen=True)
class OffCpuComparison:
    """Two arms in one cell, in ns per event, by size of the difference.

    Attributes:
        all: threads that serve connections, inside statements; the sum of `statements`.
        others: file waits of all other threads.
        client: waiting for the client, which is in neither.
    """

    epochs: int
    all: Paired
    statements: tuple[OffCpuCost, ...]
    others: tuple[OffCpuCost, ...]
    client: Paired


def compare_off_cpu(baseline: Mapping[int, Profile], contender: Mapping[int, Profile]) -> OffCpuComparison | None:
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
    if stack and stack[-1] == PREEMPTED:
        return Waiting(NO_PROCESSOR, "", serving=True)
    names = {function.name for function in stack}
    if names & CONNECTION and not names & _STATEMENT:
        return None
    return Waiting(_part(stack), _way(stack), serving=True)


def _background(stack: Sequence[Function]) -> Waiting | None:
    """Return the file that a background thread waits for; None for anything else."""
    if (stack and stack[-1] == PREEMPTED) or _way(stack) != FILES or any(each.name in _IDLE for each in stack):
        return None
    return Waiting(_part(stack), FILES, serving=False)


def _part(stack: Sequence[Function]) -> str:
    groups = [group for each in reversed(stack) if each.object != KERNEL and (group := group_of(each))]
    return next((each for each in groups if each != _LATCHES), groups[0] if groups else OTHER)


def _way(stack: Sequence[Function]) -> str:
    kernel = [each for each in reversed(stack) if each.object == KERNEL]
    for each in kernel:
        if "futex" in each.name:
            return LOCK
        if "nanosleep" in each.name:
            return SLEEP
        if way := _BY_GROUP.get(group_of(each)):
            return way
    return KERNEL_WAIT


def _own_function(stack: Sequence[Function]) -> str:
    for each in reversed(stack):
        if is_servers(each) and each.name != "[unknown]" and group_of(each) != _LATCHES:
            return RENAMED.get(each.name, each.name)
    return ""
