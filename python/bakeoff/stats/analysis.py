"""Analyse a run: from its epochs to everything that its report shows. Pure: equal input gives an equal analysis."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from types import MappingProxyType

from bakeoff.plan import Plan, plan_study
from bakeoff.results.epoch_data import EpochData
from bakeoff.results.manifest import Network
from bakeoff.spec import Study
from bakeoff.stats import hosts
from bakeoff.stats import interval as iv
from bakeoff.stats.diagnostics import states_flag, stood_still, two_states
from bakeoff.stats.differences import changes_flag, settings_flag
from bakeoff.stats.estimate import EpochEstimates, PairEstimate, by_comparison
from bakeoff.stats.model import Analysis, ArmSummary, Comparison, Estimate, Flag, FlagKind, Stop
from bakeoff.stats.reduced import Reduced, reduced
from bakeoff.stats.stopping import contenders, control_name, family_size
from bakeoff.stats.summary import arm_summaries, client_flag, dropped_flag, latency_ratios, network_flag
from bakeoff.stats.verdict import AnalysisContext, compare

CONTROL_ALPHA = 0.01
"""Error share of the control's interval, over all cells together."""

_UNTRUSTED = Flag(
    kind=FlagKind.UNTRUSTED,
    text="in this session the baseline differed from its own control; nothing here can be relied on.",
)


def analyse(
    epochs: Iterable[EpochData],
    study: Study,
    *,
    plan: Plan | None = None,
    ended: Stop,
    kinds: hosts.Kinds = MappingProxyType({}),
    network: Network | None = None,
) -> Analysis:
    """Analyse a run.

    Args:
        epochs: all of them, in any order, each read once and forgotten; discarded ones are counted and not used.
        study: the question.
        plan: its cells; None: planned anew from the study.
        ended: how measuring ended. After ABORTED (also of a run that was killed), EXTENDED and RUNNING only the
            anytime-valid interval is shown; anything else means that the stopping rule came to its end.
        kinds: of machine, by host (`bakeoff.results.manifest.kinds_of`).
        network: between client and servers; None if they shared a machine.
    """
    plan = plan or plan_study(study, overhead_s=0.0, load_s=0.0)
    run = reduced(epochs, study)
    history, sums = run.history, run.sums.frame("epoch")
    pairs = by_comparison(history)
    context = _context(study, plan, ended, kinds)
    by_machine = _by_machine(pairs, plan, context)
    summaries = arm_summaries(sums, (row for epoch in run.epochs for row in epoch.histograms))
    settings = run.undeclared
    trusted = _trusted(pairs, context.control)
    states = {} if ended is Stop.RUNNING else _states_flags(run, plan)
    still = {} if ended is Stop.RUNNING else stood_still(sums, run.waits.frame("epoch"))
    changed = {(cell, arm): changes_flag(arm, found) for (cell, arm), found in run.changes.items()}
    comparisons = []
    for comparison in compare(pairs, plan, context):
        flags = (
            _UNTRUSTED if trusted is False else None,
            *(
                found.get((comparison.cell, arm))
                for found in (changed, states, still)
                for arm in (comparison.contender, comparison.baseline)
            ),
            settings_flag(settings.get(comparison.contender, {})),
            *_load_flags(comparison, summaries, plan, network),
            *comparison.flags,
        )
        comparisons.append(comparison.model_copy(update={"flags": tuple(filter(None, flags))}))
    return Analysis(
        baseline=study.baseline.name,
        contenders=contenders(study),
        control=context.control,
        family=context.family,
        comparisons=tuple(comparisons),
        arms=summaries,
        latencies=()
        if by_machine
        else latency_ratios(
            run.epochs,
            baseline=study.baseline.name,
            interval_of=context.quick_interval,
            cells=[c.name for c in plan.cells],
        ),
        geometric_mean={} if by_machine else _geometric_means(history, plan, context),
        trusted=trusted,
        discarded=run.discarded,
        undeclared=settings,
        epochs_used=len(history),
        stopped=_stopped(comparisons, context),
        by_machine=by_machine,
    )


def comparisons_so_far(
    history: Sequence[EpochEstimates], study: Study, plan: Plan, *, kinds: hosts.Kinds = MappingProxyType({})
) -> tuple[Comparison, ...]:
    """The comparisons of a run that goes on, without the flags that take more than estimates."""
    return compare(by_comparison(history), plan, _context(study, plan, Stop.RUNNING, kinds))


