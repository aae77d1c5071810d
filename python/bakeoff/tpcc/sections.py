"""The section "TPC-C": tpmC, the standard's constraints, response times."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from bakeoff.report import numbers
from bakeoff.report.context import Context, Place, SectionSource
from bakeoff.report.view import Column, Section, Table, Value
from bakeoff.tpcc.results import Judgement, TpccSummary, TypeSummary, tpcc_summaries
from bakeoff.tpcc.workload import BUNDLED
from bakeoff.units import format_ns, format_rate

_QUANTILES = ("0.5", "0.9", "0.95", "0.99")


def _summaries(context: Context) -> Sequence[TpccSummary]:
    if all(workload.script != BUNDLED for workload in context.study.workloads):
        return ()
    return tpcc_summaries(context.run.load_epoch(epoch) for epoch in context.valid_epochs)


def _section(context: Context) -> Section | None:
    summaries = context.once(_summaries)
    if not summaries:
        return None
    return Section.of(
        "TPC-C",
        _tpmc_table(context, summaries),
        _transactions_table(context, summaries),
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


def _tpmc_table(context: Context, summaries: Sequence[TpccSummary]) -> Table:
    return Table.of(
        "tpcc",
        summaries,
        Column("arm", lambda each: context.labels[each.arm]),
        Column("tpmC", _tpmc),
        Column("tpmTotal", lambda each: format_rate(each.tpm_total)),
        Column("rollbacks", lambda each: Value(text=f"{each.rollback_share:.2%}", sub=each.rollback.value)),
        Column("response times", lambda each: _worst(kind.response for kind in each.types)),
        Column("mix", lambda each: _worst(kind.mix for kind in each.types)),
        Column("skipped", lambda each: each.skipped.value),
        Column("retried", lambda each: sum(kind.retried for kind in each.types)),
        group=lambda each: _cell(context, each, summaries),
        slot=lambda each: context.slots[each.arm],
        group_title="cell",
        note="tpmC: New-Orders a minute with a 95% interval over epochs; not an audited TPC-C result. All twelve "
        "consistency conditions held after loading and after every epoch, and every server counted at least as many "
        "orders and commits.",
    )


def _transactions_table(context: Context, summaries: Sequence[TpccSummary]) -> Table:
    return Table.of(
        "tpcc-types",
        ((summary, kind) for summary in summaries for kind in summary.types),
        Column("transaction", lambda row: row[1].name.replace("_", "-").title()),
        Column("share", lambda row: f"{row[1].share:.1%}"),
        *(Column(f"p{float(q) * 100:g}", partial(_quantile, q)) for q in _QUANTILES),
        Column("retried", lambda row: row[1].retried),
        group=lambda row: f"{_cell(context, row[0], summaries)} · {context.labels[row[0].arm]}",
        slot=lambda row: context.slots[row[0].arm],
        group_title="cell and arm",
    )


def _quantile(name: str, row: tuple[TpccSummary, TypeSummary]) -> str:
    return format_ns(row[1].quantiles_ns[name]) if row[1].count else "n/a"


def _worst(judgements: Iterable[Judgement]) -> str:
    ranked = (Judgement.NOT_OK, Judgement.TOO_FEW, Judgement.OK)
    return min(judgements, key=ranked.index).value


def _cell(context: Context, summary: TpccSummary, summaries: Sequence[TpccSummary]) -> str:
    if len({each.cell.rpartition("/")[0] for each in summaries}) > 1:
        return context.cell_title(summary.cell)
    return numbers.threads(int(summary.cell.rpartition("/")[2]))


SECTIONS = (SectionSource(Place.STUDY, _section, key_figures=_key_figures),)
