"""The head of a report: summary, verdicts, the forest plot's geometry, and records."""

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from bakeoff.report import numbers
from bakeoff.report.charts import ARM_SLOTS
from bakeoff.report.context import Context
from bakeoff.report.view import (
    COMPARISONS,
    Charts,
    Column,
    Forest,
    ForestRow,
    Panel,
    Record,
    Series,
    Table,
    Tone,
    VerdictView,
)
from bakeoff.stats.effects import interactions
from bakeoff.stats.hosts import without_hosts
from bakeoff.stats.interval import N_MIN, excludes_zero
from bakeoff.stats.model import Comparison, Estimate, Obstacle, Stop, Word
from bakeoff.stats.verdict import leaning
from bakeoff.units import format_duration, format_rate, percent_text

STOPS = {
    Stop.PRECISE: "precision reached",
    Stop.DECISIVE: "difference decisive",
    Stop.BUDGET: "budget used",
    Stop.ABORTED: "ended by hand",
    Stop.ANSWERED: "the question was answered by another comparison",
    Stop.EXTENDED: "time ran out again after an answer had been seen",
    Stop.RUNNING: "not finished",
}

_TICKS_PERCENT = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
_NOISY = math.log(1.1)  # spread of a ratio between restarts

_TWICE = math.log(2.0)
_VAGUE = _TWICE / 2  # half-width beyond which a ratio says nothing: its ends differ by more than a factor of two
_EDGE = 4.0  # per cent of the axis kept free on both sides
_LABEL_APART = 11.0  # per cent of the axis between two labels
_LADDER = 3  # fewest thread counts for a chart of the ratio over threads
_MARGIN_LEAST = 0.9  # per cent of the axis: 3 px on a phone


def _tone_of(comparison: Comparison) -> Tone:
    words = comparison.verdict.words
    if comparison.is_control:
        return Tone.CONTROL
    if Word.FASTER in words:
        return Tone.FASTER
    if Word.SLOWER in words:
        return Tone.SLOWER
    return Tone.EQUAL if Word.EQUIVALENT in words else Tone.OPEN


def _is_rate_fixed(comparison: Comparison) -> bool:
    """True if an open loop decided the throughput of both arms."""
    return Word.RATE_FIXED in comparison.verdict.words


# The summary: which way it went, the largest difference or the narrowest interval, and what it rests on.


def summary(context: Context) -> tuple[str, ...]:
    return (answer(context), _basis(context)) if context.primary else ()


def answer(context: Context) -> str:
    """Say which is faster and by how much, in per cent: the table has the ratios."""
    if len(context.primary) == 1:
        (only,) = context.primary
        if only.estimate.n < N_MIN and Word.INCONCLUSIVE in only.verdict.words:
            return only.verdict.sentence  # says how many restarts a verdict takes
        said = f"{context.labels[only.contender]} {_headline(context, only)}."
        return " ".join(filter(None, (said, _first_sentence(context, only.verdict.sentence)[1])))
    tones = {_tone_of(each) for each in context.primary}
    if len(context.analysis.contenders) == 1 and tones in ({Tone.FASTER}, {Tone.SLOWER}):
        return f"{_all_cells(context, *tones)}."
    return " ".join(filter(None, (_direction(context), _largest(context))))


def _all_cells(context: Context, tone: Tone) -> str:
    ranked = sorted((each.estimate for each in context.primary), key=lambda each: abs(each.mean))
    (contender,), ends = context.analysis.contenders, (ranked[0], ranked[-1])
    if abs(ranked[-1].mean) >= _TWICE:
        size = f"{' to '.join(dict.fromkeys(map(numbers.ratio_of, ends)))} the throughput of"
    else:
        widest = max(each.interval.half_width or 0.0 for each in ends)
        sizes = dict.fromkeys(numbers.size(each.mean, widest) for each in ends)
        size = f"{' to '.join(sizes)} {tone} than"
    verb = "has" if abs(ranked[-1].mean) >= _TWICE else "is"
    names = context.labels[contender], context.labels[context.analysis.baseline]
    return f"{names[0]} {verb} {size} {names[1]} in all {len(ranked)} cells"


