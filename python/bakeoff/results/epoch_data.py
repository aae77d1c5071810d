"""Write and read one epoch of a run directory: its outcome, its measurements as tables, its wall time by phase."""

import hashlib
import io
import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NotRequired, TypeVar
from urllib.parse import quote

import polars as pl
from pydantic import AwareDatetime, ConfigDict, JsonValue, NonNegativeFloat, NonNegativeInt
from typing_extensions import TypedDict

from bakeoff.errors import ResultsError
from bakeoff.redaction import Redactor
from bakeoff.results.manifest import FORMAT
from bakeoff.spec import Frozen


class Outcome(Frozen):
    """How an epoch went: `outcome.json`, written last (docs/results.md).

    Attributes:
        valid: False: the epoch counts for no arm, because of `discard_reason`.
        started_at: UTC.
        wall_s, measured_s: seconds in all, and inside `measure`.
        phases_s: seconds of each of `PHASES` that took any time.
        seeds: `order`, `keys`, `padding`.
        readiness: for each arm what was waited for before measuring.
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


class Load(TypedDict):
    """One load of the data: `builds/ARM-N.json`; fields that a report shows."""

    __pydantic_config__ = ConfigDict(extra="allow", allow_inf_nan=False)  # type: ignore[misc]

    arm: str
    arms: NotRequired[list[str]]
    build: int
    seconds: NotRequired[NonNegativeFloat]
    rows: NotRequired[int]
    threads: NotRequired[int]
    data_bytes: NotRequired[dict[str, NonNegativeFloat]]
    rows_bytes: NotRequired[dict[str, NonNegativeFloat]]
    index_bytes: NotRequired[dict[str, NonNegativeFloat]]
    snapshot_bytes: NotRequired[NonNegativeFloat]


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


class Counts(TypedDict):
    """What a server counted of TPC-C (`bakeoff.stats.tpcc.ServerCounts`)."""

    next_order_ids: int
    commits: int
    rollbacks: int


class Reading(TypedDict):
    """One reading of `data-check.json`."""

    before: Counts
    after: Counts


OwnCounts = dict[str, list[Reading]]
"""`data-check.json`: cell -> one reading a round."""


@dataclass(frozen=True)
class EpochData:
    """One finished epoch as the statistics read it.

    Attributes:
        epoch, build: numbers from 0.
        valid, discard_reason: as in its outcome.
        slices: one row a slice, columns of `bakeoff.results.epoch_data.SLICE_SCHEMA`.
        histograms: the engine's `histogram` messages (docs/engine.md), one a cell, arm and operation.
        variables: for each arm, its server's global variables.
        server_counts: for each arm and cell, TPC-C transactions by the server's own count before and after
            (`data-check.json`); empty for other workloads.
    """

    epoch: int
    build: int
    valid: bool
    discard_reason: str
    slices: pl.DataFrame
    histograms: list[dict[str, Any]]
    variables: dict[str, dict[str, str]]
    server_counts: dict[str, OwnCounts] = field(default_factory=dict)


SLICE_SCHEMA: dict[str, type[pl.DataType]] = {
    "epoch": pl.Int32,
    "build": pl.Int32,
    "cell": pl.String,
    "arm": pl.String,
    "block": pl.Int32,
    "position": pl.Int32,
    "start_ns": pl.Int64,
    "length_ns": pl.Int64,
    "busy_ns": pl.Int64,
    "connections": pl.Int32,
    "events": pl.Int64,
    "reads": pl.Int64,
    "writes": pl.Int64,
    "other": pl.Int64,
    "errors": pl.String,  # JSON text: {"1213": 1}
    "retries": pl.Int64,
    "reconnects": pl.Int64,
    "late_starts": pl.Int64,
    "dropped": pl.Int64,
    "latency_sum_ns": pl.Int64,
    "latency_max_ns": pl.Int64,
    "sent_bytes": pl.Int64,
    "received_bytes": pl.Int64,
    "client_user_ns": pl.Int64,
    "client_system_ns": pl.Int64,
    "server_cpu_ns": pl.Int64,  # the server's fields are null when it runs elsewhere
    "server_read_bytes": pl.Int64,
    "server_write_bytes": pl.Int64,
    "server_rss_bytes": pl.Int64,
    "host_user_ns": pl.Int64,
    "host_system_ns": pl.Int64,
    "host_iowait_ns": pl.Int64,
    "host_steal_ns": pl.Int64,
    "host_idle_ns": pl.Int64,
    "context_switches": pl.Int64,
    "threads": pl.String,  # JSON text: CPU ns of the server's busy threads by name, in slices of 0.1 s and more
}

HOST_SCHEMA: dict[str, type[pl.DataType]] = {
    "time_ns": pl.Int64,  # since the epoch's start
    "user": pl.Float64,  # shares of all CPUs, 0 to 1
    "system": pl.Float64,
    "iowait": pl.Float64,
    "steal": pl.Float64,
    "idle": pl.Float64,
    "memory_used_bytes": pl.Int64,
    "memory_cached_bytes": pl.Int64,
    "disk_read_bytes_per_s": pl.Float64,
    "disk_write_bytes_per_s": pl.Float64,
    "network_bytes_per_s": pl.Float64,  # loopback included
    "context_switches_per_s": pl.Float64,
    "interrupts_per_s": pl.Float64,
    "running": pl.Int64,
    "blocked": pl.Int64,
}

RSS_PREFIX = "rss_bytes:"  # one more column of the host table for each arm

CHECKSUMS = "SHA256SUMS"
"""File beside the measurements of an epoch, for `sha256sum --check`; runs before December 2026 lack it."""

_NOT_KEPT = {"type", "id"}
_KNOWN = ("cell", "arm", "block", "position", "start_ns", "length_ns", "busy_ns", "connections", "events", "time_ns")
_COUNTS = r'^\{("([^"\\]|\\.)*": ?[0-9]{1,18}(, ?)?)*\}$'


def table_mistake(frame: pl.DataFrame, schema: Mapping[str, Any], *, arms: Collection[str]) -> str:
    """What a table has that no engine sends and a report could not show; empty for a sound one."""
    if missing := schema.keys() - set(frame.columns):
        return f"columns {', '.join(sorted(missing))} are missing"
    found = frame.schema
    odd = [name for name in found if found[name] != schema.get(name, pl.Int64 if name.startswith(RSS_PREFIX) else None)]
    if odd:
        return f"column {odd[0]} is of another type or unknown"
    if any(frame[name].null_count() for name in _KNOWN if name in found):
        return "values are missing"
    # Ticks of the kernel may go backwards: iowait and idle are corrected afterwards.
    whole = [name for name in found if found[name] in (pl.Int32, pl.Int64) and not name.startswith("host_")]
    if frame.select((pl.col(whole) < 0).any()).transpose().to_series().any():
        return "a count or a time is below zero"
    if "arm" not in found:
        return ""
    if unknown := set(frame["arm"].unique()) - set(arms):
        return f"the study has no arm {sorted(unknown)[0]}"
    if not frame.select(pl.col("errors", "threads").str.contains(_COUNTS).all()).transpose().to_series().all():
        return "errors or threads are no counts"
    if frame.select(pl.min_horizontal("length_ns", "connections").min() < 1).item():
        return "a slice without length or connections"
    return ""


Slices = TypeVar("Slices", pl.DataFrame, pl.LazyFrame)
"""A table of `SLICE_SCHEMA`."""


def slices_frame(messages: Iterable[Mapping[str, Any]], *, epoch: int, build: int) -> pl.DataFrame:
    """The engine's `slice` messages as a table of `SLICE_SCHEMA`, in order.

    Raises:
        ResultsError: a message has a field that the format does not know, or lacks one.
    """
    rows: list[dict[str, Any]] = []
    wanted = SLICE_SCHEMA.keys() - {"epoch", "build"}
    for message in messages:
        row = {key: value for key, value in message.items() if key not in _NOT_KEPT}
        if row.keys() - {"epoch", "build"} != wanted:
            odd = sorted((row.keys() ^ wanted) - {"epoch", "build"})
            raise ResultsError(
                f"slice of arm {message.get('arm')!r}: fields {', '.join(odd)} do not fit run format {FORMAT}.",
                hint="The engine and bakeoff are of different versions; install both from one wheel.",
            )
        row["epoch"], row["build"] = epoch, build
        row["errors"] = json.dumps(row["errors"], sort_keys=True)
        row["threads"] = json.dumps(row["threads"], sort_keys=True)
        rows.append(row)
    return pl.DataFrame(rows, schema=SLICE_SCHEMA)


def with_open_loop_time(slices: Slices, cells: Collection[str]) -> Slices:
    """The slices, with `busy_ns` of these open-loop cells as long as the slice, for every connection.

    There the schedule decides when events begin: a connection's own window, from its first event to its last, is the
    shorter the fewer events it had, and says nothing about the server.
    """
    whole_ns = pl.col("length_ns") * pl.col("connections")
    busy_ns = pl.when(pl.col("cell").is_in(sorted(cells))).then(whole_ns).otherwise(pl.col("busy_ns"))
    return slices.with_columns(busy_ns=busy_ns) if cells else slices


def host_frame(samples: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Samples of the machine as a table of `HOST_SCHEMA` plus `rss_bytes:ARM` columns; what a sample lacks is null."""
    rows = [dict(sample) for sample in samples]
    arms = sorted({key for row in rows for key in row if key.startswith(RSS_PREFIX)})
    unknown = {key for row in rows for key in row} - HOST_SCHEMA.keys() - set(arms)
    if unknown:
        raise ResultsError(f"host sample: fields {', '.join(sorted(unknown))} do not fit run format {FORMAT}.")
    schema = HOST_SCHEMA | dict.fromkeys(arms, pl.Int64)
    return pl.DataFrame([{key: row.get(key) for key in schema} for row in rows], schema=schema)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader, or a crash, sees all of it or none: synced, then renamed into place.

    Raises:
        OSError: as the file system says (no space, no permission); `path` is then as it was before.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make renames and new names inside a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
    """

    def __init__(self, path: Path, *, epoch: int, build: int, redactor: Redactor) -> None:
        self.path = path
        self.epoch = epoch
        self.build = build
        self._redactor = redactor
        self._slices: list[Mapping[str, Any]] = []
        self._histograms: list[Mapping[str, Any]] = []
        self._warm_up: list[Mapping[str, Any]] = []
        self._host: list[Mapping[str, Any]] = []
        self._digests: dict[str, str] = {}

    def add_slices(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """Add the engine's `slice` messages of a measured cell."""
        self._slices.extend(messages)

    def add_warm_up(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """Add the engine's `slice` messages from before measuring: the warm-up curve, not evidence."""
        self._warm_up.extend(messages)

    def add_histograms(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """Add the engine's `histogram` messages of a measured cell."""
        self._histograms.extend(messages)

    def add_host_samples(self, samples: Iterable[Mapping[str, Any]]) -> None:
        """Add samples of the machine, one a second: fields of `HOST_SCHEMA`, and `rss_bytes:ARM`."""
        self._host.extend(samples)

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
        """`variables.json`, `status-before.json`, `status-after.json`, `data-check.json`: a server's values by name."""
        write_atomically(self.server_directory(arm) / name, self._redactor.json_bytes(dict(sorted(values.items()))))

    def finish(self, outcome: Outcome) -> None:
        """Write the tables, then the outcome: from then on the epoch counts (or counts as discarded).

        Raises:
            ResultsError: a slice does not fit the format; the outcome is then not written.
            ValueError: the outcome belongs to another epoch or build.
        """
        if (outcome.epoch, outcome.build) != (self.epoch, self.build):
            raise ValueError(
                f"outcome of epoch {outcome.epoch}, build {outcome.build} given to {self.epoch}, {self.build}"
            )
        self._write_parquet("slices.parquet", slices_frame(self._slices, epoch=self.epoch, build=self.build))
        if self._warm_up:
            self._write_parquet("warm-up.parquet", slices_frame(self._warm_up, epoch=self.epoch, build=self.build))
        self._write_parquet("host.parquet", host_frame(self._host))
        lines = "".join(json.dumps(message, ensure_ascii=False) + "\n" for message in self._histograms)
        self._write("histograms.jsonl", lines.encode())
        sums = "".join(f"{digest}  {name}\n" for name, digest in self._digests.items())
        write_atomically(self.path / CHECKSUMS, sums.encode())
        write_atomically(self.path / "outcome.json", self._redactor.json_bytes(outcome))

    def _write_parquet(self, name: str, frame: pl.DataFrame) -> None:
        content = io.BytesIO()
        frame.write_parquet(content, compression="zstd")
        self._write(name, content.getvalue())

    def _write(self, name: str, content: bytes) -> None:
        self._digests[name] = hashlib.sha256(content).hexdigest()
        write_atomically(self.path / name, content)


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


def wall_time(builds: Mapping[str, Mapping[str, object]], outcomes: Sequence[Outcome]) -> WallTime:
    """Add up a run's time: loads, phases of epochs, and what lies between them.

    Args:
        builds: documents of the loads, with `seconds` (`RunDirectory.builds`).
        outcomes: of all finished epochs, ascending.
    """
    phases = dict.fromkeys(PHASES, 0.0)
    for build in builds.values():
        seconds = build.get("seconds", 0.0)
        phases["load"] += seconds if isinstance(seconds, int | float) else 0.0
    for outcome in outcomes:
        for phase, seconds in outcome.phases_s.items():
            phases[phase if phase in phases else "other"] += seconds
        phases["other"] += max(0.0, outcome.wall_s - sum(outcome.phases_s.values()))
    for before, after in pairwise(outcomes):
        gap_s = (after.started_at - before.started_at).total_seconds() - before.wall_s
        phases["other"] += gap_s if 0.0 < gap_s <= _PAUSE_S else 0.0
    taken = {phase: round(seconds, 3) for phase, seconds in phases.items() if seconds > 0}
    return WallTime(total_s=round(sum(taken.values()), 3), phases_s=taken)
