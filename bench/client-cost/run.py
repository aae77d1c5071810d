#!/usr/bin/env python3
"""What clients cost: CPU per query, context switches, throughput of sysbench, bakeoff's engine and the bare loop.

    bench/client-cost/run.py --server mysql:8.0            # starts a server of bakeoff's catalogue: 12 minutes
    bench/client-cost/run.py --socket /run/mysqld.sock     # uses one that runs (root without a password)
    … --quick                                              # three minutes
    … --full --minutes 90                                  # every cell, in a time of your choice

All clients stand ready at once and run in turn, in short windows; see the README in bench/.
"""

import argparse
import contextlib
import json
import random
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / part) for part in ("python", "bench")]

import clients
import dataset
import drivers
import estimate
import matrix
import pairing
import place
import pymysql
from case import Case, Server
from clients import Client, ClientFailed
from cost import Monitor
from rich.console import Console
from stage import Stage, latencies_of

import record
import report
from bakeoff.errors import BakeoffError

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("bakeoff-bareloop", "bakeoff-engine")
SETTINGS = ("minutes", "rounds", "window", "guard", "warm", "latency_run", "seed", "tables", "table_size")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--server", metavar="NAME", help="start this server of the catalogue, e.g. mysql:8.0")
    where.add_argument("--socket", metavar="PATH", help="use the server that listens there")
    parser.add_argument("--user", default="root", help="an account without a password (default: %(default)s)")
    parser.add_argument("--database", default="sbtest")
    parser.add_argument("--workloads", metavar="LIST", help="of your own matrix; default: the two reads")
    parser.add_argument("--threads", metavar="LIST", help=f"of your own matrix; default: {_listed(matrix.THREADS)}")
    parser.add_argument("--statements", metavar="LIST", help="of your own matrix: prepared (default), text")
    parser.add_argument("--transport", metavar="LIST", help="of your own matrix: socket (default), tcp")
    parser.add_argument("--clients", default=None, metavar="LIST", help="default: bareloop,sysbench,engine; or all")
    parser.add_argument("--tables", type=int, default=4)
    parser.add_argument("--table-size", type=int, default=100_000)
    parser.add_argument("--minutes", type=float, help="for all cells (default: 12; with --quick 3)")
    parser.add_argument("--rounds", type=int, help="of each cell, whatever time they take")
    parser.add_argument("--window", type=float, default=0.3, metavar="S", help="seconds (default: %(default)s)")
    parser.add_argument("--guard", type=float, default=0.05, metavar="S", help="before a window (default: %(default)s)")
    parser.add_argument("--warm", type=float, default=1.0, metavar="S", help="of each client (default: %(default)s)")
    parser.add_argument("--latency-run", type=float, default=2.0, metavar="S", help="seconds (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="four cells, wider intervals")
    size.add_argument("--full", action="store_true", help="a hundred cells: every workload, way and concurrency")
    parser.add_argument("--binaries", type=Path, help="folder of the Rust programs; default: build them")
    parser.add_argument("--results", type=Path, default=record.RESULTS, help="folder of the JSON files")
    chosen = parser.parse_args()
    chosen.minutes = chosen.minutes or (matrix.QUICK_MINUTES if chosen.quick else matrix.STANDARD_MINUTES)
    return chosen


def _listed(values: Iterable[object]) -> str:
    return ",".join(str(value) for value in values)


def cases(chosen: argparse.Namespace) -> list[Case]:
    """Return a predefined matrix, or the product of the given lists."""
    size = (chosen.tables, chosen.table_size)
    lists = (chosen.workloads, chosen.statements, chosen.transport, chosen.threads)
    if any(lists):
        defaults = (matrix.WORKLOADS[:2], ("prepared",), ("socket",), matrix.THREADS)
        workloads, statements, transports, threads = (
            (given or _listed(default)).split(",") for given, default in zip(lists, defaults, strict=True)
        )
        return matrix.product(workloads, statements, transports, [int(count) for count in threads], *size)
    if chosen.full:
        return matrix.full(*size)
    return matrix.quick(*size) if chosen.quick else matrix.standard(*size)


def main() -> int:
    chosen = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the clients are killed on the way out
    console = Console(soft_wrap=False, width=None if sys.stdout.isatty() else 220)
    try:
        return run(chosen, console)
    except (BakeoffError, ClientFailed) as problem:
        return fail(str(problem))
    except (pymysql.MySQLError, OSError) as problem:
        return fail(f"the server at {chosen.socket or chosen.server} cannot be used: {problem}")


def fail(message: str) -> int:
    print(f"client-cost: {message}", file=sys.stderr)
    return 3


def run(chosen: argparse.Namespace, console: Console) -> int:
    present, notes = usable_clients(chosen)
    for note in notes:
        console.print(f"client-cost: {note}", style="yellow", highlight=False)
    wanted = [case for case in cases(chosen) if not all(client.unsupported(case) for client in present)]
    if not wanted:
        return fail("no client to measure in these cells.")
    rng = random.Random(chosen.seed)
    with contextlib.ExitStack() as stack:
        if chosen.server:
            connections = max(case.threads for case in wanted) * len(present)
            server = stack.enter_context(place.started(chosen.server, connections, chosen.database))
        else:
            server = place.running(chosen.socket, chosen.user, chosen.database)
        server, why_free = to_be_paired(server)
        placement = report.Placement.of(present, server, why_free)
        console.print(f"server {server.version}; {', '.join(client.name for client in present)}", highlight=False)
        console.print(str(placement), highlight=False)
        settings = {key: getattr(chosen, key) for key in SETTINGS}
        cells, budget, at = [], matrix.Budget(chosen.minutes, len(wanted)), datetime.now(UTC)
        for case in wanted:
            cells.append(measure_cell(case, present, server, chosen, rng, budget))
            report.print_cell(console, cells[-1], placement)
            # After each one, so that a cell that fails loses none of the earlier ones.
            content = report.content(cells, server, present, placement, settings, notes)
            path = record.write("client-cost", content, chosen.results, at=at)
    console.print(f"written: {path}", highlight=False)
    return 0


def to_be_paired(server: Server) -> tuple[Server, str]:
    """Return the server with the CPUs for pairing; or unchanged, with the reason why connections cannot be paired."""
    try:
        return replace(server, cpus=pairing.cpus_for(server)), ""
    except pairing.CannotPair as reason:
        return server, str(reason)


def usable_clients(chosen: argparse.Namespace) -> tuple[list[Client], list[str]]:
    """Return the requested clients that are installed, and a note for each that is not."""
    binaries, notes = (chosen.binaries, []) if chosen.binaries else built()
    every = [*clients.every(binaries), drivers.GoDriver(), drivers.PyMySql()]
    names = [client.name for client in every]
    wanted = chosen.clients.split(",") if chosen.clients else [client.name for client in every if client.by_default]
    unknown = sorted(set(wanted) - {*names, "all"})
    if unknown:
        raise ClientFailed(f"unknown client {', '.join(unknown)}; there are {', '.join(names)}.")
    every_user = chosen.clients == "all"
    asked_for = [each for each in every if each.name in wanted or (every_user and not each.experiment)]
    reasons = {client.name: client.missing() for client in asked_for}
    notes += [f"left out: {reason}" for reason in reasons.values() if reason]
    return [client for client in asked_for if not reasons[client.name]], notes


def built() -> tuple[Path, list[str]]:
    """Build the Rust programs of this tree; return their folder and a note for each that does not build."""
    notes = []
    for package in PACKAGES:
        done = _cargo("build", "--release", "--quiet", "-p", package)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("error")]
            notes.append(f"{package} does not build: {(errors or ['see cargo build'])[0]}")
    metadata = json.loads(_cargo("metadata", "--format-version=1", "--no-deps").stdout)
    return Path(metadata["target_directory"]) / "release", notes


