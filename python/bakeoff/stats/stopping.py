"""The stopping rule of docs/method.md ("When it stops") as a pure function of the epochs so far.

A comparison (one contender in one cell) is PRECISE when its t interval is narrow enough, DECISIVE when the
anytime-valid interval excludes a ratio of 1. It is then settled: its contender is not measured in that cell any more. A
cell is finished when all its comparisons are settled; the control arm is never waited for.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from bakeoff.plan import Plan
from bakeoff.plan.timing import GRACE, Pace
from bakeoff.spec import Study
from bakeoff.stats.estimate import EpochEstimates, by_comparison
from bakeoff.stats.interval import (
    ALPHA_DECISIVE,
    ALPHA_LIVE,
    N_MIN,
    N_MIN_DECISIVE,
    anytime_half_width,
    around,
    epochs_needed,
    precision_half_width,
    standard_deviation,
)
from bakeoff.stats.model import Interval, Stop


@dataclass(frozen=True)
class Progress:
    """One comparison after n valid epochs; log ratios.

    Attributes:
        mean: mean of the epochs' values; None before the first.
        live: the anytime-valid 95 % interval, the only one that may be shown while measuring.
        half_width: h_n, which PRECISE compares with the target; infinite below two epochs.
        stop: PRECISE, DECISIVE or RUNNING.
        epochs_left: epochs that the target precision would still take by the spread so far; None below two.
    """

    cell: str
    contender: str
    is_control: bool
    n: int
    mean: float | None
    live: Interval
    half_width: float
    stop: Stop
    epochs_left: int | None


@dataclass(frozen=True)
class Decision:
    """What to do after an epoch.

    Attributes:
        stop: RUNNING: measure another epoch; else why measuring has ended.
        finished: cells not to be measured any more.
        settled: (cell, contender) not to be measured any more, including those of finished cells.
        remaining: the other cells, in plan order.
        progress: every comparison, for the live display.
        epochs_left: epochs that the slowest cell would still take; None while unknown.
        more_s: wall seconds these would take, at most the rest of the budget; None while unknown.
        share: the part of the planned measuring that fits into the budget in the next epoch; 0 to 1.
    """

    stop: Stop
    finished: frozenset[str]
    remaining: tuple[str, ...]
    progress: tuple[Progress, ...]
    epochs_left: int | None
    more_s: float | None
    settled: frozenset[tuple[str, str]] = frozenset()
    share: float = 1.0


def control_name(study: Study) -> str | None:
    """The control arm's name (`A'` beside the baseline `A`), or None without one."""
    name = f"{study.baseline.name}'"
    return name if any(arm.name == name for arm in study.arms) else None


def contenders(study: Study) -> tuple[str, ...]:
    """Arms that the question is about: all but the baseline and its control."""
    return tuple(arm.name for arm in study.arms[1:] if arm.name != control_name(study))


def family_size(study: Study, cells: int) -> int:
    """M: how many comparisons are corrected for together: cells x contenders, without the control."""
    return max(1, cells * len(contenders(study)))


def stop_state(values: Sequence[float], *, precision: float, family: int) -> Stop:
    """PRECISE, DECISIVE or RUNNING for one comparison's values; always RUNNING with a value that is not finite."""
    n = len(values)
    if n < N_MIN_DECISIVE or not all(map(math.isfinite, values)):
        return Stop.RUNNING
    mean, sd = fmean(values), standard_deviation(values)
    if n >= N_MIN and precision_half_width(sd, n) <= precision:
        return Stop.PRECISE
    if abs(mean) > anytime_half_width(sd, n, alpha=ALPHA_DECISIVE / family):
        return Stop.DECISIVE
    return Stop.RUNNING


def progress_of(
    values: Sequence[float], *, cell: str, contender: str, is_control: bool, precision: float, family: int
) -> Progress:
    """Where one comparison stands."""
    n = len(values)
    usable = n > 0 and all(map(math.isfinite, values))
    mean = fmean(values) if usable else None
    sd = standard_deviation(values) if usable else math.nan
    stop = stop_state(values, precision=precision, family=family)
    left = None
    if stop is not Stop.RUNNING:
        left = 0
    elif usable and n >= 2:
        left = max(1, epochs_needed(sd, precision) - n)
    return Progress(
        cell=cell,
        contender=contender,
        is_control=is_control,
        n=n,
        mean=mean,
        live=around(mean, anytime_half_width(sd, n, alpha=ALPHA_LIVE)) if mean is not None else around(0.0, math.inf),
        half_width=precision_half_width(sd, n) if usable else math.inf,
        stop=stop,
        epochs_left=left,
    )


def decide(
    history: Sequence[EpochEstimates],
    study: Study,
    plan: Plan,
    *,
    elapsed_s: float,
    epoch_s: float | None = None,
    pace: Pace | None = None,
    aborted: bool = False,
) -> Decision:
    """Decide what to do next, from the valid epochs so far.

    Args:
        history: one entry a valid epoch, in order (`epoch_estimates`), without the discarded ones.
        study: precision, budget, arms.
        plan: cells and expected seconds.
        elapsed_s: wall seconds used of the budget, loading included.
        epoch_s: expected wall seconds of the next epoch; None: by the pace, for what remains to be measured.
        pace: of the epochs so far; None: as planned.
        aborted: the user ended the run.

    Returns:
        The decision; the same history always gives the same one, so that a resumed run can ask again.
    """
    progress = _progress(history, study, plan)
    remaining = tuple(cell.name for cell in plan.cells if not _is_finished(cell.name, progress))
    finished = frozenset(cell.name for cell in plan.cells) - frozenset(remaining)
    settled = frozenset(
        (state.cell, state.contender)
        for state in progress
        if state.cell in finished or (state.stop is not Stop.RUNNING and not state.is_control)
    )
    left_out = Counter(cell for cell, _ in settled)
    planned_s = plan.measuring_seconds({cell: len(study.arms) - left_out[cell] for cell in remaining})
    pace = pace or Pace(overhead_s=plan.overhead_s, stretch=1.0)
    measured = min((state.n for state in progress if state.cell in remaining), default=0)
    limit_s = study.budget_s * (GRACE if measured < N_MIN else 1.0)
    share = 1.0
    if epoch_s is None:
        room_s = limit_s - elapsed_s
        turns = plan.turns or len(plan.arms)
        share = pace.share(planned_s, room_s=room_s, epochs=measured, cells=len(remaining), turns=turns)
    next_s = pace.epoch_s(share * planned_s) if epoch_s is None else epoch_s
    stop = _overall(progress, remaining, aborted=aborted)
    if stop is Stop.RUNNING and elapsed_s + next_s > limit_s:
        stop = Stop.BUDGET
    left = _most([state.epochs_left for state in progress if state.cell in remaining and not state.is_control])
    more_s = None if left is None else min(left * next_s, max(study.budget_s - elapsed_s, 0.0))
    return Decision(
        stop=stop,
        finished=finished,
        settled=settled,
        remaining=remaining,
        progress=progress,
        epochs_left=left,
        more_s=0.0 if stop is not Stop.RUNNING else more_s,
        share=share,
    )


def _progress(history: Sequence[EpochEstimates], study: Study, plan: Plan) -> tuple[Progress, ...]:
    """Every comparison, cell by cell."""
    pairs = by_comparison(history)
    return tuple(
        progress_of(
            [pair.value for pair in pairs.get((cell.name, arm.name), ())],
            cell=cell.name,
            contender=arm.name,
            is_control=arm.name == control_name(study),
            precision=study.precision,
            family=family_size(study, len(plan.cells)),
        )
        for cell in plan.cells
        for arm in study.arms[1:]
    )


def _is_finished(cell: str, progress: Iterable[Progress]) -> bool:
    states = [state for state in progress if state.cell == cell]
    waited_for = [state for state in states if not state.is_control] or states
    return all(state.stop is not Stop.RUNNING for state in waited_for)


def _overall(progress: Iterable[Progress], remaining: Sequence[str], *, aborted: bool) -> Stop:
    if remaining:
        return Stop.ABORTED if aborted else Stop.RUNNING
    stops = {state.stop for state in progress if not state.is_control}
    return Stop.DECISIVE if Stop.DECISIVE in stops else Stop.PRECISE


def _most(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return max(known) if known and len(known) == len(numbers) else None
