"""How long to measure: slices and guards, seconds of a cell and epoch, the budget (docs/reference/method.md)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bakeoff.plan.epochs import SliceLength

EPOCHS_MIN = 6  # fewest epochs for a verdict at the target precision
_SECONDS_MIN = 2.0  # fewest seconds of a cell in an epoch; below it a write cell has no whole block
_TURN_MIN_S = 4 * 0.055  # two blocks of the shortest slices with guards, two turns an arm in each
WARM_MIN_S = 2.0  # shortest warm-up of one workload after a start
_REPORT_S, _REPORT_CELL_S, _REPORT_CELLS = 3.0, 0.5, 12  # analysis and report count towards the budget
_BUDGET_STEP_S = 5.0  # budgets are rounded up to this
LONG_S = 20.0  # most seconds of a cell in an epoch; writes and open loops always need them
# Seconds of a reading arm in an epoch. Shorter leaves much noise within the epoch; longer gains little, because
# restarts differ more (docs/explanation/decisions/how-long-an-epoch.md).
_TURN_COMFORTABLE_S = 2.5
_EPOCHS_AIM = 8  # from 6 to 8 the interval's factor t/sqrt(n) still falls by a fifth, at the price of two restarts
_BLOCKS_MIN = 2  # per cell and round; each arm has two turns in a block
_BLOCKS_AIM = 4  # fewer leave nothing to trim, to test for a trend, or to split the spread with
_EVENTS_AIM = 5_000  # of an arm in an epoch: 50 of them lie beyond the 99th percentile
# Standard deviation of an epoch's ratio over the target half-width: with it six epochs reach the target three times in
# four (the interval's factor 1.08 t(0.98, 5) / sqrt(6) is 1.22) and eight nearly always. Smaller values cost more
# time in every epoch than they save in epochs.
_EPOCH_SD = 0.75
_BLOCKS_MANY = 20  # with that many, one more or less is at most 5 % of the measuring

_MS = 1_000_000
READ_SLICE_NS = 100 * _MS
_WRITE_SLICE_NS, _FROZEN_WRITE_SLICE_NS = 2_000 * _MS, 1_000 * _MS
_OPEN_SLICE_NS = 1_000 * _MS
_THROTTLED_SLICE_NS = 1_000 * _MS
# The kernel lets a tenth of a second's worth through at once, and then waits for the next tenth. A group that has
# rested for less than that has saved up credit (docs/explanation/decisions/limited-storage.md).
THROTTLE_NS = 100 * _MS
SLICE_MIN_NS = 5 * _MS


def seconds_min(turns: int, slices: SliceLength) -> float:
    """Return the least seconds of a cell in an epoch. Slices of limited storage cannot be shortened to fit."""
    return max(_SECONDS_MIN, turns * max(_TURN_MIN_S, turn_seconds_min(slices)))


def turn_seconds_min(slices: SliceLength) -> float:
    """Return the least seconds of one arm in a cell: the slices of the fewest blocks."""
    return _BLOCKS_MIN * 2 * (slices.slice_ns + slices.guard_ns) / 1e9


def warm_seconds(warm_s: float) -> float:
    return max(WARM_MIN_S, warm_s)


def report_seconds(cells: int) -> float:
    return _REPORT_S + _REPORT_CELL_S * min(cells, _REPORT_CELLS)


def smallest_budget_s(*, load_s: float, overhead_s: float, cells: int, cell_s: float) -> float:
    """Return the smallest budget for a verdict: loading, report, and the fewest epochs with the least measuring."""
    needed_s = load_s + EPOCHS_MIN * (overhead_s + cells * cell_s)
    return math.ceil(needed_s / _BUDGET_STEP_S) * _BUDGET_STEP_S


def least_seconds(*, turns: int, slice_ns: int = 0, events_per_s: float = 0.0) -> float:
    """Least useful measuring seconds of a cell that reads: enough of each arm, enough blocks and events for a p99."""
    blocks_s = _BLOCKS_AIM * 2 * turns * (slice_ns + guard_ns(slice_ns)) / 1e9
    events_s = turns * _EVENTS_AIM / events_per_s if events_per_s > 0 else 0.0
    return max(_TURN_COMFORTABLE_S * turns, blocks_s, events_s)


def ideal_seconds(
    *,
    overhead_s: float,
    cells: int,
    bounds: tuple[float, float],
    rate_s: float | None = None,
    precision: float = math.inf,
) -> float:
    """Measuring seconds of a cell in an epoch that suit the noise, as far as it is known, whatever the budget.

    With `rate_s`, the variance of the log ratio within an epoch times seconds: those with which the fewest epochs reach
    the target precision, if restarts differ little. Without: as long as the rest of an epoch takes, where the variance
    for a given time is at most twice the least (docs/explanation/decisions/how-long-an-epoch.md).
    """
    ideal_s = overhead_s / cells if rate_s is None else rate_s / (_EPOCH_SD * precision) ** 2
    return min(max(ideal_s, bounds[0]), bounds[1])


def fit_seconds(ideal_s: float, *, rest_s: float, overhead_s: float, cells: int, least_s: float) -> float:
    """Fit the ideal seconds of a cell (`ideal_seconds`) into what loading leaves of the budget.

    Shorter if fewer than 8 epochs fit. If that leaves less than 5 s, 6 epochs must do. Never below `least_s`. What
    a whole number of epochs leaves of the budget is shared out among them, so that the last one ends with it.
    """

    def at(epochs: int) -> float:
        return (rest_s / epochs - overhead_s) / cells

    seconds = at(_EPOCHS_AIM)
    if seconds < max(5.0, least_s):
        seconds = min(max(5.0, least_s), at(EPOCHS_MIN))
    seconds = min(max(seconds, least_s), max(ideal_s, least_s))
    fitting = int(rest_s / (overhead_s + cells * seconds) + 1e-9)
    return max(seconds, at(fitting)) if fitting >= EPOCHS_MIN else seconds


def shared_seconds(seconds: float, noise: Mapping[str, float | None], *, least_s: float) -> dict[str, float]:
    """Share the measuring seconds of an epoch among its cells by their noise (variance of the log ratio x seconds).

    Seconds in proportion to it make all intervals equally wide. No cell gets less than half of the mean (`seconds`) or
    more than twice it, because the noise of restarts is not known yet. Unknown noise (None) counts as the median.
    """
    known = sorted(rate for rate in noise.values() if rate is not None and rate > 0)
    if len(noise) < 2 or not known:
        return dict.fromkeys(noise, seconds)
    median = known[len(known) // 2]
    rates = {cell: rate if rate else median for cell, rate in noise.items()}
    low, high = 0.5, 2.0
    # Bisect for the factor at which the clamped shares have the mean 1; clamping rules out a formula.
    smallest, largest = low / max(rates.values()), high / min(rates.values())
    for _ in range(60):
        factor = math.sqrt(smallest * largest)
        if math.fsum(min(max(factor * rate, low), high) for rate in rates.values()) < len(rates):
            smallest = factor
        else:
            largest = factor
    return {cell: max(seconds * min(max(smallest * rate, low), high), least_s) for cell, rate in rates.items()}


def whole_blocks(slices: SliceLength, *, seconds: float, turns: int) -> tuple[SliceLength, int | None]:
    """Lengthen slices so that whole blocks fill the time; blocks are None if there are too many for it to matter."""
    slices_a_block = 2 * turns
    blocks = int(seconds * 1e9 / (slices_a_block * (slices.slice_ns + slices.guard_ns)) + 1e-6)
    if blocks >= _BLOCKS_MANY:
        return slices, None
    blocks = max(blocks, 1)
    longer_ns = int(seconds * 1e9 / (slices_a_block * blocks)) - slices.guard_ns
    if slices.guard_ns == THROTTLE_NS:
        longer_ns -= longer_ns % THROTTLE_NS
    return SliceLength(slice_ns=max(longer_ns, slices.slice_ns), guard_ns=slices.guard_ns), blocks


def guard_ns(slice_ns: int) -> int:
    """Return 5 to 10 ms, and at most a tenth of the slice."""
    return min(max(slice_ns // 20, 5 * _MS), 10 * _MS, slice_ns // 10)


def guarded(slice_ns: int, *, throttled: bool = False) -> SliceLength:
    if throttled:
        whole_ns = max(slice_ns - slice_ns % THROTTLE_NS, _THROTTLED_SLICE_NS)
        return SliceLength(slice_ns=whole_ns, guard_ns=THROTTLE_NS)
    return SliceLength(slice_ns=slice_ns, guard_ns=guard_ns(slice_ns))


def longest_slice_ns(*, seconds: float, turns: int, blocks: int = _BLOCKS_AIM) -> int:
    """Return the longest slice with which that many blocks (each arm twice, with guards) fit; at least 5 ms."""
    with_guard_ns = int(seconds * 1e9) // (blocks * 2 * max(turns, 1))
    return max(with_guard_ns - guard_ns(with_guard_ns), SLICE_MIN_NS)


def pilot_slice_max_ns(*, budget_s: float, cells: int, turns: int) -> int:
    seconds = fit_seconds(LONG_S, rest_s=budget_s, overhead_s=0, cells=cells, least_s=seconds_min(turns, guarded(0)))
    return longest_slice_ns(seconds=seconds, turns=turns)


def slice_bounds(
    *, writes: bool, frozen: bool, open_loop: bool, throttled: bool = False, seconds: float, turns: int
) -> tuple[int, int]:
    """Return the shortest and longest slice (ns) that a cell may have, whatever its pilot says.

    Writes take 2 s or more, so that each server flushes in its own slices; 1 s if the resting server is `frozen` and
    cannot flush. Open loop takes 1 s, for its tail, and so does limited storage, which works in tenths of a second. All
    may be so long that two blocks fit; other reads keep four.
    """
    slow = writes or open_loop or throttled
    if writes:
        lowest = _FROZEN_WRITE_SLICE_NS if frozen else _WRITE_SLICE_NS
    else:
        lowest = _OPEN_SLICE_NS if open_loop or throttled else SLICE_MIN_NS
    highest = longest_slice_ns(seconds=seconds, turns=turns, blocks=2 if slow else _BLOCKS_AIM)
    return min(lowest, highest), highest


def seconds_with_hosts(hosts: int, *, epochs: int, load_s: float, epoch_s: float) -> float:
    """Return the wall seconds until the hosts of a cluster have measured that many epochs.

    The first host loads the data and measures an epoch with the pilot; the others load meanwhile, and take part then.
    """
    first_s, others_s = load_s + epoch_s, load_s + max(epoch_s, load_s)

    def measured(time_s: float) -> int:
        own, each = (max(0, int((time_s - begin_s) / epoch_s + 1e-9)) for begin_s in (first_s, others_s))
        return 1 + own + (hosts - 1) * each

    ends = (begin_s + turn * epoch_s for turn in range(epochs) for begin_s in (first_s, others_s))
    return min(time_s for time_s in ends if measured(time_s) >= epochs)


GRACE = 1.05  # share of the budget that may be used to complete the fewest epochs a verdict needs
_RECENT = 3  # epochs whose overhead is averaged: restarts get slower and faster with the machine
_SHARE_MIN = 0.4  # of the planned measuring; less says too little for the cost of a restart


@dataclass(frozen=True)
class EpochCost:
    overhead_s: float  # everything but measuring and the pilot
    measured_s: float  # inside `measure`, with drains and switches
    planned_s: float  # of measuring, as asked for


@dataclass(frozen=True)
class EpochTime:
    """Overhead of an epoch, and wall seconds per planned second of measuring, on this machine."""

    overhead_s: float
    wall_per_planned: float

    def epoch_s(self, planned_s: float) -> float:
        return self.overhead_s + self.wall_per_planned * planned_s

    def share(self, planned_s: float, *, room_s: float, epochs: int, least_s: float) -> float:
        """Return the part of its planned measuring that the next epoch gets so that the fewest fit; 1 if they do."""
        missing = EPOCHS_MIN - epochs
        if missing <= 0 or planned_s <= 0 or self.epoch_s(planned_s) * missing <= room_s:
            return 1.0
        share = (room_s / missing - self.overhead_s) / (self.wall_per_planned * planned_s)
        return min(max(share, _SHARE_MIN, least_s / planned_s), 1.0)


def epoch_time(costs: Sequence[EpochCost]) -> EpochTime | None:
    recent = [cost for cost in costs[-_RECENT:] if cost.planned_s > 0]
    if not recent:
        return None
    planned_s = math.fsum(cost.planned_s for cost in recent)
    return EpochTime(
        overhead_s=math.fsum(cost.overhead_s for cost in recent) / len(recent),
        wall_per_planned=math.fsum(cost.measured_s for cost in recent) / planned_s,
    )
