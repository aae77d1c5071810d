"""Tables of a report: latency, costs, where CPU time went, the data, the pilot, epochs that do not count."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import polars as pl
from pydantic import ValidationError

from bakeoff.report import numbers
from bakeoff.report.context import Context
from bakeoff.report.verdicts import threads_text
from bakeoff.report.view import Bar, Panel, Row, Series, Status, Table, Value
from bakeoff.results.epoch_data import WallTime, wall_time
from bakeoff.stats.differences import Answer, RowDifference, row_differences
from bakeoff.stats.model import ArmSummary
from bakeoff.stats.slice_length import SliceChoice
from bakeoff.stats.summary import STALL, stability
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
        for epoch, reason in context.analysis.discarded.items()
    ]
    return Table(id="discarded", group_title="", columns=("epoch", "reason"), rows=tuple(rows), all_text=True)


def attempts(context: Context) -> str:
    """How many epochs were begun, counted, discarded, broken off."""
    abandoned = context.run.abandoned_epochs()
    parts = [f"{context.analysis.epochs_used} counted", f"{len(context.analysis.discarded)} discarded"]
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


# What the data takes on disk on every arm: a result in its own right, beside the throughput.

_SIZES = (("data_bytes", "on disk"), ("rows_bytes", "rows"), ("index_bytes", "secondary indexes"))


def sizes_table(context: Context) -> Table:
    """Bytes of every arm's data, the mean of its loads, and ratios to the baseline's; no rows when nothing is known."""
    loads: dict[str, list[Mapping[str, Any]]] = {}
    for name, build in context.run.builds().items():
        if isinstance(build, dict):
            for arm in build.get("arms") or [build.get("arm", name.rpartition("-")[0])]:
                loads.setdefault(str(arm), []).append(build)
    sizes = {arm: {key: _mean(found, key) for key, _ in _SIZES} for arm, found in loads.items()}
    base = sizes.get(context.analysis.baseline, {})
    shown = [(key, name) for key, name in _SIZES if any(each[key] for each in sizes.values())]
    rows = tuple(
        Row(
            group="",
            values=(
                Value(text=context.labels[arm]),
                *(
                    Value(
                        text="n/a" if (own := sizes[arm][key]) is None else format_bytes(own),
                        sub=numbers.plain_ratio(own, base.get(key)) if arm != context.analysis.baseline else "",
                    )
                    for key, _ in shown
                ),
            ),
            slot=context.slots[arm],
        )
        for arm in context.arms
        if arm in sizes and arm != context.analysis.control
    )
    return Table(
        id="sizes",
        group_title="",
        columns=("arm", *(name for _, name in shown)),
        rows=rows if shown else (),
        note="After loading, before any measurement; on disk: the files of the tables. Rows and secondary indexes as "
        "the server reckons them. Arms that share their loads have the same sizes.",
    )


def _mean(builds: list[Mapping[str, Any]], key: str) -> float | None:
    totals = [sum(build[key].values()) for build in builds if isinstance(build.get(key), dict)]
    return sum(totals) / len(totals) if totals else None


# Where a run's wall time went, as a table and as a sentence.

_MEANING = {
    "load": "loading the data, once a build; ANALYZE, flushing, keeping a copy",
    "restore": "copying the data for every server",
    "start": "starting the servers",
    "gates": "reading every table into memory; purge and flushing done",
    "check": "comparing rows between the arms, scripts' own checks",
    "warm": "load that is not counted",
    "pilot": "choosing the slice length, in the first epoch",
    "settle": "flushing between writing cells",
    "measure": "measuring",
    "stop": "ending the servers, removing their data",
    "other": "reading variables and counters, statistics between epochs",
}


def wall_table(context: Context) -> Table:
    """One row a phase, with its share; the note says how much of all was measuring."""
    taken = wall_time(context.run.builds(), context.outcomes)
    rows = tuple(
        Row(
            group="",
            values=(
                Value(text=phase),
                Value(text=_seconds(seconds)),
                Value(text=numbers.share(seconds / taken.total_s)),
                Value(text=_seconds(seconds / len(context.outcomes)) if phase != "load" else ""),
                Value(text=_MEANING[phase]),
            ),
        )
        for phase, seconds in taken.phases_s.items()
    )
    return Table(
        id="wall",
        group_title="",
        columns=("phase", "in all", "share", "an epoch", "what it is"),
        rows=rows,
        note=_sentence(taken),
    )


def _sentence(taken: WallTime) -> str:
    if not taken.total_s:
        return ""
    return (
        f"{numbers.share(taken.measured_share)} of {format_duration(taken.total_s)} were measuring; fetching servers "
        "and making this report are not counted."
    )


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s"


# Whether all arms hold the same rows, as the answers in `rows/` and in the first epoch say.

_LINES = 40


def same_rows_table(context: Context) -> Table:
    """One line a table of each load: what was compared, and what came out; every difference with its arms."""
    rows: list[Row] = []
    for moment, answers in _moments(context).items():
        differences = row_differences(context.study.arms, answers)
        tables = dict.fromkeys(table for tables in answers.values() for table in tables)
        for table in tables:
            queries = dict.fromkeys(query for each in answers.values() for query in each.get(table, {}))
            found = [each for each in differences if each.table == table]
            if not queries and not found:
                continue  # it cannot be asked cheaply, as a restored server is
            arms = sum(table in tables for tables in answers.values())
            told = "; ".join(_words(context, each) for each in found) or f"same on {arms} arms"
            values = (Value(text=table), Value(text=", ".join(queries)), Value(text=told))
            rows.append(Row(group=moment, values=values))
    left = len(rows) - _LINES
    return Table(
        id="same-rows",
        group_title="asked",
        columns=("table", "queries", "answers"),
        rows=tuple(rows[:_LINES]),
        note=(
            "Counts and checksums of rows, rows sampled by primary key, and the first rows in the order of a text; "
            "texts compared as utf8mb4, orders only between equal collations, arms only where rows are to be equal. "
            "Columns of times and floating-point numbers are left out."
            + (f" {left} more tables are in the run directory." if left > 0 else "")
        ),
        all_text=True,
    )


def same_rows_status(context: Context) -> Status | None:
    """What to say at the head of the report when arms hold different rows."""
    for moment, answers in _moments(context).items():
        differences = row_differences(context.study.arms, answers)
        if differences:
            more = f" and {len(differences) - 1} more" if len(differences) > 1 else ""
            return Status(
                word="DIFFERENT ROWS",
                text=f"The arms do not hold the same rows ({moment}): table {differences[0].table}, query "
                f"{differences[0].query}: {_words(context, differences[0])}{more}. Ratios compare different work.",
            )
    return None


def _words(context: Context, difference: RowDifference) -> str:
    return " but ".join(
        f"{answer} on {', '.join(context.labels[name] for name in names)}" for answer, names in difference.arms
    )


def _moments(context: Context) -> dict[str, dict[str, dict[str, dict[str, Answer]]]]:
    """When asked -> arm -> table -> query -> answer."""
    found: dict[str, dict[str, dict[str, dict[str, Answer]]]] = {}
    build = 0
    while (kept := context.run.read_json(f"rows/{build}.json")) is not None:
        found[f"load {build}"] = {arm: _answers(tables) for arm, tables in kept.items()}
        build += 1
    loaded = found.get("load 0", {})
    for outcome in context.outcomes[:1]:
        asked: Mapping[str, Mapping[str, Any]] = context.run.server_json(outcome.epoch, "rows.json")
        if asked:
            found["first epoch"] = {arm: _answers(tables, loaded.get(arm, {})) for arm, tables in asked.items()}
    return found


def _answers(
    tables: Mapping[str, Mapping[str, Any]], loaded: Mapping[str, Mapping[str, Answer]] | None = None
) -> dict[str, dict[str, Answer]]:
    """Answers as written: with their questions, or (in an epoch) with the questions of the load."""
    made: dict[str, dict[str, Answer]] = {}
    for table, queries in tables.items():
        made[table] = {}
        for query, written in queries.items():
            if isinstance(written, str):
                known = (loaded or {}).get(table, {}).get(query)
                made[table][query] = Answer(
                    sql=known.sql if known else "", answer=written, collation=known.collation if known else None
                )
            else:
                made[table][query] = Answer.model_validate(written)
    return made


# Stability and jitter over time, and the warm-up curve after every start.

_BINS = 40  # points of a warm-up curve
_PANELS = 4


def stability_table(context: Context) -> Table:
    """How far throughput moved from slice to slice and from restart to restart, for every arm in every cell."""
    found = {(row["cell"], row["arm"]): row for row in stability(context.slices).iter_rows(named=True)}
    rows = []
    for comparison in {c.cell: c for c in context.analysis.comparisons}.values():
        for arm, slot in context.slots.items():
            row = found.get((comparison.cell, arm))
            if row is None:
                continue
            rows.append(
                Row(
                    group=f"{comparison.workload} · {threads_text(comparison.threads)}",
                    values=(
                        Value(text=context.labels[arm]),
                        Value(text=_share(row["slice_cv"])),
                        Value(text=_share(row["slowest"])),
                        Value(text=_share(row["stalled"]), sub=f"of {row['slices']:,}"),
                        Value(text=format_ns(row["longest_ns"] or 0)),
                        Value(text=_share(row["epoch_cv"])),
                    ),
                    slot=slot,
                )
            )
    return Table(
        id="stability",
        group_title="cell",
        columns=("arm", "slice to slice", "slowest slice", "stalled slices", "longest event", "restart to restart"),
        rows=tuple(rows),
        note=(
            "Slice to slice: standard deviation of a slice's throughput over its epoch's. Slowest slice: likewise, in "
            f"per cent. Stalled: below {STALL:.0%} of it. Restart to restart: standard deviation of the epochs over "
            "their mean; the machine's own ups and downs are in it, which cancel in the ratios."
        ),
    )


def warm_up_panels(context: Context) -> tuple[Panel, ...]:
    """Throughput against the seconds since the load began after a start, all epochs together."""
    slices = context.run.scan_warm_up().filter(pl.col("busy_ns") > 0)
    ends = slices.group_by("cell").agg((pl.col("start_ns") + pl.col("length_ns")).max().alias("end_ns")).collect()
    panels: list[Panel] = []
    for cell, end_ns in sorted(ends.iter_rows())[:_PANELS]:
        curve = _curve(slices, cell, end_ns)
        series = tuple(
            Series(name=context.labels[arm], key=f"arm-{slot}", x=curve[arm][0], y=curve[arm][1])
            for arm, slot in context.slots.items()
            if arm in curve
        )
        workload, _, threads = cell.rpartition("/")
        panels.append(
            Panel(
                id=f"warm-up-{len(panels)}",
                title=f"{workload} · {threads_text(int(threads))}",
                x_title="seconds of load since the start of the servers",
                y_title="events per second",
                mark="line",
                series=series,
            )
        )
    return tuple(panels)


def _curve(slices: pl.LazyFrame, cell: str, end_ns: int) -> Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]]:
    width_ns = max(math.ceil(end_ns / _BINS), 1)
    bins = (
        slices.filter(pl.col("cell") == cell)
        .group_by("arm", pl.col("start_ns") // width_ns)
        .agg(
            (pl.col("start_ns").mean() / 1e9).alias("seconds"),
            (pl.col("events").sum() / (pl.col("busy_ns") / pl.col("connections")).sum() * 1e9).alias("tps"),
        )
        .sort("arm", "seconds")
        .collect()
    )
    return {
        str(arm): (numbers.rounded(part["seconds"]), numbers.rounded(part["tps"]))
        for (arm,), part in bins.group_by("arm", maintain_order=True)
    }


def _share(value: float | None) -> str:
    return "n/a" if value is None or not math.isfinite(value) else numbers.share(value)
