"""Parts of the section "Why": how plans differ, and what the servers wait for."""

from collections.abc import Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from bakeoff.explain.explained import Explained, Pair
from bakeoff.explain.statement_plans import PLANS, PLANS_DOCUMENT, CellPlans, StatementPlans
from bakeoff.explain.waits import WAITS, WAITS_DOCUMENT, CellWaits, WaitDifference, instruments_cost
from bakeoff.report import numbers
from bakeoff.report.context import Context
from bakeoff.report.view import Column, Fold, Prose, Section, Table, Value, identifier, step_rows
from bakeoff.stats.estimate import epoch_rates
from bakeoff.stats.model import Estimate
from bakeoff.units import shortened

_WAITS_SHOWN = 8  # of a cell; the rest is folded away
_PLANS_SHOWN = 20
_SQL_MAX = 300
_VALUE_MAX = 60


# ---- plans -----------------------------------------------------------------------------------------------------------


def plans_section(context: Context) -> Section | None:
    explained = context.once(Explained)
    epochs = explained.recorded(PLANS, PLANS_DOCUMENT, dict[str, CellPlans])
    by_cell = [cells for by_arm in epochs.values() for cells in by_arm.values()]
    parts: list[Section | Prose | None] = [*explained.notes(PLANS)]
    for cell, baseline, contender in explained.pairs:
        found = [cells[cell] for cells in by_cell if cell in cells]
        arms = {baseline, contender}
        known = [each for each in found if all(arms <= own.plans.keys() for own in each.statements.values())]
        if not known:
            continue
        recorded = known[-1].statements.values()
        statements = [each for each in recorded if each.plans[baseline] and each.plans[contender]]
        left = len(recorded) - len(statements)
        unexplained = f" One server cannot explain {numbers.counted(left, 'statement')}." if left else ""
        other = [each for each in statements if _differ(each, baseline, contender)]
        where = _where(context, cell, baseline, contender)
        if not other:
            same = f" {numbers.counted(len(statements), 'statement')}, no plan differs." if statements else ""
            if same or unexplained:
                parts.append(Prose(text=f"{where}:{same}{unexplained}"))
            continue
        name = identifier("plan", cell, baseline, contender)
        tables = (
            _plan_parts(context, f"{name}-{at}", each, baseline, contender)
            for at, each in enumerate(other[:_PLANS_SHOWN])
        )
        said = f"{len(other)} of {len(statements)} statements have another plan.{unexplained}"
        parts.append(Section.of(where, Prose(text=said), *chain(*tables), in_terminal=True))
    differ = any(isinstance(part, Section) for part in parts)
    return Section.of("Plans", *parts, anchor="why-plans", in_terminal=differ)


def _differ(plans: StatementPlans, baseline: str, contender: str) -> bool:
    """Whether two arms have different plans. `differs` is relative to the first arm that has a plan."""
    others = (baseline in plans.differs, contender in plans.differs)
    return others[0] != others[1] or (all(others) and plans.plans[baseline] != plans.plans[contender])


def _plan_parts(
    context: Context, name: str, plans: StatementPlans, baseline: str, contender: str
) -> list[Table | Fold]:
    arms = baseline, contender
    rows = step_rows(plans.plans.get(arm, ()) for arm in arms)
    if plans.rows_read:
        rows.append(("rows read", *(numbers.count(plans.rows_read.get(arm, 0.0)) for arm in arms)))
    columns = ("step", *(context.labels[arm] for arm in arms))
    done = Table.listed(f"{name}-run", columns, step_rows(plans.analyzed.get(arm, ()) for arm in arms))
    return [
        Table.listed(name, columns, rows, note=shortened(plans.text, _SQL_MAX)),
        Fold(title="What the steps did (EXPLAIN ANALYZE)", content=done),
    ]


# ---- waits -----------------------------------------------------------------------------------------------------------


def waits_section(context: Context) -> Section | None:
    explained = context.once(Explained)
    parts = [part for pair, found in explained.waits.items() for part in _waits_of(context, found, pair)]
    epochs = explained.recorded(WAITS, WAITS_DOCUMENT, dict[str, CellWaits])
    recorded = (found for by_arm in epochs.values() for by_cell in by_arm.values() for found in by_cell.values())
    missing = dict.fromkeys(sentence for found in recorded for sentence in found.missing)
    return Section.of(
        "Waits",
        *explained.notes(WAITS),
        *parts,
        _cost_table(context) if explained.waits else None,
        Prose(text=" ".join(missing), small=True),
        anchor="why-waits",
        in_terminal=True,
    )


def _waits_of(context: Context, found: Sequence[WaitDifference], pair: Pair) -> list[Table | Fold | Prose | None]:
    where = _where(context, *pair)
    if not found:
        return [Prose(text=f"{where}: no waits.")]

    def table(name: str, waits: Sequence[WaitDifference], **fields: Any) -> Table:  # noqa: ANN401
        return Table.of(
            name,
            waits,
            Column("wait", lambda each: each.name),
            Column(context.labels[pair.baseline], lambda each: numbers.of_event(each.baseline)),
            Column(context.labels[pair.contender], lambda each: numbers.of_event(each.contender)),
            Column("difference", _difference),
            Column("ratio", lambda each: each.ratio or "–", _ratio, wide=True),
            Column("finding", _finding),
            **fields,
        )

    note = (
        f"Per event, {numbers.restarts(found[0].difference.n)} with instruments: waits of threads that serve clients, "
        "and file waits of all threads. Findings are corrected for the number of waits (Holm). Waits nest and overlap, "
        "so they do not add up to the time of an event."
    )
    name, rest = identifier("waits", *pair), found[_WAITS_SHOWN:]
    return [
        table(name, found[:_WAITS_SHOWN], group=lambda _: where, group_title="cell", note=note),
        Fold(title=f"{len(rest)} other waits of {where}", content=table(f"{name}-rest", rest, page_only=True)),
    ]


def _difference(each: WaitDifference) -> Value:
    mean, interval = each.difference.mean, each.difference.interval
    return Value(text=numbers.signed(mean, numbers.of_event), sub=numbers.signed_interval(interval, numbers.of_event))


def _finding(each: WaitDifference) -> str:
    return "" if not each.differs else "longer" if each.grows else "shorter"


def _ratio(ratio: Estimate | str) -> Value:
    if isinstance(ratio, str):
        return Value(text=ratio)
    return Value(text=numbers.ratio_of(ratio), sub=numbers.interval(ratio.interval))


def _cost_table(context: Context) -> Table:
    """Throughput with the instruments relative to the valid epochs without."""
    counted, explaining = context.epoch_rates, epoch_rates(context.run.explaining(WAITS).slices())
    costs = {key: instruments_cost(rates, counted.get(key, {})) for key, rates in explaining.items()}
    return Table.of(
        "waits-cost",
        ((*key, cost.estimate) for key, cost in costs.items() if cost),
        Column("arm", lambda each: context.labels[each[1]]),
        Column("throughput with instruments", itemgetter(2), numbers.change_value),
        group=lambda each: context.cell_title(each[0]),
        slot=lambda each: context.slots[each[1]],
        group_title="cell",
        note="Overhead of the instruments. Epochs with instruments do not count towards the verdict.",
    )


# ---- common ----------------------------------------------------------------------------------------------------------


def _where(context: Context, cell: str, baseline: str, contender: str) -> str:
    labels = [] if baseline == context.analysis.baseline else [context.labels[baseline]]
    labels += [context.labels[contender]] if labels or len(context.analysis.contenders) > 1 else []
    return ", ".join([context.cell_title(cell), *reversed(labels)])
