"""Parts of the section "Why": which setting carries a difference, how the plans differ, what the servers wait for."""

from collections.abc import Sequence
from itertools import chain

from bakeoff.explain.explained import Explained, Pair
from bakeoff.explain.statement_plans import PLANS, PLANS_DOCUMENT, CellPlans, StatementPlans
from bakeoff.explain.waits import WAITS, WAITS_DOCUMENT, CellWaits, WaitDifference, instruments_cost
from bakeoff.report import numbers
from bakeoff.report.context import Context
from bakeoff.report.view import Fold, Prose, Row, Section, Table, Value, step_rows
from bakeoff.stats.estimate import epoch_rates
from bakeoff.stats.model import Estimate
from bakeoff.units import shortened

_WAITS_SHOWN = 8  # of a cell; the rest is folded away
_PLANS_SHOWN = 20
_SQL_MAX = 300
_VALUE_MAX = 60


# ---- plans -----------------------------------------------------------------------------------------------------------


def plans_section(context: Context) -> Section | None:
    """The statements of each cell whose plans differ, with both plans, and how many are the same or unknown."""
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
        unexplained = _unexplained(len(recorded) - len(statements))
        other = [each for each in statements if _differ(each, baseline, contender)]
        where = _where(context, cell, baseline, contender)
        if not other:
            if said := " ".join(filter(None, [_same(len(statements)), unexplained])):
                parts.append(Prose(text=f"{where}: {said}"))
            continue
        name = _id("plan", cell, baseline, contender)
        tables = [
            _plan_parts(context, f"{name}-{at}", each, baseline, contender)
            for at, each in enumerate(other[:_PLANS_SHOWN])
        ]
        parts.append(
            Section.of(
                where,
                Prose(text=f"{len(other)} of {len(statements)} statements have another plan. {unexplained}".rstrip()),
                *chain(*tables),
                in_terminal=True,
            )
        )
    differ = any(isinstance(part, Section) for part in parts)
    return Section.of("Plans", *parts, anchor="why-plans", in_terminal=differ)


def _differ(plans: StatementPlans, baseline: str, contender: str) -> bool:
    """Whether two arms have different plans. `differs` is relative to the first arm that has a plan."""
    others = (baseline in plans.differs, contender in plans.differs)
    return others[0] != others[1] or (all(others) and plans.plans[baseline] != plans.plans[contender])


def _same(count: int) -> str:
    if not count:
        return ""
    return "1 statement, the same plan." if count == 1 else f"{count} statements, all with the same plans."


def _unexplained(count: int) -> str:
    if not count:
        return ""
    statements, are = ("1 statement", "is") if count == 1 else (f"{count} statements", "are")
    return f"{statements} that one server cannot explain {are} left out."


def _plan_parts(
    context: Context, name: str, plans: StatementPlans, baseline: str, contender: str
) -> list[Table | Fold]:
    arms = baseline, contender
    rows = step_rows(plans.plans.get(arm, ()) for arm in arms)
    if plans.rows_read:
        rows.append(Row.of("rows read", *(numbers.count(plans.rows_read.get(arm, 0.0)) for arm in arms)))
    columns = ("step", *(context.labels[arm] for arm in arms))
    steps = step_rows(plans.analyzed.get(arm, ()) for arm in arms)
    done = Table(id=f"{name}-run", columns=columns, rows=tuple(steps), all_text=True)
    return [
        Table(id=name, columns=columns, rows=tuple(rows), all_text=True, note=shortened(plans.text, _SQL_MAX)),
        Fold(title="What the steps did (EXPLAIN ANALYZE)", content=done),
    ]


# ---- waits -----------------------------------------------------------------------------------------------------------


def waits_section(context: Context) -> Section | None:
    """Waits and stages that differ, in ns per event, and what the instruments cost."""
    explained = context.once(Explained)
    parts = [part for pair, found in explained.waits.items() for part in _waits_of(context, found, pair)]
    epochs = explained.recorded(WAITS, WAITS_DOCUMENT, dict[str, CellWaits])
    missing = dict.fromkeys(
        sentence
        for by_arm in epochs.values()
        for by_cell in by_arm.values()
        for found in by_cell.values()
        for sentence in found.missing
    )
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
    labels = context.labels[pair.baseline], context.labels[pair.contender]
    columns = ("wait", *labels, "difference", "ratio", "finding")
    rows = [_wait_row(each, where) for each in found]
    if not rows:
        return [Prose(text=f"{where}: no waits.")]
    note = (
        f"Per event, {numbers.restarts(found[0].difference.n)} with instruments: waits of threads that serve clients, "
        "and file waits of all threads. Findings are corrected for the number of waits (Holm). Waits nest and overlap, "
        "so they do not add up to the time of an event."
    )
    name = _id("waits", *pair)
    shown = Table(
        id=name, group_title="cell", columns=columns, rows=tuple(rows[:_WAITS_SHOWN]), note=note, wide=("ratio",)
    )
    rest = rows[_WAITS_SHOWN:]
    folded = Table(id=f"{name}-rest", columns=columns, rows=tuple(rest), page_only=True)
    return [shown, Fold(title=f"{len(rest)} other waits of {where}", content=folded)]


def _wait_row(each: WaitDifference, where: str) -> Row:
    form = numbers.of_event
    finding = ""
    if each.differs:
        finding = "longer" if each.grows else "shorter"
    return Row.of(
        each.name,
        form(each.baseline),
        form(each.contender),
        Value(
            text=numbers.signed(each.difference.mean, form),
            sub=numbers.signed_interval(each.difference.interval, form),
        ),
        _ratio(each.ratio),
        finding,
        group=where,
    )


def _ratio(ratio: Estimate | None) -> Value:
    if ratio is None:
        return Value(text="–")
    return Value(text=numbers.ratio_of(ratio), sub=numbers.interval(ratio.interval))


def _cost_table(context: Context) -> Table:
    """Throughput with the instruments relative to the valid epochs without, by cell and arm."""
    counted, explaining = context.epoch_rates, epoch_rates(context.run.explaining(WAITS).slices())
    rows = []
    for (cell, arm), rates in explaining.items():
        cost = instruments_cost(rates, counted.get((cell, arm), {}))
        if cost:
            rows.append(
                Row.of(
                    context.labels[arm],
                    Value(
                        text=numbers.change(cost.estimate.mean, cost.estimate.interval.half_width),
                        sub=numbers.change_interval(cost.estimate.interval),
                    ),
                    group=context.cell_title(cell),
                    slot=context.slots[arm],
                )
            )
    return Table(
        id="waits-cost",
        group_title="cell",
        columns=("arm", "throughput with instruments"),
        rows=tuple(rows),
        note="Overhead of the instruments. Epochs with instruments do not count towards the verdict.",
    )


# ---- common ----------------------------------------------------------------------------------------------------------


def _where(context: Context, cell: str, baseline: str, contender: str) -> str:
    labels = [] if baseline == context.analysis.baseline else [context.labels[baseline]]
    labels += [context.labels[contender]] if labels or len(context.analysis.contenders) > 1 else []
    return ", ".join([context.cell_title(cell), *reversed(labels)])


def _id(*words: str) -> str:
    return "-".join("".join(c if c.isalnum() else "-" for c in word) for word in words)
