"""From a run's epochs to everything that its report says. Pure: the same input gives the same analysis."""

import math
from collections.abc import Sequence

from bakeoff.plan import Plan, plan_study
from bakeoff.results.epoch_data import EpochData
from bakeoff.spec import Study
from bakeoff.stats import interval as iv
from bakeoff.stats.diagnostics import states_flag, two_states
from bakeoff.stats.differences import differences, settings_flag, undeclared
from bakeoff.stats.estimate import EpochEstimates, PairEstimate, by_comparison, epoch_estimates
from bakeoff.stats.model import Analysis, ArmSummary, Comparison, Estimate, Flag, Stop
from bakeoff.stats.stopping import contenders, control_name, family_size
from bakeoff.stats.summary import arm_summaries, client_flag, dropped_flag, latency_ratios
from bakeoff.stats.verdict import Context, compare

CONTROL_ALPHA = 0.01
"""The control's interval is of 99 %, over all cells together."""


def analyse(
    epochs: Sequence[EpochData],
    study: Study,
    *,
    plan: Plan | None = None,
    ended: Stop,
    epoch_s: float | None = None,
) -> Analysis:
    """Analyse a run.

    Args:
        epochs: all of them, in any order; discarded ones are counted and not used.
        study: the question.
        plan: its cells; None: planned anew from the study.
        ended: how measuring ended: ABORTED (also for a run that was killed), EXTENDED and RUNNING allow only the
            anytime-valid interval; anything else means that the stopping rule was left to do its work.
        epoch_s: wall seconds of an epoch, for the minutes that are still missing; None: the plan's.
    """
    plan = plan or plan_study(study, overhead_s=0.0, load_s=0.0)
    ordered = sorted(epochs, key=lambda epoch: epoch.epoch)
    valid = [epoch for epoch in ordered if epoch.valid]
    baseline = study.baseline.name
    history = [epoch_estimates(epoch, baseline=baseline) for epoch in valid]
    control = control_name(study)
    found_settings = _undeclared(valid, study)
    context = Context(
        study=study,
        family=family_size(study, len(plan.cells)),
        control=control,
        ended=ended,
        epoch_s=plan.epoch_s if epoch_s is None else epoch_s,
    )
    pairs = by_comparison(history)
    comparisons = compare(pairs, plan, context)
    trusted = _trusted(pairs, control)
    summaries = arm_summaries(valid)
    flags = {arm: settings_flag(found) for arm, found in found_settings.items()}
    states = {} if ended is Stop.RUNNING else _states_flags(valid, plan)
    comparisons = tuple(
        _flagged(
            comparison,
            dropped_flag(_arms_of(comparison, summaries)),
            client_flag(_arms_of(comparison, summaries)),
            flags.get(comparison.contender),
            *(states.get((comparison.cell, arm)) for arm in (comparison.baseline, comparison.contender)),
            _UNTRUSTED if trusted is False else None,
        )
        for comparison in comparisons
    )
    return Analysis(
        baseline=baseline,
        contenders=contenders(study),
        control=control,
        family=context.family,
        comparisons=comparisons,
        arms=summaries,
        latencies=latency_ratios(
            valid, baseline=baseline, interval_of=context.quick_interval, cells=[cell.name for cell in plan.cells]
        ),
        geometric_mean=_geometric_means(history, plan, study, context),
        trusted=trusted,
        discarded={epoch.epoch: epoch.discard_reason for epoch in ordered if not epoch.valid},
        undeclared=found_settings,
        epochs_used=len(valid),
        stopped=_stopped(comparisons, context),
    )


_UNTRUSTED = Flag(
    kind="UNTRUSTED",
    text="in this session the baseline differed from its own control; nothing here can be relied on.",
)


def _flagged(comparison: Comparison, *flags: Flag | None) -> Comparison:
    more = tuple(flag for flag in flags if flag)
    return comparison.model_copy(update={"flags": more[::-1] + comparison.flags}) if more else comparison


def _states_flags(epochs: Sequence[EpochData], plan: Plan) -> dict[tuple[str, str], Flag]:
    """By cell and arm, where the arm ran in two states."""
    cells = {cell.name: cell for cell in plan.cells}
    versions = {name: told.get("version", "") for name, told in epochs[-1].variables.items()} if epochs else {}
    return {
        (state.cell, state.arm): states_flag(state, cells[state.cell], versions.get(state.arm, ""))
        for state in two_states(epochs)
        if state.cell in cells
    }


def _arms_of(comparison: Comparison, summaries: Sequence[ArmSummary]) -> list[ArmSummary]:
    compared = (comparison.baseline, comparison.contender)
    return [arm for arm in summaries if arm.cell == comparison.cell and arm.arm in compared]


def _trusted(pairs: dict[tuple[str, str], list[PairEstimate]], control: str | None) -> bool | None:
    """Whether the control's intervals of 99 % (over all its cells together) hold 1; None without a control to tell."""
    if control is None:
        return None
    samples = [
        [pair.value for pair in found]
        for (_, contender), found in pairs.items()
        if contender == control and len(found) >= iv.N_MIN_DECISIVE
    ]
    usable = [values for values in samples if all(map(math.isfinite, values))]
    if not usable:
        return None
    for values in usable:
        n, mean = len(values), math.fsum(values) / len(values)
        interval = iv.t_interval(
            mean,
            iv.standard_deviation(values),
            n,
            alpha=CONTROL_ALPHA / len(usable),
            inflation=iv.INFLATION,
        )
        if iv.excludes_zero(interval):
            return False
    return True


def _undeclared(epochs: Sequence[EpochData], study: Study) -> dict[str, dict[str, tuple[str, str]]]:
    """By contender, over all epochs: a setting that differed in one of them counts."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    seen: set[int] = set()
    for epoch in epochs:
        base = epoch.variables.get(study.baseline.name)
        for arm in study.arms[1:]:
            theirs = epoch.variables.get(arm.name)
            if not base or not theirs:
                continue
            fingerprint = hash((arm.name, frozenset(base.items()), frozenset(theirs.items())))
            if fingerprint in seen:
                continue
            seen.add(fingerprint)
            differing = undeclared(differences(base, theirs, study, arm))
            if differing:
                found.setdefault(arm.name, {}).update(differing)
    return found


def _geometric_means(
    history: Sequence[EpochEstimates], plan: Plan, study: Study, context: Context
) -> dict[str, Estimate]:
    """By contender: mean over cells of D_e in each epoch that measured them all; the interval is over epochs.

    None with an open loop among the cells: its throughput is that of the schedule.
    """
    means: dict[str, Estimate] = {}
    if any(cell.open_loop for cell in plan.cells):
        return means
    for contender in contenders(study):
        values = []
        for epoch in history:
            row = [pair.value for pair in epoch.pairs if pair.contender == contender and math.isfinite(pair.value)]
            if len(row) == len(plan.cells):
                values.append(math.fsum(row) / len(row))
        if values:
            n, mean = len(values), math.fsum(values) / len(values)
            means[contender] = Estimate(
                mean=mean, interval=context.quick_interval(mean, iv.standard_deviation(values), n), n=n
            )
    return means


def _stopped(comparisons: Sequence[Comparison], context: Context) -> Stop:
    stops = [comparison.stop for comparison in comparisons if not comparison.is_control]
    if not stops or len(stops) < context.family:
        return context.ended if context.ended.anytime_only else Stop.BUDGET
    for stop in (Stop.RUNNING, Stop.ABORTED, Stop.EXTENDED, Stop.BUDGET, Stop.DECISIVE):
        if stop in stops:
            return stop
    return Stop.PRECISE