def _context(study: Study, plan: Plan, ended: Stop, kinds: hosts.Kinds) -> AnalysisContext:
    return AnalysisContext(
        study=study,
        family=family_size(study, len(plan.cells)),
        control=control_name(study),
        ended=ended,
        epoch_s=plan.epoch_s,
        kinds={} if study.combine_hosts else kinds,
    )


def _by_machine(
    pairs: Mapping[tuple[str, str], Sequence[PairEstimate]], plan: Plan, context: AnalysisContext
) -> dict[str, tuple[Comparison, ...]]:
    """The comparisons of each kind of machine alone, corrected over all of them; none where there is one kind."""
    groups = {key: hosts.by_kind(found, context.kinds) for key, found in pairs.items()}
    kinds = list(dict.fromkeys(kind for found in groups.values() for kind in found))
    if len(kinds) < 2:
        return {}
    alone = replace(context, kinds={}, family=context.family * len(kinds))
    return {kind: compare({key: groups[key].get(kind, ()) for key in groups}, plan, alone) for kind in kinds}


def _load_flags(
    comparison: Comparison, summaries: Sequence[ArmSummary], plan: Plan, network: Network | None
) -> tuple[Flag | None, ...]:
    """Flags about the client, about the way to it, and about an open loop's schedule."""
    names = (comparison.baseline, comparison.contender)
    arms = [arm for arm in summaries if arm.cell == comparison.cell and arm.arm in names]
    slow = network_flag(arms, plan.cell(comparison.cell), network) if network else None
    return client_flag(arms), slow, dropped_flag(arms)


def _states_flags(run: Reduced, plan: Plan) -> dict[tuple[str, str], Flag]:
    """By (cell, arm), for arms that ran in two states."""
    cells = {cell.name: cell for cell in plan.cells}
    return {
        (state.cell, state.arm): states_flag(state, cells[state.cell], run.versions.get(state.arm, ""))
        for state in two_states(run.windows())
        if state.cell in cells and not cells[state.cell].fixed_work  # the parts of a capture differ by themselves
    }


def _trusted(pairs: dict[tuple[str, str], list[PairEstimate]], control: str | None) -> bool | None:
    """Whether the control's 99 % intervals (over all its cells together) hold a ratio of 1; None without any."""
    samples = [
        ([pair.value for pair in found], [pair.host for pair in found])
        for (_, contender), found in pairs.items()
        if contender == control and len(found) >= iv.N_MIN_DECISIVE
    ]
    usable = [sample for sample in samples if all(map(math.isfinite, sample[0]))]
    if not usable:
        return None
    interval_of = partial(iv.t_interval, alpha=CONTROL_ALPHA / len(usable), inflation=iv.INFLATION)
    return not any(iv.excludes_zero(hosts.estimate_of(*sample, interval_of).interval) for sample in usable)


def _geometric_means(history: Sequence[EpochEstimates], plan: Plan, context: AnalysisContext) -> dict[str, Estimate]:
    """By contender: mean over cells of D_e in each epoch that measured them all; the interval is over epochs.

    Empty with an open loop among the cells: its throughput is that of the schedule.
    """
    means: dict[str, Estimate] = {}
    if any(cell.open_loop for cell in plan.cells):
        return means
    for contender in contenders(context.study):
        rows = [[pair for pair in epoch.pairs if pair.contender == contender] for epoch in history]
        complete = [row for row in rows if len(row) == len(plan.cells)]
        # Where an arm completed nothing in an epoch, one of the cells has no ratio.
        if complete and all(math.isfinite(pair.value) for row in rows for pair in row):
            values = [fmean(pair.value for pair in row) for row in complete]
            means[contender] = hosts.estimate_of(values, [row[0].host for row in complete], context.quick_interval)
    return means


def _stopped(comparisons: Sequence[Comparison], context: AnalysisContext) -> Stop:
    stops = [comparison.stop for comparison in comparisons if not comparison.is_control]
    if not stops or len(stops) < context.family:
        return context.ended if context.ended.anytime_only else Stop.BUDGET
    for stop in (Stop.RUNNING, Stop.ABORTED, Stop.EXTENDED, Stop.ANSWERED, Stop.BUDGET, Stop.DECISIVE):
        if stop in stops:
            return stop
    return Stop.PRECISE
