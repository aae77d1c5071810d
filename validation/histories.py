"""Simulates histories with known changes and counts false change points and true ones found.

A point is the mean of some recorded epochs of equal servers, shifted by the truth, plus what differs from run to run.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bakeoff.history.changes import Track, changes_of
from validation.check import Checks, Count, Finding, Setting, Size, scaled, summarised
from validation.recorded_epochs import read_epochs

HISTORY_CHECKS = Checks(Size.REPLAY)

POINTS = 60
BETWEEN = 0.002
"""Standard deviation between runs beyond their restarts; log ratio."""


@dataclass(frozen=True)
class Kind:
    """One kind of history.

    Attributes:
        steps: (index, log ratio added from there on).
        series: number of series tested together; only the first has the steps.
        noisy: points whose epochs scatter three times as much.
        bad: index of a run that is 40 % slower.
    """

    name: str
    steps: tuple[tuple[int, float], ...] = ()
    series: int = 1
    between: float = BETWEEN
    noisy: range = range(0)
    bad: int | None = None
    points: int = POINTS


DOWN = math.log(0.98)
KINDS = (
    Kind("nothing changes"),
    Kind("nothing changes, 15 points", points=15),
    Kind("nothing changes, 200 points", points=200),
    Kind("nothing changes, 6 series", series=6),
    Kind("nothing changes, runs differ by 0.6 %", between=0.006),
    Kind("a noisy week", noisy=range(30, 37)),
    Kind("2 % slower from the 30th on", steps=((30, DOWN),)),
    Kind("2 % slower from the 30th on, 6 series", steps=((30, DOWN),), series=6),
    Kind("2 % slower, 5 runs later", steps=((55, DOWN),)),
    Kind("2 % slower, 3 runs later", steps=((57, DOWN),)),
    Kind("2 % slower for ten runs", steps=((30, DOWN), (40, -DOWN))),
    Kind("1 % slower from the 30th on", steps=((30, DOWN / 2),)),
    Kind("one run 40 % slower", bad=25),
    Kind("2 % slower from the 30th on, and the 25th run 40 %", steps=((30, DOWN),), bad=25),
)


def make(kind: Kind, rng: np.random.Generator, epochs: NDArray[np.float64]) -> list[Track]:
    """Draw the series of one history from recorded log ratios of equal servers."""
    n = kind.points
    tracks = []
    for number in range(kind.series):
        scale, level = np.ones(n), np.zeros(n)
        scale[list(kind.noisy)] = 3.0
        for at, size in kind.steps if number == 0 else ():
            level[at:] += size
        if kind.bad is not None and number == 0:
            level[kind.bad] += math.log(0.6)
        drawn = [rng.choice(epochs, rng.integers(6, 13)) * factor for factor in scale]
        means = np.array([values.mean() for values in drawn])
        errors = [values.std(ddof=1) / math.sqrt(len(values)) for values in drawn]
        tracks.append(Track((level + means + rng.normal(0, kind.between, n)).tolist(), errors))
    return tracks


def simulate(kind: Kind, *, seed: int, runs: int) -> list[list[Track]]:
    epochs = read_epochs().values
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    return [make(kind, rng, epochs) for _ in range(runs)]


def places_found(histories: Sequence[Sequence[Track]]) -> list[list[list[int]]]:
    """Return the indexes of the changes that bakeoff finds in each series of each history."""
    return [
        [[change.at for change in changes] for changes in changes_of(tracks, seed=number)]
        for number, tracks in enumerate(histories)
    ]


def judge(kind: Kind, places: Sequence[Sequence[Sequence[int]]]) -> tuple[float, float]:
    """Compare the places found, by history and series, with the truth.

    Returns:
        Share of the histories with a change more than a point away from every true one, in any series, and share of
        those in which every true change was found within a point.
    """
    true = [at for at, _ in kind.steps]
    wrong = right = 0
    for history in places:
        first, *others = history
        wrong += any(others) or any(min((abs(at - each) for each in true), default=math.inf) > 1 for at in first)
        right += all(any(abs(at - each) <= 1 for at in first) for each in true)
    return wrong / len(places), right / len(places)


@HISTORY_CHECKS.add("G22", "false changes in stationary histories <= 5 %; true ones found within a run >= 85 %")
def changes(setting: Setting, scale: float = 1.0) -> Finding:
    """Change points in simulated histories."""
    runs, counts = scaled(40, scale), []
    for kind in KINDS:
        wrong, right = judge(kind, places_found(simulate(kind, seed=setting.seed, runs=runs)))
        if kind.steps:
            counts.append(Count(f"{kind.name}:", round(right * runs), runs, at_least=0.85))
        else:
            counts.append(Count(f"{kind.name}:", round(wrong * runs), runs, at_most=0.05))
    return summarised(counts)
