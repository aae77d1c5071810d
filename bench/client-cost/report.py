"""Tables for a person, and the JSON file of a run."""

import json
import os
import platform
import subprocess
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import estimate
from case import Case, Server
from clients import Client
from rich.console import Console
from rich.table import Table
from window import Slice

FORMAT = 1  # of the JSON file; 1: first
REFERENCES = ("sysbench", "bareloop")
CPU, THROUGHPUT = "client_cpu_per_query", "queries_per_s"
_METRICS: dict[str, Callable[[Sequence[Slice]], float]] = {
    CPU: estimate.cpu_ns_per_query,
    THROUGHPUT: estimate.queries_per_s,
}

Rounds = list[dict[str, list[Slice]]]


def print_cell(console: Console, case: Case, rounds: Rounds) -> None:
    """One table: a line a client."""
    table = Table(title=str(case), title_justify="left", title_style="bold")
    columns = (
        "client",
        "queries/s",
        "CPU µs/query",
        "user",
        "system",
        "switches/query",
        "server µs/query",
        "p50 µs",
        "p95 µs",
        "p99 µs",
    )
    ratios = tuple(f"CPU / {name}" for name in REFERENCES) + tuple(f"queries/s / {name}" for name in REFERENCES)
    for column in columns + ratios:
        table.add_column(column, justify="left" if column == "client" else "right")
    for name in _clients_in(rounds):
        summary = _summary([s for each in rounds for s in each[name]])
        table.add_row(
            name,
            f"{summary['queries_per_s']:,.0f}",
            *(
                _us(summary[key])
                for key in ("client_cpu_ns_per_query", "client_user_ns_per_query", "client_system_ns_per_query")
            ),
            f"{summary['context_switches_per_query']:.2f}",
            _us(summary["server_cpu_ns_per_query"]),
            *(_us(summary[key], 0) for key in ("p50_ns", "p95_ns", "p99_ns")),
            *(
                str(estimate.ratio(rounds, _METRICS[metric], name, reference))
                if reference in rounds[0] and reference != name
                else ""
                for metric in (CPU, THROUGHPUT)
                for reference in REFERENCES
            ),
        )
    console.print(table)


def _clients_in(rounds: Rounds) -> list[str]:
    return sorted(rounds[0], key=lambda name: (name not in REFERENCES, name)) if rounds else []


def _us(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value / 1e3:,.{digits}f}"


def _summary(slices: Sequence[Slice]) -> dict[str, Any]:
    cpu, user = estimate.cpu_ns_per_query(slices), estimate.user_ns_per_query(slices)
    return {
        "queries_per_s": estimate.queries_per_s(slices),
        "client_cpu_ns_per_query": cpu,
        "client_user_ns_per_query": user,
        "client_system_ns_per_query": cpu - user,
        "context_switches_per_query": estimate.switches_per_query(slices),
        "server_cpu_ns_per_query": estimate.server_cpu_ns_per_query(slices),
        **{field: estimate.median_ns(slices, field) for field in ("p50_ns", "p95_ns", "p99_ns")},
    }


def record(
    cells: dict[Case, Rounds], server: Server, clients: Sequence[Client], settings: dict[str, Any], notes: Sequence[str]
) -> dict[str, Any]:
    """Everything, to be written as JSON: summaries, ratios with intervals, and every slice."""
    return {
        "format": FORMAT,
        "benchmark": "client-cost",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted": _git("status", "--porcelain", "--", "crates", "bench") != "",
        "machine": machine(),
        "server": {"version": server.version},
        "clients": {client.name: client.version() for client in clients},
        "settings": settings,
        "notes": list(notes),
        "cells": [
            {
                **case.as_record(),
                "clients": {name: _summary([s for each in rounds for s in each[name]]) for name in _clients_in(rounds)},
                "ratios": [
                    {"metric": metric, "of": name, "to": reference, **vars(estimate.ratio(rounds, of, name, reference))}
                    for metric, of in _METRICS.items()
                    for reference in REFERENCES
                    if reference in rounds[0]
                    for name in _clients_in(rounds)
                    if name != reference
                ],
                "rounds": [[s.as_record() for slices in each.values() for s in slices] for each in rounds],
            }
            for case, rounds in cells.items()
            if rounds
        ],
    }


def write(run: dict[str, Any], folder: Path) -> Path:
    """Write into `folder`, by rename; returns the path."""
    folder.mkdir(parents=True, exist_ok=True)
    stamp = datetime.fromisoformat(run["date"]).strftime("%Y-%m-%dT%H%MZ")
    path = folder / f"{run['benchmark']}-{stamp}.json"
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(run, indent=1) + "\n", "utf-8")
    temporary.rename(path)
    return path


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    models = [line.split(":", 1)[1].strip() for line in cpuinfo.splitlines() if line.startswith("model name")]
    memory_kib = int(Path("/proc/meminfo").read_text().split("MemTotal:")[1].split()[0])
    return {
        "cpu": models[0] if models else platform.machine(),
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "memory_bytes": memory_kib * 1024,
    }


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(Path(__file__).parent), *arguments], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()
