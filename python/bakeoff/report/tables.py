"""Tables of a report: latency, costs, where CPU time went, the data, the pilot, epochs that do not count."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from bakeoff.report import numbers
from bakeoff.report.answers import threads_text
from bakeoff.report.context import Context
from bakeoff.report.view import Bar, Panel, Row, Series, Table, Value
from bakeoff.stats.model import ArmSummary
from bakeoff.stats.slice_length import SliceChoice
from bakeoff.units import format_bytes, format_duration, format_ns, format_rate

CPU_KINDS = ("user", "system", "iowait", "steal", "idle")

Cost = tuple[str, Callable[[ArmSummary], float | None], Callable[[float], str]]

_COSTS: tuple[Cost, ...] = (
    ("server CPU", lambda s: s.server_cpu_ns_per_event, format_ns),
    ("client CPU", lambda s: s.client_cpu_ns_per_event, format_ns),
    ("context switches", lambda s: s.context_switches_per_event, numbers.count),
    ("bytes read", lambda s: s.server_read_bytes_per_event, format_bytes),
    ("bytes written", lambda s: s.server_write_bytes_per_event, format_bytes),
    ("bytes to client", lambda s: s.received_bytes_per_event, format_bytes),
    ("errors per million", lambda s: s.errors_per_million, numbers.count),
    ("retries per million", lambda s: s.retries_per_million, numbers.count),
)


def latency_table(context: Context) -> Table:
    """Percentiles of every arm in every cell; for contenders the ratio with its interval where epochs give one."""
    summaries = context.analysis.arms
    quantiles = sorted({q for summary in summaries for q in summary.quantiles_ns}, key=float)
    ratios = {(r.cell, r.contender, r.quantile): r for r in context.analysis.latencies if r.operation == "event"}
    rows = []
    for summary in _in_order(context):
        values = [Value(text=context.labels[summary.arm])]
        for quantile in quantiles:
            found = summary.quantiles_ns.get(quantile)
            ratio = ratios.get((summary.cell, summary.arm, float(quantile)))
            sub = numbers.estimate_short(ratio.estimate) if ratio and ratio.estimate else ""
            values.append(Value(text="n/a" if found is None else format_ns(found), sub=sub))
        values.append(Value(text=format_rate(summary.tps)))
        rows.append(Row(group=_cell(context, summary.cell), values=tuple(values), slot=context.slots[summary.arm]))
    return Table(
        id="latency",
        group_title="cell",
        columns=("arm", *(f"p{float(q) * 100:g}" for q in quantiles), "events/s"),
        rows=tuple(rows),
    )


def latency_note(context: Context) -> str:
    """What the percentiles are: a closed loop's are no response times."""
    clocks = {summary.clock for summary in context.analysis.arms}
    if clocks == {"response"}:
        return "Response time: from the moment a request was due to its last byte, at the same schedule for every arm."
    text = (
        "Service time at saturation: from sending to the last byte, each thread sending its next request at once. It "
        "says how long the server works on a request when it is kept busy; it is no response time that a user at a "
        "given load would see, and carries no verdict."
    )
    return (
        text
        if clocks <= {"service"}
        else f"{text} Cells at a fixed rate show response time, from the moment a request was due."
    )


def costs_table(context: Context) -> Table:
    """What one event costs, with ratios to the baseline in the same cell; columns empty everywhere are left out."""
    shown = [cost for cost in _COSTS if any(_interesting(cost, summary) for summary in context.analysis.arms)]
    rows = []
    for summary in _in_order(context):
        base = context.summaries.get((summary.cell, context.analysis.baseline))
        values = [Value(text=context.labels[summary.arm])]
        for _, read, form in shown:
            own = read(summary)
            compared = numbers.plain_ratio(own, read(base)) if base and summary.arm != base.arm else ""
            values.append(Value(text="n/a" if own is None else form(own), sub=compared))
        rows.append(Row(group=_cell(context, summary.cell), values=tuple(values), slot=context.slots[summary.arm]))
    return Table(
        id="costs",
        group_title="cell",
        columns=("arm", *(name for name, _, _ in shown)),
        rows=tuple(rows),
        note="Sums over all measured slices over the events in them; ratios are to the baseline, without a verdict.",
    )


def cpu_bars(context: Context) -> tuple[Bar, ...]:
    """Shares of all processors' time while each arm alone was loaded."""
    shares = {(row["cell"], row["arm"]): row for row in context.processors.iter_rows(named=True)}
    bars = []
    for cell in context.detail_cells:
        for arm, slot in context.slots.items():
            row = shares.get((cell, arm))
            if row is None or row["user"] is None:
                continue
            busy = [f"client {row['client_cpus']:.2f}"]
            if row["others_cpus"] is not None:
                busy = [f"server {row['server_cpus']:.2f}", *busy, f"others {row['others_cpus']:.2f}"]
            bars.append(
                Bar(
                    group=_cell(context, cell),
                    label=context.labels[arm],
                    slot=slot,
                    parts=tuple((kind, round(row[kind], 4)) for kind in CPU_KINDS),
                    text=f"{', '.join(busy)} of {context.manifest.host.cpus}",
                )
            )
    return tuple(bars)


