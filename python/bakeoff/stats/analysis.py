"""Analyse a run: turn its epochs into everything that its report shows."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean

from bakeoff.plan import Plan, plan_study
from bakeoff.results.epoch_data import EpochData
from bakeoff.results.frame import Frame
from bakeoff.results.manifest import Network
from bakeoff.spec import Study
from bakeoff.stats import hosts
from bakeoff.stats import interval as iv
from bakeoff.stats.diagnostics import two_states, windows
from bakeoff.stats.differences import Changes, changes_flag, differences, settings_flag, undeclared
from bakeoff.stats.estimate import EpochEstimates, PairEstimate, by_comparison, epoch_estimates
from bakeoff.stats.model import Analysis, ArmSummary, Comparison, Estimate, Flag, FlagKind, Stop
from bakeoff.stats.stopping import contenders, control_name, family_size
from bakeoff.stats.summary import arm_summaries, arm_sums, client_flag, dropped_flag, latency_ratios, network_flag
from bakeoff.stats.verdict import AnalysisContext, compare

CONTROL_ALPHA = 0.01  # error share of the control's interval, over all cells together

_UNTRUSTED = Flag(
    kind=FlagKind.UNTRUSTED, text="the baseline differed from its own control; do not rely on anything here."
)


def analyse(
    epochs: Iterable[EpochData],
    study: Study,
    *,
    plan: Plan | None = None,
    ended: Stop,
    network: Network | None = None,
) -> Analysis:
    """Analyse a run. The same input always gives the same analysis.

    `epochs` may be in any order; `plan` is None to plan again from the study. After ABORTED, EXTENDED and RUNNING
    claims rest on the anytime-valid interval. `network` is None if client and servers were on one machine.
    """
    plan = plan or plan_study(study, overhead_s=0.0, load_s=0.0)
    run = reduced(epochs, study)
    history, sums = run.history, stacked(run.sums, "epoch")
    pairs = by_comparison(history)
    context = _context(study, plan, ended)
    summaries = arm_summaries(sums, (row for epoch in run.epochs for row in epoch.histograms))
    settings = run.undeclared
    trusted = _trusted(pairs, context.control)
    states = {} if ended is Stop.RUNNING else _states_flags(run, plan)
    changed = {(cell, arm): changes_flag(arm, found) for (cell, arm), found in run.changes.items()}
    comparisons = []
    for comparison in compare(pairs, plan, context):
        flags = (
            _UNTRUSTED if trusted is False else None,
            *(
                found.get((comparison.cell, arm))
                for found in (changed, states)
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
        latencies=latency_ratios(
            run.epochs,
            baseline=study.baseline.name,
            interval_of=iv.precision_interval,
            anytime=context.unsettled.anytime_only,
            cells=[c.name for c in plan.cells],
        ),
        geometric_mean=_geometric_means(history, plan, context),
        trusted=trusted,
        discarded=run.discarded,
        undeclared=settings,
        epochs_used=len(history),
        stopped=_stopped(comparisons, context),
    )


def comparisons_so_far(history: Sequence[EpochEstimates], study: Study, plan: Plan) -> tuple[Comparison, ...]:
    """Judge the comparisons of a run in progress, without the flags that need more than estimates."""
    return compare(by_comparison(history), plan, _context(study, plan, Stop.RUNNING))


def _context(study: Study, plan: Plan, ended: Stop) -> AnalysisContext:
    return AnalysisContext(
        study=study,
        family=family_size(study, len(plan.cells)),
        control=control_name(study),
        ended=ended,
        epoch_s=plan.epoch_s,
    )


def _load_flags(
    comparison: Comparison, summaries: Sequence[ArmSummary], plan: Plan, network: Network | None
) -> tuple[Flag | None, ...]:
    names = (comparison.baseline, comparison.contender)
    arms = [arm for arm in summaries if arm.cell == comparison.cell and arm.arm in names]
    slow = network_flag(arms, plan.cell(comparison.cell), network) if network else None
    return client_flag(arms), slow, dropped_flag(arms)


def _states_flags(run: "Reduced", plan: Plan) -> dict[tuple[str, str], Flag]:
    scripted = {cell.name for cell in plan.cells if not cell.fixed_work}  # the parts of a capture differ anyway
    return {key: flag for key, flag in two_states(stacked(run.windows, "cell")).items() if key[0] in scripted}


def _trusted(pairs: dict[tuple[str, str], list[PairEstimate]], control: str | None) -> bool | None:
    """Whether the control's 99% intervals, over all its cells together, contain a ratio of 1; None without any."""
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
    """Mean of D_e over cells in each epoch that measured them all, by contender; empty for an open loop."""
    means: dict[str, Estimate] = {}
    if any(cell.open_loop for cell in plan.cells):
        return means
    for contender in contenders(context.study):
        rows = [[pair for pair in epoch.pairs if pair.contender == contender] for epoch in history]
        complete = [row for row in rows if len(row) == len(plan.cells)]
        # If an arm completed nothing in an epoch, one of the cells has no ratio.
        if complete and all(math.isfinite(pair.value) for row in rows for pair in row):
            values = [fmean(pair.value for pair in row) for row in complete]
            means[contender] = hosts.estimate_of(values, [row[0].host for row in complete], iv.precision_interval)
    return means


