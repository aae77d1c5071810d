"""The answer in three sentences: which way it went, the largest difference, and what it stands on."""

import math
from collections.abc import Sequence

from bakeoff.report import numbers
from bakeoff.report.answers import cell_text, counted, rate_fixed, tone_of
from bakeoff.report.context import Context
from bakeoff.report.view import Tone
from bakeoff.stats.effects import Interaction, interactions
from bakeoff.stats.interval import excludes_zero
from bakeoff.stats.model import Comparison, Estimate, Word
from bakeoff.stats.wording import percent_text


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
