"""How long a restart hurts: the time from a start with empty caches until 90 % of the earlier throughput.

One value per arm and epoch; a comparison is the mean log ratio of the times of the same epochs, with its t interval.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bakeoff.stats import interval as iv
from bakeoff.stats.model import Estimate

WARM_SHARE = 0.9
WINDOW_NS = 1_000_000_000  # throughput is judged over this window, so that one lucky slice is not enough


@dataclass(frozen=True)
class ArmRestarts:
    """One arm's restarts. `seconds` is by epoch; `late` counts those that were not warm within their limit."""

    arm: str
    seconds: Mapping[int, float]
    start_s: float  # mean time to the first answer, which is part of `seconds`
    late: int
    ratio: Estimate | None  # to the baseline, in natural-log units; None for the baseline

    @property
    def typical_s(self) -> float | None:
        logs = [math.log(each) for each in self.seconds.values()]
        return math.exp(math.fsum(logs) / len(logs)) if logs else None


def warm_at_ns(slices: Sequence[Mapping[str, Any]], warm_per_s: float) -> int | None:
    """Return the start of the first window that reached `WARM_SHARE` of the warm throughput; None if none did."""
    first, events, length_ns = 0, 0, 0
    for last in slices:
        events, length_ns = events + int(last["events"]), length_ns + int(last["length_ns"])
        while length_ns - int(slices[first]["length_ns"]) >= WINDOW_NS:
            events, length_ns = events - int(slices[first]["events"]), length_ns - int(slices[first]["length_ns"])
            first += 1
        if length_ns >= WINDOW_NS and events / length_ns * 1e9 >= WARM_SHARE * warm_per_s:
            return int(slices[first]["start_ns"])
    return None


def compare_restarts(epochs: Mapping[int, Mapping[str, Mapping[str, Any]]], baseline: str) -> list[ArmRestarts]:
    """Compare arms by their records (`restart.json`) of each epoch."""
    records: dict[str, dict[int, Mapping[str, Any]]] = {}
    for epoch, by_arm in epochs.items():
        for arm, record in by_arm.items():
            records.setdefault(arm, {})[epoch] = record
    times = {
        arm: {epoch: float(each["seconds"]) for epoch, each in own.items() if each["seconds"] is not None}
        for arm, own in records.items()
    }
    found = []
    for arm, own in records.items():
        both = sorted(times[arm].keys() & times.get(baseline, {}).keys())
        logs = [math.log(times[arm][epoch] / times[baseline][epoch]) for epoch in both]
        ratio = None if arm == baseline else iv.t_estimate(logs)
        start_s = math.fsum(float(each["start_s"]) for each in own.values()) / len(own)
        found.append(ArmRestarts(arm, times[arm], start_s, len(own) - len(times[arm]), ratio))
    return found
