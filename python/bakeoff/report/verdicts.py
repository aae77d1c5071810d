"""Verdicts in words, the forest plot's geometry, footnotes, and the same as records for programs."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from bakeoff.report import numbers
from bakeoff.report.context import Context
from bakeoff.report.view import Answer, Footnote, Forest, ForestRow, Row, Table, Tone, Value
from bakeoff.stats.effects import Interaction, interactions
from bakeoff.stats.interval import excludes_zero
from bakeoff.stats.model import Comparison, Estimate, Flag, Stop, Word
from bakeoff.stats.verdict import at_least_text, percent_text
from bakeoff.units import format_duration, format_rate

STOPS = {
    Stop.PRECISE: "target precision reached",
    Stop.DECISIVE: "difference decisive before the target precision",
    Stop.BUDGET: "time ran out before the target precision",
    Stop.ABORTED: "ended by hand: anytime-valid interval",
    Stop.EXTENDED: "time ran out again after an answer had been seen: anytime-valid interval",
    Stop.RUNNING: "still running: anytime-valid interval",
}

Notes = dict[tuple[str, str], tuple[int, ...]]
Record = dict[str, str | int | float | bool | None]

_TICKS_PERCENT = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
_TALLY_ABOVE = 3  # cells; fewer are seen at a glance
_EDGE = 4.0  # per cent of the axis kept free on both sides


def threads_text(threads: int) -> str:
    """`1 thread`, `4 threads`."""
    return "1 thread" if threads == 1 else f"{threads} threads"


def cell_text(comparison: Comparison) -> str:
    """`oltp_read_only · 4 threads`."""
    return f"{comparison.workload} · {threads_text(comparison.threads)}"


def tone_of(comparison: Comparison) -> Tone:
    """What kind of answer it is."""
    words = comparison.verdict.words
    if comparison.is_control:
        return Tone.CONTROL
    if Word.FASTER in words:
        return Tone.FASTER
    if Word.SLOWER in words:
        return Tone.SLOWER
    return Tone.EQUAL if Word.EQUIVALENT in words else Tone.OPEN


def counted(comparisons: Iterable[Comparison]) -> Counter[str]:
    """How many answers are of each kind: by tone, and those of an open loop as RATE_FIXED."""
    return Counter(Word.RATE_FIXED if rate_fixed(each) else tone_of(each) for each in comparisons)


def rate_fixed(comparison: Comparison) -> bool:
    """An open loop decided the throughput of both arms."""
    return Word.RATE_FIXED in comparison.verdict.words


def answers(context: Context, notes: Notes) -> tuple[Answer, ...]:
    """One answer a cell and contender, the control left out."""
    return tuple(_answer(context, comparison, notes) for comparison in context.primary)


def footnotes(context: Context) -> tuple[tuple[Footnote, ...], Notes]:
    """Flags of all comparisons, equal texts told once, numbered in order; and the numbers of each comparison."""
    places: dict[Flag, list[str]] = {}
    owners: dict[Flag, list[tuple[str, str]]] = {}
    for comparison in context.analysis.comparisons:
        for flag in _flags_of(comparison):
            places.setdefault(flag, []).append(f"{cell_text(comparison)}, {context.labels[comparison.contender]}")
            owners.setdefault(flag, []).append((comparison.cell, comparison.contender))
    found = []
    notes: dict[tuple[str, str], list[int]] = {}
    for number, (flag, where) in enumerate(places.items(), start=1):
        found.append(Footnote(number=number, word=flag.kind, text=flag.text, where=tuple(where)))
        for owner in owners[flag]:
            notes.setdefault(owner, []).append(number)
    return tuple(found), {key: tuple(value) for key, value in notes.items()}


def forest(context: Context, notes: Notes) -> Forest:
    """Every comparison as a line, the control right under its cell, the geometric mean last."""
    comparisons = context.analysis.comparisons
    means = context.analysis.geometric_mean if len(context.cells) > 1 else {}
    axis = _axis_for([*(comparison.estimate for comparison in comparisons), *means.values()], comparisons)
    rows = [_forest_row(context, comparison, axis, notes) for comparison in comparisons]
    rows += [_mean_row(context, contender, estimate, axis) for contender, estimate in means.items()]
    margin = context.study.equivalence
    return Forest(
        one=axis.place(0.0), margin=(axis.place(-margin), axis.place(margin)), ticks=axis.ticks(), rows=tuple(rows)
    )


def throughput_table(context: Context, notes: Notes) -> Table:
    """Transactions per second of every arm in every cell, with ratios: the table for a blog."""
    columns = ["", *(f"{context.labels[arm]}, events/s" for arm in context.arms if arm != context.analysis.control)]
    for contender in context.analysis.contenders:
        several = len(context.analysis.contenders) > 1
        columns += [f"ratio {context.labels[contender]}" if several else "ratio", "95% interval", "verdict"]
    rows = []
    by_cell = {(c.cell, c.contender): c for c in context.primary}
    for cell in context.cells:
        first = next(comparison for comparison in context.primary if comparison.cell == cell)
        values = [Value(text=threads_text(first.threads))]
        for arm in context.arms:
            if arm != context.analysis.control:
                summary = context.summaries.get((cell, arm))
                values.append(Value(text=format_rate(summary.tps) if summary else "n/a"))
        for contender in context.analysis.contenders:
            comparison = by_cell[cell, contender]
            marks = "".join(f" [{number}]" for number in notes.get((cell, contender), ()))
            values += [
                Value(text=numbers.ratio_of(comparison.estimate)),
                Value(text=numbers.interval(comparison.estimate.interval) or "n/a"),
                Value(text=" ".join(comparison.verdict.words) + marks),
            ]
        rows.append(Row(group=first.workload, values=tuple(values)))
    return Table(id="throughput", group_title="workload", columns=tuple(columns), rows=tuple(rows))


def records(context: Context) -> tuple[Record, ...]:
    """One flat record a comparison, unrounded, for CSV. Ratios, not logarithms; times in ns, rates per second."""
    return tuple(_record(context, comparison) for comparison in context.analysis.comparisons)


def summary_sentences(context: Context) -> tuple[str, ...]:
    """For each contender, when there are several cells: how many went which way, and the geometric mean over them."""
    if len(context.cells) < 2:
        return ()
    sentences = []
    for contender, estimate in context.analysis.geometric_mean.items():
        tally = _tally(context, contender) if len(context.cells) > _TALLY_ABOVE else ""
        sentences.append(f"{tally} {_mean_sentence(context, contender, estimate)}".strip())
    return tuple(sentences)


def _all_cells(context: Context) -> str:
    return "both cells" if len(context.cells) == 2 else f"all {len(context.cells)} cells"


def _tally(context: Context, contender: str) -> str:
    """`mysql:8.0 is slower than mysql:5.7 in 5 of 6 cells, undecided in 1.`."""
    counts = counted(comparison for comparison in context.primary if comparison.contender == contender)
    baseline = context.labels[context.analysis.baseline]
    words: dict[str, str] = {
        Tone.FASTER: f"faster than {baseline}",
        Tone.SLOWER: f"slower than {baseline}",
        Tone.EQUAL: f"as fast as {baseline}",
        Tone.OPEN: "undecided",
        Word.RATE_FIXED: "at a fixed rate",
    }
    parts = [f"{text} in {counts[kind]}" for kind, text in words.items() if counts[kind]]
    parts[0] += f" of {len(context.cells)} cells"
    return f"{context.labels[contender]} is {', '.join(parts)}."


def _mean_sentence(context: Context, contender: str, estimate: Estimate) -> str:
    ratio = numbers.ratio(estimate.mean, estimate.interval.half_width)
    interval = numbers.interval(estimate.interval)
    spread = f"95% interval {interval}" if interval else "no interval yet"
    baseline, name = context.labels[context.analysis.baseline], context.labels[contender]
    return f"Over {_all_cells(context)} {name} has {ratio} the throughput of {baseline} (geometric mean, {spread})."


class _Axis:
    """A logarithmic axis of ratios; places are per cent of its length."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def place(self, value: float) -> float:
        """Where a log ratio lies, cut to 0..100."""
        share = (value - self.low) / (self.high - self.low)
        return round(min(100.0, max(0.0, _EDGE + share * (100 - 2 * _EDGE))), 3)

    def cut(self, value: float | None, *, right: bool) -> bool:
        """Whether a value lies beyond the end."""
        if value is None:
            return False
        step = (self.high - self.low) / (100 - 2 * _EDGE) * _EDGE
        return value > self.high + step if right else value < self.low - step

    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Round ratios inside the axis, 1 always among them, five to eight of them."""
        span = math.expm1(self.high) - math.expm1(self.low)
        step = next((s for s in _TICKS_PERCENT if span * 100 / s <= 7), _TICKS_PERCENT[-1]) / 100
        first, last = math.floor(math.expm1(self.low) / step), math.ceil(math.expm1(self.high) / step)
        digits = 3 if step < 0.01 else 2
        found = []
        for index in range(first, last + 1):
            ratio = 1 + index * step
            if ratio > 0 and self.low - 1e-9 <= math.log(ratio) <= self.high + 1e-9:
                found.append((self.place(math.log(ratio)), f"{ratio:.{digits}f}"))
        return tuple(found)


def _axis_for(estimates: Sequence[Estimate], comparisons: Sequence[Comparison]) -> _Axis:
    """An axis that holds equality, every mean and every epoch; an interval may double it, beyond that it is cut."""
    one_percent = math.log(1.01)
    core = [-one_percent, one_percent, *(estimate.mean for estimate in estimates)]
    core += [point.value for comparison in comparisons for point in comparison.points if math.isfinite(point.value)]
    low, high = min(core), max(core)
    span = high - low
    ends = [
        end for e in estimates for end in (e.interval.low, e.interval.high) if end is not None and math.isfinite(end)
    ]
    return _Axis(max(min([low, *ends]), low - span), min(max([high, *ends]), high + span))


def _flags_of(comparison: Comparison) -> list[Flag]:
    flags = list(comparison.flags)
    kinds = {flag.kind for flag in flags}
    if comparison.disagree and "DISAGREE" not in kinds:
        text = "stalls or bursts differ between the arms; the ratio without them is another one."
        flags.append(Flag(kind="DISAGREE", text=text))
    if comparison.check and "CHECK" not in kinds:
        text = "the sign-flip test and the t interval differ; look at every epoch."
        flags.append(Flag(kind="CHECK", text=text))
    return flags


def _headline(context: Context, comparison: Comparison) -> str:
    """What the contender is or may be, as the end of a sentence that starts with its name."""
    interval, bound = comparison.estimate.interval, comparison.verdict.at_least
    negligible = f"within ±{percent_text(context.study.equivalence)}"
    if rate_fixed(comparison):
        return "was given a fixed rate: compare response times"
    if bound is not None:
        word = "faster" if bound > 0 else "slower"
        text = f"is at least {at_least_text(bound, interval.half_width or 0.0)} {word}"
        return f"{text}, yet {negligible}" if Word.EQUIVALENT in comparison.verdict.words else text
    if Word.EQUIVALENT in comparison.verdict.words:
        return f"is as fast, {negligible}"
    if interval.low is None or interval.high is None:
        return "has no verdict yet"
    low, high = _side(interval.low, interval.half_width), _side(interval.high, interval.half_width)
    return f"may be anything from {low} to {high}"


def _side(log_ratio: float, half_width: float | None) -> str:
    """`27% slower`, `14% faster`."""
    digits = numbers.percent_decimals(log_ratio, half_width)
    percent = math.expm1(log_ratio) * 100
    return f"{abs(percent):.{digits}f}% {'slower' if percent < 0 else 'faster'}"


def _control_word(comparison: Comparison) -> str:
    """Whether the control's interval holds its true ratio."""
    low, high = comparison.estimate.interval.low, comparison.estimate.interval.high
    if low is None or high is None:
        return "control"
    return "holds 1" if low <= 0 <= high else "MISSES 1"


