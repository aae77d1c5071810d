"""Write and read one epoch of a run directory: its outcome, its measurements as tables, its wall time by phase.

Latencies are HdrHistogram's V2 deflate form in base64, the `hdr` field of a `histogram` message: cookie, length and
zlib stream; inside, 40 bytes of header and counts as ZigZag LEB128, where a negative number is a run of empty cells.
"""

import base64
import binascii
import gzip
import hashlib
import json
import re
import struct
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NotRequired
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray
from pydantic import AwareDatetime, ConfigDict, Field, JsonValue, NonNegativeFloat, NonNegativeInt
from typing_extensions import TypedDict

from bakeoff.errors import ResultsError
from bakeoff.files import write_atomically
from bakeoff.redaction import Redactor
from bakeoff.results.frame import Frame, Schema, write_parquet
from bakeoff.results.manifest import FORMAT
from bakeoff.spec import Frozen


class Outcome(Frozen):
    """How an epoch went: `outcome.json`, written last (docs/reference/results.md).

    Attributes:
        valid: False: the epoch counts for no arm, because of `discard_reason`.
        started_at: UTC.
        wall_s, measured_s: seconds in all, and inside `measure`.
        phases_s: seconds of each of `PHASES` that took any time.
        start_order: of all arms that the run had, also of those that this epoch did not measure.
        seeds: `order`, `keys`, `padding`.
        readiness: for each arm what was waited for before measuring.
        other_bakeoffs: processes of other bakeoffs that had servers on this machine.
        cache_line_ns: before each cell, how long two CPUs took to pass a cache line to each other and back.
        host: the node of a cluster that measured it; empty: the machine of the run directory.
    """

    epoch: int
    build: int
    valid: bool = True
    discard_reason: str = ""
    started_at: AwareDatetime
    wall_s: float
    measured_s: float
    phases_s: dict[str, float] = {}
    start_order: tuple[str, ...] = ()
    cell_order: tuple[str, ...] = ()
    seeds: dict[str, int] = {}
    readiness: dict[str, dict[str, JsonValue]] = {}
    other_bakeoffs: tuple[int, ...] = ()
    cache_line_ns: dict[str, int] = {}
    host: str = ""


class Load(TypedDict):
    """One load of the data: `builds/ARM-N.json`; fields that a report shows."""

    __pydantic_config__ = ConfigDict(extra="allow", allow_inf_nan=False)  # type: ignore[misc]

    arm: str
    arms: NotRequired[list[str]]
    build: int
    started_at: NotRequired[AwareDatetime]
    seconds: NotRequired[NonNegativeFloat]
    rows: NotRequired[int | None]
    threads: NotRequired[int]
    data_bytes: NotRequired[dict[str, NonNegativeFloat]]
    rows_bytes: NotRequired[dict[str, NonNegativeFloat]]
    index_bytes: NotRequired[dict[str, NonNegativeFloat]]
    snapshot_bytes: NotRequired[NonNegativeFloat]
    translated: NotRequired[dict[str, str]]


class HistogramMessage(TypedDict):
    """The engine's `histogram` message as it is kept; its latencies stay encoded."""

    __pydantic_config__ = ConfigDict(extra="allow", allow_inf_nan=False)  # type: ignore[misc]

    cell: str
    arm: str
    operation: str
    clock: str
    count: NonNegativeInt
    mean_ns: NonNegativeFloat
    max_ns: NonNegativeInt
    hdr: str


class ServerCounts(Frozen):
    """What a server itself has counted of TPC-C at one moment.

    Attributes:
        next_order_ids: sum of D_NEXT_O_ID over all districts: rises by one for each committed New-Order.
        commits: `Com_commit` of SHOW GLOBAL STATUS.
        rollbacks: `Com_rollback`.
    """

    next_order_ids: int
    commits: int
    rollbacks: int


class Reading(Frozen):
    """What a server had counted before and after a measured cell (`data-check.json`)."""

    before: ServerCounts
    after: ServerCounts


