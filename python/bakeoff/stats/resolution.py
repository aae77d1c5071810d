"""What a machine can resolve: how long a comparison would take for each half-width, foretold from a short trial.

The trial is a run of two equal servers. Their true log ratio is 0, so every D_e is noise: its mean square is the
variance between epochs, its share within an epoch is known from the blocks, and both parts together foretell the
spread at the measuring time that a real run would take. It steers expectations and enters no interval.
"""

import math
from collections.abc import Sequence

from scipy.special import chdtri

from bakeoff.plan import comfortable_seconds
from bakeoff.stats.estimate import PairEstimate
from bakeoff.stats.interval import epochs_needed
from bakeoff.stats.model import Frozen

TARGETS = (0.05, 0.02, 0.01, 0.005, 0.003)
"""Half-widths (log ratio) that are foretold."""

OUT_OF_REACH_S = 3600.0
"""A half-width that takes longer is told as out of reach."""

_WORST = 0.90  # the true spread is below the one that `at_worst_s` reckons with, with this probability


class Foretold(Frozen):
    """Time for one half-width (log ratio); seconds of wall time from loading to verdict."""

    half_width: float
    seconds: float
    at_worst_s: float


class Resolution(Frozen):
    """What two equal servers showed.

    Attributes:
        epochs: how many it rests on; few say no more than the order of magnitude.
        sd_restart: standard deviation of D_e that longer measuring would not remove; log ratio.
        sd_within: the rest of it, at `measured_s` seconds.
        overhead_s: unmeasured seconds of an epoch.
        measured_s: of a cell and epoch, as a run takes before its own pilot says better (`plan.timing`).
        foretold: by half-width, the widest first.
    """

    epochs: int
    sd_restart: float
    sd_within: float
    overhead_s: float
    measured_s: float
    foretold: tuple[Foretold, ...]

    def half_width_after(self, seconds: float) -> float | None:
        """The narrowest of `TARGETS` that is expected within so many seconds; None: not even the widest."""
        reached = [each.half_width for each in self.foretold if each.seconds <= seconds]
        return min(reached, default=None)


def resolution(pairs: Sequence[PairEstimate], *, overhead_s: float, load_s: float) -> Resolution | None:
    """Foretell from the epochs of two equal arms in one cell.

    Args:
        pairs: one an epoch, of the same cell and the same measuring time.
        overhead_s: unmeasured seconds of an epoch.
        load_s: seconds before the first epoch.

    Returns:
        None below three usable epochs, or when the noise within an epoch could not be told.
    """
    values = [pair.value for pair in pairs if math.isfinite(pair.value)]
    within = [pair.variance_of_mean for pair in pairs if pair.variance_of_mean is not None]
    if len(values) < 3 or not within:
        return None
    n = len(values)
    variance = math.fsum(value * value for value in values) / n
    within_now = math.fsum(within) / len(within)
    measured_s = comfortable_seconds(overhead_s=overhead_s, cells=1)
    within_then = within_now * math.fsum(pair.seconds for pair in pairs) / len(pairs) / measured_s
    sd_restart = math.sqrt(max(0.0, variance - within_now))
    sd = math.hypot(sd_restart, math.sqrt(within_then))
    # n times the mean square of n normal values over their variance is chi-squared with n degrees of freedom.
    sd_worst = sd * math.sqrt(n / float(chdtri(n, _WORST)))

    def seconds(sd: float, target: float) -> float:
        return load_s + epochs_needed(sd, target) * (overhead_s + measured_s)

    return Resolution(
        epochs=n,
        sd_restart=sd_restart,
        sd_within=math.sqrt(within_then),
        overhead_s=overhead_s,
        measured_s=measured_s,
        foretold=tuple(
            Foretold(half_width=target, seconds=seconds(sd, target), at_worst_s=seconds(sd_worst, target))
            for target in TARGETS
        ),
    )
