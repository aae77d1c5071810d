"""Measure a replay: what its capture contains, and how many statements a chunk has."""

import math
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np

from bakeoff.engine import Measurement, Message
from bakeoff.engine_messages import SliceMessage, Work
from bakeoff.errors import SpecError
from bakeoff.plan import Cell, SliceLength
from bakeoff.replay.captures import capture_events, capture_totals
from bakeoff.run.measuring import CellRun, Measuring
from bakeoff.spec import Study, Workload
from bakeoff.units import format_duration

_BLOCKS_MIN = 4  # in one pass over a capture that writes
_EVENTS_PER_S = 1_000.0  # if the log has no times
_EVENTS_PER_S_MAX = 10_000.0  # another server may not reach the speed of the log
_CHUNK_MAX_S = 60.0  # by the clock: from the first to the last statement of any chunk


@dataclass(frozen=True)
class CaptureFacts:
    """A capture, as far as planning needs it.

    Attributes:
        writes: number of statements that are not plain reads, by reason.
        at_once: the most connections that were inside a statement or transaction at the same time.
        mean_s: mean time of a statement in the log, if known.
        starts_us: running maximum of the known start times, one per statement [µs since 1970].
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
        return self.starts_us[self.reads_only] if reads_only else self.starts_us

    def copies(self, threads: int) -> int:
        """Return how many copies of each connection the engine replays at once: of reads only, and not by the clock."""
        return math.ceil(threads / self.connections)


@cache
def capture_facts(path: str) -> CaptureFacts:
    """Read all events of a capture; needs 33 bytes per event. Raises SpecError if none can be replayed."""
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
        for connection in list(self._transactions):  # cut off by the end of the log
            self._end(connection)
        if not self._begins:
            return 1
        begins = np.array(self._begins)
        # Within a microsecond, ends come before begins, and each interval lasts at least 1 µs.
        times = np.concatenate([begins, np.maximum(np.array(self._ends), begins + 1)])
        steps = np.repeat([1, -1], len(begins))
        # Merge overlaps within a connection: the log may have whole seconds, or nested statements.
        order = np.lexsort((steps, times, np.tile(np.array(self._connections), 2)))
        times, steps = times[order], steps[order]
        depth = np.cumsum(steps)
        changes = depth == np.where(steps > 0, 1, 0)
        times, steps = times[changes], steps[changes]
        return int(np.cumsum(steps[np.lexsort((steps, times))]).max())


def chunk_events(cell: Cell, slices: SliceLength, *, reads_only: bool, events_per_s: float | None) -> int:
    """Return the statements per chunk: about a slice's worth; at most an eighth of a capture that writes.

    `events_per_s` is the measured rate. Without it, and always by the clock, the rate comes from the log.
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
    """Return how many statements begin within `mean_us` on average, and within the longest chunk."""
    count = len(moments_us)
    length_us = int(moments_us[-1] - moments_us[0]) if count else 0
    sizes = range(2, min(count, round(count * mean_us / max(length_us, 1))) + 1)

    def span_us(size: int) -> int:
        return int((moments_us[size - 1 :] - moments_us[: count + 1 - size]).max())

    return 1 + bisect_right(sizes, _CHUNK_MAX_S * 1e6 * speed, key=span_us)


_SILENCE_MAX_S = 30.0  # the longest that a replay by the clock may wait for the next statement


class CaptureMeasuring(Measuring):
    def declared(self, script: str) -> Message | None:
        return None

    def resolved(self, study: Study, workload: Workload) -> Workload:
        if workload.writes is not None:
            return workload
        writes = bool(capture_facts(workload.script).writes) and not study.has_running_server
        return workload.model_copy(update={"writes": writes})

    def check(self, study: Study, workload: Workload) -> None:
        name = f"workload {workload.script}"
        if workload.options:
            raise SpecError(f"{name}: a capture has no options.", hint=f"Leave {workload.options[0][0]} out.")
        if workload.rate_per_s is not None:
            raise SpecError(f"{name}: a capture has no rate.", hint="Replay it by its own clock: speed.")
        facts, reads_only = capture_facts(workload.script), not self.resolved(study, workload).writes
        if reads_only and not facts.reads:
            hint = "Replay its writes, too: --writes, or writes: true in a study."
            raise SpecError(f"{name}: it has no plain read to replay.", hint=hint)
        if workload.speed is not None:
            _check_clock(name, facts.moments_us(reads_only=reads_only), workload.speed)

    def request(self, run: CellRun) -> Work | None:
        """Return capture, chunk size and speed; None for a warm-up of a capture without reads."""
        cell, reads_only = run.cell, run.reads_only
        if run.changes_nothing and not capture_facts(cell.script).reads:
            return None
        rate = run.rates.get((cell.name, reads_only)) or run.rates.get((cell.name, not reads_only))
        return {
            "capture": cell.script,
            "chunk_events": chunk_events(cell, run.slices, reads_only=reads_only, events_per_s=rate),
            "speed": run.workload.speed,
            "reads_only": reads_only,
        }

    def begin(self, run: CellRun) -> Callable[[Measurement], None]:
        return lambda measured: _note_limits(run, measured.slices)


MEASURING = CaptureMeasuring()


def _check_clock(name: str, moments_us: np.ndarray, speed: float) -> None:
    if not len(moments_us):
        raise SpecError(
            f"{name}: the log has no times, so it cannot be replayed by the clock.", hint="Leave the speed out."
        )
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


def _note_limits(run: CellRun, slices: Sequence[SliceMessage]) -> None:
    cell = run.cell
    idle = cell.threads - capture_facts(cell.script).connections
    if idle > 0 and (cell.writes or cell.speed):
        why = "it writes" if cell.writes else "it is replayed by the clock"
        run.note_once(
            f"{cell.name}: {idle} of {cell.threads} sessions are idle: the capture has fewer connections, and each "
            f"is replayed once because {why}"
        )
    lengths_ns: Counter[str] = Counter()
    for message in slices:
        lengths_ns[message["arm"]] += message["length_ns"]
    shortest_s = min(lengths_ns.values(), default=0) / 1e9
    if cell.writes and shortest_s < 1:
        run.note_once(
            f"{cell.name}: one pass over the capture takes {shortest_s:.2f} s, once in every epoch because it "
            "writes; a longer capture gives narrower intervals",
            about=f"one pass of {cell.name}",
        )
