"""From slices to ratios: each round is one observation, and the interval is t over rounds.

A round runs every client twice, in a random order and then in the reverse (A B C C B A), so a linear drift of the
machine cancels.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scipy import stats
from window import Slice

CONFIDENCE = 0.95


def order_of_round(names: Sequence[str], rng: random.Random) -> list[str]:
    """A random permutation and its reverse."""
    first = rng.sample(list(names), len(names))
    return first + first[::-1]


def cpu_ns_per_query(slices: Sequence[Slice]) -> float:
    """Client CPU, user and system together: sum over sum."""
    return sum(s.cpu.cpu_ns for s in slices) / sum(s.queries for s in slices)


def user_ns_per_query(slices: Sequence[Slice]) -> float:
    """Client CPU outside the kernel."""
    return sum(s.cpu.cpu_ns * s.cpu.user_share for s in slices) / sum(s.queries for s in slices)


def switches_per_query(slices: Sequence[Slice]) -> float:
    """Context switches of the client's threads, voluntary and not."""
    return sum(s.cpu.voluntary_switches + s.cpu.involuntary_switches for s in slices) / sum(s.queries for s in slices)


def queries_per_s(slices: Sequence[Slice]) -> float:
    """Throughput as the server counts it."""
    return sum(s.queries for s in slices) / sum(s.seconds for s in slices)


def server_cpu_ns_per_query(slices: Sequence[Slice]) -> float | None:
    """Server CPU; None when it cannot be seen."""
    known = [s.server_cpu_ns for s in slices if s.server_cpu_ns is not None]
    return sum(known) / sum(s.queries for s in slices) if len(known) == len(slices) else None


def median_ns(slices: Sequence[Slice], field: str) -> float | None:
    """Of a percentile over slices; None when the client does not tell it."""
    values = sorted(v for v in (getattr(s, field) for s in slices) if v is not None)
    return values[len(values) // 2] if values else None


@dataclass(frozen=True)
class Ratio:
    """A ratio of two clients with its interval; the ends are None with fewer than three rounds."""

    ratio: float
    low: float | None
    high: float | None
    rounds: int

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.ratio:.2f}"
        return f"{self.ratio:.2f} [{self.low:.2f}, {self.high:.2f}]"


def ratio(
    rounds: Sequence[dict[str, list[Slice]]], of: Callable[[Sequence[Slice]], float], over: str, under: str
) -> Ratio:
    """Mean over rounds of ln(of(over) / of(under)), as a ratio with its t interval."""
    logs = [math.log(of(each[over]) / of(each[under])) for each in rounds]
    n = len(logs)
    mean = sum(logs) / n
    if n < 3:
        return Ratio(math.exp(mean), None, None, n)
    sd = math.sqrt(sum((x - mean) ** 2 for x in logs) / (n - 1))
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1)) * sd / math.sqrt(n)
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half), n)
