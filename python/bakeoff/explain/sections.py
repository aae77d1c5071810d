"""The causes on the first page, and the section "Why in detail": what an event costs more."""

from collections.abc import Iterator, Sequence
from itertools import islice
from operator import itemgetter
from textwrap import wrap
from typing import Any

from bakeoff.explain import flame
from bakeoff.explain.costs import BUSY, TIME, Cost, Explanation, name_of
from bakeoff.explain.explained import Explained, Pair
from bakeoff.explain.named_causes import Evidence, why
from bakeoff.explain.off_cpu import OffCpuComparison, OffCpuCost
from bakeoff.explain.profiles import OFF_CPU
from bakeoff.explain.statement_plans import PLANS, StatementPlans
from bakeoff.explain.waits import WAITS, WaitDifference
from bakeoff.report import numbers
from bakeoff.report.context import Context, Place, SectionSource
from bakeoff.report.text import WHY_LINES
from bakeoff.report.view import Column, Fold, Prose, RecordList, Section, Table, Value, identifier, step_rows
from bakeoff.stats.model import Estimate
from bakeoff.units import format_bytes, format_ns, shortened

_ROWS = 15
_ROWS_LEAST = 5  # of each comparison, if several share the table
_COMPARISONS = 5  # those with the largest differences
_WORTH_A_ROW = 0.05  # share of the difference
_WAIT_SHARE = 0.02  # share of either arm's off-CPU time below which a kind of wait has no line
_WAITS_MAX = 12
_OTHERS_MAX = 4
_WAITS_SHOWN = 8  # of a cell; the rest is folded away
_PLANS_SHOWN = 20
_SQL_MAX = 300
_SCREEN_WIDTH = 80


def _claimed(context: Context) -> list[Explanation]:
    claimed = [each for each in context.once(Explained).explanations if each.claimed]
    return sorted(claimed, key=lambda each: -abs(each.time.mean))


def why_section(context: Context) -> Section | None:
    explained = _claimed(context)
    return Section.of(
        "Why in detail",
        *_sentences(context, explained),
        _costs(context, explained),
        flame.profile_section(context),
        off_cpu_section(context),
        plans_section(context),
        waits_section(context),
        anchor="why",
        nav="Why",
        in_terminal=bool(explained),
    )


def evidence(context: Context, explanation: Explanation) -> Evidence:
    explained = context.once(Explained)
    pair = Pair(explanation.cell, context.analysis.baseline, explanation.contender)
    mine, theirs = (explained.event_ns.get((pair.cell, arm)) for arm in (pair.baseline, pair.contender))
    longer_ns = theirs - mine if mine and theirs else 0.0
    plans = explained.plans.get(pair)
    cpu_ns = [context.server_cpu_ns(pair.cell, arm) for arm in (pair.baseline, pair.contender)]
    return Evidence(
        explanation,
        explained.profiles.get(pair),
        explained.waits.get(pair),
        longer_ns,
        explained.pauses.get(pair),
        plans=(len(plans.other), len(plans.compared)) if plans else (0, 0),
        declared=explained.declared(pair),
        cpu_ratio=cpu_ns[1] / cpu_ns[0] if all(cpu_ns) else None,
    )


def why_lines(context: Context) -> tuple[str, ...]:
    """Say why in `WHY_LINES` lines of a terminal: the largest differences first, the best evidence first."""
    return tuple(said for _, said, _ in _screen_lines(context) if said)


def _screen_lines(context: Context) -> Iterator[tuple[Explanation, str, str]]:
    """Yield each explanation with what the first page says of it, and what is left for the section."""
    explained, lines_left = _claimed(context), WHY_LINES
    names = context.labels if len(context.analysis.contenders) == 1 else context.short_labels
    for each in explained:
        where = f"{context.titled(each.cell, each.contender, short=True)}: " if len(explained) > 1 else ""
        sentences = why(evidence(context, each), names[each.contender])
        texts = [f"{where}{' '.join(sentences[:count])}" for count in range(1, len(sentences) + 1)]
        fit = sum(len(wrap(text, _SCREEN_WIDTH)) <= lines_left for text in texts)
        said = texts[fit - 1] if fit else ""
        lines_left -= len(wrap(said, _SCREEN_WIDTH))
        rest = " ".join(sentences[fit:])
        yield each, said, f"{where}{rest}" if rest else ""