def _direction(context: Context) -> str:
    baseline = context.labels[context.analysis.baseline]
    kinds: Counter[str] = Counter(
        Word.RATE_FIXED if _is_rate_fixed(each) else _tone_of(each) for each in context.primary
    )
    words = {
        Tone.FASTER: "faster",
        Tone.SLOWER: "slower",
        Tone.EQUAL: f"as fast within ±{percent_text(context.study.equivalence)}",
        Tone.OPEN: "undecided",
        Word.RATE_FIXED: "at a fixed rate",
    }
    parts = [f"{kinds[kind]} {text}" for kind, text in words.items() if kinds[kind]]
    return f"Of {len(context.primary)} comparisons with {baseline}: {', '.join(parts)}."


def _first_sentence(context: Context, text: str) -> tuple[str, str]:
    """Split off the first sentence without its full stop. Labels may contain full stops."""
    labels = "|".join(re.escape(label) for label in sorted(context.labels.values(), key=len, reverse=True))
    found = re.fullmatch(rf"((?:{labels}|.)*?)\.(?: (.*))?", text, re.DOTALL)
    return (found[1], found[2] or "") if found else (text, "")


def _largest(context: Context) -> str:
    """The clearest interaction, else the largest difference, else the narrowest interval; "" if all are vague."""
    if found := _interaction(context):
        return found
    measured = [each for each in context.primary if each.estimate.n and not _is_rate_fixed(each)]
    claimed = [c for c in measured if _tone_of(c) in (Tone.FASTER, Tone.SLOWER)]
    clear = [c for c in claimed or measured if (c.estimate.interval.half_width or 0.0) <= _VAGUE]
    if not clear:
        return ""
    chosen = max(clear, key=_sure_size) if claimed else min(clear, key=_half_width)
    where = f"{context.labels[chosen.contender]} in {context.cell_title(chosen.cell)}"
    if claimed:
        return f"The largest difference: {where}, {_change(chosen.estimate)}."
    # Every difference may be chance, so none is called the largest.
    within = numbers.change_interval(chosen.estimate.interval)
    return f"The narrowest interval: {where}, {within}." if within else ""


def _half_width(comparison: Comparison) -> float:
    return comparison.estimate.interval.half_width or math.inf


def _sure_size(comparison: Comparison) -> tuple[float, float]:
    """Sort key: the interval's least distance from 1, then its greatest distance, negated."""
    low, high = comparison.estimate.interval.low, comparison.estimate.interval.high
    if low is None or high is None:
        return 0.0, -math.inf
    return max(low, -high, 0.0), -max(abs(low), abs(high))


def _interaction(context: Context) -> str:
    """`utf8mb4_bin costs 38% at mysql:5.7 and 4% at mysql:8.0 (oltp_read_only · 4 threads).`; "" if there is none."""
    design = context.study.design
    found = interactions(context.analysis, design) if design else ()
    clear = [
        (each, each.at_base, each.at_other)
        for each in found
        if each.at_base and each.at_other and excludes_zero(each.estimate.interval)
    ]
    if not clear:
        return ""
    best, at_base, at_other = max(clear, key=lambda each: _half_widths_from_one(each[0].estimate))
    ratio = numbers.ratio(best.estimate.mean, best.estimate.interval.half_width)
    first, second = _cost(at_base), _cost(at_other)
    verb = first.partition(" ")[0]
    return (
        f"{best.level} over {best.over} {first} at {best.other_base} and {second.removeprefix(f'{verb} ')} at "
        f"{best.other_level}, {ratio} between the two ({context.cell_title(best.cell)}; the clearest interaction)."
    )


def _half_widths_from_one(estimate: Estimate) -> float:
    return abs(estimate.mean) / max(estimate.interval.half_width or math.inf, 1e-9)


def _cost(effect: Estimate) -> str:
    text = numbers.size(effect.mean, effect.interval.half_width)
    if float(text[:-1]) == 0:
        return "changes nothing"
    return f"{'gains' if effect.mean > 0 else 'costs'} {text}"


def _is_restarted(comparison: Comparison) -> bool:
    return comparison.obstacle is not Obstacle.NOT_RESTARTED


def _repeats(n: int, *, restarted: bool) -> str:
    text = numbers.restarts(n)
    return text if restarted else text.replace("restart", "repetition")


