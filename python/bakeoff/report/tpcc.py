"""TPC-C's own figures: tpmC, the standard's constraints, response times by transaction (docs/tpcc.md)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bakeoff.report.context import Context
from bakeoff.report.view import Row, Table, Value
from bakeoff.results.epoch import EpochData
from bakeoff.stats.recount import CrossCheck, cross_checks
from bakeoff.stats.tpcc import Judgement, TpccSummary, tpcc_summaries
from bakeoff.units import format_ns, format_rate

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


def _cell(cell: str) -> str:
    _, _, threads = cell.rpartition("/")
    return f"{threads} threads"
