"""From the epochs of each comparison to its verdict: interval, words, sentence and flags (docs/reference/method.md)."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean

from bakeoff.plan import Cell, Plan
from bakeoff.spec import Study, Workload
from bakeoff.stats import diagnostics, hosts
from bakeoff.stats import interval as iv
from bakeoff.stats.estimate import PairEstimate
from bakeoff.stats.model import (
    Comparison,
    EpochPoint,
    Estimate,
    Flag,
    FlagKind,
    Interval,
    Obstacle,
    Stop,
    Verdict,
    Word,
)
from bakeoff.stats.resolution import components
from bakeoff.stats.stopping import stop_of
from bakeoff.units import at_least_text, format_duration, format_rate, percent_text, ratio_text

_SHAPE_EPOCHS_A_HOST = 3
_WITHIN_REACH_S = 86_400.0
SHORTFALL = 0.1
"""In an open loop: share of the rate that an arm must miss, beyond its drain, to have fallen short."""


@dataclass(frozen=True)
class AnalysisContext:
    """What all comparisons of a run share.

    Attributes:
        family: M, the number of primary comparisons.
        control: name of the control arm.
        epoch_s: expected wall seconds of another epoch.
        kinds: kind of machine by host; empty if all hosts are combined.
    """

    study: Study
    family: int
    control: str | None
    ended: Stop
    epoch_s: float
    kinds: hosts.Kinds = field(default_factory=dict)

    def interval(self, mean: float, sd: float, n: int, degrees: int | None = None, *, stop: Stop) -> Interval:
        """The interval that may be shown for a way of stopping."""
        if stop is Stop.DECISIVE:
            return iv.around(mean, iv.anytime_half_width(sd, n, degrees, alpha=iv.ALPHA_DECISIVE / self.family))
        return iv.shown(mean, sd, n, degrees, anytime=stop.anytime_only)

    def quick_interval(self, mean: float, sd: float, n: int, degrees: int | None = None) -> Interval:
        """The interval for what has no stopping rule: latency quantiles, the mean over cells."""
        stop = self.ended if self.ended.anytime_only else Stop.BUDGET
        return self.interval(mean, sd, n, degrees, stop=stop)

    def label(self, arm: str) -> str:
        return next((each.label for each in self.study.arms if each.name == arm), arm)


@dataclass(frozen=True)
class _Sample:
    """One comparison.

    Attributes:
        pairs: the epochs with a finite ratio; `values`, `hosts` and `found` are of these.
        nothing_done: why an epoch has no ratio, or empty.
        restarted: both servers were started anew for every epoch.
        unlike: kinds of machine whose epochs have no ratio in common.
    """

    cell: Cell
    contender: str
    is_control: bool
    pairs: tuple[PairEstimate, ...]
    points: tuple[EpochPoint, ...]
    values: list[float]
    hosts: list[str]
    found: iv.Moments
    nothing_done: str
    restarted: bool
    stop: Stop
    unlike: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        return self.found.n

    @property
    def obstacle(self) -> Obstacle | None:
        if self.nothing_done:
            return Obstacle.NOTHING_DONE
        if self.unlike:
            return Obstacle.UNLIKE_MACHINES
        return None if self.restarted else Obstacle.NOT_RESTARTED


def compare(
    pairs: Mapping[tuple[str, str], Sequence[PairEstimate]], plan: Plan, context: AnalysisContext
) -> tuple[Comparison, ...]:
    """Judge all comparisons that have at least one epoch, in the order of the plan's cells and the study's arms.

    `pairs` are by (cell, contender), each in the order of epochs.
    """
    samples = [
        _sample(cell, arm.name, found, context)
        for cell in plan.cells
        for arm in context.study.arms[1:]
        if (found := pairs.get((cell.name, arm.name)))
    ]
    p_values = [_p_value(sample) for sample in samples]
    adjusted = _adjusted(samples, p_values, context.family)
    builds = [diagnostics.build_effect(_within_hosts(sample)) for sample in samples]
    build_flags = diagnostics.build_flags(builds)
    comparisons = []
    for sample, p, q, build, flag in zip(samples, p_values, adjusted, builds, build_flags, strict=True):
        comparison = _comparison(sample, context, p_value=p, p_adjusted=q, build_effect=build)
        flags = _flags(comparison, sample, context, build_flag=flag)
        comparisons.append(comparison.model_copy(update={"flags": flags}))
    return tuple(comparisons)


def _sample(cell: Cell, contender: str, found: Sequence[PairEstimate], context: AnalysisContext) -> _Sample:
    study = context.study
    stop = stop_of(found, context.kinds, study, family=context.family)
    if stop is Stop.RUNNING:  # only unsettled comparisons end as the run did
        stop = context.ended if context.ended.anytime_only else Stop.BUDGET
    servers = [arm.server for arm in study.arms if arm.name in (study.baseline.name, contender)]
    pairs = tuple(pair for pair in found if math.isfinite(pair.value))
    kinds = tuple(hosts.by_kind(pairs, context.kinds))
    values, measured_by = [pair.value for pair in pairs], [pair.host for pair in pairs]
    return _Sample(
        cell=cell,
        contender=contender,
        is_control=contender == context.control,
        pairs=pairs,
        points=tuple(EpochPoint(epoch=p.epoch, build=p.build, value=p.value, host=p.host) for p in pairs),
        values=values,
        hosts=measured_by,
        found=hosts.moments(values, measured_by),
        nothing_done=_nothing_done(found, contender, context),
        restarted=all(not server.is_running for server in servers),
        stop=stop,
        unlike=kinds if len(kinds) > 1 else (),
    )


def _within_hosts(sample: _Sample) -> list[EpochPoint]:
    values = hosts.without_hosts(sample.values, sample.hosts)
    return [point.model_copy(update={"value": each}) for point, each in zip(sample.points, values, strict=True)]


def _shaped(sample: _Sample) -> list[EpochPoint]:
    """Epochs of hosts with three or more, without their hosts' means; fewer epochs have no scatter to look at."""
    counts = Counter(sample.hosts)
    return [point for point in _within_hosts(sample) if counts[point.host] >= _SHAPE_EPOCHS_A_HOST]


