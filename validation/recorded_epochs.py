"""Epochs of recorded duels, whose noise the simulations of gates, searches and histories draw from."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

DUELS = Path(__file__).parent.parent / "bench/results/placement/duels-2026-11-25.jsonl"
"""Recorded duels of equal servers with fresh restores."""


@dataclass(frozen=True)
class RecordedEpochs:
    """Epochs of equal servers; the times are medians over duels.

    Attributes:
        values: log ratio of each epoch, and its opposite, since either server may be called the contender.
        overhead_s: seconds of an epoch without warm-up and measuring.
        warm_s, measure_s: seconds of one cell in an epoch.
    """

    values: NDArray[np.float64]
    load_s: float
    overhead_s: float
    warm_s: float
    measure_s: float


def read_epochs() -> RecordedEpochs:
    """Read from DUELS the epochs of one server against itself with fresh restores."""
    duels = [json.loads(line) for line in DUELS.read_text("utf-8").splitlines()]
    kept = [
        duel
        for duel in duels
        if duel["restores"] == "fresh" and len({name.partition(" ")[0] for name in duel["servers"]}) == 1
    ]

    def of_an_epoch(*phases: str) -> float:
        seconds = [sum(duel["phases_s"].get(phase, 0.0) for phase in phases) / len(duel["points"]) for duel in kept]
        return float(median(seconds))

    points = [point + math.log1p(duel["slowdown_percent"] / 100) for duel in kept for point in duel["points"]]
    return RecordedEpochs(
        values=np.array([*points, *(-point for point in points)]),
        load_s=median(duel["phases_s"]["load"] for duel in kept),
        overhead_s=of_an_epoch("restore", "start", "readiness", "check", "stop", "other"),
        warm_s=of_an_epoch("warm"),
        measure_s=of_an_epoch("measure"),
    )
