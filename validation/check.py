"""A check of the validation suite: what it may use, what it found, and how often something may happen by chance."""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import numpy as np
from scipy.stats import binom


class Size(StrEnum):
    """How much is run: `replay` takes minutes and starts no server, `quick` takes 7 minutes, `full` takes hours."""

    REPLAY = "replay"
    QUICK = "quick"
    FULL = "full"


@dataclass(frozen=True)
class Setting:
    """What a check may use.

    Attributes:
        size: which size is run; a check chooses its number of runs by it.
        seed: everything random follows from it and the check's name.
        folder: the check's own; it is kept with the suite's run.
        server: on which checks of real servers run, as on the command line.
        report: prints a line of progress.
    """

    size: Size
    seed: int
    folder: Path
    server: str = "mysql:8.0.15"
    report: Callable[[str], None] = field(default=lambda text: None)


@dataclass(frozen=True)
class Finding:
    """What a check found.

    Attributes:
        found: the result, in the words and units of the check's target.
        passed: whether the target holds; None when this machine cannot run the check, and `found` says why.
        figures: the numbers behind it, by name with unit, as JSON holds them.
    """

    found: str
    passed: bool | None
    figures: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """A check of the suite.

    Attributes:
        test: its number in docs/reference/validation.md: "G1".
        what: what it does, in a few words.
        target: what must hold.
        sizes: the sizes it belongs to.
        run: runs it.
    """

    test: str
    what: str
    target: str
    sizes: frozenset[Size]
    run: Callable[[Setting], Finding]


TOO_BUSY = "; the machine is too busy to tell"
"""Ends the text of a finding whose noise is larger than what the check looks for."""

_TAIL_OF_ONE = 0.025
"""Chance that a promise which is just kept is called broken: 16 of 200 for a rate of 5 %."""


def most(runs: int, rate: float, *, tail: float = _TAIL_OF_ONE) -> int:
    """Largest number of occurrences in `runs` that does not refute a rate of at most `rate`."""
    return int(binom.ppf(1 - tail, runs, rate))


def fewest(runs: int, rate: float, *, tail: float = _TAIL_OF_ONE) -> int:
    """Smallest number of occurrences in `runs` that does not refute a rate of at least `rate`."""
    return int(binom.ppf(tail, runs, rate))


_TAIL = 0.001
"""The same chance for a `Count`: a replay has about sixty of them, many near their limits."""


@dataclass(frozen=True)
class Count:
    """How often something happened in so many runs, and how often it may.

    Attributes:
        at_most, at_least: the promised rate; None where it does not apply.
        note: shown beside it.
    """

    what: str
    hits: int
    runs: int
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""

    @property
    def share(self) -> float:
        """Hits per run."""
        return self.hits / max(self.runs, 1)

    @property
    def kept(self) -> bool:
        """So many runs do not refute the promise."""
        if self.at_most is not None and self.hits > most(self.runs, self.at_most, tail=_TAIL):
            return False
        return self.at_least is None or self.hits >= fewest(self.runs, self.at_least, tail=_TAIL)

    def __str__(self) -> str:
        return f"{self.what} {self.share:.1%} of {self.runs}{'' if self.kept else ' (!)'}"


@dataclass(frozen=True)
class Bias:
    """A mean that should be near its truth; log ratios."""

    what: str
    bias: float
    error: float
    at_most: float

    @classmethod
    def of(cls, what: str, values: Sequence[float], *, truth: float, at_most: float) -> "Bias":
        """The mean of the values less the truth."""
        deviations = np.asarray(values) - truth
        return cls(what, float(deviations.mean()), float(deviations.std() / np.sqrt(deviations.size)), at_most)

    @property
    def kept(self) -> bool:
        """Within the promise, give or take two standard errors."""
        return abs(self.bias) <= self.at_most + 2 * self.error

    def __str__(self) -> str:
        return f"{self.what} {self.bias * 100:+.3f} %{'' if self.kept else ' (!)'}"


def finding(results: Iterable[Count | Bias]) -> Finding:
    """Passed when every promise is kept; those that are not carry (!)."""
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
    """Seed of one part of a check: no other part has it."""
    return (setting.seed, zlib.crc32("/".join(map(str, names)).encode()))


def scaled(runs: float, scale: float) -> int:
    """A share of the runs, at least 20."""
    return max(20, round(runs * scale))