def _answer(context: Context, comparison: Comparison, notes: Notes) -> Answer:
    estimate = comparison.estimate
    half = estimate.interval.half_width
    basis = [numbers.epochs(estimate.n)]
    if not rate_fixed(comparison):
        basis.append(STOPS[comparison.stop])
    if comparison.more_s and not rate_fixed(comparison) and "would take" not in comparison.verdict.sentence:
        basis.append(f"about {format_duration(comparison.more_s)} more to the target")
    return Answer(
        cell=comparison.cell,
        workload=comparison.workload,
        threads=threads_text(comparison.threads),
        contender=context.labels[comparison.contender],
        slot=context.slots[comparison.contender],
        tone=tone_of(comparison),
        words=tuple(comparison.verdict.words),
        headline=_headline(context, comparison),
        sentence=comparison.verdict.sentence,
        remark=comparison.verdict.sentence.partition(". ")[2],
        ratio=numbers.ratio(estimate.mean, half) if estimate.n else "",
        change=numbers.change(estimate.mean, half) if estimate.n else "",
        interval=numbers.interval(estimate.interval),
        basis=" · ".join(basis),
        notes=notes.get((comparison.cell, comparison.contender), ()),
    )


def _forest_row(context: Context, comparison: Comparison, axis: _Axis, notes: Notes) -> ForestRow:
    estimate = comparison.estimate
    low, high = estimate.interval.low, estimate.interval.high
    return ForestRow(
        kind="control" if comparison.is_control else "cell",
        label=cell_text(comparison),
        short=comparison.cell,
        contender=context.labels[comparison.contender],
        slot=context.slots[comparison.contender],
        tone=tone_of(comparison),
        low=None if low is None else axis.place(low),
        point=axis.place(estimate.mean),
        high=None if high is None else axis.place(high),
        epochs=tuple(axis.place(point.value) for point in comparison.points),
        cut_left=axis.cut(low, right=False),
        cut_right=axis.cut(high, right=True),
        ratio=numbers.ratio_of(estimate),
        interval=numbers.interval(estimate.interval),
        verdict=_control_word(comparison) if comparison.is_control else " · ".join(comparison.verdict.words),
        notes=notes.get((comparison.cell, comparison.contender), ()),
    )


