"""TPC-C's own figures: tpmC, the standard's constraints, response times by transaction (docs/tpcc.md)."""

from collections.abc import Iterable

from bakeoff.report.context import Context
from bakeoff.report.view import Row, Table, Value
from bakeoff.stats.tpcc import Judgement, TpccSummary, tpcc_summaries
from bakeoff.units import format_ns, format_rate

_SCRIPT = "tpcc"
_SHOWN = ("0.5", "0.9", "0.95", "0.99")


def tpcc_tables(context: Context) -> tuple[Table, Table]:
    """TpmC and constraints for each cell and arm, and response times by type; without rows when there was no TPC-C."""
    summaries = _summaries(context)
    return _results(context, summaries), _types(context, summaries)


def _summaries(context: Context) -> tuple[TpccSummary, ...]:
    workloads = [workload for workload in context.study.workloads if workload.script == _SCRIPT]
    if not workloads:
        return ()
    options = dict(workloads[0].options)
    scale = int(options.get("warehouses") or options.get("scale") or 10)
    sets = int(options.get("tables") or 1)
    epochs = [context.run.load_epoch(epoch) for epoch in context.valid_epochs]
    return tpcc_summaries(epochs, warehouses=scale * sets)


def _results(context: Context, summaries: tuple[TpccSummary, ...]) -> Table:
    rows = [
        Row(
            group=_cell(summary.cell),
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
            ),
            slot=context.slots[summary.arm],
        )
        for summary in summaries
    ]
    return Table(
        id="tpcc",
        group_title="cell",
        columns=("arm", "tpmC", "tpmTotal", "rollbacks", "response times", "mix", "retried"),
        rows=tuple(rows),
        note=(
            "tpmC: New-Orders a minute with a 95% interval over epochs, without keying and thinking times; not an "
            "audited TPC-C result. All twelve consistency conditions held after loading and after every epoch."
        ),
    )


def _types(context: Context, summaries: tuple[TpccSummary, ...]) -> Table:
    rows = [
        Row(
            group=f"{_cell(summary.cell)} · {context.labels[summary.arm]}",
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


def _worst(judgements: Iterable[Judgement]) -> str:
    ranked = (Judgement.NOT_OK, Judgement.TOO_FEW, Judgement.OK)
    return min(judgements, key=ranked.index).value


def _cell(cell: str) -> str:
    _, _, threads = cell.rpartition("/")
    return f"{threads} threads"
