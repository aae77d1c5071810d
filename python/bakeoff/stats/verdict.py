"""Turn the epochs of a comparison into its verdict: interval, words, sentence and flags (docs/reference/method.md)."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from bakeoff.stats.stopping import stop_of, target
from bakeoff.units import at_least_text, format_duration, format_rate, percent_text, ratio_text

_SHAPE_EPOCHS_A_HOST = 3
SHORTFALL = 0.1  # in an open loop: share of the rate that an arm must miss, beyond its drain, to have fallen short


@dataclass(frozen=True)
class AnalysisContext:
    """What all comparisons of a run share."""

    study: Study
    family: int  # M, the number of primary comparisons
    control: str | None
    ended: Stop
    epoch_s: float  # expected wall seconds of another epoch

    @property
    def unsettled(self) -> Stop:
        """Return how a comparison ended if no rule has stopped it."""
        return self.ended if self.ended.anytime_only else Stop.BUDGET

    def claim_interval(self, found: iv.Moments, stop: Stop) -> Interval:
        """Return the interval on which a claim rests; what is shown is mean ± h_n."""
        if stop is Stop.DECISIVE or found.n < iv.N_MIN:
            return iv.around(found.mean, iv.anytime_half_width(*found[1:], alpha=iv.ALPHA_DECISIVE / self.family))
        return iv.claim_interval(*found, anytime=stop.anytime_only)

    def label(self, arm: str) -> str:
        return next((each.label for each in self.study.arms if each.name == arm), arm)


@dataclass(frozen=True)
class _Sample:
    """The epochs of one comparison that have a finite ratio; `why` explains the obstacle."""

    context: AnalysisContext
    cell: Cell
    contender: str
    pairs: tuple[PairEstimate, ...]
    values: list[float]
    hosts: list[str]
    found: iv.Moments
    stop: Stop
    obstacle: Obstacle | None
    why: str

    @property
    def has_ratio(self) -> bool:
        return self.obstacle in (None, Obstacle.NOT_RESTARTED)

    @property
    def p_value(self) -> float | None:
        early = self.stop.anytime_only or self.found.n < iv.N_MIN
        return None if early or not self.has_ratio else iv.p_value(*self.found)

    @property
    def excludes_one(self) -> bool:
        alpha = iv.ALPHA_DECISIVE / self.context.family
        return abs(self.found.mean) > iv.anytime_half_width(*self.found[1:], alpha=alpha)

    @property
    def more_epochs(self) -> int | None:
        if self.stop in (Stop.PRECISE, Stop.DECISIVE):
            return 0
        if self.found.n < 2 or not self.has_ratio:
            return None
        needed = hosts.epochs_needed(self.values, self.hosts, self.target)
        return None if needed is None else max(needed - self.found.n, 0)

    @property
    def target(self) -> float:
        study = self.context.study
        return target(study.question, study.precision, self.found.mean)

    def points(self, *, within_hosts: bool = False) -> tuple[EpochPoint, ...]:
        values = hosts.without_hosts(self.values, self.hosts) if within_hosts else self.values
        return tuple(
            EpochPoint(epoch=pair.epoch, build=pair.build, value=value, host=pair.host)
            for pair, value in zip(self.pairs, values, strict=True)
        )


def compare(
    pairs: Mapping[tuple[str, str], Sequence[PairEstimate]], plan: Plan, context: AnalysisContext
) -> tuple[Comparison, ...]:
    """Judge all comparisons that have at least one epoch, in the order of the plan's cells and the study's arms."""
    samples = [
        _sample(cell, arm.name, found, context)
        for cell in plan.cells
        for arm in context.study.arms[1:]
        if (found := pairs.get((cell.name, arm.name)))
    ]
    adjusted = _adjusted(samples, context)
    builds = diagnostics.build_flags([diagnostics.build_effect(each.points(within_hosts=True)) for each in samples])
    return tuple(
        _comparison(sample, p_adjusted=q, build_flag=flag)
        for sample, q, flag in zip(samples, adjusted, builds, strict=True)
    )


def _sample(cell: Cell, contender: str, found: Sequence[PairEstimate], context: AnalysisContext) -> _Sample:
    stop = stop_of(found, context.study, family=context.family)
    pairs = tuple(pair for pair in found if math.isfinite(pair.value))
    values, measured_by = [pair.value for pair in pairs], [pair.host for pair in pairs]
    obstacle, why = _obstacle(found, contender, context)
    return _Sample(
        context=context,
        cell=cell,
        contender=contender,
        pairs=pairs,
        values=values,
        hosts=measured_by,
        found=hosts.moments(values, measured_by),
        stop=context.unsettled if stop is Stop.RUNNING else stop,
        obstacle=obstacle,
        why=why,
    )


def _obstacle(found: Sequence[PairEstimate], contender: str, context: AnalysisContext) -> tuple[Obstacle | None, str]:
    study = context.study
    if dead := [pair for pair in found if not math.isfinite(pair.value)]:
        idle = {math.inf: study.baseline.name, -math.inf: contender}.get(dead[0].value)
        who = "an arm" if idle is None else context.label(idle)
        where = f"epoch {dead[0].epoch}" if len(dead) == 1 else f"{len(dead)} epochs"
        return Obstacle.NOTHING_DONE, f"{who} completed nothing in {where}, so no ratio exists."
    if any(arm.server.is_running for arm in study.arms if arm.name in (study.baseline.name, contender)):
        return Obstacle.NOT_RESTARTED, "a server was running already and was measured without restarts."
    return None, ""


def _adjusted(samples: Sequence[_Sample], context: AnalysisContext) -> list[float | None]:
    """Adjust by Holm over the declared family; the control is outside it and keeps its own p.

    A DECISIVE comparison has passed a test at 1% / M: it counts as rejected for the others, with its Bonferroni value.
    """
    p_values = [sample.p_value for sample in samples]
    primary = [i for i, sample in enumerate(samples) if sample.contender != context.control]
    decisive = {i for i in primary if samples[i].stop is Stop.DECISIVE}
    ranked = [(0.0 if samples[i].excludes_one else None) if i in decisive else p_values[i] for i in primary]
    ranked += [None] * (context.family - len(ranked))
    adjusted = list(p_values)
    for i, q in zip(primary, iv.holm(ranked), strict=False):
        p = p_values[i]
        adjusted[i] = q if i not in decisive else None if p is None else min(1.0, context.family * p)
    return adjusted


def _comparison(sample: _Sample, *, p_adjusted: float | None, build_flag: Flag | None) -> Comparison:
    cell, context, precision = sample.cell, sample.context, sample.context.study.precision
    nothing_done = sample.obstacle is Obstacle.NOTHING_DONE
    measured = [pair for pair in sample.pairs if math.isfinite(pair.trimmed) and not nothing_done]
    trimmed, trimmed_by = [pair.trimmed for pair in measured], [pair.host for pair in measured]
    # The parts of a capture differ anyway, for all arms alike.
    sd_restart, sd_within = (None, None) if cell.fixed_work else components(sample.pairs)
    case = _case(sample, p_adjusted)
    trimmed_estimate = hosts.estimate_of(trimmed, trimmed_by, iv.precision_interval)
    unsteady = not cell.fixed_work and disagree(sample.values, trimmed, sample.hosts)
    carry_over = diagnostics.carry_over(sample.pairs, comparisons=context.family)
    trend = diagnostics.trend(sample.pairs, comparisons=context.family)
    counts = Counter(sample.hosts)
    # Few epochs of a host have no scatter to look at.
    shaped = [point for point in sample.points(within_hosts=True) if counts[point.host] >= _SHAPE_EPOCHS_A_HOST]
    ratios = f"ratio {math.exp(sample.found.mean):.4f} with them, {math.exp(trimmed_estimate.mean):.4f} without"
    flags = (
        Flag(kind=FlagKind.NO_VERDICT, text=sample.why) if sample.obstacle else None,
        Flag(kind=FlagKind.UNSTABLE, text=f"stalls or bursts differ between arms ({ratios}).") if unsteady else None,
        diagnostics.carry_over_flag(carry_over, precision),
        None if cell.fixed_work else diagnostics.trend_flag(trend, precision),
        diagnostics.outlier_flag(shaped),
        build_flag,
    )
    return Comparison(
        cell=cell.name,
        workload=cell.workload,
        threads=cell.threads,
        baseline=context.study.baseline.name,
        contender=sample.contender,
        is_control=case.is_control,
        points=sample.points(),
        # An arm that completed nothing in an epoch has no ratio, not even over its other epochs.
        estimate=Estimate(mean=0.0, interval=iv.around(0.0, math.inf), n=0) if nothing_done else case.estimate,
        live=iv.live_interval(*sample.found) if sample.has_ratio else iv.around(0.0, math.inf),
        stop=sample.stop,
        verdict=verdict(case),
        trimmed=trimmed_estimate,
        disagree=unsteady,
        p_value=sample.p_value,
        p_adjusted=p_adjusted,
        sd_restart=sd_restart,
        sd_within=sd_within,
        carry_over=carry_over,
        flags=tuple(filter(None, flags)),
        obstacle=sample.obstacle,
        more_epochs=case.more_epochs,
        more_s=case.more_s,
    )


def _case(sample: _Sample, p_adjusted: float | None) -> "Case":
    context, study, stop, found = sample.context, sample.context.study, sample.stop, sample.found
    level = iv.ALPHA_LIVE if found.n >= iv.N_MIN and stop is not Stop.DECISIVE else iv.ALPHA_DECISIVE
    anytime_claim = abs(found.mean) > iv.anytime_half_width(*found[1:], alpha=level / context.family)
    claim = may_claim(n=found.n, stop=stop, p_adjusted=p_adjusted, anytime_claim=anytime_claim)
    rate_per_s = _rate(study.workloads[sample.cell.workload_index], sample.pairs)
    return Case(
        contender=context.label(sample.contender),
        baseline=context.label(study.baseline.name),
        estimate=iv.estimate(found, iv.precision_interval),
        stop=stop,
        claim=claim and not sample.obstacle,
        negligible=context.claim_interval(found, stop).within(study.equivalence),
        precision=sample.target,
        has_target=study.has_target,
        equivalence=study.equivalence,
        detectable=iv.minimal_detectable_effect(*found[1:], family=context.family, anytime=stop.anytime_only),
        more_epochs=sample.more_epochs,
        more_s=None if sample.more_epochs is None else sample.more_epochs * context.epoch_s,
        obstacle=sample.obstacle,
        why=sample.why,
        is_control=sample.contender == context.control,
        rate_per_s=rate_per_s,
        hosts=len(set(sample.hosts)),
        kept_up=rate_per_s is None or _kept_up(sample.pairs, rate_per_s, sample.cell),
    )


def _rate(workload: Workload, pairs: Sequence[PairEstimate]) -> float | None:
    if workload.speed is None or not pairs:
        return workload.rate_per_s
    return fmean(pair.least_per_s * math.exp(abs(pair.value)) for pair in pairs)


def _kept_up(pairs: Sequence[PairEstimate], rate_per_s: float, cell: Cell) -> bool:
    """Whether neither arm fell short of an open loop's rate, on the mean over epochs.

    A slice does not end before its last event. By Little's law this drain is at most threads over rate.
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


