"""What a study adds to a report: published ratios beside measured ones, effects and interactions, all pairs of arms."""

import math
from collections.abc import Sequence

from bakeoff.report import numbers
from bakeoff.report.answers import threads_text
from bakeoff.report.context import Context
from bakeoff.report.view import Row, Table, Value
from bakeoff.spec.design import Design
from bakeoff.stats.contrasts import contrast, epoch_values
from bakeoff.stats.effects import Interaction, interactions, main_effects
from bakeoff.stats.model import Estimate
from bakeoff.stats.published import published_ratios
from bakeoff.units import format_rate

PAIRS_ARMS = (3, 12)
"""Below three arms a matrix says nothing more than the verdict; above twelve it cannot be read."""

PAIRS_CELLS = 12


def published_table(context: Context) -> Table:
    """Published ratio, measured ratio with its interval, and the judgement; no rows without figures."""
    design = context.study.design
    ratios = published_ratios(context.analysis, design) if design else ()
    rows = tuple(
        Row(
            group=_cell(context, each.cell),
            values=(
                Value(text=_pair_text(design, each.factor, each.numerator, each.denominator)),
                Value(text=numbers.ratio(each.published)),
                _measured(each.measured),
                Value(text=each.judgement.value, sub="size too" if each.size_too else ""),
            ),
        )
        for each in ratios
        if design
    )
    source = design.published.source if design and design.published else ""
    return Table(
        id="published",
        group_title="cell",
        columns=("ratio", "published", "measured", "judgement"),
        rows=rows,
        note=(
            f"Published: {source}; without intervals and from another machine, so only the order is judged: it "
            "agrees when the whole measured interval is on the published side of 1. Published ratios within 3% of 1 "
            "are taken for equal."
            if source
            else ""
        ),
    )


def effects_table(context: Context) -> Table:
    """Main effects of every factor in every cell; no rows below two factors."""
    design = context.study.design
    found = main_effects(context.analysis, design) if design else ()
    rows = tuple(
        Row(
            group=_cell(context, each.cell),
            values=(
                Value(text=each.factor),
                Value(text=f"{each.level} over {each.over}"),
                _measured(each.estimate),
                Value(text=str(each.combinations)),
            ),
        )
        for each in found
    )
    return Table(
        id="effects",
        group_title="cell",
        columns=("factor", "levels", "ratio", "averaged over"),
        rows=rows,
        note=" ".join(
            (
                "Geometric mean over the combinations of the other factors that have both levels; exploratory.",
                *(design.fraction.sentences() if design and design.fraction else ()),
            )
        ),
    )


def interactions_table(context: Context) -> Table:
    """How an effect changes with another factor; no rows where no four corners were measured."""
    design = context.study.design
    found = interactions(context.analysis, design) if design else ()
    rows = tuple(
        Row(
            group=_cell(context, each.cell),
            values=(
                Value(text=f"{each.level} over {each.over}"),
                Value(text=_effect_at(each.other_base, each.at_base)),
                Value(text=_effect_at(each.other_level, each.at_other), sub=_mixed(each)),
                _measured(each.estimate),
            ),
        )
        for each in found
    )
    return Table(
        id="interactions",
        group_title="cell",
        columns=("effect of", "at", "and at", "ratio of the ratios"),
        rows=rows,
        note="1 means that the effect is the same at both levels; exploratory.",
    )


def _effect_at(level: str, effect: Estimate | None) -> str:
    return f"{level}: {numbers.estimate_short(effect)}" if effect else level


def _mixed(interaction: Interaction) -> str:
    """`with row_format × tls`: what a fraction cannot tell from it."""
    return "with " + ", ".join(f"{a} × {b}" for a, b in interaction.mixed) if interaction.mixed else ""


def pair_tables(context: Context) -> tuple[Table, ...]:
    """For each cell all pairs of arms in per cent, slowest first, as Perl's Benchmark::cmpthese shows them."""
    arms = [arm for arm in context.arms if arm != context.analysis.control]
    if not PAIRS_ARMS[0] <= len(arms) <= PAIRS_ARMS[1]:
        return ()
    cells = list(dict.fromkeys(comparison.cell for comparison in context.analysis.comparisons))[:PAIRS_CELLS]
    tables = (_pairs(context, cell, arms) for cell in cells)
    return tuple(table for table in tables if table.rows)


def _pairs(context: Context, cell: str, arms: Sequence[str]) -> Table:
    values = epoch_values(context.analysis)
    baseline = context.analysis.baseline

    def over(upper: str, lower: str) -> Estimate | None:
        return contrast(values, context.analysis, cell=cell, numerator=upper, denominator=lower)

    level = {arm: found.mean for arm in arms if (found := over(arm, baseline))}
    ordered = sorted(level, key=level.__getitem__)
    rows = []
    for arm in ordered:
        summary = context.summaries.get((cell, arm))
        cells = [Value(text=context.labels[arm]), Value(text=format_rate(summary.tps) if summary else "n/a")]
        for other in ordered:
            found = over(arm, other) if arm != other else None
            cells.append(Value(text=f"{math.expm1(found.mean) * 100:+.0f}%" if found else "–"))
        rows.append(Row(group=_cell(context, cell), values=tuple(cells), slot=context.slots[arm]))
    return Table(
        id=f"pairs-{cell.replace('/', '-').replace('#', '-')}",
        group_title="cell",
        columns=("arm", "events/s", *(context.labels[arm] for arm in ordered)),
        rows=tuple(rows),
    )


def _pair_text(design: Design | None, factor: str, numerator: str, denominator: str) -> str:
    """`mysql:8.0.15 over mysql:5.7.22, utf8mb4_bin`: what differs, then what the two arms have in common."""
    assert design
    upper, lower = design.levels[numerator], design.levels[denominator]
    names = [each.name for each in design.factors]
    place = names.index(factor)
    rest = [level for at, level in enumerate(upper) if at != place and len(design.factors[at].levels) > 1]
    return ", ".join([f"{upper[place]} over {lower[place]}", *rest])


def _measured(estimate: Estimate | None) -> Value:
    if estimate is None:
        return Value(text="not measured")
    half_width = estimate.interval.half_width
    return Value(
        text=numbers.ratio(estimate.mean, half_width), sub=numbers.interval(estimate.interval) or "no interval yet"
    )


def _cell(context: Context, cell: str) -> str:
    for comparison in context.analysis.comparisons:
        if comparison.cell == cell:
            return f"{comparison.workload} · {threads_text(comparison.threads)}"
    return cell