def restarts_text(context: Context) -> str:
    """`6 to 8 restarts of every server`."""
    counts = sorted({each.estimate.n for each in context.primary if each.estimate.n} or {0})
    restarted = all(map(_is_restarted, context.primary))
    restarts = _repeats(counts[-1], restarted=restarted)
    if len(counts) > 1:
        restarts = f"{counts[0]} to {restarts}"
    return f"{restarts} of every server" if restarted else restarts


def noise(context: Context) -> str:
    """Say how much the ratios differ between restarts, if that is much."""
    spreads = [found for each in context.primary if each.estimate.n and (found := _spread(each)) is not None]
    if not spreads or (spread := statistics.median_high(spreads)) <= _NOISY:
        return ""
    return f" Ratios differ by {percent_text(spread)} between restarts: the machine is noisy, rerun when it is idle."


def _basis(context: Context) -> str:
    trusted, control = context.analysis.trusted, ""
    if trusted is not None:
        control = "; the control, a second baseline, holds 1 at 99%" if trusted else "; the control does NOT hold 1"
    return f"This rests on {restarts_text(context)}{control}.{noise(context)}"


def _spread(comparison: Comparison) -> float | None:
    points = comparison.points
    hosts = [point.host for point in points]
    freedom = len(points) - len({*hosts})
    centred = without_hosts([point.value for point in points], hosts)
    mean = statistics.fmean(centred) if centred else 0.0
    return math.sqrt(math.fsum((value - mean) ** 2 for value in centred) / freedom) if freedom > 0 else None


def mean_sentences(context: Context) -> tuple[str, ...]:
    """Give each contender's geometric mean over several cells, unless its verdicts contradict each other."""
    if len(context.cells) < 2:
        return ()
    baseline = context.labels[context.analysis.baseline]
    claims = {(each.contender, _tone_of(each)) for each in context.primary}
    over = "both cells" if len(context.cells) == 2 else f"all {len(context.cells)} cells"
    sentences = []
    for contender, mean in context.analysis.geometric_mean.items():
        name = context.labels[contender]
        if {(contender, Tone.FASTER), (contender, Tone.SLOWER)} <= claims:
            sentences.append(
                f"{name} is faster than {baseline} in some cells and slower in others, so no mean is given."
            )
            continue
        interval = numbers.interval(mean.interval)
        spread = f"95% interval {interval}" if interval else "no interval yet"
        sentences.append(
            f"Over {over} {name} has {numbers.ratio_of(mean)} the throughput of {baseline} (geometric mean, {spread})."
        )
    return tuple(sentences)


# A terminal's screen.

_Of = Callable[[Comparison], str]


def comparisons_table(context: Context) -> tuple[Table | None, str, tuple[int, ...]]:
    """Return a table with a row per comparison, what all rows share, and the rows by size."""
    if not context.primary:
        return None, "", ()
    several = _varied(context)
    shared = [whole(context.primary[0]) for title, (whole, _) in _places(context).items() if title not in several]
    table = Table.of(
        COMPARISONS,
        context.primary,
        *(Column(title, short) for title, (_, short) in several.items()),
        Column("ratio", lambda each: numbers.ratio_of(each.estimate)),
        Column("95% interval", lambda each: numbers.interval(each.estimate.interval) or "none yet"),
        Column("verdict", lambda each: " · ".join(each.verdict.words)),
        Column("events/s", lambda each: _rates(context, each), wide=True),
    )
    ranks = sorted(range(len(context.primary)), key=lambda at: _sure_size(context.primary[at]), reverse=True)
    over = f"{'over' if shared else 'Over'} {context.labels[context.analysis.baseline]}"
    return table, " ".join(filter(None, (" · ".join(shared), over))), tuple(ranks)


def _places(context: Context) -> dict[str, tuple[_Of, _Of]]:
    """Heading -> two functions that name a comparison: on its own, and beside the others."""
    names, shorts = context.labels, context.short_labels
    return {
        "workload": (lambda each: each.workload, lambda each: each.workload),
        "threads": (lambda each: numbers.threads(each.threads), lambda each: str(each.threads)),
        "contender": (lambda each: names[each.contender], lambda each: shorts[each.contender]),
    }


def _varied(context: Context) -> dict[str, tuple[_Of, _Of]]:
    places = _places(context).items()
    return {title: forms for title, forms in places if len({forms[0](each) for each in context.primary}) > 1}


