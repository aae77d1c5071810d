"""What a run must know of the captures that it replays: whether they write, and how much work they are."""

import math
from array import array
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np

from bakeoff.engine import Message, capture_events, capture_totals
from bakeoff.errors import SpecError
from bakeoff.plan import Cell, SliceLength
from bakeoff.spec import Origin, Study, Workload
from bakeoff.spec.study import is_capture
from bakeoff.units import format_duration

_BLOCKS_MIN = 4  # of one pass over a capture that writes
_EVENTS_PER_S = 1_000.0  # where the log has no times
_EVENTS_PER_S_MAX = 10_000.0  # by the times of the log, which another server may not reach
_SILENCE_MAX_S = 30.0  # by the clock: nobody waits longer for a statement
_CHUNK_MAX_S = 60.0  # by the clock: from its first to its last statement, wherever it begins in the log


@dataclass(frozen=True)
class CaptureFacts:
    """A capture, as far as planning needs it.

    Attributes:
        statements: that can be replayed.
        reads: it has plain reads.
        writes: how many of its statements are no plain reads, by the word that says so.
        connections: that it has, 1 at least.
        at_once: the most connections that were at work at the same time: within a statement or a transaction.
        mean_s: of a statement in the log; None: not known.
        starts_us: when each began or one before it, whichever was later [µs since 1970]; those with a known time.
        reads_only: of each: it is no write.
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
        """Beginnings in the order of the replay; of all statements, or of those that are no writes."""
        return self.starts_us[self.reads_only] if reads_only else self.starts_us

    def copies(self, threads: int) -> int:
        """Times that each connection is replayed at once by so many sessions, when all are reads and none by the clock.

        The engine reckons likewise (docs/engine.md, *A replay*).
        """
        return math.ceil(threads / self.connections)


@cache
def capture_facts(path: str) -> CaptureFacts:
    """Read a capture's totals and all of its events; needs 25 bytes of memory for each.

    Raises:
        SpecError: it is no capture, or nothing of it can be replayed. HostError: it cannot be read.
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
    """When connections were within a statement or a transaction."""

    def __init__(self) -> None:
        self._begins, self._ends = array("q"), array("q")
        self._transactions: dict[int, int] = {}  # connection -> begin

    def add(self, event: Message) -> None:
        start, connection = int(event.get("start_us") or 0), int(event.get("connection") or 0)
        if not start:
            return
        end = int(event.get("end_us") or start)
        word = str(event.get("sql", ""))[:12].upper().split(" ")[0].rstrip(";")
        if word in ("BEGIN", "START"):
            self._transactions.setdefault(connection, start)
            return
        if connection in self._transactions:
            if word not in ("COMMIT", "ROLLBACK") and event.get("command") != "Quit":
                return
            start = self._transactions.pop(connection)
        self._begins.append(start)
        self._ends.append(end)

    def most_at_once(self) -> int:
        if not self._begins:
            return 1
        begins = np.array(self._begins)
        # At the same microsecond one ends before another begins, but each counts for itself.
        times = np.concatenate([begins, np.maximum(np.array(self._ends), begins + 1)])
        steps = np.repeat([1, -1], len(begins))
        return int(np.cumsum(steps[np.lexsort((steps, times))]).max())


def with_captures(study: Study) -> Study:
    """The study in which every capture is known to write or not; on running servers only its reads are replayed.

    Raises:
        SpecError, HostError: as `capture_facts`.
    """
    remote = any(arm.server.origin is Origin.URL for arm in study.arms)

    def known(workload: Workload) -> Workload:
        if workload.writes is not None or not is_capture(workload.script):
            return workload
        writes = bool(capture_facts(workload.script).writes) and not remote
        return workload.model_copy(update={"writes": writes})

    return study.model_copy(update={"workloads": tuple(map(known, study.workloads))})


def check_capture(workload: Workload) -> None:
    """Check that a capture can be replayed as it is asked for.

    Raises:
        SpecError: it cannot be. HostError: it cannot be read.
    """
    name = f"workload {workload.script}"
    if workload.options:
        raise SpecError(f"{name}: a capture has no options.", hint=f"Leave {workload.options[0][0]} out.")
    if workload.rate_per_s is not None:
        raise SpecError(f"{name}: a capture has no rate.", hint="Replay it by its own clock: speed.")
    facts = capture_facts(workload.script)
    if workload.speed is not None:
        _check_clock(name, facts.moments_us(reads_only=workload.writes is False), workload.speed)


def _check_clock(name: str, moments_us: np.ndarray, speed: float) -> None:
    """Refuse a replay by the clock that has no times, or would do nothing for long."""
    if not len(moments_us):
        raise SpecError(f"{name}: the log has no times to replay it by.", hint="Leave the speed out.")
    silences_us = np.diff(moments_us, append=moments_us[-1])
    longest = int(silences_us.argmax())
    silence_s = float(silences_us[longest]) / 1e6
    if silence_s > _SILENCE_MAX_S * speed:
        begin = datetime.fromtimestamp(int(moments_us[longest]) / 1e6, UTC)
        raise SpecError(
            f"{name}: the log is silent for {format_duration(silence_s)} from {begin:%H:%M:%S} UTC on; by the clock a "
            f"replay would wait {format_duration(silence_s / speed)} there.",
            hint=f"Replay it at speed {math.ceil(silence_s / _SILENCE_MAX_S)} or more, or as fast as it goes.",
        )


def chunk_events(cell: Cell, slices: SliceLength, *, reads_only: bool, events_per_s: float | None) -> int:
    """Statements of a chunk: as many as take about as long as a slice; of a capture that writes at most an eighth.

    Their number follows from `events_per_s`, measured before; None: from the times of the log. By the clock it follows
    from the log alone, and no chunk waits for long.
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
    """Statements that begin within `mean_us` on the mean, and anywhere within the longest chunk; 1 at least."""
    count = len(moments_us)
    length_us = int(moments_us[-1] - moments_us[0]) if count else 0
    sizes = range(2, min(count, round(count * mean_us / max(length_us, 1))) + 1)

    def span_us(size: int) -> int:
        return int((moments_us[size - 1 :] - moments_us[: count + 1 - size]).max())

    return 1 + bisect_right(sizes, _CHUNK_MAX_S * 1e6 * speed, key=span_us)
