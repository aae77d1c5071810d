"""The stopping rule of docs/reference/method.md as a pure function of the epochs so far.

A comparison is PRECISE when its t interval is narrow enough, in absolute terms or for its effect. A gate does not ask
for the size: there it is also DECISIVE when the anytime-valid interval excludes the reference. It is then settled, and
its contender is no longer measured in that cell. The control is never waited for.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from bakeoff import features, spec
from bakeoff.plan import Plan
from bakeoff.plan.timing import GRACE, EpochTime, seconds_min
from bakeoff.spec import Arm, Study
from bakeoff.stats import interval as iv
from bakeoff.stats.estimate import EpochEstimates, PairEstimate, by_comparison
from bakeoff.stats.hosts import epochs_needed, moments
from bakeoff.stats.model import Stop

_VERDICT = spec.Question()


@dataclass(frozen=True)
class Decision:
    """What to do after an epoch."""

    stop: Stop  # RUNNING to measure another epoch, else why measuring has ended
    settled: frozenset[tuple[str, str]]  # (cell, arm) pairs that are no longer measured
    more_s: float | None  # wall seconds that the slowest cell still needs, at most the rest of the budget
    share: float  # part of the planned measuring that fits into the budget in the next epoch, 0 to 1
    joins: Arm | None = None  # an arm to be measured next that the study does not have yet


def control_name(study: Study) -> str | None:
    """Return the control arm's name (`A'` beside the baseline `A`), or None without one."""
    name = f"{study.baseline.name}'"
    return name if any(arm.name == name for arm in study.arms) else None


def contenders(study: Study) -> tuple[str, ...]:
    return tuple(arm.name for arm in study.arms[1:] if arm.name != control_name(study))


def family_size(study: Study, cells: int) -> int:
    """Return M, the number of comparisons corrected for together: cells x contenders, without the control."""
    return max(1, cells * len(contenders(study)))


def target(question: spec.Question, precision: float, mean: float) -> float:
    """Return the half-width at which a comparison is precise: a tenth of its effect, if that is more than `precision`.

    A gate measures from its limit, so the size of the effect does not matter there.
    """
    return precision if question.decisive else max(precision, iv.RELATIVE_PRECISION * abs(mean))


def stop_state(
    values: Sequence[float],
    hosts: Sequence[str] = (),
    *,
    precision: float,
    family: int = 1,
    question: spec.Question = _VERDICT,
) -> Stop:
    """Return PRECISE, DECISIVE or RUNNING for one comparison; RUNNING if a value is not finite."""
    n = len(values)
    if n < iv.N_MIN_DECISIVE or not all(map(math.isfinite, values)):
        return Stop.RUNNING
    found = moments(values, hosts)
    # Few hosts are often close by chance, which is not a reason to stop.
    enough = found.degrees + 1 >= iv.N_MIN
    if enough and iv.precision_half_width(*found[1:]) <= target(question, precision, found.mean):
        return Stop.PRECISE
    far = abs(found.mean - question.reference) > iv.anytime_half_width(*found[1:], alpha=iv.ALPHA_DECISIVE / family)
    return Stop.DECISIVE if question.decisive and far else Stop.RUNNING


def stop_of(pairs: Sequence[PairEstimate], study: Study, *, family: int) -> Stop:
    values, hosts = [pair.value for pair in pairs], [pair.host for pair in pairs]
    return stop_state(values, hosts, precision=study.precision, family=family, question=study.question)


@dataclass(frozen=True)
class Progress:
    """Where a run stands."""

    history: Sequence[EpochEstimates]  # the valid epochs
    study: Study  # with the arms that have joined so far
    plan: Plan
    elapsed_s: float  # wall seconds of the budget used, loading included
    epoch_time: EpochTime | None = None  # measured so far; None before the first epoch
    load_s: float = 0.0  # mean wall seconds of one load, if the question adds arms
    newest: Sequence[str] = ()  # arms that the newest epoch started, valid or not
    aborted: bool = False


def decide(progress: Progress, *, answered: Callable[[Sequence["ComparisonState"]], bool] | None = None) -> Decision:
    """Decide what to do next; `answered` says whether the question is answered, whatever further epochs will say."""
    study, plan, elapsed_s = progress.study, progress.plan, progress.elapsed_s
    states = _states(progress.history, study, plan)
    finished = frozenset(cell.name for cell in plan.cells if _is_finished(cell.name, states))
    open_states = [state for state in states if state.cell not in finished]
    settled = frozenset(
        (state.cell, state.contender)
        for state in states
        if state.cell in finished
        or (state.stop is not Stop.RUNNING and not state.is_control and not _is_together(study))
    )
    arms_left = Counter(state.cell for state in open_states if (state.cell, state.contender) not in settled)
    planned_s = plan.measuring_seconds({cell: arms + 1 for cell, arms in arms_left.items()})
    epoch_time = progress.epoch_time or EpochTime(overhead_s=plan.overhead_s, wall_per_planned=1.0)
    epochs = min((state.n for state in open_states), default=0)
    limit_s = study.budget_s * (GRACE if epochs < iv.N_MIN else 1.0)
    least_s = math.fsum(seconds_min(arms + 1, plan.cell(cell).slices) for cell, arms in arms_left.items())
    share = epoch_time.share(planned_s, room_s=limit_s - elapsed_s, epochs=epochs, least_s=least_s)
    next_s = epoch_time.epoch_s(share * planned_s)
    stop = _overall(states, going_on=bool(open_states), aborted=progress.aborted)
    if stop is Stop.RUNNING and answered and answered(states):
        stop = Stop.ANSWERED
    if stop is Stop.RUNNING and elapsed_s + next_s > limit_s:
        stop = Stop.BUDGET
    lefts = [state.epochs_left for state in open_states if not state.is_control]
    known = [left for left in lefts if left is not None]
    more_s = (
        min(max(known) * next_s, max(study.budget_s - elapsed_s, 0.0)) if known and len(known) == len(lefts) else None
    )
    return Decision(stop=stop, settled=settled, more_s=0.0 if stop is not Stop.RUNNING else more_s, share=share)


@dataclass(frozen=True)
class ComparisonState:
    """One comparison after n valid epochs."""

    cell: str
    contender: str
    is_control: bool
    n: int
    values: Sequence[float]  # one per epoch
    hosts: Sequence[str]
    stop: Stop
    epochs_left: int | None  # epochs that the target half-width would still take; None if unknown


def _states(history: Sequence[EpochEstimates], study: Study, plan: Plan) -> list[ComparisonState]:
    pairs = by_comparison(history)
    family = family_size(study, len(plan.cells))
    states = []
    for cell in plan.cells:
        for arm in study.arms[1:]:
            found = pairs.get((cell.name, arm.name), ())
            values, hosts = [pair.value for pair in found], [pair.host for pair in found]
            n = len(values)
            stop = stop_of(found, study, family=family)
            if n < iv.N_MIN and (cell.fixed_work or _is_together(study)):  # too few for verdicts on queries or settings
                stop = Stop.RUNNING
            left = None
            if stop is not Stop.RUNNING:
                left = 0
            elif len(values) >= 2 and all(map(math.isfinite, values)):
                wanted = target(study.question, study.precision, moments(values, hosts).mean)
                needed = epochs_needed(values, hosts, wanted)
                left = None if needed is None else max(1, needed - n)
            states.append(
                ComparisonState(cell.name, arm.name, arm.name == control_name(study), n, values, hosts, stop, left)
            )
    return states


def _is_together(study: Study) -> bool:
    return study.design is not None and study.design.together


def _is_finished(cell: str, states: Sequence[ComparisonState]) -> bool:
    here = [state for state in states if state.cell == cell]
    waited_for = [state for state in here if not state.is_control] or here
    return all(state.stop is not Stop.RUNNING for state in waited_for)


def _overall(states: Sequence[ComparisonState], *, going_on: bool, aborted: bool) -> Stop:
    if going_on:
        return Stop.ABORTED if aborted else Stop.RUNNING
    stops = {state.stop for state in states if not state.is_control}
    return Stop.DECISIVE if Stop.DECISIVE in stops else Stop.PRECISE


class Rule(Protocol):
    """The part of a question that measuring needs; see `bakeoff.report.context` for the rest."""

    @property
    def record(self) -> type[spec.Question]: ...

    def decide(self, progress: Progress) -> Decision:
        """Decide what to do next. The same progress always gives the same decision, so a resumed run can ask again."""


class VerdictRule:
    record: type[spec.Question] = spec.Question

    def decide(self, progress: Progress) -> Decision:
        return decide(progress)


def rule_of(study: Study) -> Rule:
    module = features.part(study.question.kind, "question")
    rule: Rule = module.QUESTION if module else VerdictRule()
    return rule
