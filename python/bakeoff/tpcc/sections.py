"""The section "TPC-C": tpmC, the standard's constraints, response times, and the usual three sets."""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence

from bakeoff.report import numbers
from bakeoff.report.context import Context, Place, SectionSource
from bakeoff.report.studies import measured
from bakeoff.report.view import Row, Section, Table, Value
from bakeoff.results.epoch_data import EpochData
from bakeoff.stats.effects import SETS, median_ratios
from bakeoff.tpcc.results import CrossCheck, Judgement, TpccSummary, cross_checks, tpcc_summaries
from bakeoff.units import format_ns, format_rate

_TPCC = "tpcc"
_QUANTILES = ("0.5", "0.9", "0.95", "0.99")


def _epochs(context: Context) -> list[EpochData]:
    if all(workload.script != _TPCC for workload in context.study.workloads):
        return []
    return [context.run.load_epoch(epoch) for epoch in context.valid_epochs]


def _summaries(context: Context) -> Sequence[TpccSummary]:
    epochs = context.once(_epochs)
    return tpcc_summaries(epochs) if epochs else ()


def _section(context: Context) -> Section | None:
    summaries = context.once(_summaries)
    if not summaries:
        return None
    return Section.of(
        "TPC-C",
        _tpmc_table(context, summaries, cross_checks(context.once(_epochs))),
        _transactions_table(context, summaries),
        Section.of("The published way beside ours", _sets_table(context)),
        anchor="tpcc",
    )


def _key_figures(context: Context) -> Iterator[str]:
    summaries = context.once(_summaries)
    for summary in summaries:
        tpmc = _tpmc(summary)
        interval = f" ({tpmc.sub})" if tpmc.sub else ""
        yield f"tpmC, {_cell(context, summary, summaries)}, {context.labels[summary.arm]}: {tpmc.text}{interval}"


def _tpmc(summary: TpccSummary) -> Value:
    interval = f"{format_rate(summary.tpmc_low)} to {format_rate(summary.tpmc_high)}"
    return Value(text=format_rate(summary.tpmc), sub=interval if summary.tpmc_low < summary.tpmc_high else "")


def _tpmc_table(
    context: Context, summaries: Sequence[TpccSummary], checks: Mapping[tuple[str, str], Sequence[CrossCheck]]
) -> Table:
    rows = tuple(
        Row.of(
            context.labels[summary.arm],
            _tpmc(summary),
            format_rate(summary.tpm_total),
            Value(text=f"{summary.rollback_share:.2%}", sub=summary.rollback.value),
            _worst(kind.response for kind in summary.types),
            _worst(kind.mix for kind in summary.types),
            summary.skipped.value,
            str(sum(kind.retried for kind in summary.types)),
            _server_count(checks.get((summary.cell, summary.arm), ())),
            group=_cell(context, summary, summaries),
            slot=context.slots[summary.arm],
        )
        for summary in summaries
    )
    return Table(
        id="tpcc",
        group_title="cell",
        columns=(
            "arm", "tpmC", "tpmTotal", "rollbacks", "response times", "mix", "skipped", "retried", "server's count",
        ),
        rows=rows,
        note=(
            "tpmC: New-Orders a minute with a 95% interval over epochs; not an audited TPC-C result. Server's count: "
            "growth of sum(d_next_o_id) and Com_commit over each cell, never less than what was counted; below it the "
            "share that the server did and nobody counted (guards, ends of slices). All twelve consistency conditions "
            "held after loading and after every epoch."
        ),
    )  # fmt: skip


def _transactions_table(context: Context, summaries: Sequence[TpccSummary]) -> Table:
    rows = tuple(
        Row.of(
            kind.name.replace("_", "-").title(),
            f"{kind.share:.1%}",
            *(format_ns(kind.quantiles_ns[q]) if kind.count else "n/a" for q in _QUANTILES),
            str(kind.retried),
            group=f"{_cell(context, summary, summaries)} · {context.labels[summary.arm]}",
            slot=context.slots[summary.arm],
        )
        for summary in summaries
        for kind in summary.types
    )
    return Table(
        id="tpcc-types",
        group_title="cell and arm",
        columns=("transaction", "share", "p50", "p90", "p95", "p99", "retried"),
        rows=rows,
    )


def _server_count(checks: Sequence[CrossCheck]) -> Value:
    if not checks:
        return Value(text="not asked")
    disagreeing = sum(not check.agrees for check in checks)
    if disagreeing:
        return Value(text=f"LESS in {disagreeing} of {len(checks)} epochs")
    return Value(text="agrees", sub=f"{max(check.uncounted_share for check in checks):.1%} more at most")


def _worst(judgements: Iterable[Judgement]) -> str:
    ranked = (Judgement.NOT_OK, Judgement.TOO_FEW, Judgement.OK)
    return min(judgements, key=ranked.index).value


def _cell(context: Context, summary: TpccSummary, summaries: Sequence[TpccSummary]) -> str:
    if len({each.cell.rpartition("/")[0] for each in summaries}) > 1:
        return context.cell_title(summary.cell)
    return numbers.threads(int(summary.cell.rpartition("/")[2]))


def _sets_table(context: Context) -> Table:
    """Show the median of three sets as publications do, its spread over other sets, and our ratio."""
    scripts = {cell.name: cell.script for cell in context.cells_planned}
    rows = []
    for comparison in context.primary:
        contender, baseline = (
            context.epoch_rates.get((comparison.cell, arm), {}) for arm in (comparison.contender, comparison.baseline)
        )
        ratios = median_ratios(contender, baseline)
        if not ratios or scripts.get(comparison.cell) != _TPCC:
            continue
        count = math.comb(len(contender.keys() & baseline.keys()), SETS)
        choices = f"{count} choices" if len(ratios) == count else f"{len(ratios):,} of the {count:,} choices"
        rows.append(
            Row.of(
                context.labels[comparison.contender],
                numbers.ratio(math.log(ratios[0])),
                Value(
                    text=f"{min(ratios):.2f} to {max(ratios):.2f}",
                    sub=f"{choices}, median {statistics.median(ratios):.2f}",
                ),
                measured(comparison.estimate),
                group=context.cell_title(comparison.cell),
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
            "of the epochs measured (of very many a part, drawn), to show how much luck a single choice holds. Ours: "
            "all epochs, with the interval."
        ),
    )


SECTIONS = (SectionSource(Place.STUDY, _section, key_figures=_key_figures),)