class FailureRow(TypedDict):
    """Statements of a replay that failed alike, in one epoch; the message is the server's first, without literals."""

    cell: str
    arm: str
    operation: str
    sql_errno: NonNegativeInt
    count: NonNegativeInt
    message: str


CHANGES = "changed-variables.json"
CellChanges = dict[str, dict[str, tuple[str, str]]]
"""Variables of a server that changed, by cell: the values at its start and after the cell."""

OwnCounts = dict[str, list[Reading]]
"""`data-check.json`: cell -> one reading a round."""


_Amount = Annotated[float, Field(ge=-1e18, le=1e18, allow_inf_nan=False)]  # 2^64 ns is no time of a run


class CellCounters(TypedDict):
    """What one cell cost a server: counters that moved (docs/reference/explain.md); `seconds` of its own slices."""

    events: Annotated[_Amount, Field(ge=0)]
    seconds: Annotated[_Amount, Field(ge=0)]
    counters: dict[str, _Amount]


COUNTERS = "counters.json"
"""A server's `CellCounters` by cell."""


@dataclass(frozen=True)
class EpochData:
    """One finished epoch as the statistics read it.

    Attributes:
        epoch, build: numbers from 0.
        valid, discard_reason: as in its outcome.
        slices: one row a slice, columns of `bakeoff.results.epoch_data.SLICE_SCHEMA`.
        histograms: the engine's `histogram` messages (docs/reference/engine.md), one a cell, arm and operation.
        variables: for each arm, its server's global variables.
        changes: for each arm and cell, variables that changed since its server was started: (before, after).
        server_counts: for each arm and cell, TPC-C transactions by the server's own count before and after
            (`data-check.json`); empty for other workloads.
        failures: statements of captures that failed (`failures.json`).
        host: as in its outcome.
    """

    epoch: int
    slices: Frame
    build: int = 0
    valid: bool = True
    discard_reason: str = ""
    histograms: list[dict[str, Any]] = field(default_factory=list)
    variables: dict[str, dict[str, str]] = field(default_factory=dict)
    changes: dict[str, CellChanges] = field(default_factory=dict)
    server_counts: dict[str, OwnCounts] = field(default_factory=dict)
    failures: list[FailureRow] = field(default_factory=list)
    host: str = ""


SLICE_SCHEMA: Schema = {
    "epoch": "int32", "build": "int32", "cell": "string", "arm": "string", "block": "int32", "position": "int32",
    "start_ns": "int64", "length_ns": "int64", "busy_ns": "int64", "connections": "int32",
    "events": "int64", "reads": "int64", "writes": "int64", "other": "int64",
    "errors": "string",  # JSON text: {"1213": 1}
    "retries": "int64", "reconnects": "int64", "late_starts": "int64", "dropped": "int64",
    "latency_sum_ns": "int64", "latency_max_ns": "int64", "sent_bytes": "int64", "received_bytes": "int64",
    "client_user_ns": "int64", "client_system_ns": "int64",
    # The server's are null when it runs elsewhere.
    "server_cpu_ns": "int64", "server_read_bytes": "int64", "server_write_bytes": "int64", "server_rss_bytes": "int64",
    "host_user_ns": "int64", "host_system_ns": "int64", "host_iowait_ns": "int64", "host_steal_ns": "int64",
    "host_idle_ns": "int64", "context_switches": "int64",
    "threads": "string",  # JSON text: CPU ns of the server's busy threads by name, in slices of 0.1 s and more
}  # fmt: skip

HOST_SCHEMA: Schema = {
    "time_ns": "int64",  # since the epoch's start
    # Shares of all CPUs, 0 to 1.
    "user": "float64", "system": "float64", "iowait": "float64", "steal": "float64", "idle": "float64",
    "memory_used_bytes": "int64", "memory_cached_bytes": "int64",
    "disk_read_bytes_per_s": "float64", "disk_write_bytes_per_s": "float64",
    "network_bytes_per_s": "float64",  # loopback included
    "context_switches_per_s": "float64", "interrupts_per_s": "float64", "running": "int64", "blocked": "int64",
}  # fmt: skip

RSS_PREFIX = "rss_bytes:"  # one more column of the host table for each arm

