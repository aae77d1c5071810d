"""The median of a few sets, as publications report it: computed from epochs, to stand beside an interval."""

from collections.abc import Mapping
from itertools import combinations, islice
from statistics import median

SETS = 3
"""How many sets a publication usually measures."""

_CHOICES_MAX = 5000


def median_ratios(contender: Mapping[int, float], baseline: Mapping[int, float]) -> tuple[float, ...]:
    """Ratio of medians for every choice of three epochs, the first three in time first; () with fewer.

    Args:
        contender: epoch -> events per second.
        baseline: likewise; epochs that lack one of the two are left out.
    """
    both = sorted(contender.keys() & baseline.keys())
    return tuple(
        median(contender[epoch] for epoch in chosen) / median(baseline[epoch] for epoch in chosen)
        for chosen in islice(combinations(both, SETS), _CHOICES_MAX)
    )
