"""What a machine can resolve: how long a comparison would take for each half-width, forecast from a short trial.

The trial is a run of two equal servers. Their true log ratio is 0, so every D_e is noise: its mean square is the
variance between epochs, its share within an epoch is known from the blocks, and both parts together forecast the
spread at the measuring time that a real run would take. It steers expectations and enters no interval.
"""

import math
from collections.abc import Sequence

import polars as pl
from scipy.special import chdtri

from bakeoff.plan import EPOCHS_MIN, Plan, best_seconds_per_cell, comfortable_seconds
from bakeoff.spec import Placement, Study
from bakeoff.stats.estimate import EpochEstimates, PairEstimate
from bakeoff.stats.interval import epochs_needed, precision_half_width, standard_deviation
from bakeoff.stats.model import Frozen

# The noise card: what this machine and these servers will allow, told before the measuring proper begins.
#
# From the first two or three epochs: how far ratios move between restarts, how far within a run, and so how wide the
# interval will be after 5, 10 and 30 minutes. It steers time and never enters an interval.

MINUTES = (5, 10, 30)
"""Times from the start of the run for which the card forecasts the half-width."""

PILOT_EPOCHS = 3
"""Epochs after which the card is shown and the measuring seconds may change, once."""

CHANGE_FACTOR = 2.0
"""Measuring seconds are changed after the pilot only when the best differ by more than this: the pilot is lost then."""

_GAIN = 0.8  # a spread known from three epochs is rough: a smaller gain may be none


class NoiseLine(Frozen):
    """One comparison's noise; log ratios.

    Attributes:
        sd_epoch: standard deviation of D_e between the pilot's epochs.
        sd_within: the part of it that more measuring in an epoch would average out, at the seconds of now.
        sd_restart: the rest: what only more restarts average out.
        expected: minutes of the whole run -> expected half-width; None where too few epochs fit.
        epochs_needed, needed_s: for the target precision, by this spread.
        slice_ns: chosen slice length.
        placement: where the threads of a connection run.
    """

    cell: str
    contender: str
    sd_epoch: float
    sd_within: float | None
    sd_restart: float | None
    expected: dict[int, float | None]
    epochs_needed: int
    needed_s: float
    slice_ns: int
    placement: Placement


class NoiseCard(Frozen):
    """All comparisons' noise, and what they have in common.

    Attributes:
        epochs: how many the card rests on; two or three say only the order of magnitude.
        steal_share: share of all CPU time that the hypervisor took; None when nothing was measured.
        seconds_per_cell: m, as planned; `best_seconds_per_cell` is m*, None while unknown.
    """

    epochs: int
    lines: tuple[NoiseLine, ...]
    steal_share: float | None
    seconds_per_cell: float
    best_seconds_per_cell: float | None


def components(values: Sequence[float], within: Sequence[float | None]) -> tuple[float | None, float | None]:
    """Split the spread of D_e: (sd_restart, sd_within); None where it cannot be told.

    sd_restart^2 = max(0, s^2 - mean of the epochs' own variances). The split steers time only.
    """
    known = [value for value in within if value is not None]
    sd_within = math.sqrt(math.fsum(known) / len(known)) if known else None
    if len(values) < 2 or sd_within is None or not all(map(math.isfinite, values)):
        return None, sd_within
    return math.sqrt(max(0.0, standard_deviation(values) ** 2 - sd_within**2)), sd_within


def noise_card(history: Sequence[EpochEstimates], study: Study, plan: Plan, *, slices: pl.DataFrame) -> NoiseCard:
    """Make the card from the first valid epochs.

    Args:
        history: two epochs at least, for a spread to exist; of fewer the lines are empty.
        study: target precision.
        plan: seconds, overhead, slice lengths.
        slices: those epochs' slices, for the host's steal.

    Returns:
        The card. The spread is taken to be at least what the noise within an epoch alone would make.
    """
    lines = []
    for (cell, contender), pairs in by_comparison(history).items():
        values = [pair.value for pair in pairs]
        if len(values) < 2 or not all(map(math.isfinite, values)):
            continue
        sd_restart, sd_within = components(values, [pair.variance_of_mean for pair in pairs])
        sd = max(standard_deviation(values), sd_within or 0.0)
        needed = epochs_needed(sd, study.precision)
        lines.append(
            NoiseLine(
                cell=cell,
                contender=contender,
                sd_epoch=sd,
                sd_within=sd_within,
                sd_restart=sd_restart,
                expected={minutes: _expected(sd, minutes, plan) for minutes in MINUTES},
                epochs_needed=needed,
                needed_s=plan.load_s + needed * plan.epoch_s,
                slice_ns=plan.cell(cell).slices.slice_ns,
                placement=plan.cell(cell).placement,
            )
        )
    return NoiseCard(
        epochs=len(history),
        lines=tuple(lines),
        steal_share=steal_share(slices),
        seconds_per_cell=plan.seconds_per_cell,
        best_seconds_per_cell=_best_seconds(history, plan),
    )


