"""The section "Why": what an event costs more, and the likely cause."""

from collections.abc import Iterator, Sequence
from operator import itemgetter

from bakeoff.explain import causes, flame
from bakeoff.explain.costs import BUSY, TIME, Cost, Explanation, name_of
from bakeoff.explain.explained import Explained, Pair
from bakeoff.explain.named_causes import Evidence, sentence
from bakeoff.explain.off_cpu import OffCpuComparison, OffCpuCost
from bakeoff.explain.profiles import OFF_CPU
from bakeoff.report import numbers
from bakeoff.report.context import Context, Place, Records, SectionSource
from bakeoff.report.view import Column, Prose, Record, Section, Table, Value
from bakeoff.units import format_bytes, format_ns

_ROWS = 15
_ROWS_LEAST = 5  # of each comparison, where several share the table
_COMPARISONS = 5  # those with the largest differences
_WORTH_A_ROW = 0.05  # share of the difference
_WAIT_SHARE = 0.02  # of either arm's time; a kind of wait off the CPU below it has no line
_WAITS_MAX = 12
_OTHERS_MAX = 4


def why_section(context: Context) -> Section | None:
    explained = [each for each in context.once(Explained).explanations if each.claimed]
    explained.sort(key=lambda each: -abs(each.time.mean))
    return Section.of(
        "Why",
        *_sentences(context, explained),
        _costs(context, explained),
        flame.profile_section(context),
        off_cpu_section(context),
        causes.plans_section(context),
        causes.waits_section(context),
        anchor="why",
        nav="Why",
        in_terminal=bool(explained),
    )


def evidence(context: Context, explanation: Explanation) -> Evidence:
    """Collect everything known about a comparison with the run's baseline."""
    explained = context.once(Explained)
    pair = Pair(explanation.cell, context.analysis.baseline, explanation.contender)
    mine, theirs = (explained.event_ns.get((pair.cell, arm)) for arm in (pair.baseline, pair.contender))
    longer_ns = theirs - mine if mine and theirs else 0.0
    profile, waits = explained.profiles.get(pair), explained.waits.get(pair)
    return Evidence(explanation, profile, waits, longer_ns, explained.pauses.get(pair))


def _sentences(context: Context, explained: Sequence[Explanation]) -> Iterator[Prose]:
    for each in explained[:_COMPARISONS]:
        where = f"{context.cell_title(each.cell)}: " if len(context.cells) > 1 else ""
        yield Prose(text=f"{where}{sentence(evidence(context, each), context.labels[each.contender])}")
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
        group=lambda row: context.titled(row[0]),
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
    """Ratio of the costs; None if an arm's cost is 0."""
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


def records(context: Context) -> tuple[Record, ...]:
    return tuple(
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


SECTIONS = (SectionSource(Place.CAUSES, why_section, records=Records("costs", records)),)
