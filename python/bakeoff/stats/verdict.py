"""From an interval to words. The words are few, and 'no significant difference' is not among them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bakeoff.plan import Cell, Plan
from bakeoff.spec import Origin, Study
from bakeoff.stats import diagnostics
from bakeoff.stats import interval as iv
from bakeoff.stats.estimate import PairEstimate
from bakeoff.stats.interval import ALPHA_PRECISE, N_MIN, N_MIN_DECISIVE
from bakeoff.stats.model import Comparison, EpochPoint, Estimate, Flag, Interval, Stop, Verdict, Word
from bakeoff.stats.resolution import components
from bakeoff.stats.stopping import stop_state
from bakeoff.units import at_least_text, format_duration, format_rate, percent_text, ratio_text

@dataclass(frozen=True)
class Case:
    """All that a verdict needs; log ratios.

    Attributes:
        contender, baseline: as a reader calls them.
        claim: the interval excludes 'equal' also after correction over the family (`may_claim`).
        detectable: minimal detectable effect; infinite when unknown or when no claim was possible yet.
        nothing_done: why no ratio exists at all (an arm completed nothing), or empty.
        restarted: both servers were started anew for every epoch; without that the luck of one start is not averaged
            out, and there is no verdict.
        rate_per_s: of an open loop; None: a closed one.
        kept_up: in an open loop, neither arm fell short of the rate.
    """

    contender: str
    baseline: str
    estimate: Estimate
    stop: Stop
    claim: bool
    precision: float
    equivalence: float
    detectable: float
    more_epochs: int | None
    more_s: float | None
    nothing_done: str = ""
    restarted: bool = True
    is_control: bool = False
    rate_per_s: float | None = None
    kept_up: bool = True


def enough(n: int, stop: Stop) -> bool:
    """Whether n epochs may carry a verdict at all."""
    return n >= (N_MIN_DECISIVE if stop is Stop.DECISIVE else N_MIN)


def may_claim(*, n: int, stop: Stop, p_adjusted: float | None, anytime_claim: bool) -> bool:
    """Whether a difference may be claimed.

    PRECISE and BUDGET claim by Holm's p-value at 4 %; DECISIVE by its own interval, corrected already; what may
    tell only the anytime-valid interval (`Stop.anytime_only`) by that at 5 % over the family (`anytime_claim`).
    """
    if not enough(n, stop):
        return False
    if stop is Stop.DECISIVE:
        return True
    if stop in (Stop.PRECISE, Stop.BUDGET):
        return p_adjusted is not None and p_adjusted <= ALPHA_PRECISE
    return anytime_claim


def verdict(case: Case) -> Verdict:
    """The words, the least size of a claim, and the sentence."""
    words, at_least = _words(case)
    return Verdict(words=words, at_least=at_least, sentence=_sentence(case, words, at_least))


def _words(case: Case) -> tuple[tuple[Word, ...], float | None]:
    low, high = case.estimate.interval.low, case.estimate.interval.high
    if case.nothing_done or not case.restarted:
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
    counted = _counted(case.estimate)
    if case.is_control and not case.nothing_done:
        return f"Control: {case.baseline} against itself gives {counted}; the truth is 1."
    if not case.restarted and not case.nothing_done:
        return (
            f"No verdict: {counted.replace('restart', 'repetition')}, and a server that runs already is not restarted, "
            "so the luck of its one start is part of the ratio."
        )
    if Word.RATE_FIXED in words:
        assert case.rate_per_s is not None
        return (
            f"The rate is fixed at {format_rate(case.rate_per_s)}/s, so throughput does not tell {case.contender} from "
            f"{case.baseline}; compare response times."
        )
    margin = f"±{percent_text(case.equivalence)}"
    if at_least is not None:
        word = "faster" if Word.FASTER in words else "slower"
        size = at_least_text(at_least, interval.half_width or 0.0)
        text = f"{case.contender} is {word} than {case.baseline} by at least {size}: {counted}."
        if Word.EQUIVALENT in words:
            text += f" All of the interval lies within {margin}: different but negligible."
        return text + _short_of_target(case)
    if Word.EQUIVALENT in words:
        return f"{case.contender} and {case.baseline} are equivalent within {margin}: {counted}." + _short_of_target(
            case
        )
    if case.nothing_done:
        return f"Inconclusive: {case.nothing_done}"
    if not enough(case.estimate.n, case.stop) or interval.low is None:
        return f"Inconclusive: {counted}; a verdict takes at least {N_MIN}.{_more(case)}"
    return f"Inconclusive: {counted}.{_missing(case, interval)}{_more(case)}"


def _counted(estimate: Estimate) -> str:
    restarts = "1 restart" if estimate.n == 1 else f"{estimate.n} restarts"
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
    if not case.more_epochs:
        return ""
    target = f"±{percent_text(case.precision)}"
    minutes = "" if case.more_s is None else f" (about {format_duration(case.more_s)})"
    restarts = "1 more restart" if case.more_epochs == 1 else f"{case.more_epochs} more restarts"
    return f" {target} would take about {restarts}{minutes}."


def _short_of_target(case: Case) -> str:
    half = case.estimate.interval.half_width
    if case.stop not in (Stop.BUDGET, Stop.EXTENDED) or half is None or half <= case.precision:
        return ""
    return f" The budget ended at ±{percent_text(half)}, short of the target ±{percent_text(case.precision)}."


# One contender in one cell: which interval may be told, what it says, and what to distrust about it.

CHECK_FACTOR = 3.0
"""t and sign-flip p-values that differ by more than this raise CHECK."""

SHORTFALL = 0.1
"""In an open loop: share of the rate that an arm must miss, beyond its drain, to have fallen short."""

_NO_RESTARTS = Flag(kind="NO RESTARTS", text="a server that runs already was measured as it is; there is no verdict.")
_FAMILY = Flag(
    kind="FAMILY", text="the interval alone excludes 1; corrected for the number of comparisons it does not."
)


@dataclass(frozen=True)
class Context:
    """What all comparisons of a run share.

    Attributes:
        family: M, the number of primary comparisons.
        control: name of the control arm.
        ended: how measuring ended.
        epoch_s: wall seconds of another epoch.
    """

    study: Study
    family: int
    control: str | None
    ended: Stop
    epoch_s: float

    def interval(self, mean: float, sd: float, n: int, stop: Stop) -> Interval:
        """The interval that belongs to a way of stopping."""
        live = iv.around(mean, iv.anytime_half_width(sd, n, alpha=iv.ALPHA_LIVE))
        if stop is Stop.DECISIVE:
            return iv.around(mean, iv.anytime_half_width(sd, n, alpha=iv.ALPHA_DECISIVE / self.family))
        if stop.anytime_only or n < iv.N_MIN:
            return live
        return iv.around(mean, iv.precision_half_width(sd, n))

    def quick_interval(self, mean: float, sd: float, n: int) -> Interval:
        """The interval for what has no stopping rule of its own: quantiles, the mean over cells."""
        return self.interval(mean, sd, n, self.ended if self.ended.anytime_only else Stop.BUDGET)


@dataclass(frozen=True)
class _Sample:
    """The epochs of one comparison."""

    cell: Cell
    contender: str
    is_control: bool
    points: tuple[EpochPoint, ...]
    pairs: tuple[PairEstimate, ...]
    nothing_done: str
    stop: Stop

    @property
    def values(self) -> list[float]:
        return [point.value for point in self.points]

    @property
    def n(self) -> int:
        return len(self.points)

    @property
    def mean(self) -> float:
        return math.fsum(self.values) / self.n if self.n else 0.0

    @property
    def sd(self) -> float:
        return iv.standard_deviation(self.values)


def compare(
    pairs: Mapping[tuple[str, str], Sequence[PairEstimate]], plan: Plan, context: Context
) -> tuple[Comparison, ...]:
    """All comparisons that have at least one epoch, in the order of the plan's cells and the study's arms."""
    samples = _samples(pairs, plan, context)
    p_values = [_p_value(sample) for sample in samples]
    adjusted = _adjusted(samples, p_values, context.family)
    builds = [diagnostics.build_effect(sample.points) for sample in samples]
    build_flags = diagnostics.build_flags(builds)
    return tuple(
        _comparison(sample, context, p_value=p, p_adjusted=q, build_effect=build, build_flag=flag)
        for sample, p, q, build, flag in zip(samples, p_values, adjusted, builds, build_flags, strict=True)
    )


def _samples(pairs: Mapping[tuple[str, str], Sequence[PairEstimate]], plan: Plan, context: Context) -> list[_Sample]:
    samples = []
    for cell in plan.cells:
        arms = [arm.name for arm in context.study.arms[1:] if pairs.get((cell.name, arm.name))]
        states = {
            arm: stop_state(
                [pair.value for pair in pairs[cell.name, arm]],
                precision=context.study.precision,
                family=context.family,
            )
            for arm in arms
        }
        for arm in arms:
            found = pairs[cell.name, arm]
            samples.append(
                _Sample(
                    cell=cell,
                    contender=arm,
                    is_control=arm == context.control,
                    points=tuple(
                        EpochPoint(epoch=pair.epoch, build=pair.build, value=pair.value)
                        for pair in found
                        if math.isfinite(pair.value)
                    ),
                    pairs=tuple(pair for pair in found if math.isfinite(pair.value)),
                    nothing_done=_nothing_done(found, arm, context),
                    stop=_final(states[arm], context=context),
                )
            )
    return samples


def _final(state: Stop, *, context: Context) -> Stop:
    """What the rule has settled keeps its result when the user ends the run later; the rest is then cut short."""
    if state is not Stop.RUNNING:
        return state
    return context.ended if context.ended.anytime_only else Stop.BUDGET


def _nothing_done(pairs: Sequence[PairEstimate], contender: str, context: Context) -> str:
    dead = [pair for pair in pairs if not math.isfinite(pair.value)]
    if not dead:
        return ""
    first = dead[0].value
    who = {math.inf: _label(context, context.study.baseline.name), -math.inf: _label(context, contender)}.get(first)
    where = f"epoch {dead[0].epoch}" if len(dead) == 1 else f"{len(dead)} epochs"
    return f"{who or 'an arm'} completed nothing in {where}, so no ratio can be told."


def _p_value(sample: _Sample) -> float | None:
    if sample.stop.anytime_only or sample.n < iv.N_MIN or sample.nothing_done:
        return None
    return iv.p_value(sample.mean, sample.sd, sample.n)


def _adjusted(samples: Sequence[_Sample], p_values: Sequence[float | None], family: int) -> list[float | None]:
    """Holm over the declared family; the control is outside it and keeps its own p.

    A DECISIVE comparison was claimed from its own 1 %, so it counts as rejected for the others (its p as 0) and shows
    its Bonferroni value.
    """
    primary = [i for i, sample in enumerate(samples) if not sample.is_control]
    ranked: list[float | None] = [0.0 if samples[i].stop is Stop.DECISIVE else p_values[i] for i in primary]
    ranked += [None] * (family - len(ranked))
    adjusted = list(p_values)
    for i, q in zip(primary, iv.holm(ranked), strict=False):
        p = p_values[i]
        adjusted[i] = q if samples[i].stop is not Stop.DECISIVE else None if p is None else min(1.0, family * p)
    return adjusted


def _comparison(
    sample: _Sample,
    context: Context,
    *,
    p_value: float | None,
    p_adjusted: float | None,
    build_effect: float | None,
    build_flag: Flag | None,
) -> Comparison:
    study = context.study
    n, mean, sd, stop = sample.n, sample.mean, sample.sd, sample.stop
    estimate = Estimate(mean=mean, interval=context.interval(mean, sd, n, stop), n=n)
    trimmed_values = [pair.trimmed for pair in sample.pairs if math.isfinite(pair.trimmed)]
    trimmed = _trimmed(trimmed_values, context, stop)
    apart = disagree(sample.values, trimmed_values)
    p_signflip = iv.sign_flip_p(sample.values, seed=study.seed) if n >= iv.N_MIN_SIGN_FLIP else None
    check = p_signflip is not None and _check(iv.p_value(mean, sd, n), p_signflip, n)
    restarted = _restarted(study, sample.contender)
    more = _more_epochs(sample, context)
    more_s = None if more is None else more * context.epoch_s
    anytime_claim = abs(mean) > iv.anytime_half_width(sd, n, alpha=iv.ALPHA_LIVE / context.family)
    claim = (
        restarted
        and not sample.nothing_done
        and may_claim(n=n, stop=stop, p_adjusted=p_adjusted, anytime_claim=anytime_claim)
    )
    rate_per_s = study.workloads[sample.cell.workload_index].rate_per_s
    said = verdict(
        Case(
            contender=_label(context, sample.contender),
            baseline=_label(context, study.baseline.name),
            estimate=estimate,
            stop=stop,
            claim=claim,
            precision=study.precision,
            equivalence=study.equivalence,
            detectable=iv.minimal_detectable_effect(sd, n, family=context.family, anytime=stop.anytime_only),
            more_epochs=more,
            more_s=more_s,
            nothing_done=sample.nothing_done,
            restarted=restarted,
            is_control=sample.is_control,
            rate_per_s=rate_per_s,
            kept_up=rate_per_s is None or _kept_up(sample.pairs, rate_per_s, sample.cell),
        )
    )
    sd_restart, sd_within = components(sample.values, [pair.variance_of_mean for pair in sample.pairs])
    carried = diagnostics.carry_over(sample.pairs, comparisons=context.family)
    drift = diagnostics.trend(sample.pairs, comparisons=context.family)
    flags = (
        Flag(kind="NOTHING DONE", text=sample.nothing_done) if sample.nothing_done else None,
        None if restarted else _NO_RESTARTS,
        _disagree_flag(mean, trimmed) if apart else None,
        _FAMILY if _only_family_forbids(sample, estimate, said, restarted=restarted) else None,
        Flag(
            kind="CHECK",
            text=f"the sign-flip test says p = {p_signflip:.2g}, the t test p = {iv.p_value(mean, sd, n):.2g}.",
        )
        if check
        else None,
        diagnostics.carry_over_flag(carried, study.precision),
        diagnostics.trend_flag(drift, study.precision),
        diagnostics.outlier_flag(sample.points),
        diagnostics.bimodal_flag(sample.points),
        build_flag,
        _cut_flag(sample.pairs),
    )
    return Comparison(
        cell=sample.cell.name,
        workload=sample.cell.workload,
        threads=sample.cell.threads,
        baseline=study.baseline.name,
        contender=sample.contender,
        is_control=sample.is_control,
        points=sample.points,
        estimate=estimate,
        live=iv.around(mean, iv.anytime_half_width(sd, n, alpha=iv.ALPHA_LIVE)),
        stop=stop,
        verdict=said,
        trimmed=trimmed,
        disagree=apart,
        p_value=p_value,
        p_adjusted=p_adjusted,
        p_signflip=p_signflip,
        check=check,
        sd_restart=sd_restart,
        sd_within=sd_within,
        carry_over=carried,
        trend=drift,
        build_effect=build_effect,
        flags=tuple(flag for flag in flags if flag is not None),
        more_epochs=more,
        more_s=more_s,
    )


def _kept_up(pairs: Sequence[PairEstimate], rate_per_s: float, cell: Cell) -> bool:
    """Whether neither arm fell short of an open loop's rate, on the mean over epochs.

    A slice ends with its last event, so that even an arm that keeps up is told slower by its drain: by Little's law
    its response time, and hence the drain, is threads over rate at most.
    """
    drained = 1 + cell.threads / (rate_per_s * cell.slices.slice_ns / 1e9)
    least_per_s = (1 - SHORTFALL) * rate_per_s / drained
    return not pairs or math.fsum(pair.least_per_s for pair in pairs) / len(pairs) >= least_per_s


def _only_family_forbids(sample: _Sample, estimate: Estimate, said: Verdict, *, restarted: bool) -> bool:
    """Whether the correction alone stands between the interval and a claim."""
    if sample.is_control or sample.nothing_done or not restarted or Word.RATE_FIXED in said.words:
        return False
    return sample.n >= iv.N_MIN and said.at_least is None and iv.excludes_zero(estimate.interval)


def _restarted(study: Study, contender: str) -> bool:
    """Whether both servers are bakeoff's own, started anew for every epoch."""
    servers = [arm.server for arm in study.arms if arm.name in (study.baseline.name, contender)]
    return all(server.origin is not Origin.URL for server in servers)


