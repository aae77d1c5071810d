"""How often something may happen in a limited number of runs before its promised rate is refuted."""

from scipy.stats import binom

_TAIL = 0.025
"""Chance that a promise just kept is called broken: 16 of 200 for a rate of 5 %, as the method accepts."""


def most(runs: int, rate: float, *, tail: float = _TAIL) -> int:
    """Most occurrences that `runs` runs may show when the rate is at most `rate`; `tail`: chance of a false alarm."""
    return int(binom.ppf(1 - tail, runs, rate))


def fewest(runs: int, rate: float, *, tail: float = _TAIL) -> int:
    """Fewest occurrences that `runs` runs must show when the rate is at least `rate`."""
    return int(binom.ppf(tail, runs, rate))