def _named(context: Context, comparison: Comparison) -> str:
    varied = context.once(_varied)
    parts = [forms[title == "contender"](comparison) for title, forms in varied.items()]
    if "contender" not in varied and (comparison.is_control or not parts):
        parts.append(context.labels[comparison.contender])
    return " · ".join(parts)


def ladder(context: Context) -> Charts | None:
    """Draw the ratio over threads with its band, for workloads at three thread counts or more."""
    panels = list[Panel]()
    for workload in dict.fromkeys(each.workload for each in context.primary):
        lines: dict[str, list[Comparison]] = {}
        for each in sorted(context.primary, key=lambda each: each.threads):
            if each.workload == workload and each.estimate.interval.half_width is not None:
                lines.setdefault(each.contender, []).append(each)
        if len(lines) <= ARM_SLOTS and max(map(len, lines.values()), default=0) >= _LADDER:
            series = tuple(_ladder_series(context, arm, rungs) for arm, rungs in lines.items())
            y_title = f"ratio to {context.labels[context.analysis.baseline]}"
            panels.append(
                Panel(
                    id=f"ladder-{len(panels)}", title=workload, x_title="threads", y_title=y_title, series=series,
                    x_kind="threads", y_zero=False, one="1: as fast",
                )
            )  # fmt: skip
    return Charts(panels=tuple(panels), legend=len(context.analysis.contenders) > 1, published=True) if panels else None


def _ladder_series(context: Context, arm: str, rungs: Sequence[Comparison]) -> Series:
    ends = [(each.estimate.interval.low or 0.0, each.estimate.interval.high or 0.0) for each in rungs]
    return context.arm_series(
        arm,
        (each.threads for each in rungs),
        (math.exp(each.estimate.mean) for each in rungs),
        ([math.exp(low) for low, _ in ends], [math.exp(high) for _, high in ends]),
        tips=tuple(
            f"{context.labels[arm]}, {numbers.threads(each.threads)}: {numbers.estimate_short(each.estimate)}"
            for each in rungs
        ),
    )


def _rates(context: Context, comparison: Comparison) -> str:
    """`14,002 → 12,441`: events per second of the baseline and the contender."""
    arms = (comparison.baseline, comparison.contender)
    known = [context.summaries.get((comparison.cell, arm)) for arm in arms]
    return " → ".join(format_rate(each.tps) for each in known if each) if all(known) else ""


# Verdicts.


def verdicts(context: Context) -> tuple[VerdictView, ...]:
    return tuple(_verdict(context, comparison) for comparison in context.primary)


def _headline(context: Context, comparison: Comparison) -> str:
    interval, bound = comparison.estimate.interval, comparison.verdict.at_least
    negligible = f"within ±{percent_text(context.study.equivalence)}"
    if _is_rate_fixed(comparison):
        return "was given a fixed rate: compare response times"
    if bound is not None:
        text = f"is {_change(comparison.estimate)}"
        return f"{text}, yet {negligible}" if Word.EQUIVALENT in comparison.verdict.words else text
    if Word.EQUIVALENT in comparison.verdict.words:
        return f"is as fast, {negligible}"
    if interval.low is None or interval.high is None:
        return "has no verdict" if comparison.obstacle else "has no verdict yet"
    if lean := leaning(interval):
        restarted = _is_restarted(comparison)
        reason = "not enough for a verdict" if restarted else "a server that runs already gets no verdict"
        return f"is probably {lean} ({_repeats(comparison.estimate.n, restarted=restarted)}; {reason})"
    low, high = (end.lstrip("+" + numbers.MINUS) for end in numbers.change_interval(interval).split(" to "))
    return f"may be anything from {low} slower to {high} faster"


def _change(estimate: Estimate) -> str:
    """`9.0% slower (8.6% to 9.5%)`, `3.1× as fast (2.9 to 3.3)`; the interval never starts at 0."""
    mean, interval = estimate.mean, estimate.interval
    assert interval.low is not None and interval.high is not None
    if not -_TWICE < mean < _TWICE:
        return f"{numbers.ratio(mean, interval.half_width)} as fast ({numbers.interval(interval)})"
    near, far = sorted((abs(math.expm1(interval.low)), abs(math.expm1(interval.high))))
    fewest = numbers.percent_decimals(mean, interval.half_width)
    for digits in range(fewest, fewest + 5):
        scale = 10 ** (digits + 2)
        bottom, top = math.floor(near * scale + 1e-9) / scale, math.ceil(far * scale - 1e-9) / scale
        if bottom:
            break
    ends = f"{bottom:.{digits}%} to {top:.{digits}%}"
    return f"{abs(math.expm1(mean)):.{digits}%} {'faster' if mean > 0 else 'slower'} ({ends})"


