"""What the machine adds: switching between many connections, pinning, CPUs that idle or do not."""

import math
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import polars as pl
from reads import EQUAL, MS
from table import Result

from bakeoff.gauntlet.estimates import by_way, mean_of, of_way, rate, shown
from bakeoff.gauntlet.real_epochs import RealBench, Way, usable_cpus
from bakeoff.results.epoch import EpochData
from bakeoff.stats.estimate import with_rates
from bakeoff.stats.interval import excludes_zero
from bakeoff.stats.noise import components

THREADS_MAX = 256
_GUARD_MS = 5


def switching(bench: RealBench) -> Result:
    """Slices of 100 ms and of 1 s at 4, 64 and 256 connections an arm."""
    counts = (4, 64, THREADS_MAX)
    ways = [
        Way(f"{threads} at {ms} ms", ms * MS, 4.5, threads=threads, guard_ns=_GUARD_MS * MS)
        for threads in counts
        for ms in (100, 1000)
    ]
    epochs = [bench.epoch(ways, arms=EQUAL, warm_s=2.0) for _ in range(2)]
    slices = pl.concat([epoch.slices for epoch in epochs])
    rows = []
    for threads in counts:
        short, long = (slices.filter(pl.col("cell") == f"{threads} at {ms} ms") for ms in (100, 1000))
        lost, latency = _gap_ms(short) - _GUARD_MS, threads / _rate(long) * 1e3
        rows.append((threads, lost, _drain_ms(short, 100), latency, (_rate(short) / _rate(long) - 1) * 100))
    most = rows[-1]
    return Result(
        name="switching",
        asks="What does changing from one arm to the other cost?",
        columns=(
            "connections",
            "lost between two slices besides the guard, ms",
            "drain, ms",
            "mean latency, ms",
            "throughput in 100 ms over 1 s, %",
        ),
        rows=tuple(rows),
        says=(
            f"The change itself takes {most[1]:.2g} ms at {most[0]} connections. While a slice of 100 ms drains, for "
            f"{most[2]:.2g} ms, its connections fall idle one by one; hence at least 20 mean latencies a slice, here "
            f"{20 * most[3]:.0f} ms."
        ),
    )


def pinning(bench: RealBench) -> Result:
    """Client and servers on disjoint CPUs, and free, in turn."""
    cpus = usable_cpus()
    split = max(1, len(cpus) // 4)
    kinds = {"free": (None, None), "pinned": (frozenset(cpus[:split]), frozenset(cpus[split:]))}
    found: dict[str, list[EpochData]] = {name: [] for name in kinds}
    for number in range(8):
        name = ("free", "pinned", "pinned", "free")[number % 4]
        client, server = kinds[name]
        found[name].append(
            bench.epoch([Way("read", 100 * MS, 4.0)], arms=EQUAL, warm_s=1.5, client_cpus=client, server_cpus=server)
        )
    rows = []
    for name, epochs in found.items():
        pairs = by_way(epochs)["read"]
        values = [pair.value for pair in pairs]
        between, within = components(values, [pair.variance_of_mean for pair in pairs])
        rates = [rate(epoch) for epoch in epochs]
        rows.append((name, math.fsum(rates) / len(rates), (within or math.nan) * 100, (between or 0.0) * 100))
    return Result(
        name="pinning",
        asks="What does pinning client and servers to CPUs of their own change?",
        columns=("", "events/s", "SD within a start, %", "SD between starts, %"),
        rows=tuple(rows),
        says=f"Pinned: {(rows[1][1] / rows[0][1] - 1) * 100:+.2g} % throughput.",
        figures={"client_cpus": split, "server_cpus": len(cpus) - split},
    )


def idle_cpus(bench: RealBench) -> Result:
    """One and two connections, with CPUs idle and with a neighbour that computes on some of them."""
    neighbours = sorted({0, 1, max(1, len(usable_cpus()) - 2)})
    ways = [
        Way(f"{threads} beside {busy}", 100 * MS, 2.5, threads=threads) for threads in (1, 2) for busy in neighbours
    ]
    epochs = [bench.epoch(ways, arms=EQUAL, warm_s=1.5, around=_beside) for _ in range(4)]
    rows, beyond = [], []
    compared = 2 * (len(neighbours) - 1)
    for threads in (1, 2):
        base = [rate(of_way(epoch, f"{threads} beside 0")) for epoch in epochs]
        for busy in neighbours:
            rates = [rate(of_way(epoch, f"{threads} beside {busy}")) for epoch in epochs]
            change = mean_of([math.log(one / other) for one, other in zip(rates, base, strict=True)], looks=compared)
            rows.append((threads, busy, math.fsum(rates) / len(rates), shown(change) if busy else "–"))
            if excludes_zero(change.interval):
                beyond.append(f"{math.expm1(change.mean):+.0%} at {threads} beside {busy}")
    return Result(
        name="idle-cpus",
        asks="What do idle CPUs do to throughput at few connections?",
        columns=("connections", "CPUs a neighbour keeps busy", "events/s", "over none busy"),
        rows=tuple(rows),
        says=f"A neighbour changes throughput: {', '.join(beyond)}." if beyond else "No change beyond chance.",
    )


@contextmanager
def _beside(way: Way) -> Iterator[None]:
    """While a way is measured, as many processes compute as its name says, wherever the kernel puts them."""
    busy = int(way.name.rsplit(" ", 1)[-1])
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
        for spinner in spinners:
            spinner.wait()


def _rate(slices: pl.DataFrame) -> float:
    rated = with_rates(slices)
    return float(rated["events"].sum()) / float(rated["seconds"].sum())


def _drain_ms(slices: pl.DataFrame, slice_ms: int) -> float:
    """Median time from a slice's nominal end until its last worker rests."""
    return float(slices.select((pl.col("length_ns") / MS - slice_ms).median()).item())


def _gap_ms(slices: pl.DataFrame) -> float:
    """Median time from one slice's end to the next one's guard's end."""
    ends = pl.col("start_ns") + pl.col("length_ns")
    gaps = slices.sort("epoch", "start_ns").select(gap=(pl.col("start_ns") - ends.shift(1).over("epoch")) / MS)
    return float(gaps["gap"].drop_nulls().median())  # type: ignore[arg-type]
