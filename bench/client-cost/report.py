"""Tables for a person, and what the JSON file of a run holds."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import estimate
from case import Case, Server
from clients import Client, Latencies
from cost import Window
from rich.console import Console
from rich.table import Table

FORMAT = 3  # of the JSON file; 1: first; 2: with placement; 3: `name` and `host` for `benchmark` and `machine`
REFERENCES = ("sysbench", "bareloop")
_METRICS: dict[str, Callable[[Sequence[Window]], float]] = {
    "client_cpu_per_query": estimate.cpu_ns_per_query,
    "queries_per_s": estimate.queries_per_s,
}


@dataclass
class Cell:
    """What was measured of one case.

    Attributes:
        latencies: of each uninterrupted run of each client.
        user_instructions: per query, of each window in which they were counted.
    """

    case: Case
    rounds: list[estimate.Round] = field(default_factory=list)
    latencies: dict[str, list[Latencies]] = field(default_factory=dict)
    user_instructions: dict[str, list[float]] = field(default_factory=dict)

    @property
    def clients(self) -> list[str]:
        """References first."""
        names = self.rounds[0] if self.rounds else {}
        return sorted(names, key=lambda name: (name not in REFERENCES, name))

    def windows(self, client: str) -> list[Window]:
        """All rounds together."""
        return [window for each in self.rounds for window in each[client]]

    def ratio(self, metric: str, client: str, reference: str) -> estimate.Ratio | None:
        """None when the reference was not measured, or is the client."""
        if client == reference or reference not in self.clients:
            return None
        return estimate.ratio(self.rounds, _METRICS[metric], client, reference)

    def summary(self, client: str) -> dict[str, Any]:
        """Sums over sums of all windows; latencies are medians over runs."""
        windows = self.windows(client)
        cpu_ns, share = estimate.cpu_ns_per_query(windows), estimate.user_share(windows)
        return {
            "queries_per_s": estimate.queries_per_s(windows),
            "client_cpu_ns_per_query": cpu_ns,
            "client_user_ns_per_query": cpu_ns * share,
            "client_system_ns_per_query": cpu_ns * (1 - share),
            "client_user_instructions_per_query": _median(self.user_instructions.get(client, [])),
            "context_switches_per_query": estimate.switches_per_query(windows),
            "server_cpu_ns_per_query": estimate.server_cpu_ns_per_query(windows),
            **{
                name: _median([getattr(each, name) for each in self.latencies.get(client, [])])
                for name in ("p50_ns", "p95_ns", "p99_ns")
            },
        }


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


@dataclass(frozen=True)
class Placement:
    """The CPUs on which the two threads of a connection ran.

    Attributes:
        paired, free: names of clients whose connections were paired (pairing.py), and of the others.
        cpus: on which connections were paired.
        why_free: why none could be paired; empty if some were.
    """

    paired: list[str]
    free: list[str]
    cpus: list[int]
    why_free: str

    @classmethod
    def of(cls, clients: Sequence[Client], server: Server, why_free: str) -> "Placement":
        """Return the placement of these clients with this server."""
        paired = [client.name for client in clients if client.pairs and server.cpus]
        free = [client.name for client in clients if client.name not in paired]
        return cls(paired, free, list(server.cpus), why_free)

    def __str__(self) -> str:
        if self.why_free:
            return f"connections are NOT paired: {self.why_free}"
        cpus = ", ".join(str(cpu) for cpu in self.cpus)
        but = f"; not those of {', '.join(self.free)}" if self.free else ""
        return f"connections are paired: both threads of each on one CPU of {cpus}{but}"


def print_cell(console: Console, cell: Cell, placement: Placement) -> None:
    """Print a table with a line per client."""
    title = f"{cell.case} {'paired' if placement.paired else 'NOT paired'}"
    table = Table(title=title, title_justify="left", title_style="bold")
    columns = [
        "queries/s",
        "CPU µs/query",
        "user",
        "system",
        "user instr.",
        "switches",
        "server µs",
        "p50 µs",
        "p95 µs",
        "p99 µs",
    ]
    table.add_column("client")
    for column in columns + [f"{what} / {name}" for what in ("CPU", "queries/s") for name in REFERENCES]:
        table.add_column(column, justify="right")
    for name in cell.clients:
        summary = cell.summary(name)
        instructions = summary["client_user_instructions_per_query"]
        cpu = ("client_cpu_ns_per_query", "client_user_ns_per_query", "client_system_ns_per_query")
        ratios = [cell.ratio(metric, name, reference) for metric in _METRICS for reference in REFERENCES]
        table.add_row(
            f"{name} (free)" if placement.paired and name in placement.free else name,
            f"{summary['queries_per_s']:,.0f}",
            *(_us(summary[key], 2) for key in cpu),
            "" if instructions is None else f"{instructions:,.0f}",
            f"{summary['context_switches_per_query']:.2f}",
            _us(summary["server_cpu_ns_per_query"], 2),
            *(_us(summary[key], 0) for key in ("p50_ns", "p95_ns", "p99_ns")),
            *("" if ratio is None else str(ratio) for ratio in ratios),
        )
    console.print(table)


def _us(value_ns: float | None, digits: int) -> str:
    return "" if value_ns is None else f"{value_ns / 1e3:,.{digits}f}"


def content(
    cells: Sequence[Cell],
    server: Server,
    clients: Sequence[Client],
    placement: Placement,
    settings: dict[str, Any],
    notes: Sequence[str],
) -> dict[str, Any]:
    """Return what this benchmark adds to the common fields: summaries, ratios with intervals, and every window."""
    return {
        "format": FORMAT,
        "server": {"version": server.version},
        "clients": {client.name: client.version() for client in clients},
        "placement": asdict(placement),
        "settings": settings,
        "notes": list(notes),
        "cells": [_cell_record(cell) for cell in cells],
    }


def _cell_record(cell: Cell) -> dict[str, Any]:
    ratios = [
        {"metric": metric, "of": name, "to": reference, **asdict(ratio)}
        for metric in _METRICS
        for reference in REFERENCES
        for name in cell.clients
        if (ratio := cell.ratio(metric, name, reference)) is not None
    ]
    return {
        **asdict(cell.case),
        "clients": {name: cell.summary(name) for name in cell.clients},
        "ratios": ratios,
        "user_instructions": cell.user_instructions,
        "latencies": {name: [asdict(each) for each in runs] for name, runs in cell.latencies.items()},
        "rounds": [{name: [w.as_record() for w in windows] for name, windows in each.items()} for each in cell.rounds],
    }
