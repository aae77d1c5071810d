"""From counts to a finding: what was counted, the promise, and whether it can still be believed."""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from bakeoff.gauntlet.bounds import fewest, most
from bakeoff.gauntlet.model import Finding, Setting

_TAIL = 0.001
"""Chance that a count refutes a promise just kept: a replay has some sixty counts, many of them near their limits."""


@dataclass(frozen=True)
class Count:
    """How often something happened in so many runs, and how often it may.

    Attributes:
        at_most, at_least: the promised rate; of the one that does not apply, None.
    """

    what: str
    hits: int
    runs: int
    at_most: float | None = None
    at_least: float | None = None

    @property
    def kept(self) -> bool:
        """The promise is not refuted by so many runs."""
        if self.at_most is not None and self.hits > most(self.runs, self.at_most, tail=_TAIL):
            return False
        return self.at_least is None or self.hits >= fewest(self.runs, self.at_least, tail=_TAIL)

    def __str__(self) -> str:
        mark = "" if self.kept else " (!)"
        return f"{self.what} {self.hits / max(self.runs, 1):.1%} of {self.runs}{mark}"


@dataclass(frozen=True)
class Bias:
    """A mean that should be near its truth; log ratios."""

    what: str
    bias: float
    error: float
    at_most: float

    @property
    def kept(self) -> bool:
        """Within the promise, give or take two standard errors."""
        return abs(self.bias) <= self.at_most + 2 * self.error

    def __str__(self) -> str:
        mark = "" if self.kept else " (!)"
        return f"{self.what} {self.bias * 100:+.3f} %{mark}"


def bias_of(what: str, values: Sequence[float], *, truth: float, at_most: float) -> Bias:
    """The mean of values less the truth."""
    deviations = np.asarray(values) - truth
    return Bias(what, float(deviations.mean()), float(deviations.std() / np.sqrt(deviations.size)), at_most)


def finding(results: Iterable[Count | Bias]) -> Finding:
    """All promises must be kept; those that are not carry (!)."""
    listed = list(results)
    figures: dict[str, object] = {}
    for result in listed:
        if isinstance(result, Count):
            figures[result.what] = {"hits": result.hits, "runs": result.runs}
        else:
            figures[result.what] = {"bias_log": result.bias, "standard_error_log": result.error}
    return Finding(
        found="; ".join(str(result) for result in listed),
        passed=all(result.kept for result in listed),
        figures=figures,
    )


def seed_of(setting: Setting, *names: object) -> tuple[int, ...]:
    """Numbers that belong to a test's part and to nothing else."""
    return (setting.seed, zlib.crc32("/".join(map(str, names)).encode()))


def scaled(runs: float, scale: float) -> int:
    """A share of the runs, at least 20."""
    return max(20, round(runs * scale))
