"""What the machine adds: switching between many connections, placement of threads, CPUs that idle or do not."""

import math
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from reads import EQUAL, MS
from table import Result

from bakeoff.results.frame import Frame
from bakeoff.stats.estimate import with_rates
from bakeoff.stats.interval import excludes_zero
from bakeoff.stats.slice_length import LATENCIES_MIN
from validation.real_epochs import RealBench, Variant, by_variant, mean_of, of_variant, rate, shown, usable_cpus

THREADS_MAX = 256
# By their place in the study of run.py.
WORKLOADS = {0: "oltp_point_select", 2: "oltp_read_only", 3: "oltp_read_write", 4: "oltp_update_non_index"}
WRITING = ("oltp_read_write", "oltp_update_non_index")
_STARTS = 3
_GUARD_MS = 5


def switching(bench: RealBench) -> Result:
    """Slices of 100 ms and of 1 s at 4, 64 and 256 connections an arm."""
    counts = (4, 64, THREADS_MAX)
    variants = [
        Variant(f"{threads} at {ms} ms", ms * MS, 4.5, threads=threads, guard_ns=_GUARD_MS * MS)
        for threads in counts
        for ms in (100, 1000)
    ]
    epochs = [bench.epoch(variants, arms=EQUAL, warm_s=2.0) for _ in range(2)]
    slices = Frame.concat([epoch.slices for epoch in epochs])
    rows = []
    for threads in counts:
        short, long = (slices.rows(slices["cell"] == f"{threads} at {ms} ms") for ms in (100, 1000))
        lost, latency = _gap_ms(short) - _GUARD_MS, threads / _rate(long) * 1e3
        rows.append((threads, lost, _overrun_ms(short, 100), latency, (_rate(short) / _rate(long) - 1) * 100))
    most = rows[-1]
    return Result(
        name="switching",
        asks="What does changing from one arm to the other cost?",
        columns=(
            "connections",
            "lost between two slices besides the guard, ms",
            "last window's end, ms",
            "mean latency, ms",
            "throughput in 100 ms over 1 s, %",
        ),
        rows=tuple(rows),
        says=(
            f"At {most[0]} connections the last window of a slice of 100 ms ends {most[2]:.2g} ms after it, and "
            f"{most[1]:.2g} ms later the next load begins; hence at least {LATENCIES_MIN} mean latencies a slice, here "
            f"{LATENCIES_MIN * most[3]:.0f} ms."
        ),
    )


def placement(bench: RealBench) -> Result:
    """Threads of a connection on one CPU, wherever the kernel puts them, and on separate CPUs."""
    cpus = usable_cpus()
    split = max(1, len(cpus) // 4)
    apart = {"client_cpus": frozenset(cpus[:split]), "server_cpus": frozenset(cpus[split:])}
    cases = [(name, index, threads) for index, name in WORKLOADS.items() for threads in (1, 4, 16, 64)]

    def variants(kind: str) -> list[Variant]:
        found = []
        for name, index, threads in cases:
            writes = name in WRITING
            slice_ms, seconds = (1000, 6.0) if writes else (20, 2.0)
            variant = Variant(f"{name}/{threads} {kind}", slice_ms * MS, seconds, threads=threads, workload=index)
            found.append(replace(variant, freeze=writes, placement="paired" if kind == "paired" else "free"))
        return found

    both, own = [], []
    for number in range(_STARTS):
        # Servers get separate CPUs at start-up, so these are separate epochs. Their order alternates, so
        # that what the machine does meanwhile affects all three alike.
        for places in ("shared", "apart") if number % 2 == 0 else ("apart", "shared"):
            if places == "shared":
                both.append(bench.epoch(variants("paired") + variants("free"), arms=EQUAL, warm_s=1.5))
            elif split < len(cpus):
                own.append(bench.epoch(variants("apart"), arms=EQUAL, warm_s=1.5, **apart))
    rows = []
    for name, _, threads in cases:
        figures = []
        for kind, epochs in (("paired", both), ("free", both), ("apart", own)):
            chosen = [of_variant(epoch, f"{name}/{threads} {kind}") for epoch in epochs]
            rates = [rate(epoch) for epoch in chosen]
            ratios = [abs(pair.value) for pairs in by_variant(chosen).values() for pair in pairs]
            figures.append((math.fsum(rates) / len(rates), max(ratios) * 100) if chosen else (None, None))
        rates, spreads = zip(*figures, strict=True)
        over = [(one / rates[0] - 1) * 100 if one else None for one in rates[1:]]
        rows.append((name, threads, rates[0], *over, *spreads))
    return Result(
        name="placement",
        asks="What does it change where the two threads of a connection run?",
        columns=(
            "workload", "connections", "paired, events/s", "free over paired, %", "apart over paired, %",
            "paired: equal arms differ by up to, %", "free", "apart",
        ),
        rows=tuple(rows),
        says=f"{_STARTS} starts of two equal servers; apart: the client has {split} of {len(cpus)} CPUs.",
    )  # fmt: skip


def idle_cpus(bench: RealBench) -> Result:
    """One and two connections, with CPUs idle and with a neighbour that computes on some of them."""
    neighbours = sorted({0, 1, max(1, len(usable_cpus()) - 2)})
    variants = [
        Variant(f"{threads} beside {busy}", 100 * MS, 2.5, threads=threads) for threads in (1, 2) for busy in neighbours
    ]
    epochs = [bench.epoch(variants, arms=EQUAL, warm_s=1.5, around=_beside) for _ in range(4)]
    rows, beyond = [], []
    compared = 2 * (len(neighbours) - 1)
    for threads in (1, 2):
        base = [rate(of_variant(epoch, f"{threads} beside 0")) for epoch in epochs]
        for busy in neighbours:
            rates = [rate(of_variant(epoch, f"{threads} beside {busy}")) for epoch in epochs]
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
def _beside(variant: Variant) -> Iterator[None]:
    """While a variant is measured, as many processes compute as its name says, wherever the kernel puts them."""
    busy = int(variant.name.rsplit(" ", 1)[-1])
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
        for spinner in spinners:
            spinner.wait()


def _rate(slices: Frame) -> float:
    rated = with_rates(slices)
    return float(rated["events"].sum()) / float(rated["seconds"].sum())


def _overrun_ms(slices: Frame, slice_ms: int) -> float:
    """Median time from a slice's end to that of its last window."""
    return float(np.median(slices["length_ns"])) / MS - slice_ms


def _gap_ms(slices: Frame) -> float:
    """Median time from one slice's end to the next one's guard's end."""
    epochs = slices.sort("start_ns").by("epoch").frames().values()
    gaps = [one["start_ns"][1:] - (one["start_ns"] + one["length_ns"])[:-1] for one in epochs]
    return float(np.median(np.concatenate(gaps))) / MS