CHECKSUMS = "SHA256SUMS"
"""File beside the measurements of an epoch, for `sha256sum --check`; runs before December 2026 lack it."""

_NOT_KEPT = {"type", "id", "epoch", "build", "load_ns", "outside_events"}
_KNOWN = ("cell", "arm", "block", "position", "start_ns", "length_ns", "busy_ns", "connections", "events", "time_ns")
_COUNTS = re.compile(r'\{("([^"\\]|\\.)*": ?[0-9]{1,18}(, ?)?)*\}')


def table_mistake(table: Frame, found: Schema, schema: Schema, *, arms: Collection[str]) -> str:
    """What a table has that no engine sends and a report could not show; empty for a sound one.

    Args:
        table: as read.
        found: types of its columns in the file.
        schema: types that they should have; further columns are those of `RSS_PREFIX`.
        arms: of the study.
    """
    if missing := schema.keys() - found.keys():
        return f"columns {', '.join(sorted(missing))} are missing"
    odd = [name for name in found if found[name] != schema.get(name, "int64" if name.startswith(RSS_PREFIX) else None)]
    if odd:
        return f"column {odd[0]} is of another type or unknown"
    if any(found[name].startswith("int") and table[name].dtype.kind == "f" for name in _KNOWN if name in found):
        return "values are missing"
    # Ticks of the kernel may go backwards: iowait and idle are corrected afterwards.
    whole = [name for name, kind in found.items() if kind.startswith("int") and not name.startswith("host_")]
    if any((table[name] < 0).any() for name in whole):
        return "a count or a time is below zero"
    if "arm" not in found:
        return ""
    if unknown := set(table["arm"]) - set(arms):
        return f"the study has no arm {sorted(unknown)[0]}"
    if not all(_COUNTS.fullmatch(text) for text in {*table["errors"], *table["threads"]}):
        return "errors or threads are no counts"
    if len(table) and min(table["length_ns"].min(), table["connections"].min()) < 1:
        return "a slice without length or connections"
    return ""


def slices_frame(messages: Iterable[Mapping[str, Any]], *, epoch: int, build: int) -> Frame:
    """The engine's `slice` messages as a table of `SLICE_SCHEMA`, in order.

    Raises:
        ResultsError: a message has a field that the format does not know, or lacks one.
    """
    rows: list[dict[str, Any]] = []
    wanted = SLICE_SCHEMA.keys() - {"epoch", "build"}
    for message in messages:
        row = {key: value for key, value in message.items() if key not in _NOT_KEPT}
        if row.keys() != wanted:
            odd = sorted(row.keys() ^ wanted)
            raise ResultsError(
                f"slice of arm {message.get('arm')!r}: fields {', '.join(odd)} do not fit run format {FORMAT}.",
                hint="The engine and bakeoff are of different versions; install both from one wheel.",
            )
        row["epoch"], row["build"] = epoch, build
        row["errors"] = json.dumps(row["errors"], sort_keys=True)
        row["threads"] = json.dumps(row["threads"], sort_keys=True)
        rows.append(row)
    return Frame.of_rows(rows, SLICE_SCHEMA)


def with_open_loop_time(slices: Frame, cells: Collection[str]) -> Frame:
    """The slices, with `busy_ns` of these open-loop cells as long as the slice, for every connection.

    There the schedule decides when events begin: a connection's own window, from its first event to its last, is the
    shorter the fewer events it had, and says nothing about the server.
    """
    if not cells:
        return slices
    whole_ns = slices["length_ns"] * slices["connections"]
    return slices.with_columns(busy_ns=np.where(np.isin(slices["cell"], list(cells)), whole_ns, slices["busy_ns"]))


def _host_frame(samples: Iterable[Mapping[str, Any]]) -> tuple[Frame, Schema]:
    """Samples of the machine as a table of `HOST_SCHEMA` plus `rss_bytes:ARM` columns; what a sample lacks is null."""
    rows = [dict(sample) for sample in samples]
    arms = sorted({key for row in rows for key in row if key.startswith(RSS_PREFIX)})
    schema = {**HOST_SCHEMA, **dict.fromkeys(arms, "int64")}
    return Frame.of_rows(rows, schema), schema