def _nothing_done(pairs: Sequence[PairEstimate], contender: str, context: AnalysisContext) -> str:
    dead = [pair for pair in pairs if not math.isfinite(pair.value)]
    if not dead:
        return ""
    idle = {math.inf: context.study.baseline.name, -math.inf: contender}.get(dead[0].value)
    who = "an arm" if idle is None else context.label(idle)
    where = f"epoch {dead[0].epoch}" if len(dead) == 1 else f"{len(dead)} epochs"
    return f"{who} completed nothing in {where}, so no ratio exists."


def _p_value(sample: _Sample) -> float | None:
    if sample.stop.anytime_only or sample.n < iv.N_MIN or sample.nothing_done or sample.unlike:
        return None
    return iv.p_value(*sample.found)


def _adjusted(samples: Sequence[_Sample], p_values: Sequence[float | None], family: int) -> list[float | None]:
    """Holm over the declared family; the control is outside it and keeps its own p.

    A DECISIVE comparison has passed a separate test at 1 % / M: it counts as rejected for the others (p = 0) and gets
    its Bonferroni value. One that is decisive about a gate's limit alone counts as not rejected.
    """
    primary = [i for i, sample in enumerate(samples) if not sample.is_control]
    ranked = [_decisive_p(samples[i], family) if samples[i].stop is Stop.DECISIVE else p_values[i] for i in primary]
    ranked += [None] * (family - len(ranked))
    adjusted = list(p_values)
    for i, q in zip(primary, iv.holm(ranked), strict=False):
        p = p_values[i]
        adjusted[i] = q if samples[i].stop is not Stop.DECISIVE else None if p is None else min(1.0, family * p)
    return adjusted


def _decisive_p(sample: _Sample, family: int) -> float | None:
    if sample.unlike:
        return None
    excluded = abs(sample.found.mean) > iv.anytime_half_width(*sample.found[1:], alpha=iv.ALPHA_DECISIVE / family)
    return 0.0 if excluded else None


