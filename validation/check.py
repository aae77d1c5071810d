"""A check of the validation suite: what it may use, what it found, and how often something may happen by chance."""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

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
        size: a check chooses its number of runs by it.
        seed: everything random follows from it and the check's name.
        folder: the check's own directory, kept with the run of the suite.
    """

    size: Size
    seed: int
    folder: Path
    server: str = "mysql:8.0.15"
    report: Callable[[str], None] = field(default=lambda text: None)


@dataclass(frozen=True)
class Finding:
    """Result of a check.

    Attributes:
        passed: whether the target holds; None if this machine cannot run the check, which `found` explains.
        figures: the numbers behind it, by name with unit.
    """

    found: str
    passed: bool | None
    figures: Mapping[str, object] = field(default_factory=dict)


Run = Callable[[Setting], Finding]
_Function = TypeVar("_Function", bound=Callable[..., Finding])


@dataclass(frozen=True)
class Check:
    """A check of the suite; `test` is its number in docs/reference/validation.md."""

    test: str
    what: str
    target: str
    sizes: frozenset[Size]
    run: Run


class Checks(list[Check]):
    """The checks of a module, and the sizes that they belong to; `wrap` is applied to each function."""

    def __init__(self, *sizes: Size, wrap: Callable[[Run], Run] = lambda run: run) -> None:
        super().__init__()
        self._sizes = sizes
        self._wrap = wrap

    def add(self, test: str, target: str, *sizes: Size) -> Callable[[_Function], _Function]:
        """Register the decorated function; the first line of its docstring says what it does."""

        def register(function: _Function) -> _Function:
            what = (function.__doc__ or "").partition("\n")[0].removesuffix(".")
            self.append(Check(test, what, target, frozenset(sizes or self._sizes), self._wrap(function)))
            return function

        return register


TOO_BUSY = "; the machine is too busy to tell"
"""Ends the text of a finding whose noise is larger than what the check looks for."""

_TAIL_OF_ONE = 0.025
"""Chance that a promise which is just kept is called broken: 16 of 200 for a rate of 5 %."""


def most(runs: int, rate: float, *, tail: float = _TAIL_OF_ONE) -> int:
    """Return the largest number of occurrences in `runs` that does not refute a rate of at most `rate`."""
    return int(binom.ppf(1 - tail, runs, rate))


def fewest(runs: int, rate: float, *, tail: float = _TAIL_OF_ONE) -> int:
    """Return the smallest number of occurrences in `runs` that does not refute a rate of at least `rate`."""
    return int(binom.ppf(tail, runs, rate))


_TAIL = 0.001
"""The same chance for a `Count`: a replay has about sixty, many near their limits."""


@dataclass(frozen=True)
class Count:
    """How often something happened, and the promised rate."""

    what: str
    hits: int
    runs: int
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""

    @property
    def share(self) -> float:
        return self.hits / max(self.runs, 1)

    @property
    def kept(self) -> bool:
        if self.at_most is not None and self.hits > most(self.runs, self.at_most, tail=_TAIL):
            return False
        return self.at_least is None or self.hits >= fewest(self.runs, self.at_least, tail=_TAIL)

    def __str__(self) -> str:
        return f"{self.what} {self.share:.1%} of {self.runs}{'' if self.kept else ' (!)'}"


@dataclass(frozen=True)
class Bias:
    """Difference of a mean from its truth; log ratios."""

    what: str
    bias: float
    error: float
    at_most: float

    @classmethod
    def of(cls, what: str, values: Sequence[float], *, truth: float, at_most: float) -> "Bias":
        deviations = np.asarray(values) - truth
        return cls(what, float(deviations.mean()), float(deviations.std() / np.sqrt(deviations.size)), at_most)

    @property
    def kept(self) -> bool:
        """Whether the bias is within the promise, give or take two standard errors."""
        return abs(self.bias) <= self.at_most + 2 * self.error

    def __str__(self) -> str:
        return f"{self.what} {self.bias * 100:+.3f} %{'' if self.kept else ' (!)'}"


def finding(results: Iterable[Count | Bias]) -> Finding:
    """Return a finding that passes if every promise is kept; (!) marks those that are not."""
    listed = list(results)
    figures: dict[str, object] = {}
    for result in listed:
        if isinstance(result, Count):
            figures[result.what] = {"hits": result.hits, "runs": result.runs}
        else:
            figures[result.what] = {"bias_log": result.bias, "standard_error_log": result.error}
    return Finding("; ".join(map(str, listed)), all(result.kept for result in listed), figures)


def summarised(counts: Sequence[Count]) -> Finding:
    """Return the finding of many counts, which names only the broken promises and the number of the others."""
    broken = [str(count) for count in counts if not count.kept]
    kept = f"{len(counts) - len(broken)} of {len(counts)} promises kept"
    return Finding("; ".join([kept, *broken]), not broken, finding(counts).figures)


def seed_of(setting: Setting, *names: object) -> tuple[int, ...]:
    return (setting.seed, zlib.crc32("/".join(map(str, names)).encode()))


def scaled(runs: float, scale: float) -> int:
    return max(20, round(runs * scale))
