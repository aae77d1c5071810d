"""From windows to ratios: each round is one observation, and the interval is t over rounds.

A round gives every client two windows, in a random order and then in the reverse (A B C C B A), so a linear drift of
the machine cancels.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cost import Window

from bakeoff.stats.interval import standard_deviation, t_quantile

CONFIDENCE = 0.95

Round = dict[str, list[Window]]


def order_of_round(names: Sequence[str], rng: random.Random) -> list[str]:
    """A random permutation and its reverse."""
    first = rng.sample(list(names), len(names))
    return first + first[::-1]


def cpu_ns_per_query(windows: Sequence[Window]) -> float:
    """Client CPU, user and system together: sum over sum."""
    return sum(w.client.cpu_ns for w in windows) / sum(w.queries for w in windows)


def user_share(windows: Sequence[Window]) -> float:
    """Share of the client's CPU time spent outside the kernel."""
    user = sum(w.client.user_ticks for w in windows)
    return user / max(1, user + sum(w.client.system_ticks for w in windows))


def switches_per_query(windows: Sequence[Window]) -> float:
    """Context switches of the client's threads, voluntary and not."""
    switches = sum(w.client.voluntary_switches + w.client.involuntary_switches for w in windows)
    return switches / sum(w.queries for w in windows)


def queries_per_s(windows: Sequence[Window]) -> float:
    """Throughput as the server counts it."""
    return sum(w.queries for w in windows) / sum(w.seconds for w in windows)


def server_cpu_ns_per_query(windows: Sequence[Window]) -> float | None:
    """Server CPU; None when it cannot be seen."""
    known = [w.server_cpu_ns for w in windows if w.server_cpu_ns is not None]
    return sum(known) / sum(w.queries for w in windows) if len(known) == len(windows) else None


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
        return f"{self.ratio:.2f} ({self.low:.2f}–{self.high:.2f})"


def ratio(rounds: Sequence[Round], of: Callable[[Sequence[Window]], float], over: str, under: str) -> Ratio:
    """Mean over rounds of ln(of(over) / of(under)), as a ratio with its t interval."""
    logs = [math.log(of(each[over]) / of(each[under])) for each in rounds]
    n = len(logs)
    mean = sum(logs) / n
    if n < 3:
        return Ratio(math.exp(mean), None, None, n)
    half = t_quantile((1 + CONFIDENCE) / 2, n - 1) * standard_deviation(logs) / math.sqrt(n)
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half), n)
