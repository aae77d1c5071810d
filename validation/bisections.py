"""Simulated bisections of a regression among builds, beside a plain bisection with a duel at each step.

Epochs are drawn from recorded ones (`validation.gates`). The plain way asks of each middle build whether it is slower
than half of the regression, by the stopping rule of a gate, until that is known.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bakeoff.stats.bisect import CONFIDENCE, EPOCHS_FIRST, culprit, next_build, posterior
from bakeoff.stats.gate import PRECISION_SHARE, Answer, Sample, answers
from bakeoff.stats.model import Stop
from bakeoff.stats.stopping import stop_state
from validation.gates import read_epochs

Measure = Callable[[int], float]
"""Build -> log ratio of one more epoch."""

_EPOCHS_MAX = 1000


@dataclass(frozen=True)
class Bisected:
    """How one bisection ended."""

    found: int
    epochs: int


def by_posterior(measure: Measure, builds: int, *, confidence: float = CONFIDENCE) -> Bisected:
    """Measure what is expected to tell most until the culprit is likely enough."""
    values = {builds - 1: [measure(builds - 1) for _ in range(EPOCHS_FIRST)]}
    for epochs in range(EPOCHS_FIRST, _EPOCHS_MAX):
        probabilities = posterior(values, builds)
        found = culprit(probabilities, confidence=confidence)
        if found is not None:
            return Bisected(found, epochs)
        build = next_build(values, probabilities)
        values.setdefault(build, []).append(measure(build))
    return Bisected(-1, _EPOCHS_MAX)


def plain(measure: Measure, builds: int, *, limit: float) -> Bisected:
    """Halve the builds, each step by a gate with this limit; a gate that cannot tell is taken by its mean's side."""
    good, bad, epochs = 0, builds - 1, EPOCHS_FIRST
    while bad - good > 1:
        middle, values, stop = (good + bad) // 2, list[float](), Stop.RUNNING
        while stop is Stop.RUNNING:
            values.append(measure(middle))
            stop = stop_state(values, precision=-PRECISION_SHARE * limit, family=1, limit=limit)
        epochs += len(values)
        (told,) = answers([Sample(values, stop)], limit=limit, family=1)
        slow = float(np.mean(values)) < limit if told is Answer.UNCLEAR else told is Answer.FAIL
        good, bad = (good, middle) if slow else (middle, bad)
    return Bisected(bad, epochs)


@dataclass(frozen=True)
class Comparison:
    """Of many bisections: how often the culprit was found, and the mean number of epochs."""

    right: float
    epochs: float
    right_plain: float
    epochs_plain: float


def compare(
    seed: int, *, runs: int, builds: int = 64, slowdown_percent: float = 3.0, confidence: float = CONFIDENCE
) -> Comparison:
    """Bisect so many times for culprits drawn at random, in both ways."""
    noise, rng = read_epochs().values, np.random.default_rng((seed, builds, round(10 * slowdown_percent)))
    truth = float(np.log1p(-slowdown_percent / 100))
    ends: list[list[Bisected]] = [[], []]
    places = rng.integers(1, builds, runs).tolist()
    for place in places:

        def measure(build: int, place: int = place) -> float:
            return (truth if build >= place else 0.0) + float(rng.choice(noise))

        ends[0].append(by_posterior(measure, builds, confidence=confidence))
        ends[1].append(plain(measure, builds, limit=truth / 2))
    right = [np.mean([end.found == place for end, place in zip(way, places, strict=True)]) for way in ends]
    epochs = [np.mean([end.epochs for end in way]) for way in ends]
    return Comparison(float(right[0]), float(epochs[0]), float(right[1]), float(epochs[1]))
