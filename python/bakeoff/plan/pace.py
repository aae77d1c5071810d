"""What the next epoch will take, from what the last ones took, and how far it must be shortened to keep the budget."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bakeoff.plan.timing import EPOCHS_MIN, seconds_min

GRACE = 1.05
"""Share of the budget that may be used to complete the fewest epochs a verdict needs."""

_RECENT = 3  # epochs whose overhead is averaged: restarts get slower and faster with the machine
_SHARE_MIN = 0.4  # of the planned measuring: below it an epoch says too little for what its restart costs


@dataclass(frozen=True)
class EpochCost:
    """What one epoch took, wall seconds.

    Attributes:
        overhead_s: everything but measuring and the pilot.
        measured_s: inside `measure`, drains and switches included.
        planned_s: of measuring, as asked for.
    """

    overhead_s: float
    measured_s: float
    planned_s: float


@dataclass(frozen=True)
class Pace:
    """How long epochs take here: the overhead of each, and wall seconds a planned second of measuring takes."""

    overhead_s: float
    stretch: float

    def epoch_s(self, planned_s: float) -> float:
        """Wall seconds of an epoch that measures so long."""
        return self.overhead_s + self.stretch * planned_s

    def share(self, planned_s: float, *, room_s: float, epochs: int, cells: int, turns: int) -> float:
        """The part of its measuring that the next epoch is given, so that the fewest epochs needed fit: 1 if they do.

        Args:
            planned_s: measuring seconds of a whole epoch.
            room_s: wall seconds that are left.
            epochs: valid ones so far; from `EPOCHS_MIN` on nothing is shortened.
            cells: measured in it.
            turns: arms that share a cell's seconds.
        """
        missing = EPOCHS_MIN - epochs
        if missing <= 0 or planned_s <= 0 or self.epoch_s(planned_s) * missing <= room_s:
            return 1.0
        share = (room_s / missing - self.overhead_s) / (self.stretch * planned_s)
        least = max(_SHARE_MIN, cells * seconds_min(turns) / planned_s)
        return min(max(share, least), 1.0)


def pace_of(costs: Sequence[EpochCost]) -> Pace | None:
    """The pace of the last epochs; None before the first."""
    recent = [cost for cost in costs[-_RECENT:] if cost.planned_s > 0]
    if not recent:
        return None
    planned_s = math.fsum(cost.planned_s for cost in recent)
    return Pace(
        overhead_s=math.fsum(cost.overhead_s for cost in recent) / len(recent),
        stretch=math.fsum(cost.measured_s for cost in recent) / planned_s,
    )