@dataclass(frozen=True)
class Case:
    """What decides the words of a verdict; log ratios."""

    contender: str
    baseline: str
    estimate: Estimate
    stop: Stop
    claim: bool  # a difference may be claimed, after correction over the family (`may_claim`)
    negligible: bool  # the interval on which claims rest lies within the margin of equivalence
    precision: float  # half-width at which measuring ends
    has_target: bool
    equivalence: float
    detectable: float  # minimal detectable effect; infinite if unknown
    more_epochs: int | None
    more_s: float | None
    obstacle: Obstacle | None = None
    why: str = ""
    is_control: bool = False
    rate_per_s: float | None = None  # None for a closed loop
    kept_up: bool = True  # neither arm fell short of the rate of an open loop
    hosts: int = 1


def may_claim(*, n: int, stop: Stop, p_adjusted: float | None, anytime_claim: bool) -> bool:
    """Whether a difference may be claimed.

    PRECISE and BUDGET claim by Holm's p-value at 4%, all others and five epochs by `anytime_claim`.
    """
    if n >= iv.N_MIN and stop in (Stop.PRECISE, Stop.BUDGET):
        return p_adjusted is not None and p_adjusted <= iv.ALPHA_PRECISE
    return n >= iv.N_MIN_DECISIVE and anytime_claim


