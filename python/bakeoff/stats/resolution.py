"""Forecast how long a comparison takes on this machine: the noise card of a run, and the resolution of a machine.

Both split the spread of D_e into a part that longer epochs average out and a part that only more restarts do.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean

from bakeoff.plan import EPOCHS_MIN, Plan, ideal_seconds
from bakeoff.plan.timing import LONG_S, least_seconds
from bakeoff.results.frame import Frame
from bakeoff.spec import Placement, Study
from bakeoff.stats import interval as iv
from bakeoff.stats.estimate import EpochEstimates, PairEstimate, by_comparison
from bakeoff.stats.hosts import sd_within as sd_within_hosts
from bakeoff.stats.model import Frozen
from bakeoff.stats.stopping import target

MINUTES = (5, 10, 30)  # minutes from the start of the run for which the noise card forecasts the half-width
PILOT_EPOCHS = 3  # epochs after which the noise card is shown
TARGETS = (0.05, 0.02, 0.01, 0.005, 0.003)  # half-widths (log ratio) for which the resolution of a machine is forecast
OUT_OF_REACH_S = 3600.0  # A half-width that takes longer than this is reported as out of reach

_WORST = 0.90  # probability that the true spread is below the one behind `TimeNeeded.at_worst_s`


class NoiseLine(Frozen):
    """Noise of one comparison; log ratios."""

    cell: str
    contender: str
    sd_epoch: float  # standard deviation of D_e between the pilot's epochs
    sd_within: float | None  # the part that longer epochs would average out
    sd_restart: float | None  # the rest, which only more restarts average out
    expected: dict[int, float | None]  # half-width by minutes of the whole run; None if too few epochs fit
    epochs_needed: int  # until the comparison is precise, if this spread and mean are the true ones
    slice_ns: int
    placement: Placement


class NoiseCard(Frozen):
    """Noise of all comparisons. From two or three epochs, only the order of magnitude is known."""

    epochs: int
    lines: tuple[NoiseLine, ...]
    steal_share: float | None
    seconds_per_cell: float


def components(pairs: Sequence[PairEstimate]) -> tuple[float | None, float | None]:
    """Split the spread of D_e into (sd_restart, sd_within); None if unknown.

    sd_restart^2 = max(0, s^2 - mean of `PairEstimate.variance_of_mean`), with s within the hosts that measured them.
    """
    values = [pair.value for pair in pairs]
    known = [pair.variance_of_mean for pair in pairs if pair.variance_of_mean is not None]
    sd_within = math.sqrt(fmean(known)) if known else None
    if len(values) < 2 or sd_within is None or not all(map(math.isfinite, values)):
        return None, sd_within
    sd = sd_within_hosts(values, [pair.host for pair in pairs])
    return None if sd is None else math.sqrt(max(0.0, sd**2 - sd_within**2)), sd_within


def noise_card(history: Sequence[EpochEstimates], study: Study, plan: Plan, *, slices: Frame) -> NoiseCard:
    """Make the noise card from the first valid epochs, without lines for fewer than two."""
    lines = []
    epochs_in = {minutes: int((minutes * 60 - plan.load_s) / plan.epoch_s) for minutes in MINUTES}
    for (cell, contender), pairs in by_comparison(history).items():
        values = [pair.value for pair in pairs]
        if len(values) < 2 or not all(map(math.isfinite, values)):
            continue
        # The parts of a capture differ anyway: differences between blocks are not noise.
        sd_restart, sd_within = (None, None) if plan.cell(cell).fixed_work else components(pairs)
        sd = max(iv.standard_deviation(values), sd_within or 0.0)
        lines.append(
            NoiseLine(
                cell=cell,
                contender=contender,
                sd_epoch=sd,
                sd_within=sd_within,
                sd_restart=sd_restart,
                expected={
                    minutes: iv.precision_half_width(sd, epochs) if epochs >= EPOCHS_MIN else None
                    for minutes, epochs in epochs_in.items()
                },
                epochs_needed=iv.epochs_needed(sd, target(study.question, study.precision, fmean(values))),
                slice_ns=plan.cell(cell).slices.slice_ns,
                placement=plan.cell(cell).placement,
            )
        )
    return NoiseCard(
        epochs=len(history), lines=tuple(lines), steal_share=steal_share(slices), seconds_per_cell=plan.seconds_per_cell
    )


def steal_share(slices: Frame) -> float | None:
    fields = [f"host_{name}_ns" for name in ("user", "system", "iowait", "steal", "idle")]
    sums = {name: int(slices.get(name, 0).sum()) for name in fields}
    total = sum(sums.values())
    return sums["host_steal_ns"] / total if total > 0 else None


class TimeNeeded(Frozen):
    """Wall seconds from loading to verdict for one half-width (log ratio), expected and at worst (90%)."""

    half_width: float
    seconds: float
    at_worst_s: float


class Resolution(Frozen):
    """How small a difference a machine can resolve, from a short run of two equal servers."""

    epochs: int
    sd_restart: float  # standard deviation of D_e that longer measuring would not remove; log ratio
    sd_within: float  # the rest of it, at `measured_s` seconds
    overhead_s: float  # unmeasured seconds of an epoch
    measured_s: float  # seconds of a cell and epoch
    forecast: tuple[TimeNeeded, ...]  # by half-width, the widest first


def resolution(pairs: Sequence[PairEstimate], *, overhead_s: float, load_s: float) -> Resolution | None:
    """Forecast the time for each of `TARGETS` from the epochs of two equal arms in one cell.

    Their true log ratio is 0, so the mean square of D_e is the variance between epochs. None below three usable epochs.
    """
    values = [pair.value for pair in pairs if math.isfinite(pair.value)]
    within = [pair.variance_of_mean for pair in pairs if pair.variance_of_mean is not None]
    if len(values) < 3 or not within:
        return None
    n = len(values)
    variance = fmean(value * value for value in values)
    within_now = fmean(within)
    measured_s = ideal_seconds(overhead_s=overhead_s, cells=1, bounds=(least_seconds(turns=2), LONG_S))
    within_then = within_now * fmean(pair.seconds for pair in pairs) / measured_s
    sd_restart = math.sqrt(max(0.0, variance - within_now))
    sd = math.hypot(sd_restart, math.sqrt(within_then))
    # n times the mean square of n normal values over their variance is chi-squared (by Wilson and Hilferty).
    share = 2 / (9 * n)
    sd_worst = sd * (1 - share + NormalDist().inv_cdf(1 - _WORST) * math.sqrt(share)) ** -1.5

    def seconds(sd: float, target: float) -> float:
        return load_s + iv.epochs_needed(sd, target) * (overhead_s + measured_s)

    return Resolution(
        epochs=n,
        sd_restart=sd_restart,
        sd_within=math.sqrt(within_then),
        overhead_s=overhead_s,
        measured_s=measured_s,
        forecast=tuple(
            TimeNeeded(half_width=target, seconds=seconds(sd, target), at_worst_s=seconds(sd_worst, target))
            for target in TARGETS
        ),
    )
