"""What planning and measuring a replay need to know about its capture."""

import math
from array import array
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from bakeoff.captures import capture_events, capture_totals
from bakeoff.engine import Message
from bakeoff.errors import SpecError
from bakeoff.plan import Cell, SliceLength

_BLOCKS_MIN = 4  # of one pass over a capture that writes
_EVENTS_PER_S = 1_000.0  # where the log has no times
_EVENTS_PER_S_MAX = 10_000.0  # by the times of the log, which another server may not reach
_CHUNK_MAX_S = 60.0  # by the clock: from its first to its last statement, wherever it begins in the log


@dataclass(frozen=True)
class CaptureFacts:
    """A capture, as far as planning needs it.

    Attributes:
        statements: those that can be replayed.
        reads: it has plain reads.
        writes: number of statements that are not plain reads, by reason.
        connections: at least 1.
        at_once: the most connections that were inside a statement or transaction at the same time.
        mean_s: mean time of a statement in the log, if known.
        starts_us: latest start so far at each statement [µs since 1970], for statements with a known time.
        reads_only: whether each of those is a read.
    """

    statements: int
    reads: bool
    writes: Counter[str]
    connections: int
    at_once: int
    mean_s: float | None
    starts_us: np.ndarray = field(compare=False)
    reads_only: np.ndarray = field(compare=False)

    def moments_us(self, *, reads_only: bool) -> np.ndarray:
        """Return the start of every statement, or of every read, in replay order."""
        return self.starts_us[self.reads_only] if reads_only else self.starts_us

    def copies(self, threads: int) -> int:
        """Times that each connection is replayed at once by so many sessions, when all are reads and none by the clock.

        The engine reckons likewise (docs/reference/engine.md, *A replay*).
        """
        return math.ceil(threads / self.connections)


@cache
def capture_facts(path: str) -> CaptureFacts:
    """Read a capture's totals and all of its events; needs 33 bytes of memory per event.

    Raises:
        SpecError: not a capture, or nothing in it can be replayed.
        HostError: it cannot be read.
    """
    totals = capture_totals(Path(path))
    reads, writes, work = False, Counter[str](), _Work()
    starts, are_reads = array("q"), array("b")
    for event in capture_events(Path(path)):
        if "digest" in event and "not_replayable" not in event:
            reads |= "writes" not in event
            writes.update([event["writes"]] if "writes" in event else ())
            if event.get("start_us"):
                starts.append(int(event["start_us"]))
                are_reads.append("writes" not in event)
        work.add(event)
    if not reads and not writes:
        raise SpecError(
            f"capture: {path}: nothing of it can be replayed.", hint=f"`bakeoff capture show {path}` says why."
        )
    timed = sum(digest["timed"] for digest in totals["digests"])
    total_us = sum(digest["total_us"] for digest in totals["digests"])
    return CaptureFacts(
        statements=sum(each["events"] - sum(each["not_replayable"].values()) for each in totals["digests"]),
        reads=reads,
        writes=writes,
        connections=max(1, int(totals["overall"]["connections"])),
        at_once=work.most_at_once(),
        mean_s=total_us / timed / 1e6 if timed and total_us else None,
        starts_us=np.maximum.accumulate(np.array(starts, dtype=np.int64)),
        reads_only=np.array(are_reads, dtype=bool),
    )


class _Work:
    """When connections were at work: inside a transaction, or a statement outside of one."""

    def __init__(self) -> None:
        self._begins, self._ends, self._connections = array("q"), array("q"), array("q")
        self._transactions: dict[int, tuple[int, int, int]] = {}  # by connection: number, begin, last end [µs]

    def add(self, event: Message) -> None:
        start, connection = int(event.get("start_us") or 0), int(event.get("connection") or 0)
        if not start or "digest" not in event or "not_replayable" in event:
            return
        end = int(event.get("end_us") or start)
        number, (known, begin, _) = event.get("transaction"), self._transactions.get(connection, (None, start, end))
        if known != number:
            self._end(connection)
            begin = start
        if number:
            self._transactions[connection] = (number, begin, end)
        else:
            self._worked(connection, start, end)

    def _end(self, connection: int) -> None:
        if ended := self._transactions.pop(connection, None):
            self._worked(connection, *ended[1:])

    def _worked(self, connection: int, begin: int, end: int) -> None:
        self._begins.append(begin)
        self._ends.append(end)
        self._connections.append(connection)

    def most_at_once(self) -> int:
        for connection in list(self._transactions):  # the log ends before they do
            self._end(connection)
        if not self._begins:
            return 1
        begins = np.array(self._begins)
        # At the same microsecond one ends before another begins, but each counts for itself.
        times = np.concatenate([begins, np.maximum(np.array(self._ends), begins + 1)])
        steps = np.repeat([1, -1], len(begins))
        # Statements of one connection overlap where the log has whole seconds, or one runs within another.
        order = np.lexsort((steps, times, np.tile(np.array(self._connections), 2)))
        times, steps = times[order], steps[order]
        depth = np.cumsum(steps)
        changes = depth == np.where(steps > 0, 1, 0)
        times, steps = times[changes], steps[changes]
        return int(np.cumsum(steps[np.lexsort((steps, times))]).max())


def chunk_events(cell: Cell, slices: SliceLength, *, reads_only: bool, events_per_s: float | None) -> int:
    """Return the statements per chunk: about a slice's worth; at most an eighth of a capture that writes.

    The rate is `events_per_s` if measured, else it comes from the log. By the clock it always comes from the log, and
    no chunk may wait for long.
    """
    facts = capture_facts(cell.script)
    if events_per_s is None or cell.speed:
        guess = _EVENTS_PER_S_MAX if cell.speed else _EVENTS_PER_S
        events_per_s = min(_EVENTS_PER_S_MAX, cell.threads / facts.mean_s) if facts.mean_s else guess
    most = facts.statements if reads_only or not facts.writes else facts.statements // (2 * _BLOCKS_MIN)
    if reads_only and not cell.speed:
        most *= facts.copies(cell.threads)
    wanted = max(1, min(round(events_per_s * slices.slice_ns / 1e9), most))
    if cell.speed:
        begun = _begun_in_time(facts.moments_us(reads_only=reads_only), slices.slice_ns / 1e3 * cell.speed, cell.speed)
        wanted = min(wanted, begun)
    return wanted


def _begun_in_time(moments_us: np.ndarray, mean_us: float, speed: float) -> int:
    """Return how many statements (at least 1) begin within `mean_us` on average, and within the longest chunk."""
    count = len(moments_us)
    length_us = int(moments_us[-1] - moments_us[0]) if count else 0
    sizes = range(2, min(count, round(count * mean_us / max(length_us, 1))) + 1)

    def span_us(size: int) -> int:
        return int((moments_us[size - 1 :] - moments_us[: count + 1 - size]).max())

    return 1 + bisect_right(sizes, _CHUNK_MAX_S * 1e6 * speed, key=span_us)