def data_table(context: Context) -> Table:
    """Each load of the data: rows, seconds and bytes, and whatever else the loader wrote down."""
    found = {name: build for name, build in context.run.builds().items() if isinstance(build, dict)}
    keys = list(
        dict.fromkeys(key for build in found.values() for key in build if key not in ("arm", "build", "format"))
    )
    plain = [key for key in keys if not any(isinstance(build.get(key), list) for build in found.values())]
    rows = []
    for name, build in found.items():
        arm, _, number = name.rpartition("-")
        arm = str(build.get("arm", arm))
        values = (
            Value(text=str(build.get("build", number))),
            *(Value(text=_fact(key, build.get(key))) for key in plain),
        )
        rows.append(Row(group=context.labels.get(arm, arm), values=values, slot=context.slots.get(arm)))
    columns = ("load", *(key.removesuffix("_bytes").removesuffix("_s").replace("_", " ") for key in plain))
    return Table(id="data", group_title="arm", columns=columns, rows=tuple(rows))


def pilot(context: Context) -> tuple[Table, tuple[Panel, ...]]:
    """The slice length of every cell, why, and the pilot's curve."""
    choices = {choice.cell: choice for choice in _choices(context.run.read_json("pilot.json"))}
    cells = context.plan.cells if context.plan else ()
    rows = []
    for cell in cells:
        choice = choices.get(cell.name)
        values = (
            Value(text=threads_text(cell.threads)),
            Value(text=format_ns(cell.slices.slice_ns)),
            Value(text=format_ns(cell.slices.guard_ns)),
            Value(text="resting server stopped" if cell.freeze else "resting server idle"),
            Value(text=cell.placement),
            Value(text=choice.reason if choice else "by default"),
        )
        rows.append(Row(group=cell.workload, values=values))
    table = Table(
        id="slices",
        group_title="workload",
        columns=("threads", "slice", "guard", "meanwhile", "placement", "chosen because"),
        rows=tuple(rows),
        all_text=True,
    )
    lines: list[Series] = []
    for choice in choices.values():
        known = [(point.slice_ns, point.j_s) for point in choice.curve if point.j_s is not None]
        if len(known) >= 2 and len(lines) < 6:
            best = min(j for _, j in known) or 1.0
            lines.append(
                Series(
                    name=_cell(context, choice.cell),
                    key="ink" if not lines else "second",
                    x=tuple(slice_ns / 1e6 for slice_ns, _ in known),
                    y=tuple(round(math.sqrt(j / best), 4) for _, j in known),
                    group=(len(lines),) * len(known),  # most lines share a colour
                    tips=tuple(f"{_cell(context, choice.cell)}: {format_ns(slice_ns)}" for slice_ns, _ in known),
                )
            )
    panels = (
        Panel(
            id="pilot", title="width of the interval for the same time, by slice length", x_title="slice, ms",
            y_title="times the best", mark="line", series=tuple(lines), x_kind="threads",
        ),
    )  # fmt: skip
    return table, panels if lines else ()


def voided_table(context: Context) -> Table:
    """Epochs that count for no arm, with the reason; none is dropped for being slow."""
    rows = [
        Row(group="", values=(Value(text=str(epoch)), Value(text=reason)))
        for epoch, reason in context.analysis.voided.items()
    ]
    return Table(id="voided", group_title="", columns=("epoch", "reason"), rows=tuple(rows), all_text=True)


def attempts(context: Context) -> str:
    """How many epochs were begun, counted, voided, broken off."""
    abandoned = context.run.abandoned_epochs()
    parts = [f"{context.analysis.epochs_used} counted", f"{len(context.analysis.voided)} voided"]
    if abandoned:
        parts.append(f"{abandoned} broken off and measured again")
    spent = sum(outcome.wall_s for outcome in context.outcomes)
    measured = sum(outcome.measured_s for outcome in context.outcomes)
    text = f"Epochs: {', '.join(parts)}."
    if spent > 0:
        text += f" {format_duration(spent)} in epochs, {format_duration(measured)} of it measuring."
    return text


def _in_order(context: Context) -> Iterable[ArmSummary]:
    """Summaries by cell, then in the study's order of arms; the control, another baseline, is left out."""
    for cell in context.cells:
        for arm in context.arms:
            if arm != context.analysis.control and (summary := context.summaries.get((cell, arm))):
                yield summary


def _interesting(cost: Cost, summary: ArmSummary) -> bool:
    name, read, _ = cost
    value = read(summary)
    return bool(value) if name.endswith("per million") or name == "bytes read" else value is not None


def _cell(context: Context, cell: str) -> str:
    for comparison in context.analysis.comparisons:
        if comparison.cell == cell:
            return f"{comparison.workload} · {threads_text(comparison.threads)}"
    return cell


def _fact(key: str, value: object) -> str:
    if isinstance(value, dict):
        named = len(value) > 1
        return ", ".join(f"{name} {_fact(key, part)}" if named else _fact(key, part) for name, part in value.items())
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "n/a" if value is None else str(value)
    if "bytes" in key:
        return format_bytes(value)
    if key in ("seconds", "wall_s") or key.endswith("_s"):
        return f"{value:.1f} s"
    return f"{value:,}"


def _choices(document: Any) -> list[SliceChoice]:  # noqa: ANN401  (whatever pilot.json holds)
    """Slice choices wherever they stand in `pilot.json`: a list, a mapping by cell, or under `cells` or `choices`."""
    if isinstance(document, Mapping):
        for key in ("cells", "choices"):
            if key in document:
                return _choices(document[key])
        document = list(document.values())
    found = []
    for item in document if isinstance(document, list) else []:
        try:
            found.append(SliceChoice.model_validate(item))
        except ValidationError:
            continue
    return found