_SAFE_IN_FILE_NAMES = " '+,=@()"


def arm_directory_name(arm: str) -> str:
    """An arm's name as one path component; `urllib.parse.unquote` gives the name back."""
    name = quote(arm, safe=_SAFE_IN_FILE_NAMES)
    return name.replace(".", "%2E") if name.startswith(".") else name


class EpochWriter:
    """Collects an epoch in memory and writes it at `finish`, `outcome.json` last; until then it does not count.

    Server files are written at once, so that they are there when something has gone wrong.

    Attributes:
        epoch: number from 0.
        build: which load of the data its servers run on.
        path: its directory.
        slices, histograms, failures: the engine's messages of these types of measured cells.
        warm_up: its `slice` messages from before measuring: the warm-up curve, not evidence.
        host_samples: of the machine, one a second: fields of `HOST_SCHEMA`, and `rss_bytes:ARM`.
    """

    def __init__(self, path: Path, *, epoch: int, build: int, redactor: Redactor) -> None:
        self.path = path
        self.epoch = epoch
        self.build = build
        self.slices: list[Mapping[str, Any]] = []
        self.histograms: list[Mapping[str, Any]] = []
        self.failures: list[Mapping[str, Any]] = []
        self.warm_up: list[Mapping[str, Any]] = []
        self.host_samples: list[Mapping[str, Any]] = []
        self._redactor = redactor
        self._digests: dict[str, str] = {}
        self._readings: dict[tuple[str, str], dict[str, list[Any]]] = {}

    def server_directory(self, arm: str) -> Path:
        """Where an arm's server files of this epoch go; made when it is not there."""
        path = self.path / "servers" / arm_directory_name(arm)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def write_server_text(self, arm: str, name: str, text: str) -> None:
        """`my.cnf` or `error.log` of an arm's server, passwords struck out."""
        content = self._redactor.free_text(text).encode("utf-8", errors="replace")
        write_atomically(self.server_directory(arm) / name, content)

    def write_server_json(self, arm: str, name: str, values: Mapping[str, Any]) -> None:
        """`variables.json`, `notes.json`, `status-before.json`, `data-check.json` …: a server's values by name."""
        write_atomically(self.server_directory(arm) / name, self._redactor.json_bytes(dict(sorted(values.items()))))

    def add_server_reading(self, arm: str, name: str, cell: str, reading: Any) -> None:  # noqa: ANN401 — JSON
        """Append a cell's reading to a server's document, which holds one list per cell."""
        cells = self._readings.setdefault((arm, name), {})
        cells.setdefault(cell, []).append(reading)
        self.write_server_json(arm, name, cells)

    def write_server_gz(self, arm: str, name: str, values: Mapping[str, Any]) -> None:
        """`profile.json.gz`: likewise, compressed."""
        content = self._redactor.json_bytes(dict(sorted(values.items())))
        write_atomically(self.server_directory(arm) / name, gzip.compress(content, mtime=0))

    def finish(self, outcome: Outcome) -> None:
        """Write the tables, then the outcome: from then on the epoch counts (or counts as discarded).

        Raises:
            ResultsError: a slice does not fit the format; the outcome is then not written.
        """
        self._write_slices("slices.parquet", self.slices)
        if self.warm_up:
            self._write_slices("warm-up.parquet", self.warm_up)
        self._write("host.parquet", write_parquet(*_host_frame(self.host_samples)))
        lines = "".join(json.dumps(message, ensure_ascii=False) + "\n" for message in self.histograms)
        self._write("histograms.jsonl", lines.encode())
        if self.failures:
            # Messages of servers can hold what a statement held.
            self._write("failures.json", self._redactor.json_bytes(_failure_rows(self.failures)))
        sums = "".join(f"{digest}  {name}\n" for name, digest in self._digests.items())
        write_atomically(self.path / CHECKSUMS, sums.encode())
        write_atomically(self.path / "outcome.json", self._redactor.json_bytes(outcome))

    def _write_slices(self, name: str, messages: Iterable[Mapping[str, Any]]) -> None:
        self._write(name, write_parquet(slices_frame(messages, epoch=self.epoch, build=self.build), SLICE_SCHEMA))

    def _write(self, name: str, content: bytes) -> None:
        self._digests[name] = hashlib.sha256(content).hexdigest()
        write_atomically(self.path / name, content)