def _stopped(comparisons: Sequence[Comparison], context: AnalysisContext) -> Stop:
    stops = [comparison.stop for comparison in comparisons if not comparison.is_control]
    if not stops or len(stops) < context.family:
        return context.ended if context.ended.anytime_only else Stop.BUDGET
    for stop in (Stop.RUNNING, Stop.ABORTED, Stop.EXTENDED, Stop.ANSWERED, Stop.BUDGET, Stop.DECISIVE):
        if stop in stops:
            return stop
    return Stop.PRECISE


# ---- epochs reduced to what an analysis needs, so that many fit in memory --------------------------------------------

_OF_HISTOGRAM = ("cell", "arm", "operation", "clock", "round", "count", "quantiles_ns")


@dataclass
class Reduced:
    """The epochs of a run without their slices, so that many fit in memory."""

    history: list[EpochEstimates] = field(default_factory=list)
    epochs: list[EpochData] = field(default_factory=list)
    sums: list[Frame] = field(default_factory=list)
    windows: list[Frame] = field(default_factory=list)
    discarded: dict[int, str] = field(default_factory=dict)
    undeclared: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict)
    changes: dict[tuple[str, str], Changes] = field(default_factory=dict)
    _compared: set[int] = field(default_factory=set)

    def add(self, epoch: EpochData, study: Study) -> None:
        if not epoch.valid:
            self.discarded[epoch.epoch] = epoch.discard_reason
            return
        if len(epoch.slices):
            self.sums.append(arm_sums(epoch.slices).with_columns(epoch=epoch.epoch, host=epoch.host))
            self.windows.append(windows(epoch.slices).with_columns(host=epoch.host))
        self._compare(epoch.variables, study)
        for arm, cells in epoch.changes.items():
            for cell, found in cells.items():
                self.changes.setdefault((cell, arm), {}).update(found)
        self.history.append(epoch_estimates(epoch, baseline=study.baseline.name))
        quantiles = [{name: row[name] for name in _OF_HISTOGRAM if name in row} for row in epoch.histograms]
        self.epochs.append(
            replace(epoch, slices=Frame({}), histograms=quantiles, variables={}, changes={}, failures=[])
        )

    def _compare(self, variables: Mapping[str, Mapping[str, str]], study: Study) -> None:
        base = variables.get(study.baseline.name)
        for arm in study.arms[1:]:
            theirs = variables.get(arm.name)
            if not base or not theirs:
                continue
            fingerprint = hash((arm.name, frozenset(base.items()), frozenset(theirs.items())))
            if fingerprint in self._compared:  # comparing takes some milliseconds
                continue
            self._compared.add(fingerprint)
            if differing := undeclared(differences(base, theirs, study, arm)):
                self.undeclared.setdefault(arm.name, {}).update(differing)


def reduced(epochs: Iterable[EpochData], study: Study) -> Reduced:
    run = Reduced()
    for epoch in epochs:
        run.add(epoch, study)
    run.history.sort(key=lambda each: each.epoch)
    run.epochs.sort(key=lambda each: each.epoch)
    run.discarded = dict(sorted(run.discarded.items()))
    return run


def stacked(frames: Sequence[Frame], *by: str) -> Frame:
    return Frame.concat(frames).sort(*by) if frames else Frame({})