def _verdict(context: Context, comparison: Comparison) -> VerdictView:
    estimate = comparison.estimate
    half = estimate.interval.half_width
    basis = [_repeats(estimate.n, restarted=_is_restarted(comparison))]
    if not _is_rate_fixed(comparison):
        basis += filter(None, [_ending(context, comparison)])
        if context.study.has_target and comparison.more_s and "would take" not in comparison.verdict.sentence:
            basis.append(f"about {format_duration(comparison.more_s)} more to the target")
    return VerdictView(
        cell=comparison.cell,
        workload=comparison.workload,
        threads=numbers.threads(comparison.threads),
        contender=context.labels[comparison.contender],
        slot=context.slots[comparison.contender],
        tone=_tone_of(comparison),
        words=tuple(comparison.verdict.words),
        headline=_headline(context, comparison),
        sentence=comparison.verdict.sentence,
        remark=_first_sentence(context, comparison.verdict.sentence)[1],
        ratio=numbers.ratio(estimate.mean, half) if estimate.n else "",
        change=numbers.change(estimate.mean, half) if estimate.n else "",
        interval=numbers.interval(estimate.interval),
        basis=" · ".join(basis),
        notes=context.notes(comparison),
    )


def _ending(context: Context, comparison: Comparison) -> str:
    if comparison.stop is Stop.ABORTED and context.analysis.stopped is Stop.RUNNING:
        return STOPS[Stop.RUNNING]
    if comparison.stop is Stop.DECISIVE and not comparison.verdict.claims:
        return "limit decided" if context.study.question.reference else ""
    return STOPS[comparison.stop]


# The forest plot.


def forest(context: Context) -> Forest:
    axis = _axis_for(context.analysis.comparisons)
    margin = axis.place(-context.study.equivalence), axis.place(context.study.equivalence)
    seen = margin[1] - margin[0] >= _MARGIN_LEAST
    band = "Grey band" if seen else "Too narrow for this axis"
    restarted = ", one restart of all servers each" if all(map(_is_restarted, context.primary)) else ""
    control = " Control: a second instance of the baseline; its true ratio is 1." if context.analysis.control else ""
    return Forest(
        one=axis.place(0.0),
        margin=margin if seen else None,
        ticks=axis.ticks(),
        rows=tuple(_forest_row(context, comparison, axis) for comparison in context.analysis.comparisons),
        legend=f"Throughput over that of {context.labels[context.analysis.baseline]}. Large mark: the estimate; bar: "
        f"its 95% interval; small dots: epochs{restarted}. {band}: ±{percent_text(context.study.equivalence)}, within "
        f"which a difference does not matter.{control}",
    )


class Axis:
    """A logarithmic axis of ratios; positions are per cent of its length."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def place(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(min(100.0, max(0.0, _EDGE + share * (100 - 2 * _EDGE))), 3)

    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Return five to eight round ratios, or 1, 2, 5, 10 … on a long axis. Labels that would touch are empty."""
        span = math.expm1(self.high) - math.expm1(self.low)
        step = next((s for s in _TICKS_PERCENT if span * 100 / s <= 7), 0) / 100
        if step:
            first, last = math.floor(math.expm1(self.low) / step), math.ceil(math.expm1(self.high) / step)
            ratios, form = [1 + index * step for index in range(first, last + 1)], ".3f" if step < 0.01 else ".2f"
        else:
            powers = range(math.floor(self.low / math.log(10)), math.ceil(self.high / math.log(10)) + 1)
            ratios, form = [factor * 10.0**power for power in powers for factor in (1, 2, 5)], "g"
        inside = [ratio for ratio in ratios if ratio > 0 and self.low - 1e-9 <= math.log(ratio) <= self.high + 1e-9]
        ticks = [(self.place(math.log(ratio)), f"{ratio:{form}}") for ratio in inside]
        one = min(range(len(ticks)), key=lambda index: abs(inside[index] - 1))
        labelled = {*_spaced(ticks[one:]), *_spaced(ticks[one::-1])}
        return tuple(tick if tick in labelled else (tick[0], "") for tick in ticks)


