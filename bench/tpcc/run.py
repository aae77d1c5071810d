#!/usr/bin/env python3
"""TPC-C clients side by side on one server: tpmC, p95 of New-Order, client CPU a transaction.

    bench/tpcc/run.py --server mysql:8.0.15 --warehouses 2 --threads 4

A round runs every client once, in a random order, and then in its reverse. Transactions are counted by the server
(D_NEXT_O_ID, Com_commit + Com_rollback), alike for all; percentiles are each client's own.
"""

import argparse
import math
import random
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / part) for part in ("python", "bench")]

import go_tpc
from clients import Client, ClientFailed, Load, Reported, every
from place import Server, started
from rich.console import Console
from rich.table import Table

import record
from bakeoff.engine import Engine
from bakeoff.errors import BakeoffError
from bakeoff.stats.interval import standard_deviation, t_interval


@dataclass(frozen=True)
class Window:
    """One run of one client, as the server saw it and as the client reports it."""

    round: int
    new_orders: int
    transactions: int
    queries: int
    reported: Reported

    @property
    def tpmc(self) -> float:
        """Committed New-Orders a minute, from the server's count and the client's whole time."""
        return self.new_orders / self.reported.wall_s * 60

    @property
    def cpu_us(self) -> float:
        """Client CPU a transaction, microseconds."""
        return self.reported.cpu_s / self.transactions * 1e6


def window(client: Client, server: Server, load: Load, number: int) -> Window:
    def counts() -> tuple[int, int, int]:
        return (
            server.number(f"SELECT SUM(d_next_o_id) FROM {client.database}.district"),
            server.status("Com_commit", "Com_rollback"),
            server.status("Questions"),
        )

    before = counts()
    reported = client.run(server, load)
    orders, transactions, queries = (late - early for early, late in zip(before, counts(), strict=True))
    return Window(number, orders, transactions, queries, reported)


def ratio(windows: dict[str, list[Window]], name: str, base: str, value: Callable[[Window], float]) -> str:
    """Mean over rounds of the log ratio to `base`, with its 95 % interval."""
    rounds = sorted({each.round for each in windows[base]})

    def of_round(which: str, number: int) -> float:
        return math.fsum(math.log(value(each)) for each in windows[which] if each.round == number)

    return over_rounds([(of_round(name, number) - of_round(base, number)) / 2 for number in rounds])


def over_rounds(logs: list[float]) -> str:
    """The mean of log ratios as a ratio, with its 95 % interval."""
    mean = math.fsum(logs) / len(logs)
    interval = t_interval(mean, standard_deviation(logs), len(logs), alpha=0.05)
    if interval.low is None or interval.high is None:
        return f"{math.exp(mean):.2f}"
    return f"{math.exp(mean):.2f} [{math.exp(interval.low):.2f}, {math.exp(interval.high):.2f}]"


def table(windows: dict[str, list[Window]], clients: list[Client], load: Load, version: str) -> Table:
    base = clients[0].name
    title = f"{version}, {load.warehouses} warehouses, {load.threads} threads; ratios to {base}"
    shown = Table(title=title, title_justify="left")
    for heading in ("client", "tpmC", "ratio", "p95 New-Order ms", "client CPU µs/tx", "ratio", "statements/tx", "how"):
        shown.add_column(heading, justify="left" if heading in ("client", "how") else "right", overflow="fold")
    for client in clients:
        own = windows[client.name]
        p95 = [each.reported.p95_ms for each in own if each.reported.p95_ms is not None]
        shown.add_row(
            client.name,
            f"{statistics.median(each.tpmc for each in own):,.0f}",
            ratio(windows, client.name, base, lambda each: each.tpmc),
            f"{statistics.median(p95):.2f}" if p95 else "—",
            f"{statistics.median(each.cpu_us for each in own):.0f}",
            ratio(windows, client.name, base, lambda each: each.cpu_us),
            f"{statistics.median(each.queries / each.transactions for each in own):.1f}",
            client.note,
        )
    return shown


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--server", default="mysql:8.0.15", metavar="NAME", help="default: %(default)s")
    parser.add_argument("--warehouses", type=int, default=2)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each window (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=4, help="two windows a client each (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main() -> int:
    chosen = options()
    load = Load(chosen.warehouses, chosen.threads, chosen.seconds, chosen.seed)
    console = Console(width=None if sys.stdout.isatty() else 180)
    path, missing = go_tpc.find()
    if missing:
        console.print(f"tpcc: left out: {missing}", highlight=False)
    try:
        with (
            Engine() as engine,
            started(chosen.server, connections=4 * load.threads, buffer_pool_bytes=2 << 30) as server,
        ):
            clients = every(engine, path)
            prepared = set()
            for client in clients:
                if client.database not in prepared:
                    console.print(f"loading {client.database} by {client.name}", highlight=False)
                    server.instance.query(f"CREATE DATABASE {client.database}")
                    client.prepare(server, load)
                    prepared.add(client.database)
            warm = Load(load.warehouses, load.threads, min(3.0, load.seconds), load.seed)
            for client in clients:
                client.run(server, warm)
            windows: dict[str, list[Window]] = {client.name: [] for client in clients}
            draw = random.Random(chosen.seed)
            for number in range(chosen.rounds):
                order = draw.sample(clients, len(clients))
                for client in order + order[::-1]:
                    windows[client.name].append(window(client, server, load, number))
                console.print(f"round {number + 1} of {chosen.rounds}", highlight=False)
            console.print(table(windows, clients, load, server.version))
            written = record.write(
                "tpcc",
                {
                    "server": server.version,
                    "load": asdict(load),
                    "clients": {client.name: client.note for client in clients},
                    "windows": {
                        name: [asdict(each) | {"tpmc": each.tpmc, "cpu_us": each.cpu_us} for each in own]
                        for name, own in windows.items()
                    },
                },
            )
            console.print(f"written: {written}", highlight=False)
    except (BakeoffError, ClientFailed) as problem:
        print(f"tpcc: {problem}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
