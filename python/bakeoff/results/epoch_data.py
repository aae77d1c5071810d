"""Write and read one epoch of a run directory: its outcome, measurements as tables, and wall time by phase.

A latency histogram (`hdr`) is HdrHistogram's V2 deflate form in base64: cookie, length, and a zlib stream of 40
bytes of header and counts as ZigZag LEB128. A negative count is a run of empty cells.
"""

import base64
import gzip
import hashlib
import json
import struct
import tomllib
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any, NotRequired
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray
from pydantic import AwareDatetime, ConfigDict, NonNegativeInt
from typing_extensions import TypedDict

from bakeoff.errors import ResultsError
from bakeoff.files import write_atomically
from bakeoff.redaction import Redactor
from bakeoff.results.frame import Frame, Schema, write_parquet
from bakeoff.results.manifest import FORMAT
from bakeoff.spec import Frozen


class Outcome(Frozen):
    """How an epoch went: `outcome.json`, written last (docs/reference/results.md).

    `start_order` has all arms of the run, including those that this epoch did not measure. `host` is empty for the
    machine of the run directory.
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
    other_bakeoffs: tuple[int, ...] = ()
    cache_line_ns: dict[str, int] = {}
    host: str = ""


class Load(TypedDict):
    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    arm: str
    build: int
    started_at: NotRequired[AwareDatetime]
    seconds: NotRequired[float]


class FailureRow(TypedDict):
    """Statements of a replay that failed alike in one epoch; `message` is the server's first, without literals."""

    cell: str
    arm: str
    operation: str
    sql_errno: NonNegativeInt
    count: NonNegativeInt
    message: str


CHANGES = "changed-variables.json"
CellChanges = dict[str, dict[str, tuple[str, str]]]


class CellCounters(TypedDict):
    """Counters of a server that moved during one cell, over the `seconds` of its slices (docs/reference/explain.md)."""

    events: float
    seconds: float
    counters: dict[str, float]


RESTART = "restart.json"  # how long a restarted server took to be fast again
COUNTERS = "counters.json"  # A server's `CellCounters` by cell


@dataclass(frozen=True)
class EpochData:
    """One finished epoch as the statistics read it."""

    epoch: int
    slices: Frame
    build: int = 0
    valid: bool = True
    discard_reason: str = ""
    histograms: Sequence[Mapping[str, Any]] = ()
    variables: dict[str, dict[str, str]] = field(default_factory=dict)
    changes: dict[str, CellChanges] = field(default_factory=dict)  # after the server's start, by arm
    failures: list[FailureRow] = field(default_factory=list)
    host: str = ""


SLICE_SCHEMA: Schema = tomllib.loads(files("bakeoff.results").joinpath("schemas.toml").read_text("utf-8"))

CHECKSUMS = "SHA256SUMS"
"""File beside the measurements of an epoch, for `sha256sum --check`; runs before December 2026 lack it."""

_NOT_KEPT = {"type", "id", "epoch", "build", "load_ns", "outside_events"}


def slices_frame(messages: Iterable[Mapping[str, Any]], *, epoch: int, build: int) -> Frame:
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
    """Set `busy_ns` of open-loop cells to the length of the slice, for every connection.

    There the schedule decides when events begin, so the time between events says nothing about the server.
    """
    if not cells:
        return slices
    whole_ns = slices["length_ns"] * slices["connections"]
    return slices.with_columns(busy_ns=np.where(np.isin(slices["cell"], list(cells)), whole_ns, slices["busy_ns"]))


def arm_directory_name(arm: str) -> str:
    """Return an arm's name as one path component; `urllib.parse.unquote` gives the name back."""
    name = quote(arm, safe=" '+,=@()")
    return name.replace(".", "%2E") if name.startswith(".") else name


class EpochWriter:
    """Collects an epoch in memory and writes it at `finish`, `outcome.json` last. Server files are written at once."""

    def __init__(self, path: Path, *, epoch: int, build: int, redactor: Redactor) -> None:
        self.path = path
        self.epoch = epoch
        self.build = build
        self.slices: list[Mapping[str, Any]] = []
        self.histograms: list[Mapping[str, Any]] = []
        self.failures: list[Mapping[str, Any]] = []
        self.warm_up: list[Mapping[str, Any]] = []  # `slice` messages from before measuring
        self._redactor = redactor
        self._digests: dict[str, str] = {}
        self._readings: dict[tuple[str, str], dict[str, list[Any]]] = {}

    def server_directory(self, arm: str) -> Path:
        path = self.path / "servers" / arm_directory_name(arm)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def write_server_text(self, arm: str, name: str, text: str) -> None:
        content = self._redactor.free_text(text).encode("utf-8", errors="replace")
        write_atomically(self.server_directory(arm) / name, content)

    def write_server_json(self, arm: str, name: str, values: Mapping[str, Any]) -> None:
        """Write `variables.json`, `notes.json`, `profile.json.gz` …: a server's values by name."""
        content = self._redactor.json_bytes(dict(sorted(values.items())))
        compressed = gzip.compress(content, mtime=0) if name.endswith(".gz") else content
        write_atomically(self.server_directory(arm) / name, compressed)

    def add_server_reading(self, arm: str, name: str, cell: str, reading: Any) -> None:  # noqa: ANN401 — JSON
        """Append a cell's reading to a server's document, which holds one list per cell."""
        cells = self._readings.setdefault((arm, name), {})
        cells.setdefault(cell, []).append(reading)
        self.write_server_json(arm, name, cells)

    def finish(self, outcome: Outcome) -> None:
        """Write the tables, then the outcome; only then is the epoch finished."""
        for name, messages in (("slices.parquet", self.slices), ("warm-up.parquet", self.warm_up)):
            if messages or name == "slices.parquet":
                frame = slices_frame(messages, epoch=self.epoch, build=self.build)
                self._write(name, write_parquet(frame, SLICE_SCHEMA))
        lines = "".join(json.dumps(message, ensure_ascii=False) + "\n" for message in self.histograms)
        self._write("histograms.jsonl", lines.encode())
        if self.failures:
            # Messages of servers can hold what a statement held.
            self._write("failures.json", self._redactor.json_bytes(_failure_rows(self.failures)))
        sums = "".join(f"{digest}  {name}\n" for name, digest in self._digests.items())
        write_atomically(self.path / CHECKSUMS, sums.encode())
        write_atomically(self.path / "outcome.json", self._redactor.json_bytes(outcome))

    def _write(self, name: str, content: bytes) -> None:
        self._digests[name] = hashlib.sha256(content).hexdigest()
        write_atomically(self.path / name, content)