def _spaced(ticks: Sequence[tuple[float, str]]) -> Iterator[tuple[float, str]]:
    """Leave out ticks whose labels would touch the one before."""
    last = -math.inf
    for tick in ticks:
        if abs(tick[0] - last) >= _LABEL_APART:
            last = tick[0]
            yield tick


def _axis_for(comparisons: Sequence[Comparison]) -> Axis:
    """An axis with 1, all means and all epochs. Intervals add at most its length on each side, then they are cut."""
    one_percent = math.log(1.01)
    core = [-one_percent, one_percent, *(comparison.estimate.mean for comparison in comparisons)]
    core += [point.value for comparison in comparisons for point in comparison.points]
    low, high = min(core), max(core)
    span = high - low
    intervals = (comparison.estimate.interval for comparison in comparisons)
    ends = [end for each in intervals for end in (each.low, each.high) if end is not None and math.isfinite(end)]
    return Axis(max(min([low, *ends]), low - span), min(max([high, *ends]), high + span))


def _forest_row(context: Context, comparison: Comparison, axis: Axis) -> ForestRow:
    estimate, words = comparison.estimate, " · ".join(comparison.verdict.words)
    low, high = estimate.interval.low, estimate.interval.high
    beyond = (axis.high - axis.low) / (100 - 2 * _EDGE) * _EDGE
    return ForestRow(
        kind="control" if comparison.is_control else "cell",
        label=context.cell_title(comparison.cell),
        short=comparison.cell,
        named=_named(context, comparison),
        contender=context.labels[comparison.contender],
        slot=context.slots[comparison.contender],
        tone=_tone_of(comparison),
        low=None if low is None else axis.place(low),
        point=axis.place(estimate.mean),
        high=None if high is None else axis.place(high),
        epochs=tuple(axis.place(point.value) for point in comparison.points if estimate.n),
        cut_left=low is not None and low < axis.low - beyond,
        cut_right=high is not None and high > axis.high + beyond,
        ratio=numbers.ratio_of(estimate),
        interval=numbers.interval(estimate.interval),
        verdict=_control_word(comparison, trusted=context.analysis.trusted) if comparison.is_control else words,
        rates=_rates(context, comparison),
        notes=context.notes(comparison),
    )


def _control_word(comparison: Comparison, *, trusted: bool | None) -> str:
    interval = comparison.estimate.interval
    if interval.low is None:
        return "control"
    if not excludes_zero(interval):
        return "holds 1"
    return "misses 1 at 95%, not at 99%" if trusted else "MISSES 1"


# Records for programs.


def records(context: Context) -> tuple[Record, ...]:
    return tuple(_record(context, comparison) for comparison in context.analysis.comparisons)


def _record(context: Context, comparison: Comparison) -> Record:
    estimate = comparison.estimate
    record: Record = {
        "run": context.run.name,
        "cell": comparison.cell,
        "workload": comparison.workload,
        "threads": comparison.threads,
        "baseline": context.labels[comparison.baseline],
        "contender": context.labels[comparison.contender],
        "is_control": comparison.is_control,
        "verdict": " ".join(comparison.verdict.words),
        **numbers.ratio_fields(estimate),
        "epochs": estimate.n,
        "stop": comparison.stop.value,
        "p_adjusted": comparison.p_adjusted,
        "ratio_trimmed": math.exp(comparison.trimmed.mean) if comparison.trimmed.n else None,
        "sd_restart": comparison.sd_restart,
        "sd_within": comparison.sd_within,
        "flags": " | ".join(map(str, comparison.flags)),
    }
    for side, arm in (("baseline", comparison.baseline), ("contender", comparison.contender)):
        summary = context.summaries.get((comparison.cell, arm))
        if summary is None:
            continue
        fields = summary.model_dump(exclude={"cell", "arm", "epochs", "quantiles_ns"})
        record |= {f"{side}_{name}": value for name, value in fields.items()}
        for quantile, value in summary.quantiles_ns.items():
            record[f"{side}_p{float(quantile) * 100:g}_ns"] = value
    return record