def _comparison(
    sample: _Sample,
    context: AnalysisContext,
    *,
    p_value: float | None,
    p_adjusted: float | None,
    build_effect: float | None,
) -> Comparison:
    study, stop, found = context.study, sample.stop, sample.found
    # An arm that completed nothing in an epoch has no ratio, not even over its other epochs.
    measured = [pair for pair in sample.pairs if math.isfinite(pair.trimmed) and not sample.nothing_done]
    trimmed, trimmed_by = [pair.trimmed for pair in measured], [pair.host for pair in measured]
    # The parts of a capture differ anyway, for all arms alike.
    sd_restart, sd_within = (None, None) if sample.cell.fixed_work else components(sample.pairs)
    case = _case(sample, context, p_adjusted)
    return Comparison(
        cell=sample.cell.name,
        workload=sample.cell.workload,
        threads=sample.cell.threads,
        baseline=study.baseline.name,
        contender=sample.contender,
        is_control=sample.is_control,
        points=sample.points,
        estimate=_NONE if sample.nothing_done else case.estimate,
        live=iv.no_interval(*found) if sample.unlike or sample.nothing_done else iv.live_interval(*found),
        stop=stop,
        verdict=verdict(case),
        trimmed=hosts.estimate_of(trimmed, trimmed_by, _interval_of(sample, context)),
        disagree=not sample.cell.fixed_work and disagree(sample.values, trimmed, sample.hosts),
        p_value=p_value,
        p_adjusted=p_adjusted,
        sd_restart=sd_restart,
        sd_within=sd_within,
        carry_over=diagnostics.carry_over(sample.pairs, comparisons=context.family),
        trend=diagnostics.trend(sample.pairs, comparisons=context.family),
        build_effect=build_effect,
        flags=(),
        obstacle=sample.obstacle,
        more_epochs=case.more_epochs,
        more_s=case.more_s,
    )


_NONE = Estimate(mean=0.0, interval=Interval(low=None, high=None), n=0)


def _interval_of(sample: _Sample, context: AnalysisContext) -> iv.IntervalOf:
    return iv.no_interval if sample.unlike else partial(context.interval, stop=sample.stop)


def _case(sample: _Sample, context: AnalysisContext, p_adjusted: float | None) -> "Case":
    study, stop, found = context.study, sample.stop, sample.found
    anytime_claim = abs(found.mean) > iv.anytime_half_width(*found[1:], alpha=iv.ALPHA_LIVE / context.family)
    claim = may_claim(n=found.n, stop=stop, p_adjusted=p_adjusted, anytime_claim=anytime_claim)
    more_epochs = _more_epochs(sample, study.precision)
    rate_per_s = _rate(study.workloads[sample.cell.workload_index], sample.pairs)
    return Case(
        contender=context.label(sample.contender),
        baseline=context.label(study.baseline.name),
        estimate=iv.estimate(found, _interval_of(sample, context)),
        stop=stop,
        claim=claim and sample.restarted and not sample.nothing_done,
        unlike=sample.unlike,
        precision=study.precision,
        has_target=study.has_target,
        equivalence=study.equivalence,
        detectable=iv.minimal_detectable_effect(*found[1:], family=context.family, anytime=stop.anytime_only),
        sd=iv.standard_deviation(sample.values),
        more_epochs=more_epochs,
        more_s=None if more_epochs is None else more_epochs * context.epoch_s,
        nothing_done=sample.nothing_done,
        restarted=sample.restarted,
        is_control=sample.is_control,
        rate_per_s=rate_per_s,
        hosts=len(set(sample.hosts)),
        kept_up=rate_per_s is None or _kept_up(sample.pairs, rate_per_s, sample.cell),
    )


def _rate(workload: Workload, pairs: Sequence[PairEstimate]) -> float | None:
    if workload.speed is None or not pairs:
        return workload.rate_per_s
    return fmean(pair.least_per_s * math.exp(abs(pair.value)) for pair in pairs)


def _more_epochs(sample: _Sample, precision: float) -> int | None:
    if sample.stop in (Stop.PRECISE, Stop.DECISIVE):
        return 0
    if sample.n < 2 or sample.nothing_done or sample.unlike:
        return None
    needed = hosts.epochs_needed(sample.values, sample.hosts, precision)
    return None if needed is None else max(needed - sample.n, 0)


def _kept_up(pairs: Sequence[PairEstimate], rate_per_s: float, cell: Cell) -> bool:
    """Whether neither arm fell short of an open loop's rate, on the mean over epochs.

    A slice does not end before its last event, so the drain makes even an arm that keeps up look slower. By Little's
    law its response time, and hence the drain, is at most threads over rate.
    """
    drained = 1 + cell.threads / (rate_per_s * cell.slices.slice_ns / 1e9)
    least_per_s = (1 - SHORTFALL) * rate_per_s / drained
    return not pairs or fmean(pair.least_per_s for pair in pairs) >= least_per_s