def _trimmed(values: Sequence[float], context: Context, stop: Stop) -> Estimate:
    n = len(values)
    mean = math.fsum(values) / n if n else 0.0
    return Estimate(mean=mean, interval=context.interval(mean, iv.standard_deviation(values), n, stop), n=n)


def disagree(values: Sequence[float], trimmed: Sequence[float]) -> bool:
    """Either t interval excludes the other's point; told from five epochs on."""
    n = len(values)
    if n < iv.N_MIN_DECISIVE or len(trimmed) < n:
        return False
    gap = abs(math.fsum(values) - math.fsum(trimmed)) / n
    return any(gap > iv.precision_half_width(iv.standard_deviation(each), n) for each in (values, trimmed))


def _disagree_flag(mean: float, trimmed: Estimate) -> Flag:
    return Flag(
        kind="DISAGREE",
        text=f"stalls or bursts differ between arms (ratio {math.exp(mean):.4f} with them, "
        f"{math.exp(trimmed.mean):.4f} without).",
    )


def _check(p_t: float, p_signflip: float, n: int) -> bool:
    """p-values more than a factor of 3 apart, below the sign-flip test's own floor counted as the floor."""
    p_t = max(p_t, iv.smallest_sign_flip_p(n))
    return max(p_t, p_signflip) > CHECK_FACTOR * min(p_t, p_signflip)


def _cut_flag(pairs: Sequence[PairEstimate]) -> Flag | None:
    cut = sum(pair.cut for pair in pairs)
    blocks = "block was" if cut == 1 else "blocks were"
    return Flag(kind="CUT", text=f"{cut} incomplete {blocks} left out.") if cut else None


def _more_epochs(sample: _Sample, context: Context) -> int | None:
    if sample.stop in (Stop.PRECISE, Stop.DECISIVE):
        return 0
    if sample.n < 2 or sample.nothing_done:
        return None
    return max(iv.epochs_needed(sample.sd, context.study.precision) - sample.n, 0)


def _label(context: Context, arm: str) -> str:
    return next((each.label for each in context.study.arms if each.name == arm), arm)
