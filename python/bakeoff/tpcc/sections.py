"""The section "TPC-C": tpmC, the standard's constraints, response times, and the usual three sets."""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations

from bakeoff.report import numbers
from bakeoff.report.context import Context, Place, SectionSource
from bakeoff.report.studies import measured
from bakeoff.report.view import Column, Section, Table, Value
from bakeoff.results.epoch_data import EpochData
from bakeoff.tpcc.results import CrossCheck, Judgement, TpccSummary, TypeSummary, cross_checks, tpcc_summaries
from bakeoff.units import format_ns, format_rate

SETS = 3  # how many sets of measurements a publication usually has
_CHOSEN_MAX = 32  # epochs from which sets are chosen: 4960 choices

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
        Column("server's count", lambda each: _server_count(checks.get((each.cell, each.arm), ()))),
        group=lambda each: _cell(context, each, summaries),
        slot=lambda each: context.slots[each.arm],
        group_title="cell",
        note="tpmC: New-Orders a minute with a 95% interval over epochs; not an audited TPC-C result. Server's count: "
        "growth of sum(d_next_o_id) and Com_commit over each cell, never less than what was counted; below it the "
        "share that the server did and nobody counted (guards, ends of slices). All twelve consistency conditions "
        "held after loading and after every epoch.",
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
    found = [
        (each, median_ratios(_rates(context, each.cell, each.contender), _rates(context, each.cell, each.baseline)))
        for each in context.primary
        if scripts.get(each.cell) == _TPCC
    ]
    return Table.of(
        "sets",
        (row for row in found if row[1]),
        Column("arm", lambda row: context.labels[row[0].contender]),
        Column(f"first {SETS} sets", lambda row: numbers.ratio(math.log(row[1][0]))),
        Column(
            f"any {SETS} sets",
            lambda row: Value(
                text=f"{min(row[1]):.2f} to {max(row[1]):.2f}",
                sub=f"{len(row[1]):,} choices, median {statistics.median(row[1]):.2f}",
            ),
        ),
        Column("ours", lambda row: measured(row[0].estimate)),
        group=lambda row: context.cell_title(row[0].cell),
        slot=lambda row: context.slots[row[0].contender],
        group_title="cell",
        note=f"As published: a ramp-up, {SETS} sets, the median of each arm. A set here is an epoch: a start, the "
        "warm-up at the most connections, then every number of connections once. Any: every choice of that many "
        "of the epochs measured (of the first 32), to show how much luck a single choice holds. Ours: "
        "all epochs, with the interval.",
    )


def _rates(context: Context, cell: str, arm: str) -> Mapping[int, float]:
    return context.epoch_rates.get((cell, arm), {})


def median_ratios(contender: Mapping[int, float], baseline: Mapping[int, float]) -> tuple[float, ...]:
    """Return ratios of medians, as published, for every choice of three epochs; the first three come first."""
    both = sorted(contender.keys() & baseline.keys())[:_CHOSEN_MAX]

    def middle(rates: Mapping[int, float], chosen: tuple[int, ...]) -> float:
        return statistics.median(rates[epoch] for epoch in chosen)

    return tuple(middle(contender, chosen) / middle(baseline, chosen) for chosen in combinations(both, SETS))


SECTIONS = (SectionSource(Place.STUDY, _section, key_figures=_key_figures),)
