#!/usr/bin/env python3
"""Rows per second of sysbench's prepare, of bakeoff's, of a study's loading, and of the server's limit (LOAD DATA).

    bench/loading/run.py --server mysql:8.0                  # five minutes
    bench/loading/run.py --server mysql:8.0 --rows 10000000  # 10 tables × 1 M rows, one table × 10 M rows: half an hour

Every round loads each way once, in a random order, into an empty database, and starts when the server owes the disk
nothing; see the README in bench/.
"""

import argparse
import os
import random
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(BENCH.parent / "python"), str(BENCH / "tpcc"), str(BENCH / "client-cost"), str(BENCH)]

import estimate
import psutil
import pymysql
import ways
from place import Server, started
from rich.console import Console
from rich.table import Table
from shape import DATABASE, Loaded, LoadFailed, Shape, empty, require_whole, write_files
from ways import Way

import record
from bakeoff.engine import Engine, engine_path
from bakeoff.errors import BakeoffError, HostError
from bakeoff.servers import readiness
from bakeoff.servers.paths import make_open_folder, work_root
from bakeoff.servers.process import server_identity

REFERENCES = ("sysbench", "server")
_READINESS_LIMIT_S = 60.0
_BYTES_PER_ROW = 500  # of the tables and their indexes, and of the files for LOAD DATA
Rounds = list[dict[str, Loaded]]


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--server", default="mysql:8.0", metavar="NAME", help="default: %(default)s")
    parser.add_argument("--rows", type=int, default=1_000_000, help="in all, of each shape (default: %(default)s)")
    parser.add_argument("--tables", default="10,1", metavar="LIST", help="how many tables they are in (%(default)s)")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--charset", default="utf8mb4", help="of the database (default: %(default)s)")
    parser.add_argument("--buffer-pool-mb", type=int, default=2048, help="InnoDB's memory (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    parser.add_argument("--results", type=Path, default=record.RESULTS, help="folder of the JSON file")
    return parser.parse_args()


def main() -> int:
    chosen = options()
    console = Console(width=None if sys.stdout.isatty() else 150)
    files = work_root() / f"loading-bench-{os.getpid()}"
    try:
        return run(chosen, console, files)
    except (BakeoffError, LoadFailed, pymysql.MySQLError) as problem:
        print(f"loading: {problem}", file=sys.stderr)
        return 3
    finally:
        shutil.rmtree(files, ignore_errors=True)


def run(chosen: argparse.Namespace, console: Console, files: Path) -> int:
    make_open_folder(files)
    require_disk(files, chosen.rows)
    shapes = [Shape(int(tables), chosen.rows // int(tables), chosen.threads) for tables in chosen.tables.split(",")]
    text = f"{chosen.server},secure_file_priv={files}"
    measured: dict[Shape, Rounds] = {}
    with (
        Engine() as engine,
        started(text, connections=4 * chosen.threads, buffer_pool_bytes=chosen.buffer_pool_mb << 20) as server,
    ):
        present, note = ways.without_the_server(engine_path(), engine)
        if note:
            console.print(f"loading: {note}", style="yellow", highlight=False)
        draw = random.Random(chosen.seed)
        for shape in shapes:
            measured[shape] = measure(server, shape, present, chosen, files, draw)
            console.print(table(server, shape, measured[shape]))
        content = {
            "server": server.version,
            "settings": {key: value for key, value in vars(chosen).items() if key != "results"},
            "shapes": [summary(shape, rounds) for shape, rounds in measured.items()],
        }
    console.print(f"written: {record.write('loading', content, chosen.results)}", highlight=False)
    return 0


def require_disk(folder: Path, rows: int) -> None:
    """Check that there is room for tables and files, twice over.

    Raises:
        HostError: there is not.
    """
    free = shutil.disk_usage(folder).free
    if free < 2 * rows * _BYTES_PER_ROW:
        raise HostError(
            f"{folder}: {rows:,} rows take {2 * rows * _BYTES_PER_ROW >> 30} GiB with what is made of them."
        )


def measure(
    server: Server, shape: Shape, present: Sequence[Way], chosen: argparse.Namespace, files: Path, draw: random.Random
) -> Rounds:
    """Measure all rounds of a shape. The files for the server are written once, from tables that bakeoff has loaded."""
    folder = files / f"{shape.tables}-tables"
    make_open_folder(folder)
    server_identity().own(folder)
    empty(server, chosen.charset)
    present[-1].load(server, shape)
    ready = write_files(server, shape, folder)
    everyone = [*present, ways.LoadData([ways.DDL.format(name=name) for name in shape.names], ready)]
    rounds: Rounds = []
    for _ in range(chosen.rounds):
        here = {way.name: load_once(server, shape, way, chosen.charset) for way in draw.sample(everyone, len(everyone))}
        rounds.append({way.name: here[way.name] for way in everyone})
    empty(server, chosen.charset)
    shutil.rmtree(folder)
    return rounds


def load_once(server: Server, shape: Shape, way: Way, charset: str) -> Loaded:
    """Measure one load into an empty database, on a server at rest."""
    empty(server, charset)
    readiness.finish_pending_work(server.instance, _READINESS_LIMIT_S)
    process = psutil.Process(server.instance.pid)
    cpu, begun = process.cpu_times(), time.monotonic()
    way.load(server, shape)
    seconds, after = time.monotonic() - begun, process.cpu_times()
    require_whole(server, shape, way.name)
    used = after.user + after.system - cpu.user - cpu.system
    return Loaded(seconds, used, server.instance.data_bytes(DATABASE))


def speed_up(rounds: Rounds, way: str, reference: str) -> estimate.Ratio | None:
    """Return the ratio of rows per second; None if the reference was not measured, or is the same way."""
    if way == reference or reference not in rounds[0]:
        return None
    windows: list[Any] = [{name: [loaded] for name, loaded in each.items()} for each in rounds]
    return estimate.ratio(windows, lambda loads: 1 / loads[0].seconds, way, reference)


def table(server: Server, shape: Shape, rounds: Rounds) -> Table:
    """Return the table to print, with a line per way."""
    shown = Table(title=f"{server.version}: {shape}", title_justify="left", title_style="bold")
    shown.add_column("way")
    for heading in ("rows/s", "seconds", "server CPU µs/row", "MB on disk", *(f"times {name}" for name in REFERENCES)):
        shown.add_column(heading, justify="right")
    for name in rounds[0]:
        loads = [each[name] for each in rounds]
        seconds = statistics.median(load.seconds for load in loads)
        ratios = [speed_up(rounds, name, reference) for reference in REFERENCES]
        shown.add_row(
            name,
            f"{shape.rows / seconds:,.0f}",
            f"{seconds:.2f}",
            f"{statistics.median(load.server_cpu_s for load in loads) / shape.rows * 1e6:.2f}",
            f"{statistics.median(load.bytes_on_disk for load in loads) / 1e6:,.0f}",
            *("" if ratio is None else str(ratio) for ratio in ratios),
        )
    return shown


def summary(shape: Shape, rounds: Rounds) -> dict[str, Any]:
    """Return every load and the ratios, for the JSON file."""
    return {
        **vars(shape),
        "ratios": [
            {"of": name, "to": reference, **vars(ratio)}
            for reference in REFERENCES
            for name in rounds[0]
            if (ratio := speed_up(rounds, name, reference)) is not None
        ],
        "rounds": [{name: vars(loaded) for name, loaded in each.items()} for each in rounds],
    }


if __name__ == "__main__":
    sys.exit(main())
