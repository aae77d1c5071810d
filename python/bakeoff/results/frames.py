"""Schemas of the tables in a run directory, and messages turned into them.

Times are integers of nanoseconds unless the name says otherwise.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

import polars as pl

from bakeoff.errors import ResultsError

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

_NOT_KEPT = {"type", "id"}

Slices = TypeVar("Slices", pl.DataFrame, pl.LazyFrame)
"""A table of `SLICE_SCHEMA`."""


def slices_frame(messages: Iterable[Mapping[str, Any]], *, epoch: int, build: int) -> pl.DataFrame:
    """The engine's `slice` messages as a table of `SLICE_SCHEMA`, in order.

    Raises:
        ResultsError: a message has a field that the format does not know, or lacks one: nothing is dropped in silence.
    """
    rows: list[dict[str, Any]] = []
    wanted = SLICE_SCHEMA.keys() - {"epoch", "build"}
    for message in messages:
        row = {key: value for key, value in message.items() if key not in _NOT_KEPT}
        if row.keys() - {"epoch", "build"} != wanted:
            odd = sorted((row.keys() ^ wanted) - {"epoch", "build"})
            raise ResultsError(
                f"slice of arm {message.get('arm')!r}: fields {', '.join(odd)} do not fit run format 1.",
                hint="The engine and bakeoff are of different versions; install both from one wheel.",
            )
        row["epoch"], row["build"] = epoch, build
        row["errors"] = json.dumps(row["errors"], sort_keys=True)
        row["threads"] = json.dumps(row["threads"], sort_keys=True)
        rows.append(row)
    return pl.DataFrame(rows, schema=SLICE_SCHEMA)


def with_open_loop_time(slices: Slices, cells: Collection[str]) -> Slices:
    """The slices with `busy_ns` of these open-loop cells as long as the slice, for every connection.

    There the schedule says when events begin, so that a connection's own window, from its first event to its last,
    is the shorter the fewer events it had, and tells nothing of the server.
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
        raise ResultsError(f"host sample: fields {', '.join(sorted(unknown))} do not fit run format 1.")
    schema = HOST_SCHEMA | dict.fromkeys(arms, pl.Int64)
    return pl.DataFrame([{key: row.get(key) for key in schema} for row in rows], schema=schema)
