#!/usr/bin/env python3
"""What clients cost: CPU per query, context switches, throughput of sysbench, bakeoff's engine and the bare loop.

    bench/client-cost/run.py --server mysql:8.0            # starts a server of bakeoff's catalogue
    bench/client-cost/run.py --socket /run/mysqld.sock     # uses one that runs (root without a password)
    … --quick                                              # two minutes instead of a quarter of an hour

All clients run interleaved against one server, in short windows; see the README in bench/.
"""

import argparse
import contextlib
import itertools
import json
import random
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import clients
import dataset
import estimate
import place
import pymysql
from case import Case, Server
from clients import Client, ClientFailed
from rich.console import Console
from window import Monitor, Slice, measure

import report
from bakeoff.errors import BakeoffError

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("bakeoff-bareloop", "bakeoff-engine")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--server", metavar="NAME", help="start this server of the catalogue, e.g. mysql:8.0")
    where.add_argument("--socket", metavar="PATH", help="use the server that listens there")
    parser.add_argument("--user", default="root", help="an account without a password (default: %(default)s)")
    parser.add_argument("--database", default="sbtest")
    parser.add_argument("--workloads", default="oltp_point_select,oltp_read_only", metavar="LIST")
    parser.add_argument("--threads", default=None, metavar="LIST", help="default: 1,4,16,64; with --quick 4,16")
    parser.add_argument(
        "--statements", default="prepared", metavar="LIST", help="prepared, text (default: %(default)s)"
    )
    parser.add_argument("--transport", default="socket", metavar="LIST", help="socket, tcp (default: %(default)s)")
    parser.add_argument("--clients", default=None, metavar="LIST", help="default: all that are installed")
    parser.add_argument("--tables", type=int, default=4)
    parser.add_argument("--table-size", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=None, help="default: 6; with --quick 3")
    parser.add_argument(
        "--window",
        type=float,
        default=None,
        metavar="S",
        help="seconds counted of each run; default: 2; with --quick 1",
    )
    parser.add_argument(
        "--warm", type=float, default=0.5, metavar="S", help="seconds before the window (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    parser.add_argument("--quick", action="store_true", help="fewer cells, shorter windows, wider intervals")
    parser.add_argument("--binaries", type=Path, help="folder of the Rust programs; default: build them")
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results", help="folder of the JSON files")
    chosen = parser.parse_args()
    chosen.threads = chosen.threads or ("4,16" if chosen.quick else "1,4,16,64")
    chosen.rounds = chosen.rounds or (3 if chosen.quick else 6)
    chosen.window = chosen.window or (1.0 if chosen.quick else 2.0)
    return chosen


def main() -> int:
    chosen = options()
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
    if not present:
        return fail("no client to measure.")
    cases = [
        Case(workload, int(threads), statements, transport, chosen.tables, chosen.table_size)
        for workload, statements, transport, threads in itertools.product(
            *(text.split(",") for text in (chosen.workloads, chosen.statements, chosen.transport, chosen.threads))
        )
    ]
    with contextlib.ExitStack() as stack:
        if chosen.server:
            most = max(case.threads for case in cases)
            server = stack.enter_context(place.started(chosen.server, most, chosen.database))
        else:
            server = place.running(chosen.socket, chosen.user, chosen.database)
        console.print(
            f"server {server.version}; {', '.join(client.name for client in present)}; {chosen.rounds} rounds",
            highlight=False,
        )
        cells = measure_all(cases, present, server, chosen, console)
    for case, rounds in cells.items():
        report.print_cell(console, case, rounds)
    settings = {
        key: getattr(chosen, key) for key in ("rounds", "window", "warm", "seed", "quick", "tables", "table_size")
    }
    path = report.write(report.record(cells, server, present, settings, notes), chosen.results)
    console.print(f"written: {path}", highlight=False)
    return 0


def usable_clients(chosen: argparse.Namespace) -> tuple[list[Client], list[str]]:
    """Those that were asked for and are here, and a note for each that is not."""
    binaries, notes = (chosen.binaries, []) if chosen.binaries else built()
    every = clients.every(binaries)
    names = [client.name for client in every]
    wanted = chosen.clients.split(",") if chosen.clients else names
    unknown = sorted(set(wanted) - set(names))
    if unknown:
        raise ClientFailed(f"unknown client {', '.join(unknown)}; there are {', '.join(names)}.")
    asked_for = [client for client in every if client.name in wanted]
    notes += [f"left out: {client.missing()}" for client in asked_for if client.missing()]
    return [client for client in asked_for if not client.missing()], notes


def built() -> tuple[Path, list[str]]:
    """Build the Rust programs of this tree: the folder they are in, and a note for each that does not build."""
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


def measure_all(
    cases: list[Case], present: list[Client], server: Server, chosen: argparse.Namespace, console: Console
) -> dict[Case, report.Rounds]:
    """Rounds outside, cells inside: each cell's rounds are spread over the whole time."""
    rng = random.Random(chosen.seed)
    by_name = {client.name: client for client in present}
    cells: dict[Case, report.Rounds] = {case: [] for case in cases}
    monitor = Monitor(server)
    try:
        for number in range(chosen.rounds):
            for case in cases:
                if dataset.require_tables(server, case.tables, case.table_size) and number == 0:
                    console.print(f"made {case.tables} tables of {case.table_size} rows", highlight=False)
                names = [name for name, client in by_name.items() if not client.unsupported(case)]
                slices: dict[str, list[Slice]] = {name: [] for name in names}
                for name in estimate.order_of_round(names, rng):
                    slices[name].append(
                        measure(by_name[name], case, server, monitor, warm_s=chosen.warm, window_s=chosen.window)
                    )
                cells[case].append(slices)
                costs = ", ".join(f"{name} {estimate.cpu_ns_per_query(slices[name]) / 1e3:.2f}" for name in names)
                console.print(f"round {number + 1}/{chosen.rounds} {case}: CPU µs/query {costs}", highlight=False)
    finally:
        monitor.close()
    return cells


if __name__ == "__main__":
    sys.exit(main())
