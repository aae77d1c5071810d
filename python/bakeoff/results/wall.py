"""Where the wall time of a run went, from its own documents: loads, phases of epochs, what lies between them."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from pydantic import BaseModel, ConfigDict

from bakeoff.results.epoch import Outcome

PHASES = ("load", "restore", "start", "gates", "check", "warm", "pilot", "settle", "measure", "stop", "other")
"""In the order in which they come. `other` is what no phase covers: reading variables, statistics between epochs."""

_PAUSE_S = 60.0
"""A longer gap between two epochs is one between two runs of a resumed study: nobody worked in it."""


class WallTime(BaseModel):
    """Seconds of a run by phase, epochs that did not count included.

    Attributes:
        total_s: the sum. Fetching servers, and rendering the report at the end, are not in it.
        phases_s: those of `PHASES` that took any time.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    total_s: float
    phases_s: dict[str, float]

    @property
    def measured_share(self) -> float:
        """Of all seconds, those inside `measure`; 0 of an empty run."""
        return self.phases_s.get("measure", 0.0) / self.total_s if self.total_s > 0 else 0.0


def wall_time(builds: Mapping[str, Mapping[str, object]], outcomes: Sequence[Outcome]) -> WallTime:
    """Add up a run's time.

    Args:
        builds: documents of the loads, with `seconds` (`RunDirectory.builds`).
        outcomes: of all finished epochs, ascending.
    """
    phases = dict.fromkeys(PHASES, 0.0)
    for build in builds.values():
        seconds = build.get("seconds", 0.0)
        phases["load"] += seconds if isinstance(seconds, int | float) else 0.0
    for outcome in outcomes:
        for phase, seconds in outcome.phases_s.items():
            phases[phase if phase in phases else "other"] += seconds
        phases["other"] += max(0.0, outcome.wall_s - sum(outcome.phases_s.values()))
    for before, after in pairwise(outcomes):
        gap_s = (after.started_at - before.started_at).total_seconds() - before.wall_s
        phases["other"] += gap_s if 0.0 < gap_s <= _PAUSE_S else 0.0
    taken = {phase: round(seconds, 3) for phase, seconds in phases.items() if seconds > 0}
    return WallTime(total_s=round(sum(taken.values()), 3), phases_s=taken)