def _cargo(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["cargo", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def measure_cell(
    case: Case,
    present: list[Client],
    server: Server,
    chosen: argparse.Namespace,
    rng: random.Random,
    budget: matrix.Budget,
) -> report.Cell:
    """Costs in short windows of all clients in turn, then latencies in runs of each alone."""
    dataset.require_tables(server, case.tables, case.table_size)
    able = {client.name: client for client in present if not client.unsupported(case)}
    cell = report.Cell(case, latencies={name: [] for name in able})
    budget.begin_cell(reserved_s=len(able) * (2 * (chosen.latency_run + 0.3) + chosen.window))
    monitor = Monitor(server)
    try:
        with Stage(list(able.values()), case, server, monitor, chosen.warm) as stage:
            while budget.allows(len(cell.rounds), chosen.rounds):
                windows: estimate.Round = {name: [] for name in able}
                for name in estimate.order_of_round(list(able), rng):
                    windows[name].append(stage.window(name, guard_s=chosen.guard, window_s=chosen.window))
                cell.rounds.append(windows)
            for name in able:
                counted = stage.user_instructions_per_query(name, guard_s=chosen.guard, window_s=chosen.window)
                cell.user_instructions[name] = [] if counted is None else [counted]
    finally:
        monitor.close()
    for name in estimate.order_of_round(list(able), rng):
        cell.latencies[name].append(latencies_of(able[name], case, server, chosen.latency_run))
    return cell


if __name__ == "__main__":
    sys.exit(main())