def _failure_rows(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for message in messages:
        for each in message["failures"]:
            place = {"cell": message["cell"], "arm": message["arm"]}
            key = (message["cell"], message["arm"], each["operation"], each["sql_errno"])
            row = rows.setdefault(key, {**place, **each, "count": 0})
            row["count"] += each["count"]
    return list(rows.values())


PHASES = (
    "load",
    "restore",
    "start",
    "readiness",
    "check",
    "warm",
    "pilot",
    "flush",
    "measure",
    "restart",
    "stop",
    "other",
)
"""Phases of a run, in order. `other` is what no phase covers: reading variables, statistics between epochs."""

_PAUSE_S = 60.0  # A longer gap between two epochs is a pause before a resumed run: no work was done in it


class WallTime(Frozen):
    """Seconds of a run by phase, including discarded epochs, excluding downloads and the final report."""

    total_s: float
    phases_s: dict[str, float]

    @property
    def measured_share(self) -> float:
        return self.phases_s.get("measure", 0.0) / self.total_s if self.total_s > 0 else 0.0


def wall_time(builds: Mapping[str, Mapping[str, Any]], outcomes: Sequence[Outcome]) -> WallTime:
    """Add up the time of a run: loads (`RunDirectory.builds`), phases of all finished epochs, and gaps between them."""
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
    """Return the seconds in which at least one load ran; small loads run two at a time."""
    total_s, ended_s = 0.0, 0.0
    timed = [(build["started_at"].timestamp(), build.get("seconds", 0.0)) for build in builds if "started_at" in build]
    for begun_s, seconds in sorted(timed):
        total_s += max(0.0, begun_s + seconds - max(begun_s, ended_s))
        ended_s = max(ended_s, begun_s + seconds)
    return total_s


_DEFLATED, _PLAIN = 0x1C849314, 0x1C849313
_HEADER = struct.Struct(">iiiiqqd")


@dataclass(frozen=True)
class Histogram:
    """Recorded latencies: non-empty cells in ascending order, `highest_ns` being the greatest value in each."""

    highest_ns: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    def quantiles(self, quantiles: NDArray[np.float64]) -> NDArray[np.int64]:
        if not self.total:
            return np.zeros(len(quantiles), dtype=np.int64)
        wanted = np.maximum(1, np.ceil(np.asarray(quantiles) * self.total - 1e-9))
        places = np.searchsorted(np.cumsum(self.counts), wanted)
        return self.highest_ns[np.minimum(places, len(self.highest_ns) - 1)]


def decode_histogram(hdr: str) -> Histogram:
    try:
        raw = base64.b64decode(hdr, validate=True)
        cookie, length = struct.unpack_from(">ii", raw)
        if cookie != _DEFLATED:
            raise ValueError(f"cookie {cookie:#x}")
        inside = zlib.decompress(raw[8 : 8 + length])
        cookie, size, _, digits, lowest, _, _ = _HEADER.unpack_from(inside)
        if cookie != _PLAIN:
            raise ValueError(f"inner cookie {cookie:#x}")
        indexes, counts = _cells(inside[_HEADER.size : _HEADER.size + size])
    except (ValueError, struct.error, zlib.error) as error:
        raise ResultsError(
            f"a latency histogram cannot be read: {error}.", hint="Restore histograms.jsonl or measure again."
        ) from None
    return Histogram(_highest(indexes, digits, lowest), counts)


def quantiles_of(rows: Collection[Mapping[str, Any]], wanted: Sequence[float]) -> tuple[int, ...]:
    """Return quantiles in ns over all values of some `histogram` messages; empty if there are none."""
    found = [decode_histogram(row["hdr"]) for row in rows if row["count"]]
    if not found:
        return ()
    highest = np.concatenate([each.highest_ns for each in found])
    order = np.argsort(highest, kind="stable")
    merged = Histogram(highest[order], np.concatenate([each.counts for each in found])[order])
    return tuple(merged.quantiles(np.array(wanted)).tolist())


def _cells(payload: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    octets = np.frombuffer(payload, dtype=np.uint8).astype(np.int64)
    ends = np.flatnonzero(octets < 0x80)
    starts = np.append(0, ends + 1)[:-1]
    sizes = ends - starts + 1
    if len(octets) != sizes.sum():
        raise ValueError("a number does not end")
    place = np.arange(len(octets)) - np.repeat(starts, sizes)
    coded = np.add.reduceat((octets & 0x7F) << (7 * place), starts) if len(octets) else octets
    numbers = (coded >> 1) ^ -(coded & 1)
    steps = np.where(numbers < 0, -numbers, 1)
    indexes = np.cumsum(steps) - steps
    counted = numbers > 0
    return indexes[counted], numbers[counted]


def _highest(indexes: NDArray[np.int64], digits: int, lowest: int) -> NDArray[np.int64]:
    """Return the greatest value of each cell: linear up to 2 x 10^digits units, then as many per doubling."""
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
