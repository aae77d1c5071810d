"""Off-CPU time: what the servers' threads wait in, of each comparison."""

from collections.abc import Mapping, Sequence

from bakeoff.report import numbers
from bakeoff.report.context import Context, Pair
from bakeoff.report.flame import COMPARISONS_MAX, difference_texts, share_of_all, sides_of, title_of
from bakeoff.report.view import Row, Section, Table, Value
from bakeoff.results.profiles import OFF_CPU, PROFILE_FILE, Profile
from bakeoff.stats.interval import Paired
from bakeoff.stats.off_cpu_time import OffCpuComparison, OffCpuCost, compare_off_cpu

_SHARE = 0.02  # of either arm's time; a kind of wait below it has no line
_ROWS_MAX = 12
_OTHERS_MAX = 4


def compared_off_cpu(context: Context) -> dict[Pair, OffCpuComparison]:
    """Every comparison of which switches were recorded, in the order of `Context.explained_pairs`.

    Raises:
        ResultsError: what was recorded is damaged.
    """
    pairs = context.explained_pairs
    epochs = context.explaining(OFF_CPU, PROFILE_FILE, dict[str, Profile]) if pairs else {}
    found = {pair: compare_off_cpu(*sides_of(pair, epochs)) for pair in pairs}
    return {pair: each for pair, each in found.items() if each}


def off_cpu_section(context: Context, pauses: Mapping[Pair, OffCpuComparison]) -> Section | None:
    """A table for each of the first `COMPARISONS_MAX` comparisons; why there is none, where that was noted.

    `pauses`: of `compared_off_cpu`.
    """
    shown = [*pauses.items()][:COMPARISONS_MAX]
    tables = (_table(context, pair, found, number) for number, (pair, found) in enumerate(shown, start=1))
    return Section.of("Off-CPU time", *context.explaining_notes(OFF_CPU), *tables, anchor="off-cpu", in_terminal=True)


def _table(context: Context, pair: Pair, found: OffCpuComparison, number: int) -> Table:
    labels = (context.labels[pair.baseline], context.labels[pair.contender])
    title, whole = title_of(context, pair), found.all
    rows = [Row.of(_name(each), *_values(each.time), share_of_all(each.time, whole)) for each in _worth(found)]
    rows = [*rows[:_ROWS_MAX], Row.of("all of statements", *_values(whole), "")]
    others = sorted(found.others, key=lambda each: -max(each.time.baseline, each.time.contender))
    rows += [Row.of(_name(each), *_values(each.time), "") for each in others[:_OTHERS_MAX]]
    rows.append(Row.of("waiting for the client", *_values(found.client), ""))
    epochs = f"{found.epochs} epochs that count" if found.epochs > 1 else "an epoch that counts"
    return Table(
        id=f"off-cpu-{number}",
        columns=("an event waits in", *labels, "difference", "95% interval", "of the difference"),
        rows=tuple(rows),
        note=f"{title}: time off the CPU of the threads that run statements, in {epochs} for no verdict. "
        "Below “all of statements”: files that other threads wait for meanwhile, and the wait for the next statement, "
        "which are in no sum. Intervals are over restarts, each for itself; those with · exclude 0.",
        wide=("95% interval",),
    )


def _worth(found: OffCpuComparison) -> Sequence[OffCpuCost]:
    least = _SHARE * max(found.all.baseline, found.all.contender)
    return [each for each in found.statements if max(each.time.baseline, each.time.contender) >= least]


def _name(each: OffCpuCost) -> Value:
    waiting = each.waiting
    whose = "" if waiting.serving else "other threads"
    function = each.function if waiting.way else ""
    text = f"{waiting.part}: {waiting.way}" if waiting.way else waiting.part
    return Value(text=text, sub=", ".join(filter(None, (whose, function))))


def _values(cost: Paired) -> tuple[str, ...]:
    return numbers.of_event(cost.baseline), numbers.of_event(cost.contender), *difference_texts(cost)