def _mean_row(context: Context, contender: str, estimate: Estimate, axis: _Axis) -> ForestRow:
    low, high = estimate.interval.low, estimate.interval.high
    return ForestRow(
        kind="mean",
        label=f"{_all_cells(context)} (geometric mean)",
        short=_all_cells(context),
        contender=context.labels[contender],
        slot=context.slots[contender],
        tone=Tone.OPEN,
        low=None if low is None else axis.place(low),
        point=axis.place(estimate.mean),
        high=None if high is None else axis.place(high),
        epochs=(),
        cut_left=axis.cut(low, right=False),
        cut_right=axis.cut(high, right=True),
        ratio=numbers.ratio(estimate.mean, estimate.interval.half_width),
        interval=numbers.interval(estimate.interval),
        verdict="",
        notes=(),
    )


def _record(context: Context, comparison: Comparison) -> Record:
    estimate = comparison.estimate

    def ratio(value: float | None) -> float | None:
        return None if value is None else math.exp(value)

    record: Record = {
        "run": context.run.name,
        "cell": comparison.cell,
        "workload": comparison.workload,
        "threads": comparison.threads,
        "baseline": context.labels[comparison.baseline],
        "contender": context.labels[comparison.contender],
        "is_control": comparison.is_control,
        "verdict": " ".join(comparison.verdict.words),
        "ratio": ratio(estimate.mean) if estimate.n else None,
        "ratio_low": ratio(estimate.interval.low),
        "ratio_high": ratio(estimate.interval.high),
        "epochs": estimate.n,
        "stop": comparison.stop.value,
        "p_adjusted": comparison.p_adjusted,
        "p_signflip": comparison.p_signflip,
        "ratio_trimmed": ratio(comparison.trimmed.mean) if comparison.trimmed.n else None,
        "sd_restart": comparison.sd_restart,
        "sd_within": comparison.sd_within,
        "flags": " | ".join(map(str, _flags_of(comparison))),
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


# The answer in three sentences: which way it went, the largest difference, and what it stands on.


def lead(context: Context) -> tuple[str, ...]:
    """Three sentences, two when there is no ratio to tell; none while nothing was compared."""
    if not context.primary:
        return ()
    measured = [comparison for comparison in context.primary if comparison.estimate.n and not rate_fixed(comparison)]
    largest = (_largest(context, measured),) if measured else ()
    return (_direction(context), *largest, _basis(context))


def _direction(context: Context) -> str:
    """`Of 8 comparisons with mysql:5.7: 5 slower, 2 as fast within ±1%, 1 undecided`."""
    baseline = context.labels[context.analysis.baseline]
    if len(context.primary) == 1:
        (only,) = context.primary
        return f"{only.verdict.sentence.partition('. ')[0].rstrip('.')}."
    counts = counted(context.primary)
    margin = percent_text(context.study.equivalence)
    words: dict[str, str] = {
        Tone.FASTER: "faster",
        Tone.SLOWER: "slower",
        Tone.EQUAL: f"as fast within ±{margin}",
        Tone.OPEN: "undecided",
        Word.RATE_FIXED: "at a fixed rate",
    }
    parts = [f"{counts[kind]} {text}" for kind, text in words.items() if counts[kind]]
    return f"Of {len(context.primary)} comparisons with {baseline}: {', '.join(parts)}."


def _largest(context: Context, measured: Sequence[Comparison]) -> str:
    """The interaction that the epochs tell best, where a study has one; else the largest difference."""
    found = _interaction(context)
    if found:
        return found
    claimed = [c for c in measured if tone_of(c) in (Tone.FASTER, Tone.SLOWER)]
    chosen = max(claimed or measured, key=lambda comparison: abs(comparison.estimate.mean))
    estimate = chosen.estimate
    ratio = numbers.ratio(estimate.mean, estimate.interval.half_width)
    interval = numbers.interval(estimate.interval) or "no interval yet"
    what = "The largest difference" if len(context.primary) > 1 else "The ratio"
    where = f"{context.labels[chosen.contender]} in {cell_text(chosen)}"
    certainty = "" if claimed or len(context.primary) == 1 else ", which may be chance"
    return f"{what} is that of {where}: {ratio} the throughput ({interval}){certainty}."


def _interaction(context: Context) -> str:
    """`utf8mb4_bin costs 38% at mysql:5.7 and 4% at mysql:8.0 (oltp_read_only · 4 threads).`; empty without one."""
    design = context.study.design
    told = interactions(context.analysis, design) if design else ()
    clear = [each for each in told if each.at_base and each.at_other and excludes_zero(each.estimate.interval)]
    if not clear:
        return ""
    best = max(clear, key=_distinctness)
    assert best.at_base
    assert best.at_other
    cell = next(c for c in context.primary if c.cell == best.cell)
    ratio = numbers.ratio(best.estimate.mean, best.estimate.interval.half_width)
    first, second = _cost(best.at_base), _cost(best.at_other)
    verb = first.partition(" ")[0]
    return (
        f"{best.level} over {best.over} {first} at {best.other_base} and {second.removeprefix(f'{verb} ')} at "
        f"{best.other_level}, {ratio} between the two ({cell_text(cell)}; the clearest interaction)."
    )


def _distinctness(interaction: Interaction) -> float:
    """How many half-widths it lies from nothing."""
    return abs(interaction.estimate.mean) / max(interaction.estimate.interval.half_width or math.inf, 1e-9)


def _cost(effect: Estimate) -> str:
    percent = math.expm1(effect.mean) * 100
    digits = numbers.percent_decimals(effect.mean, effect.interval.half_width)
    text = f"{abs(percent):.{digits}f}%"
    if float(text[:-1]) == 0:
        return "changes nothing"
    return f"{'gains' if percent > 0 else 'costs'} {text}"


def _basis(context: Context) -> str:
    """How many restarts, how noisy, and whether a control held."""
    counts = sorted({comparison.estimate.n for comparison in context.primary})
    restarts = numbers.epochs(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]} restarts"
    spreads = [_spread(comparison) for comparison in context.primary]
    known = sorted(spread for spread in spreads if spread is not None)
    noise = f", in which a ratio moved by {percent_text(known[len(known) // 2])} from one to the next" if known else ""
    trusted = {True: "; the control, a second baseline, holds 1", False: "; the control does NOT hold 1", None: ""}
    return f"This rests on {restarts} of every server{noise}{trusted[context.analysis.trusted]}."


def _spread(comparison: Comparison) -> float | None:
    values = [point.value for point in comparison.points if math.isfinite(point.value)]
    if len(values) < 2:
        return None
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