def verdict(case: Case) -> Verdict:
    words, at_least = _words(case)
    return Verdict(words=words, at_least=at_least, sentence=_sentence(case, words, at_least))


def _words(case: Case) -> tuple[tuple[Word, ...], float | None]:
    low, high = case.estimate.interval.low, case.estimate.interval.high
    if case.obstacle:
        return (Word.INCONCLUSIVE,), None
    if case.rate_per_s is not None and (case.kept_up or case.negligible):
        return (Word.RATE_FIXED,), None
    if low is None or high is None or case.estimate.n < iv.N_MIN_DECISIVE:
        return (Word.INCONCLUSIVE,), None
    words: list[Word] = []
    at_least = None
    if case.claim and low > 0:
        words, at_least = [Word.FASTER], low
    elif case.claim and high < 0:
        words, at_least = [Word.SLOWER], high
    if case.negligible:
        words.append(Word.EQUIVALENT)
    return tuple(words) or (Word.INCONCLUSIVE,), at_least


def _sentence(case: Case, words: tuple[Word, ...], at_least: float | None) -> str:
    interval = case.estimate.interval
    counted = _counted(case.estimate, case.hosts)
    if case.obstacle is Obstacle.NOTHING_DONE:
        return f"No verdict: {case.why}"
    if case.is_control:
        return f"Control: {case.baseline} against itself gives {counted}; the truth is 1."
    if case.obstacle:
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
    if case.estimate.n < iv.N_MIN or interval.low is None:
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
    minutes = "" if case.more_s is None else f" (about {format_duration(case.more_s)})"
    restarts = "1 more restart" if case.more_epochs == 1 else f"{case.more_epochs} more restarts"
    return f" {target} would take about {restarts}{minutes}."


def _short_of_target(case: Case) -> str:
    half = case.estimate.interval.half_width
    if not case.has_target or case.stop not in (Stop.BUDGET, Stop.EXTENDED) or half is None or half <= case.precision:
        return ""
    return f" The budget ended at ±{percent_text(half)}, short of the target ±{percent_text(case.precision)}."