def disagree(values: Sequence[float], trimmed: Sequence[float], measured_by: Sequence[str] = ()) -> bool:
    """Whether either t interval excludes the other's mean; False below five epochs."""
    n = len(values)
    if n < iv.N_MIN_DECISIVE or len(trimmed) < n:
        return False
    both = [hosts.moments(each, measured_by) for each in (values, trimmed)]
    gap = abs(both[0].mean - both[1].mean)
    return any(gap > iv.precision_half_width(*found[1:]) for found in both)


def _flags(
    comparison: Comparison, sample: _Sample, context: AnalysisContext, *, build_flag: Flag | None
) -> tuple[Flag, ...]:
    found: list[Flag | None] = []
    if sample.obstacle:
        found.append(Flag(kind=FlagKind.NO_VERDICT, text=_obstacle_text(sample)))
    if comparison.disagree:
        with_them, without = math.exp(sample.found.mean), math.exp(comparison.trimmed.mean)
        text = f"stalls or bursts differ between arms (ratio {with_them:.4f} with them, {without:.4f} without)."
        found.append(Flag(kind=FlagKind.UNSTABLE, text=text))
    found += [
        diagnostics.carry_over_flag(comparison.carry_over, context.study.precision),
        None if sample.cell.fixed_work else diagnostics.trend_flag(comparison.trend, context.study.precision),
        diagnostics.outlier_flag(_shaped(sample)),
        diagnostics.bimodal_flag(_shaped(sample)),
        build_flag,
    ]
    return tuple(flag for flag in found if flag is not None)


def _obstacle_text(sample: _Sample) -> str:
    if sample.nothing_done:
        return sample.nothing_done
    if sample.unlike:
        return f"the hosts are {len(sample.unlike)} kinds of machine, whose ratios are not combined."
    return "a server was running already and was measured as it is, without restarts."


@dataclass(frozen=True)
class Case:
    """What the words of a verdict follow from; log ratios.

    Attributes:
        claim: the interval excludes 0 after correction over the family (`may_claim`).
        detectable: minimal detectable effect; infinite if unknown.
        nothing_done: why no ratio exists, or empty.
        restarted: both servers were started anew for every epoch.
        rate_per_s: of an open loop; None for a closed one.
        kept_up: in an open loop, neither arm fell short of the rate.
        unlike: kinds of machine that have no ratio in common.
        hosts: how many measured it.
    """

    contender: str
    baseline: str
    estimate: Estimate
    stop: Stop
    claim: bool
    precision: float
    has_target: bool
    equivalence: float
    detectable: float
    sd: float
    more_epochs: int | None
    more_s: float | None
    nothing_done: str = ""
    restarted: bool = True
    is_control: bool = False
    rate_per_s: float | None = None
    kept_up: bool = True
    unlike: tuple[str, ...] = ()
    hosts: int = 1


def enough(n: int, stop: Stop) -> bool:
    """Whether n epochs suffice for a verdict."""
    return n >= (iv.N_MIN_DECISIVE if stop is Stop.DECISIVE else iv.N_MIN)


def may_claim(*, n: int, stop: Stop, p_adjusted: float | None, anytime_claim: bool) -> bool:
    """Whether a difference may be claimed.

    PRECISE and BUDGET claim by Holm's p-value at 4 %, DECISIVE by its own interval, which is corrected already. A run
    that may show only the anytime-valid interval claims by that at 5 % / M (`anytime_claim`).
    """
    if not enough(n, stop):
        return False
    if stop is Stop.DECISIVE:
        return True
    if stop in (Stop.PRECISE, Stop.BUDGET):
        return p_adjusted is not None and p_adjusted <= iv.ALPHA_PRECISE
    return anytime_claim


def verdict(case: Case) -> Verdict:
    """Choose the words, the least size of a claim, and the sentence."""
    words, at_least = _words(case)
    return Verdict(words=words, at_least=at_least, sentence=_sentence(case, words, at_least))


def _words(case: Case) -> tuple[tuple[Word, ...], float | None]:
    low, high = case.estimate.interval.low, case.estimate.interval.high
    if case.nothing_done or not case.restarted or case.unlike:
        return (Word.INCONCLUSIVE,), None
    negligible = low is not None and high is not None and -case.equivalence < low and high < case.equivalence
    if case.rate_per_s is not None and (case.kept_up or negligible):
        return (Word.RATE_FIXED,), None
    if low is None or high is None or not enough(case.estimate.n, case.stop):
        return (Word.INCONCLUSIVE,), None
    words: list[Word] = []
    at_least = None
    if case.claim and low > 0:
        words, at_least = [Word.FASTER], low
    elif case.claim and high < 0:
        words, at_least = [Word.SLOWER], high
    if negligible:
        words.append(Word.EQUIVALENT)
    return tuple(words) or (Word.INCONCLUSIVE,), at_least