def better_seconds(history: Sequence[EpochEstimates], study: Study, plan: Plan, *, elapsed_s: float) -> float | None:
    """Measuring seconds to change to after the pilot epochs, or None to keep them (and the pilot's epochs).

    Changed only when m* differs by more than a factor of 2, the fewest epochs for a verdict still fit afterwards, and
    starting anew is expected to reach the target in four fifths of the time that going on would take.

    Args:
        history: the pilot's epochs, three of them; two or fewer change nothing.
        study: target precision and budget.
        plan: what they were measured with.
        elapsed_s: wall seconds used of the budget.
    """
    best = _best_seconds(history, plan) if len(history) >= PILOT_EPOCHS else None
    if best is None:
        return None
    rest_s, cells = plan.budget_s - elapsed_s, len(plan.cells)
    seconds = min(best, (rest_s / EPOCHS_MIN - plan.overhead_s) / cells)
    if seconds <= 0 or 1 / CHANGE_FACTOR <= seconds / plan.seconds_per_cell <= CHANGE_FACTOR:
        return None
    going_on, anew = 0.0, 0.0
    for pairs in by_comparison(history).values():
        sd_restart, sd_within = components([p.value for p in pairs], [p.variance_of_mean for p in pairs])
        if sd_restart is None or sd_within is None:
            return None
        # What an arm is measured in a round is a fixed part of the cell's seconds, so the ratio of these tells it all.
        now = math.hypot(sd_restart, sd_within)
        then = math.sqrt(sd_restart**2 + sd_within**2 * plan.seconds_per_cell / seconds)
        going_on = max(going_on, (epochs_needed(now, study.precision) - len(history)) * plan.epoch_s)
        anew = max(anew, epochs_needed(then, study.precision) * (plan.overhead_s + cells * seconds))
    return seconds if anew < _GAIN * min(going_on, rest_s) else None


def by_comparison(history: Sequence[EpochEstimates]) -> dict[tuple[str, str], list[PairEstimate]]:
    """The history by (cell, contender), each in the order of epochs."""
    found: dict[tuple[str, str], list[PairEstimate]] = {}
    for epoch in history:
        for pair in epoch.pairs:
            found.setdefault((pair.cell, pair.contender), []).append(pair)
    return found


def steal_share(slices: pl.DataFrame) -> float | None:
    """Steal over all CPU time of the host in the slices; None when no time was counted (10 ms ticks, /proc/stat)."""
    fields = [f"host_{name}_ns" for name in ("user", "system", "iowait", "steal", "idle")]
    if slices.is_empty() or not set(fields) <= set(slices.columns):
        return None
    sums = slices.select(pl.col(fields).sum()).row(0, named=True)
    total = sum(sums.values())
    return sums["host_steal_ns"] / total if total > 0 else None


def _expected(sd: float, minutes: int, plan: Plan) -> float | None:
    epochs = int((minutes * 60 - plan.load_s) / plan.epoch_s)
    return precision_half_width(sd, epochs) if epochs >= EPOCHS_MIN else None


def _best_seconds(history: Sequence[EpochEstimates], plan: Plan) -> float | None:
    """m* over all comparisons: the rate and the restart variance averaged, the overhead shared by the cells."""
    rates, restarts = [], []
    for (cell, _), pairs in by_comparison(history).items():
        sd_restart, sd_within = components([p.value for p in pairs], [p.variance_of_mean for p in pairs])
        if sd_restart is None or sd_within is None:
            continue
        rates.append(sd_within**2 * plan.seconds_of(cell))
        restarts.append(sd_restart**2)
    if not rates or plan.overhead_s <= 0:
        return None
    return best_seconds_per_cell(
        overhead_s=plan.overhead_s,
        cells=len(plan.cells),
        variance_rate_s=math.fsum(rates) / len(rates),
        restart_variance=math.fsum(restarts) / len(restarts),
    )


TARGETS = (0.05, 0.02, 0.01, 0.005, 0.003)
"""Half-widths (log ratio) that are forecast."""

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
        forecast: by half-width, the widest first.
    """

    epochs: int
    sd_restart: float
    sd_within: float
    overhead_s: float
    measured_s: float
    forecast: tuple[Foretold, ...]

    def half_width_after(self, seconds: float) -> float | None:
        """The narrowest of `TARGETS` that is expected within so many seconds; None: not even the widest."""
        reached = [each.half_width for each in self.forecast if each.seconds <= seconds]
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
        forecast=tuple(
            Foretold(half_width=target, seconds=seconds(sd, target), at_worst_s=seconds(sd_worst, target))
            for target in TARGETS
        ),
    )
