"""Choose the slice length of a cell from a short pilot: the length with the least noise for the time it takes.

Each pilot slice's log throughput, less the mean of its arm, is one value of a noise series. Averaged over windows of
length tau and combined as in a block, q = (x1 - x2 - x3 + x4) / 2, it gives an Allan variance

    J(tau) = Var(q) * 4 (tau + g + r)      variance of a block's ratio times the seconds that the block takes

with the guard g, and the time r between two slices. The shortest tau is taken whose J is within one standard error of
the least (Breiman et al., Classification and Regression Trees, 1984, 3.4.3).
"""

import math

import numpy as np
from numpy.typing import NDArray

from bakeoff.plan import SliceLength, guard_ns
from bakeoff.plan.timing import SLICE_MIN_NS
from bakeoff.results.frame import Frame
from bakeoff.stats.estimate import with_rates
from bakeoff.stats.model import Frozen

_MS = 1_000_000
LONGEST_NS = 2000 * _MS
MULTIPLES = (1, 2, 4, 10, 20, 40, 100, 200, 400)  # of the pilot's length

LATENCIES_MIN = 5  # mean latencies in a slice; its last window ends one to four later
_EVENTS_MIN = 20  # completions in a slice
_RATE_FALLS = 1.2  # from the warm-up, by which the pilot's length is chosen, to the pilot
_PILOT_MAX_NS = 100 * _MS
_BLOCKS_MIN = 8  # fewest independent blocks for an estimate of J


class SlicePoint(Frozen):
    """A candidate; `j_s` is None if the pilot was too short, and `allowed` tells whether it holds enough events."""

    slice_ns: int
    guard_ns: int
    j_s: float | None
    blocks: int
    allowed: bool


class SliceChoice(Frozen):
    cell: str
    slice_ns: int
    guard_ns: int
    reason: str
    curve: tuple[SlicePoint, ...]

    @property
    def slices(self) -> SliceLength:
        return SliceLength(slice_ns=self.slice_ns, guard_ns=self.guard_ns)

    @property
    def variance_rate_s(self) -> float | None:
        """J of the choice: variance of the log ratio times seconds of measuring."""
        return next((point.j_s for point in self.curve if point.slice_ns == self.slice_ns), None)


def choose_slice_length(pilot: Frame, *, cell: str, pilot_ns: int, ceiling_ns: int = LONGEST_NS) -> SliceChoice:
    """Choose tau and its guard from the pilot's slices of one cell; other cells are ignored.

    `ceiling_ns` leaves enough blocks in an epoch (`bakeoff.plan.pilot_slice_max_ns`).
    """
    if "cell" in pilot.columns:
        pilot = pilot.rows(pilot["cell"] == cell)
    usable = pilot.rows(pilot["length_ns"] > 0)
    if not len(usable):
        length = min(_PILOT_MAX_NS, ceiling_ns)
        return SliceChoice(
            cell=cell, slice_ns=length, guard_ns=guard_ns(length), reason="the pilot counted nothing", curve=()
        )
    rated = with_rates(usable)
    needed_ns = _needed_ns(rated)
    ordered = rated.sort("start_ns")
    arms, steps_ns = ordered.by("arm"), np.diff(ordered["start_ns"])
    residuals = ordered["log_rate"] - arms.mean(ordered["log_rate"])[arms.ids]
    rest_ns = max(float(np.median(steps_ns)) - pilot_ns - guard_ns(pilot_ns), 0.0) if steps_ns.size else 0.0
    longest_ns = min(ceiling_ns, LONGEST_NS)
    lengths = [length for factor in MULTIPLES if (length := factor * pilot_ns) <= longest_ns] or [longest_ns]
    curve = [_point(residuals, pilot_ns, length, needed_ns, rest_ns) for length in lengths]
    known = [(point.j_s, point) for point in curve if point.allowed and point.j_s is not None]
    if known:
        least, at = min(known, key=lambda pair: pair[0])
        # A variance of n values has a standard error of sqrt(2 / n) of itself.
        as_good = least * (1 + math.sqrt(2 / at.blocks))
        best = next(point for j_s, point in known if j_s <= as_good)
        reason = "least noise for the time it takes"
    elif any(point.allowed for point in curve):
        best = next(point for point in curve if point.allowed)
        reason = "the shortest that holds enough events; the pilot was too short to compare longer ones"
    else:
        best = curve[-1]
        reason = "the longest that leaves enough blocks in an epoch; events are few for it"
    return SliceChoice(cell=cell, slice_ns=best.slice_ns, guard_ns=best.guard_ns, reason=reason, curve=tuple(curve))


def contrast_variance(residuals: NDArray[np.float64], windows: int) -> tuple[float, int]:
    """Return the variance of q over all positions of four windows, and how many positions do not overlap.

    A q beyond four standard deviations counts as four: one stall would make every epoch of the run longer.
    """
    span = 4 * windows
    if residuals.size < span:
        return math.nan, 0
    sums = np.concatenate(([0.0], np.cumsum(residuals)))
    means = (sums[windows:] - sums[:-windows]) / windows
    x1, x2, x3, x4 = (means[i * windows : means.size - (3 - i) * windows] for i in range(4))
    q = (x1 - x2 - x3 + x4) / 2
    robust_sd = 1.4826 * float(np.median(np.abs(q)))
    q = q.clip(-4 * robust_sd, 4 * robust_sd) if robust_sd else q
    # The mean of q is 0 by construction, so no degree of freedom is lost to estimating it.
    return float(np.mean(q**2)), residuals.size // span


def pilot_slice_ns(warm_up: Frame) -> int:
    """Return a pilot's slice length: the fewest whole ms that hold enough events at the warm-up's throughput."""
    usable = warm_up.rows(warm_up["length_ns"] > 0)
    needed_ns = _needed_ns(with_rates(usable)) if len(usable) else math.inf
    return max(SLICE_MIN_NS, math.ceil(min(needed_ns, _PILOT_MAX_NS) / _MS) * _MS)


def _needed_ns(rated: Frame) -> float:
    """Shortest slice with 5 mean latencies and 20 completions of the slowest arm; 2 s suffice for the latter."""
    worst = 0.0
    for arm in rated.by("arm").frames().values():
        events, seconds = float(arm["events"].sum()), float(arm["seconds"].sum())
        if events <= 0:
            return math.inf
        latency_ns = seconds * int(arm["connections"].max()) / events * 1e9  # Little's law, closed loop
        completions_ns = min(_EVENTS_MIN * seconds / events * 1e9, 2e9)
        worst = max(worst, LATENCIES_MIN * latency_ns, completions_ns)
    return worst


def _point(
    residuals: NDArray[np.float64], pilot_ns: int, length_ns: int, needed_ns: float, rest_ns: float
) -> SlicePoint:
    guard = guard_ns(length_ns)
    windows = max(1, round(length_ns / pilot_ns))
    variance, blocks = contrast_variance(residuals, windows)
    known = blocks >= _BLOCKS_MIN and math.isfinite(variance) and length_ns >= 0.8 * pilot_ns
    return SlicePoint(
        slice_ns=length_ns,
        guard_ns=guard,
        j_s=variance * 4 * (length_ns + guard + rest_ns) / 1e9 if known else None,
        blocks=blocks,
        allowed=_RATE_FALLS * length_ns >= needed_ns,
    )
