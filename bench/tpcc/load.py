#!/usr/bin/env python3
"""Ways to load TPC-C on one server: indexes and keys after the rows or before, many threads or few, bound rows or text.

    bench/tpcc/load.py --server mysql:8.0.15 --warehouses 1 --threads 4

`as sysbench-tpcc` is its way done by bakeoff's loader: indexes and keys first, a thread a warehouse, INSERTs of 480 KB
of text (its fixed pause of 30 s is left out). Every round loads each way once, in a random order, into an empty
database.
"""

import argparse
import math
import random
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / part) for part in ("python", "bench")]

import go_tpc
from clients import Bakeoff, Client, ClientFailed, GoTpc, Load
from place import Server, started
from rich.console import Console
from rich.table import Table

import record
from bakeoff.engine import Engine
from bakeoff.errors import BakeoffError
from run import over_rounds


@dataclass(frozen=True)
class Way:
    """A client that loads, and with how many threads."""

    name: str
    client: Client
    threads: int


def ways(engine: Engine, path: Path | None, warehouses: int, threads: int) -> list[Way]:
    """The first is what the others are compared with."""

    def ours(**options: Any) -> Client:
        return Bakeoff("bakeoff", "", engine, options, "server")

    text: dict[str, Any] = {"prepared": "off"}
    before: dict[str, Any] = {"load_index": "before"}
    found = [
        Way("as sysbench-tpcc: before, text, a thread a warehouse", ours(**text, **before), min(warehouses, threads)),
        Way(f"before, text, {threads} threads", ours(**text, **before), threads),
        Way(f"after, text, {threads} threads", ours(**text), threads),
        Way(f"before, bound, {threads} threads", ours(**before), threads),
        Way(f"after, bound, {threads} threads (bakeoff)", ours(), threads),
    ]
    return found + ([Way(f"go-tpc, {threads} threads", GoTpc(path), threads)] if path else [])


def seconds(way: Way, server: Server, warehouses: int, seed: int) -> float:
    """Time of one load into an empty database."""
    server.instance.query(f"DROP DATABASE IF EXISTS {way.client.database}")
    server.instance.query(f"CREATE DATABASE {way.client.database}")
    begun = time.monotonic()
    way.client.prepare(server, Load(warehouses, way.threads, 0.0, seed))
    return time.monotonic() - begun


def speed_up(base: list[float], own: list[float]) -> str:
    """Mean over rounds of the log ratio of times, with its 95 % interval."""
    return over_rounds([math.log(slow / fast) for slow, fast in zip(base, own, strict=True)])


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--server", default="mysql:8.0.15", metavar="NAME", help="default: %(default)s")
    parser.add_argument("--warehouses", type=int, default=2)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--buffer-pool-mb", type=int, default=512, help="InnoDB's memory (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main() -> int:
    chosen = options()
    console = Console(width=None if sys.stdout.isatty() else 160)
    path, missing = go_tpc.find()
    if missing:
        console.print(f"tpcc: left out: {missing}", highlight=False)
    pool = chosen.buffer_pool_mb << 20
    try:
        with (
            Engine() as engine,
            started(chosen.server, connections=4 * chosen.threads, buffer_pool_bytes=pool) as server,
        ):
            tried = ways(engine, path, chosen.warehouses, chosen.threads)
            times: dict[str, list[float]] = {way.name: [] for way in tried}
            draw = random.Random(chosen.seed)
            for number in range(chosen.rounds):
                for way in draw.sample(tried, len(tried)):
                    times[way.name].append(seconds(way, server, chosen.warehouses, chosen.seed))
                console.print(f"round {number + 1} of {chosen.rounds}", highlight=False)
            shown = Table(title=f"{server.version}, {chosen.warehouses} warehouses", title_justify="left")
            for heading in ("way", "seconds", "times as fast as the first"):
                shown.add_column(heading, justify="left" if heading == "way" else "right")
            for way in tried:
                own = times[way.name]
                shown.add_row(way.name, f"{statistics.median(own):.1f}", speed_up(times[tried[0].name], own))
            console.print(shown)
            content = {"server": server.version, "settings": vars(chosen), "seconds": times}
            written = record.write("tpcc-load", content)
            console.print(f"written: {written}", highlight=False)
    except (BakeoffError, ClientFailed) as problem:
        print(f"tpcc-load: {problem}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