def _failure_rows(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row a cell, arm, operation and error, rounds together."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for message in messages:
        for each in message["failures"]:
            place = {"cell": message["cell"], "arm": message["arm"]}
            key = (message["cell"], message["arm"], each["operation"], each["sql_errno"])
            row = rows.setdefault(key, {**place, **each, "count": 0})
            row["count"] += each["count"]
    return list(rows.values())


PHASES = ("load", "restore", "start", "readiness", "check", "warm", "pilot", "flush", "measure", "stop", "other")
"""Phases of a run, in order. `other` is what no phase covers: reading variables, statistics between epochs."""

_PAUSE_S = 60.0
"""A longer gap between two epochs is a pause before a resumed run: no work was done in it."""


class WallTime(Frozen):
    """Seconds of a run by phase, discarded epochs included.

    Attributes:
        total_s: the sum. Fetching servers, and rendering the report at the end, are not in it.
        phases_s: those of `PHASES` that took any time.
    """

    total_s: float
    phases_s: dict[str, float]

    @property
    def measured_share(self) -> float:
        """Share of all seconds that was inside `measure`; 0 of an empty run."""
        return self.phases_s.get("measure", 0.0) / self.total_s if self.total_s > 0 else 0.0


def wall_time(builds: Mapping[str, Mapping[str, Any]], outcomes: Sequence[Outcome]) -> WallTime:
    """Add up a run's time: loads, phases of epochs, and what lies between them.

    Args:
        builds: documents of the loads, with `started_at` and `seconds` (`RunDirectory.builds`).
        outcomes: of all finished epochs, ascending.
    """
    phases = dict.fromkeys(PHASES, 0.0)
    phases["load"] = loading_seconds(builds.values())
    for outcome in outcomes:
        for phase, seconds in outcome.phases_s.items():
            phases[phase if phase in phases else "other"] += seconds
        phases["other"] += max(0.0, outcome.wall_s - sum(outcome.phases_s.values()))
    for before, after in pairwise(outcomes):
        gap_s = (after.started_at - before.started_at).total_seconds() - before.wall_s
        phases["other"] += gap_s if 0.0 < gap_s <= _PAUSE_S else 0.0
    taken = {phase: round(seconds, 3) for phase, seconds in phases.items() if seconds > 0}
    return WallTime(total_s=round(sum(taken.values()), 3), phases_s=taken)


def loading_seconds(builds: Iterable[Mapping[str, Any]]) -> float:
    """Seconds in which at least one load ran: small ones run two at a time."""
    total_s, ended_s = 0.0, 0.0
    timed = [(build["started_at"].timestamp(), build.get("seconds", 0.0)) for build in builds if "started_at" in build]
    for begun_s, seconds in sorted(timed):
        total_s += max(0.0, begun_s + seconds - max(begun_s, ended_s))
        ended_s = max(ended_s, begun_s + seconds)
    return total_s


_DEFLATED, _PLAIN = 0x1C849314, 0x1C849313
_HEADER = struct.Struct(">iiiiqqd")
_CELLS_MAX = 2**24  # 64 doublings of 5 digits
_BYTES_MAX = 2**25


@dataclass(frozen=True)
class Histogram:
    """Recorded latencies: cells in ascending order, empty ones left out.

    Attributes:
        highest_ns: greatest value that each cell stands for, as HdrHistogram reports quantiles.
        counts: recorded values in each.
    """

    highest_ns: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def total(self) -> int:
        """Values recorded."""
        return int(self.counts.sum())

    def quantiles(self, quantiles: NDArray[np.float64]) -> NDArray[np.int64]:
        """Least value, ns, that a share of at least q lies at or below; all zero for an empty histogram."""
        if not self.total:
            return np.zeros(len(quantiles), dtype=np.int64)
        wanted = np.maximum(1, np.ceil(np.asarray(quantiles) * self.total - 1e-9))
        places = np.searchsorted(np.cumsum(self.counts), wanted)
        return self.highest_ns[np.minimum(places, len(self.highest_ns) - 1)]


def decode_histogram(hdr: str, place: str = "a latency histogram") -> Histogram:
    """Read the base64 text of one histogram; `place` names it in the error.

    Raises:
        ResultsError: not such a text, or damaged.
    """
    try:
        raw = base64.b64decode(hdr, validate=True)
        cookie, length = struct.unpack_from(">ii", raw)
        if cookie != _DEFLATED:
            raise ValueError(f"cookie {cookie:#x}")
        unpacking = zlib.decompressobj()
        inside = unpacking.decompress(raw[8 : 8 + length], _BYTES_MAX)
        if not unpacking.eof:
            raise ValueError(f"it ends early, or has more than {_BYTES_MAX} bytes")
        cookie, size, _, digits, lowest, _, _ = _HEADER.unpack_from(inside)
        if cookie != _PLAIN or not 1 <= digits <= 5 or not 1 <= lowest < 2**32:
            raise ValueError(f"inner cookie {cookie:#x}")
        indexes, counts = _cells(inside[_HEADER.size : _HEADER.size + size])
        if len(indexes) and not 0 <= indexes[-1] < _CELLS_MAX:
            raise ValueError(f"cell {indexes[-1]}")
    except (ValueError, OverflowError, struct.error, zlib.error, binascii.Error) as error:
        raise ResultsError(f"{place} cannot be read: {error}.", hint="Restore the file or measure again.") from None
    return Histogram(_highest(indexes, digits, lowest), counts)


def quantiles_of(rows: Collection[Mapping[str, Any]], wanted: Sequence[float]) -> tuple[int, ...]:
    """Quantiles in ns over all values of these `histogram` messages; empty without any.

    Raises:
        ResultsError: a histogram is damaged.
    """
    found = [decode_histogram(row["hdr"], row.get("place", "a latency histogram")) for row in rows if row["count"]]
    if not found:
        return ()
    highest = np.concatenate([each.highest_ns for each in found])
    order = np.argsort(highest, kind="stable")
    merged = Histogram(highest[order], np.concatenate([each.counts for each in found])[order])
    return tuple(merged.quantiles(np.array(wanted)).tolist())


def _cells(payload: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Indexes and counts of the cells that are not empty."""
    octets = np.frombuffer(payload, dtype=np.uint8).astype(np.int64)
    ends = np.flatnonzero(octets < 0x80)
    starts = np.append(0, ends + 1)[:-1]
    sizes = ends - starts + 1
    if len(octets) != sizes.sum() or np.any(sizes > 8):  # a ninth octet would be a count of 2^55
        raise ValueError("a number does not end")
    place = np.arange(len(octets)) - np.repeat(starts, sizes)
    coded = np.add.reduceat((octets & 0x7F) << (7 * place), starts) if len(octets) else octets
    numbers = (coded >> 1) ^ -(coded & 1)
    steps = np.where(numbers < 0, -numbers, 1)
    if np.any(steps > _CELLS_MAX):
        raise ValueError(f"{steps.max()} empty cells")
    indexes = np.cumsum(steps) - steps
    counted = numbers > 0
    return indexes[counted], numbers[counted]


def _highest(indexes: NDArray[np.int64], digits: int, lowest: int) -> NDArray[np.int64]:
    """Greatest value of each cell: linear cells up to 2 x 10^digits units, then the same number for each doubling."""
    half_magnitude = (2 * 10**digits - 1).bit_length() - 1
    half = 1 << half_magnitude
    unit = lowest.bit_length() - 1
    bucket = (indexes >> half_magnitude) - 1
    sub = (indexes & (half - 1)) + half
    linear = bucket < 0
    sub = np.where(linear, sub - half, sub)
    shift = np.where(linear, 0, bucket) + unit
    highest: NDArray[np.int64] = ((sub + 1) << shift) - 1
    return highest
