"""What a study adds to a report: published ratios beside measured ones, effects and interactions, all pairs of arms."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bakeoff.report import numbers
from bakeoff.report.context import Context
from bakeoff.report.verdicts import cell_text, threads_text
from bakeoff.report.view import Panel, Row, Series, Table, Value
from bakeoff.results.epoch_data import EpochData
from bakeoff.spec.study import Design
from bakeoff.stats.effects import Interaction, contrast, epoch_values, interactions, main_effects
from bakeoff.stats.model import Estimate
from bakeoff.stats.published import SETS, median_ratios, published_ratios
from bakeoff.stats.scaling import EPOCHS_MIN_BOOTSTRAP, LACK_OF_FIT_P, Band, ScalingFit, fit_scaling, ladders
from bakeoff.stats.tpcc import CrossCheck, Judgement, TpccSummary, cross_checks, tpcc_summaries
from bakeoff.units import format_ns, format_rate

PAIRS_ARMS = (3, 12)
"""Below three arms a matrix says nothing more than the verdict; above twelve it cannot be read."""

PAIRS_CELLS = 12


def published_table(context: Context) -> Table:
    """Published ratio, measured ratio with its interval, and the judgement; no rows without figures."""
    design = context.study.design
    ratios = published_ratios(context.analysis, design) if design else ()
    rows = tuple(
        Row(
            group=_study_cell(context, each.cell),
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
            group=_study_cell(context, each.cell),
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
            group=_study_cell(context, each.cell),
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
        rows.append(Row(group=_study_cell(context, cell), values=tuple(cells), slot=context.slots[arm]))
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


def _study_cell(context: Context, cell: str) -> str:
    for comparison in context.analysis.comparisons:
        if comparison.cell == cell:
            return f"{comparison.workload} · {threads_text(comparison.threads)}"
    return cell


# The publication's way beside ours: the median of three sets, and how far it would have moved with other sets.

_SCRIPTS = ("tpcc",)


def sets_table(context: Context) -> Table:
    """Median of three sets against median of three sets, for each comparison of TPC-C; no rows below three epochs."""
    scripts = {cell.name: cell.script for cell in context.plan.cells} if context.plan else {}
    rows = []
    for comparison in context.primary:
        if scripts.get(comparison.cell) not in _SCRIPTS:
            continue
        ratios = median_ratios(
            context.epoch_rates.get((comparison.cell, comparison.contender), {}),
            context.epoch_rates.get((comparison.cell, comparison.baseline), {}),
        )
        if not ratios:
            continue
        estimate = comparison.estimate
        rows.append(
            Row(
                group=cell_text(comparison),
                values=(
                    Value(text=context.labels[comparison.contender]),
                    Value(text=numbers.ratio(math.log(ratios[0]))),
                    Value(
                        text=f"{min(ratios):.2f} to {max(ratios):.2f}",
                        sub=f"{len(ratios)} choices, median {statistics.median(ratios):.2f}",
                    ),
                    Value(
                        text=numbers.ratio(estimate.mean, estimate.interval.half_width),
                        sub=numbers.interval(estimate.interval) or "no interval yet",
                    ),
                ),
                slot=context.slots[comparison.contender],
            )
        )
    return Table(
        id="sets",
        group_title="cell",
        columns=("arm", f"first {SETS} sets", f"any {SETS} sets", "ours"),
        rows=tuple(rows),
        note=(
            f"As published: a ramp-up, {SETS} sets, the median of each arm. A set here is an epoch: a start, the "
            "warm-up at the most connections, then every number of connections once. Any: every choice of that many "
            "of the epochs measured, to show how much luck a single choice holds. Ours: all epochs, with the interval."
        ),
    )


# The scaling law of every arm over the ladder of threads: a table and charts of the law beside what was measured.

_NOTE = (
    "X(N) = λN / (1 + σ(N − 1) + κN(N − 1)), fitted to ln X: λ is the throughput of one thread, σ the share of the "
    "work that waits for others (contention), κ what each pair of threads costs each other (crosstalk). A summary of "
    "the measured rungs: arms are compared by their ratios on each of them, and nothing is told beyond the last. "
    "Most at: threads at which the law is greatest. NO: the points lie off the law by more than the epochs scatter; "
    "read the points. "
)


def scaling(context: Context) -> tuple[Table, tuple[Panel, ...]]:
    """Fits of all arms and workloads that have four rungs or more; no rows without."""
    fits = _fits(context)
    rows = tuple(
        Row(
            group=workload,
            values=(
                Value(text=context.labels[arm]),
                _value(fit.rate, format_rate),
                _value(fit.contention, _share),
                _value(fit.crosstalk, _share),
                _value(fit.peak_threads, lambda n: f"{n:.0f}") if fit.peak_threads else _beyond(fit),
                Value(text=_judged(fit)),
            ),
            slot=context.slots[arm],
        )
        for (workload, arm), fit in fits.items()
    )
    few = any(fit.epochs < EPOCHS_MIN_BOOTSTRAP for fit in fits.values())
    note = _NOTE + (
        f"Below {EPOCHS_MIN_BOOTSTRAP} epochs there are no intervals."
        if few
        else "Intervals: whole epochs drawn anew (cluster bootstrap)."
    )
    table = Table(
        id="scaling",
        group_title="workload",
        columns=("arm", "λ, events/s", "σ", "κ", "most at", "fits"),
        rows=rows,
        note=note if rows else "",
    )
    workloads = dict.fromkeys(workload for workload, _ in fits)
    return table, tuple(_panel(context, workload, place, fits) for place, workload in enumerate(workloads))


def _fits(context: Context) -> dict[tuple[str, str], ScalingFit]:
    cells = tuple(dict.fromkeys((c.cell, c.workload, c.threads) for c in context.primary))
    found = {}
    for arm in context.arms:
        if arm == context.analysis.control:
            continue
        for workload, rates in ladders(cells, context.epoch_rates, arm).items():
            if fit := fit_scaling(rates, seed=context.study.seed):
                found[workload, arm] = fit
    order = list(dict.fromkeys(workload for _, workload, _ in cells))
    return dict(sorted(found.items(), key=lambda item: order.index(item[0][0])))


def _panel(context: Context, workload: str, place: int, fits: dict[tuple[str, str], ScalingFit]) -> Panel:
    series: list[Series] = []
    for (name, arm), fit in fits.items():
        if name != workload:
            continue
        label, key = context.labels[arm], f"arm-{context.slots[arm]}"
        bands = [band for _, band in fit.curve if band.low is not None and band.high is not None]
        series.append(
            Series(
                name=label,
                key=key,
                x=numbers.rounded(n for n, _ in fit.curve),
                y=numbers.rounded(band.value for _, band in fit.curve),
                low=numbers.rounded(band.low or 0.0 for band in bands) if len(bands) == len(fit.curve) else (),
                high=numbers.rounded(band.high or 0.0 for band in bands) if len(bands) == len(fit.curve) else (),
            )
        )
        series.append(
            Series(
                name=label,
                key=key,
                x=tuple(map(float, fit.threads)),
                y=numbers.rounded(fit.points),
                tips=tuple(
                    f"{label}, {threads_text(n)}: {format_rate(x)} events/s measured"
                    for n, x in zip(fit.threads, fit.points, strict=True)
                ),
                line=False,
            )
        )
    return Panel(
        id=f"scaling-{place}",
        title=workload,
        x_title="threads",
        y_title="events per second: measured (points), by the law (lines)",
        mark="line",
        series=tuple(series),
        x_kind="threads",
    )


def _judged(fit: ScalingFit) -> str:
    if fit.lack_of_fit_p is None:
        return "cannot tell"
    p = f"p = {fit.lack_of_fit_p:.2g}" if fit.lack_of_fit_p >= 0.001 else "p < 0.001"
    return f"yes ({p})" if fit.lack_of_fit_p >= LACK_OF_FIT_P else f"NO ({p})"


def _beyond(fit: ScalingFit) -> Value:
    return Value(text=f"> {fit.threads[-1]}")


def _value(band: Band, form: numbers.Form) -> Value:
    sub = f"{form(band.low)} to {form(band.high)}" if band.low is not None and band.high is not None else ""
    return Value(text=form(band.value), sub=sub)


def _share(value: float) -> str:
    return "0" if value < 1e-7 else f"{value:.2g}"


# TPC-C's own figures: tpmC, the standard's constraints, response times by transaction (docs/tpcc.md).

_SCRIPT = "tpcc"
_ON = ("on", "true", "1")
_SHOWN = ("0.5", "0.9", "0.95", "0.99")


def tpcc_tables(context: Context) -> tuple[Table, Table]:
    """TpmC and constraints for each cell and arm, and response times by type; without rows when there was no TPC-C."""
    workloads = [workload for workload in context.study.workloads if workload.script == _SCRIPT]
    if not workloads:
        return _results(context, (), {}), _types(context, ())
    epochs = [context.run.load_epoch(epoch) for epoch in context.valid_epochs]
    summaries = _summaries(dict(workloads[0].options), epochs)
    return _results(context, summaries, cross_checks(epochs)), _types(context, summaries)


def _summaries(options: dict[str, Any], epochs: Sequence[EpochData]) -> tuple[TpccSummary, ...]:
    scale = int(options.get("warehouses") or options.get("scale") or 10)
    sets = int(options.get("tables") or 1)
    paced = any(str(options.get(name, "off")).lower() in _ON for name in ("keying_time", "think_time"))
    return tpcc_summaries(epochs, warehouses=scale * sets, paced=paced)


def _results(
    context: Context, summaries: tuple[TpccSummary, ...], checks: Mapping[tuple[str, str], Sequence[CrossCheck]]
) -> Table:
    rows = [
        Row(
            group=_tpcc_cell(summary.cell),
            values=(
                Value(text=context.labels[summary.arm]),
                Value(
                    text=format_rate(summary.tpmc),
                    sub=f"{format_rate(summary.tpmc_low)} to {format_rate(summary.tpmc_high)}",
                ),
                Value(text=format_rate(summary.tpm_total)),
                Value(text=f"{summary.rollback_share:.2%}", sub=summary.rollback.value),
                Value(text=_worst(kind.response for kind in summary.types)),
                Value(text=_worst(kind.mix for kind in summary.types)),
                Value(text=str(sum(kind.retried for kind in summary.types))),
                _recounted(checks.get((summary.cell, summary.arm), ())),
                Value(text="" if summary.efficiency is None else f"{summary.efficiency:.1%}"),
            ),
            slot=context.slots[summary.arm],
        )
        for summary in summaries
    ]
    return Table(
        id="tpcc",
        group_title="cell",
        columns=(
            "arm",
            "tpmC",
            "tpmTotal",
            "rollbacks",
            "response times",
            "mix",
            "retried",
            "server's count",
            "efficiency",
        ),
        rows=tuple(rows),
        note=(
            "tpmC: New-Orders a minute with a 95% interval over epochs; not an audited TPC-C result. Efficiency: of "
            "12.86 a warehouse, told with keying and thinking times only. Server's count: growth of sum(d_next_o_id) "
            "and Com_commit over each cell, never less than what was counted; below it the share that the server did "
            "and nobody counted (guards). All twelve consistency conditions held after loading and after every epoch."
        ),
    )


def _types(context: Context, summaries: tuple[TpccSummary, ...]) -> Table:
    rows = [
        Row(
            group=f"{_tpcc_cell(summary.cell)} · {context.labels[summary.arm]}",
            values=(
                Value(text=kind.name.replace("_", "-").title()),
                Value(text=f"{kind.share:.1%}"),
                *(Value(text=format_ns(kind.quantiles_ns[quantile])) for quantile in _SHOWN),
                Value(text=str(kind.retried)),
            ),
            slot=context.slots[summary.arm],
        )
        for summary in summaries
        for kind in summary.types
    ]
    return Table(
        id="tpcc-types",
        group_title="cell and arm",
        columns=("transaction", "share", "p50", "p90", "p95", "p99", "retried"),
        rows=tuple(rows),
    )


def _recounted(checks: Sequence[CrossCheck]) -> Value:
    """Whether the server's own sums hold what was counted, in every epoch."""
    if not checks:
        return Value(text="not asked")
    disagreeing = sum(not check.agrees for check in checks)
    if disagreeing:
        return Value(text=f"LESS in {disagreeing} of {len(checks)} epochs")
    return Value(text="agrees", sub=f"{max(check.uncounted_share for check in checks):.1%} more at most")


def _worst(judgements: Iterable[Judgement]) -> str:
    ranked = (Judgement.NOT_OK, Judgement.TOO_FEW, Judgement.OK)
    return min(judgements, key=ranked.index).value


def _tpcc_cell(cell: str) -> str:
    _, _, threads = cell.rpartition("/")
    return f"{threads} threads"
