"""The section "Why": for each comparison that is FASTER or SLOWER what an event cost more, and the likely cause.

Costs and off-CPU time are here; profiles are in `flame.py`, plans and waits in `causes.py`.
"""

from collections.abc import Iterator, Sequence

from bakeoff.explain import causes, flame
from bakeoff.explain.costs import BUSY, TIME, Cost, Explanation, name_of
from bakeoff.explain.explained import Explained, Pair
from bakeoff.explain.named_causes import Evidence, sentence
from bakeoff.explain.off_cpu import OffCpuComparison, OffCpuCost
from bakeoff.explain.profiles import OFF_CPU
from bakeoff.report import numbers
from bakeoff.report.context import Context
from bakeoff.report.sections import Place, Records, SectionSource
from bakeoff.report.view import Prose, Record, Row, Section, Table, Value
from bakeoff.stats.interval import Paired
from bakeoff.units import format_bytes, format_ns

_ROWS = 15
_ROWS_LEAST = 5  # of each comparison, where several share the table
_COMPARISONS = 5  # those with the largest differences
_WORTH_A_ROW = 0.05  # share of the difference
_WAIT_SHARE = 0.02  # of either arm's time; a kind of wait off the CPU below it has no line
_WAITS_MAX = 12
_OTHERS_MAX = 4


def why_section(context: Context) -> Section | None:
    """What differs besides the time, and what may explain it."""
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
    """Everything known about a comparison with the run's baseline."""
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
    rows = []
    for each in shown:
        contender = context.labels[each.contender]
        group = f"{context.cell_title(each.cell)}, {contender}" if several else context.cell_title(each.cell)
        rows += [_row(cost, group) for cost in _worth_a_row(each, most)]
    baseline = context.labels[context.analysis.baseline]
    table = Table(
        id="why-costs",
        group_title="cell",
        columns=(
            "an event's",
            baseline,
            "contender" if several else contender,
            "ratio",
            "95% interval",
            "it is",
            "explains",
        ),
        rows=tuple(rows),
        note="Per event, over all epochs; more or less after correction over all counters. CPU and waiting explain the "
        "measured share of the difference in time; for counts it is an upper bound (≤). All counters: --format json."
        + _unread(shown),
    )
    return Section.of("Costs per event", table, anchor="why-costs")


def _unread(explained: Sequence[Explanation]) -> str:
    """Say if the kernel hid what the servers read and wrote."""
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


def _row(cost: Cost, group: str) -> Row:
    ratio = numbers.ratio_of(cost.estimate) if cost.baseline and cost.contender else ""
    explains = ""
    if cost.explains is not None:
        explains = ("" if cost.counter.startswith("cpu.") else "≤ ") + numbers.percent(cost.explains)
    return Row.of(
        Value(text=name_of(cost.counter), sub="" if cost.family == TIME else cost.family),
        _amount(cost.counter, cost.baseline),
        _amount(cost.counter, cost.contender),
        ratio,
        numbers.interval(cost.estimate.interval) if ratio else "",
        cost.word,
        explains,
        group=group,
    )


def _amount(counter: str, value: float) -> str:
    if counter.endswith("_ns"):
        return format_ns(value)
    if counter.endswith("_bytes"):
        return format_bytes(value)
    return f"{value:.2f}" if counter == BUSY else numbers.count(value)


def off_cpu_section(context: Context) -> Section | None:
    """A table for each of the first `flame.COMPARISONS_MAX` comparisons, or why there is none."""
    explained = context.once(Explained)
    shown = [*explained.pauses.items()][: flame.COMPARISONS_MAX]
    tables = (_off_cpu_table(context, pair, found, number) for number, (pair, found) in enumerate(shown, start=1))
    return Section.of("Off-CPU time", *explained.notes(OFF_CPU), *tables, anchor="off-cpu", in_terminal=True)


def _off_cpu_table(context: Context, pair: Pair, found: OffCpuComparison, number: int) -> Table:
    labels = (context.labels[pair.baseline], context.labels[pair.contender])
    title, whole = flame.title_of(context, pair), found.all
    rows = [
        Row.of(_wait_name(each), *_wait_values(each.time), flame.share_of_all(each.time, whole))
        for each in _worth_a_line(found)[:_WAITS_MAX]
    ]
    rows.append(Row.of("all statements", *_wait_values(whole), ""))
    others = sorted(found.others, key=lambda each: -max(each.time.baseline, each.time.contender))
    rows += [Row.of(_wait_name(each), *_wait_values(each.time), "") for each in others[:_OTHERS_MAX]]
    rows.append(Row.of("waiting for the client", *_wait_values(found.client), ""))
    epochs = numbers.restarts(found.epochs)
    return Table(
        id=f"off-cpu-{number}",
        columns=("an event waits in", *labels, "difference", "95% interval", "of the difference"),
        rows=tuple(rows),
        note=f"{title}: off-CPU time of the threads that run statements, sampled in {epochs} that do not count "
        "towards the verdict. Below “all statements”: file waits of other threads and the wait for the next statement, "
        "which are in no sum. Intervals are over restarts and not corrected; those with · exclude 0.",
        wide=("95% interval",),
    )


def _worth_a_line(found: OffCpuComparison) -> Sequence[OffCpuCost]:
    least = _WAIT_SHARE * max(found.all.baseline, found.all.contender)
    return [each for each in found.statements if max(each.time.baseline, each.time.contender) >= least]


def _wait_name(each: OffCpuCost) -> Value:
    waiting = each.waiting
    whose = "" if waiting.serving else "other threads"
    function = each.function if waiting.way else ""
    text = f"{waiting.part}: {waiting.way}" if waiting.way else waiting.part
    return Value(text=text, sub=", ".join(filter(None, (whose, function))))


def _wait_values(cost: Paired) -> tuple[str, ...]:
    return numbers.of_event(cost.baseline), numbers.of_event(cost.contender), *flame.difference_texts(cost)


def records(context: Context) -> tuple[Record, ...]:
    """A flat, unrounded record per comparison and counter."""
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