def _sentence(case: Case, words: tuple[Word, ...], at_least: float | None) -> str:
    interval = case.estimate.interval
    counted = _counted(case.estimate, case.hosts)
    if case.unlike:
        kinds = "; ".join(case.unlike)
        return f"No verdict over unlike machines ({kinds}): see Hosts; combine_hosts in the study combines them."
    if case.is_control and not case.nothing_done:
        return f"Control: {case.baseline} against itself gives {counted}; the truth is 1."
    if not case.restarted and not case.nothing_done:
        return (
            f"No verdict: {counted.replace('restart', 'repetition')}, and a running server is not restarted, "
            "so the luck of its one start is part of the ratio."
        )
    if Word.RATE_FIXED in words:
        assert case.rate_per_s is not None
        return (
            f"The rate is fixed at {format_rate(case.rate_per_s)}/s, so throughput does not distinguish "
            f"{case.contender} from {case.baseline}; compare response times."
        )
    margin = f"±{percent_text(case.equivalence)}"
    if at_least is not None:
        word = "faster" if Word.FASTER in words else "slower"
        size = at_least_text(at_least, interval.half_width or 0.0)
        text = f"{case.contender} is {word} than {case.baseline}: {counted}, so by at least {size}."
        if Word.EQUIVALENT in words:
            text += f" All of the interval lies within {margin}: different but negligible."
        return text + _short_of_target(case)
    if Word.EQUIVALENT in words:
        text = f"{case.contender} and {case.baseline} are equivalent within {margin}: {counted}."
        return text + _short_of_target(case)
    if case.nothing_done:
        return f"Inconclusive: {case.nothing_done}"
    if not enough(case.estimate.n, case.stop) or interval.low is None:
        likely = f"probably {lean}, " if (lean := leaning(interval)) else ""
        return f"Inconclusive: {likely}{counted}; a verdict takes at least {iv.N_MIN}.{_more(case)}"
    return f"Inconclusive: {counted}.{_missing(case, interval)}{_more(case)}"


def leaning(interval: Interval) -> str:
    """`faster` or `slower` if an interval lies on one side of 1, whether or not that may be claimed; else empty."""
    if interval.low is None or interval.high is None or interval.low <= 0 <= interval.high:
        return ""
    return "faster" if interval.low > 0 else "slower"


def _counted(estimate: Estimate, hosts: int) -> str:
    restarts = "1 restart" if estimate.n == 1 else f"{estimate.n} restarts"
    restarts += f" on {hosts} hosts" if hosts > 1 else ""
    if estimate.n == 0:
        return "no restart was measured"
    return f"ratio {ratio_text(estimate.mean, estimate.interval.low, estimate.interval.high)} over {restarts}"


def _missing(case: Case, interval: Interval) -> str:
    assert interval.low is not None and interval.high is not None
    if interval.low > 0 or interval.high < 0:
        return " Alone the interval would exclude 1; not after correction for the number of comparisons."
    if not math.isfinite(case.detectable):
        return ""
    return f" A difference of {percent_text(case.detectable)} would probably (4 times in 5) have been found."


def _more(case: Case) -> str:
    target = f"±{percent_text(case.precision)}"
    if case.has_target and case.hosts > 1 and case.more_epochs is None:
        return f" {target} takes more hosts than these {case.hosts}, however many epochs they measure."
    if not case.has_target or not case.more_epochs:
        return ""
    if case.more_s is not None and case.more_s > _WITHIN_REACH_S:
        return (
            f" {target} is not within reach on this machine: ratios differ by {percent_text(case.sd)} between restarts."
        )
    minutes = "" if case.more_s is None else f" (about {format_duration(case.more_s)})"
    restarts = "1 more restart" if case.more_epochs == 1 else f"{case.more_epochs} more restarts"
    return f" {target} would take about {restarts}{minutes}."


def _short_of_target(case: Case) -> str:
    half = case.estimate.interval.half_width
    if not case.has_target or case.stop not in (Stop.BUDGET, Stop.EXTENDED) or half is None or half <= case.precision:
        return ""
    return f" The budget ended at ±{percent_text(half)}, short of the target ±{percent_text(case.precision)}."