def _sentences(context: Context, explained: Sequence[Explanation]) -> Iterator[Prose]:
    """Say what the first page had no room for."""
    for _, _, rest in islice(_screen_lines(context), _COMPARISONS):
        if rest:
            yield Prose(text=rest)
    if (left := len(explained) - _COMPARISONS) > 0:
        yield Prose(text=f"{left} more comparisons are in `--format json`.", small=True)


def _costs(context: Context, explained: Sequence[Explanation]) -> Section | None:
    if not explained:
        return None
    shown = explained[:_COMPARISONS]
    most = max(_ROWS_LEAST, _ROWS // len(shown))
    several = len(context.analysis.contenders) > 1
    table = Table.of(
        "why-costs",
        ((each, cost) for each in shown for cost in _worth_a_row(each, most)),
        Column("an event's", lambda row: _cost_name(row[1])),
        Column(context.labels[context.analysis.baseline], lambda row: _amount(row[1].counter, row[1].baseline)),
        Column(
            "contender" if several else context.labels[shown[0].contender],
            lambda row: _amount(row[1].counter, row[1].contender),
        ),
        Column("ratio", lambda row: _both(row[1]) and row[1].estimate, numbers.ratio_of),
        Column("95% interval", lambda row: _both(row[1]) and row[1].estimate.interval, numbers.interval),
        Column("it is", lambda row: row[1].word),
        Column("explains", lambda row: _explains(row[1])),
        group=lambda row: context.titled(row[0].cell, row[0].contender),
        group_title="cell",
        note="Per event, over all epochs; more or less after correction over all counters. CPU and waiting explain the "
        "measured share of the difference in time; for counts it is an upper bound (≤). All counters: --format json."
        + _unread(shown),
    )
    return Section.of("Costs per event", table, anchor="why-costs")


def _unread(explained: Sequence[Explanation]) -> str:
    if any(cost.counter.startswith("io.") for each in explained for cost in each.costs):
        return ""
    return " Bytes read and written are missing: the kernel shows them only to the servers' account."


def _worth_a_row(explanation: Explanation, most: int) -> list[Cost]:
    """CPU and waiting first, then the counts that may explain most."""
    worth = [each for each in explanation.costs if abs(each.explains or 0.0) >= _WORTH_A_ROW]
    time = [each for each in worth if each.family == TIME and not each.counter.startswith("cpu.thread.")]
    counts = [each for each in worth if each not in time and each.word in ("more", "less")]
    counts.sort(key=lambda each: -abs(each.explains or 0.0))
    return [*time, *counts][:most]


def _cost_name(cost: Cost) -> Value:
    return Value(text=name_of(cost.counter), sub="" if cost.family == TIME else cost.family)


def _both(cost: Cost) -> bool | None:
    return bool(cost.baseline and cost.contender) or None


def _explains(cost: Cost) -> str:
    if cost.explains is None:
        return ""
    return ("" if cost.counter.startswith("cpu.") else "≤ ") + numbers.percent(cost.explains)


def _amount(counter: str, value: float) -> str:
    if counter.endswith("_ns"):
        return format_ns(value)
    if counter.endswith("_bytes"):
        return format_bytes(value)
    return f"{value:.2f}" if counter == BUSY else numbers.count(value)


def off_cpu_section(context: Context) -> Section | None:
    explained = context.once(Explained)
    shown = [*explained.pauses.items()][: flame.COMPARISONS_MAX]
    tables = (_off_cpu_table(context, pair, found, number) for number, (pair, found) in enumerate(shown, start=1))
    return Section.of("Off-CPU time", *explained.notes(OFF_CPU), *tables, anchor="off-cpu", in_terminal=True)


def _off_cpu_table(context: Context, pair: Pair, found: OffCpuComparison, number: int) -> Table:
    labels = (context.labels[pair.baseline], context.labels[pair.contender])
    title, whole = flame.title_of(context, pair), found.all
    others = sorted(found.others, key=lambda each: -max(each.time.baseline, each.time.contender))
    rows = [
        *((_wait_name(each), each.time, flame.share_of_all(each.time, whole)) for each in _worth_a_line(found)),
        ("all statements", whole, ""),
        *((_wait_name(each), each.time, "") for each in others[:_OTHERS_MAX]),
        ("waiting for the client", found.client, ""),
    ]
    epochs = numbers.restarts(found.epochs)
    return Table.of(
        f"off-cpu-{number}",
        rows,
        Column("an event waits in", itemgetter(0)),
        *flame.cost_columns(labels, itemgetter(1)),
        Column("of the difference", itemgetter(2)),
        note=f"{title}: off-CPU time of the threads that run statements, sampled in {epochs} that do not count "
        "towards the verdict. Below “all statements”: file waits of other threads and the wait for the next statement, "
        "which are in no sum. Intervals are over restarts and not corrected; those with · exclude 0.",
    )


def _worth_a_line(found: OffCpuComparison) -> Sequence[OffCpuCost]:
    least = _WAIT_SHARE * max(found.all.baseline, found.all.contender)
    worth = [each for each in found.statements if max(each.time.baseline, each.time.contender) >= least]
    return worth[:_WAITS_MAX]


def _wait_name(each: OffCpuCost) -> Value:
    waiting = each.waiting
    whose = "" if waiting.serving else "other threads"
    function = each.function if waiting.way else ""
    text = f"{waiting.part}: {waiting.way}" if waiting.way else waiting.part
    return Value(text=text, sub=", ".join(filter(None, (whose, function))))


# ---- plans -----------------------------------------------------------------------------------------------------------


def plans_section(context: Context) -> Section | None:
    explained = context.once(Explained)
    parts: list[Section | Prose | None] = [*explained.notes(PLANS)]
    for pair in explained.pairs:
        cell, baseline, contender = pair
        recorded = explained.plans.get(pair)
        if recorded is None:
            continue
        statements, other = recorded.compared, recorded.other
        left = f"{numbers.counted(recorded.left, 'statement')}."
        unexplained = f" One server cannot explain {left}" if recorded.left else ""
        where = flame.title_of(context, pair)
        if not other:
            same = f" {numbers.counted(len(statements), 'statement')}, no plan differs." if statements else ""
            if same or unexplained:
                parts.append(Prose(text=f"{where}:{same}{unexplained}"))
            continue
        name = identifier("plan", cell, baseline, contender)
        tables = (
            _plan_table(context, f"{name}-{at}", each, (baseline, contender))
            for at, each in enumerate(other[:_PLANS_SHOWN])
        )
        said = f"{len(other)} of {len(statements)} statements have another plan.{unexplained}"
        parts.append(Section.of(where, Prose(text=said), *tables, in_terminal=True))
    differ = any(isinstance(part, Section) for part in parts)
    return Section.of("Plans", *parts, anchor="why-plans", in_terminal=differ)


def _plan_table(context: Context, name: str, plans: StatementPlans, arms: tuple[str, str]) -> Table:
    rows = step_rows(plans.plans.get(arm, ()) for arm in arms)
    if plans.rows_read:
        rows.append(("rows read", *(numbers.count(plans.rows_read.get(arm, 0.0)) for arm in arms)))
    columns = ("step", *(context.labels[arm] for arm in arms))
    return Table.listed(name, columns, rows, note=shortened(plans.text, _SQL_MAX))


# ---- waits -----------------------------------------------------------------------------------------------------------


def waits_section(context: Context) -> Section | None:
    explained = context.once(Explained)
    parts = [part for pair, found in explained.waits.items() for part in _waits_of(context, found, pair)]
    return Section.of(
        "Waits",
        *explained.notes(WAITS),
        *parts,
        anchor="why-waits",
        in_terminal=True,
    )


def _waits_of(context: Context, found: Sequence[WaitDifference], pair: Pair) -> list[Table | Fold | Prose | None]:
    where = flame.title_of(context, pair)
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


# ---- records --------------------------------------------------------------------------------------------------------


def records(context: Context) -> RecordList:
    rows = tuple(
        {
            "cell": each.cell,
            "contender": context.labels[each.contender],
            "counter": cost.counter,
            "family": cost.family,
            "baseline_per_event": cost.baseline,
            "contender_per_event": cost.contender,
            "log_ratio": cost.estimate.mean,
            "log_ratio_low": cost.estimate.interval.low,
            "log_ratio_high": cost.estimate.interval.high,
            "epochs": cost.estimate.n,
            "p_adjusted": cost.p_adjusted,
            "verdict": cost.word,
            "explains": cost.explains,
        }
        for each in context.once(Explained).explanations
        for cost in each.costs
    )
    return RecordList(name="costs", rows=rows)


SECTIONS = (SectionSource(Place.CAUSES, why_section, key_figures=why_lines, records=records),)
