"""Sections on how fast every arm was: throughput, stability, restarts, epochs, latency."""

import math
from collections.abc import Iterator
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bakeoff.report import numbers
from bakeoff.report.context import DETAIL_CELLS, Context
from bakeoff.report.studies import scaling_section
from bakeoff.report.view import Charts, Column, Panel, Prose, Section, Series, Table, Value
from bakeoff.results import decode_histogram
from bakeoff.results.epoch_data import RESTART
from bakeoff.results.frame import Frame
from bakeoff.spec.fields import Cache
from bakeoff.stats.model import ArmSummary, Comparison
from bakeoff.stats.restart import WARM_SHARE, ArmRestarts, compare_restarts
from bakeoff.stats.summary import STALL, TAIL_MIN, stability
from bakeoff.units import format_duration, format_ns, format_rate

# A chart has bins of slices: sums over sums, never every n-th slice.

BINS = 100
DRAWN_EPOCHS = 12
"""Epochs drawn over time, evenly chosen if there are more."""


def throughput_section(context: Context) -> Section | None:
    return Section.of(
        "Throughput",
        Section.of(
            "Against threads",
            Charts(
                panels=_threads_panels(context),
                note="Bands: 95% intervals of the mean over epochs. They are wider than those of the ratios, in "
                "which whatever affects both arms cancels.",
                published=True,
            ),
        ),
        scaling_section(context),
        Section.of(
            "Over time",
            Charts(
                panels=_time_panels(context),
                note="Lines: throughput over short stretches; vertical lines: restarts. Bands: the slowest and the "
                f"fastest slice of each stretch.{_not_drawn(context)}",
                published=len({comparison.threads for comparison in context.primary}) < 2,
            ),
        ),
        anchor="throughput",
        nav="Throughput",
    )


def _threads_panels(context: Context) -> tuple[Panel, ...]:
    panels: list[Panel] = []
    for workload in dict.fromkeys(comparison.workload for comparison in context.primary):
        cells = {c.threads: c.cell for c in context.primary if c.workload == workload}
        if len(cells) < 2:
            continue
        series = []
        for arm in context.slots:
            keys = ((threads, (cell, arm)) for threads, cell in sorted(cells.items()))
            found = [(threads, context.summaries[key]) for threads, key in keys if key in context.summaries]
            series.append(
                context.arm_series(
                    arm,
                    (threads for threads, _ in found),
                    (summary.tps for _, summary in found),
                    ([summary.tps_low for _, summary in found], [summary.tps_high for _, summary in found]),
                    tips=tuple(
                        f"{context.labels[arm]}, {numbers.threads(n)}: {format_rate(s.tps)} events/s" for n, s in found
                    ),
                )
            )
        panels.append(
            Panel(
                id=f"threads-{len(panels)}",
                title=workload,
                x_title="threads",
                y_title="events per second",
                series=tuple(series),
                x_kind="threads",
            )
        )
    return tuple(panels)


def _time_panels(context: Context) -> tuple[Panel, ...]:
    """Throughput in every detailed cell: the epochs joined, a line per arm that breaks at each restart."""
    times = cell_times(context.slices, context.detail_cells)
    return tuple(
        _time_panel(context, f"time-{index}", cell, times[cell])
        for index, cell in enumerate(context.detail_cells)
        if cell in times
    )


def _time_panel(context: Context, panel_id: str, cell: str, times: Frame) -> Panel:
    epochs = times.by("epoch")
    begins_s = np.append(0.0, np.cumsum(epochs.max(times["seconds"])))
    unit, factor = ("seconds", 1.0) if begins_s[-1] < 180 else ("minutes", 1 / 60)
    arms = times.with_columns(x=(times["seconds"] + begins_s[epochs.ids]) * factor).by("arm").frames()
    return Panel(
        id=panel_id,
        title=context.cell_title(cell),
        x_title=f"{unit} of measuring, epochs joined",
        y_title="events per second",
        series=tuple(
            context.arm_series(
                arm, own["x"], own["tps"], (own["tps_low"], own["tps_high"]), group=tuple(own["epoch"].tolist())
            )
            for arm in context.slots
            if (own := arms.get(arm)) is not None
        ),
        boundaries=numbers.rounded(begins_s[1:-1] * factor),
    )


def cell_times(slices: Frame, cells: tuple[str, ...]) -> dict[str, Frame]:
    """Return each cell over time, in at most `DRAWN_EPOCHS` epochs, with a row per stretch of an epoch on an arm."""
    by = slices.by("cell", "epoch")
    spans = by.keys.with_columns(span_ns=by.max(slices["start_ns"] + slices["length_ns"]))
    drawn, bins_per_epoch = np.zeros(len(spans), dtype=bool), BINS
    for cell in cells:
        rows = np.flatnonzero(spans["cell"] == cell)
        if len(rows) > DRAWN_EPOCHS:
            rows = rows[np.linspace(0, len(rows) - 1, DRAWN_EPOCHS).round().astype(int)]
        drawn[rows] = True
        bins_per_epoch = min(bins_per_epoch, max(2, BINS // max(len(rows), 1)))
    slices = slices.with_columns(bin=slices["start_ns"] * bins_per_epoch // spans["span_ns"][by.ids])
    slices = slices.rows(drawn[by.ids] & (slices["busy_ns"] > 0))
    bins = slices.by("cell", "arm", "epoch", "bin")
    tps = slices["events"] * slices["connections"] / slices["busy_ns"] * 1e9
    times = bins.keys.with_columns(
        seconds=bins.mean(slices["start_ns"] + slices["length_ns"] // 2) / 1e9,
        # Connections are busy, and events counted, for slightly less than the whole slice.
        tps=bins.sum(slices["events"]) / bins.sum(slices["busy_ns"] / slices["connections"]) * 1e9,
        tps_low=bins.min(tps),
        tps_high=bins.max(tps),
    )
    return times.sort("cell", "epoch", "arm", "bin").by("cell").frames()


def _not_drawn(context: Context) -> str:
    left = []
    if (epochs := len(context.valid_epochs)) > DRAWN_EPOCHS:
        left.append(f"At most {DRAWN_EPOCHS} of {epochs} epochs are drawn, evenly chosen.")
    left += filter(None, [cells_not_drawn(context)])
    return " ".join(["", *left, "The tables have all of them; every slice is in the run directory."]) if left else ""


def cells_not_drawn(context: Context) -> str:
    cells = len(context.cells)
    return f"Drawn: the {DETAIL_CELLS} of {cells} cells with the largest differences." if cells > DETAIL_CELLS else ""


def stability_section(context: Context) -> Section | None:
    return Section.of("Stability and jitter", _stability_table(context), anchor="stability", nav="Stability")


def _stability_table(context: Context) -> Table:
    found = {(row["cell"], row["arm"]): row for row in stability(context.slices).records()}
    rows = (found.get((cell, arm)) for cell in context.cells for arm in context.slots)
    return Table.of(
        "stability",
        filter(None, rows),
        Column("arm", lambda row: context.labels[row["arm"]]),
        Column("slice to slice", itemgetter("slice_cv"), numbers.share),
        Column("slowest slice", itemgetter("slowest"), numbers.share),
        Column("stalled slices", lambda row: Value(text=numbers.share(row["stalled"]), sub=f"of {row['slices']:,}")),
        Column("longest event", itemgetter("longest_ns"), format_ns),
        Column("restart to restart", itemgetter("epoch_cv"), numbers.share),
        group=lambda row: context.cell_title(row["cell"]),
        slot=lambda row: context.slots[row["arm"]],
        group_title="cell",
        note="Slice to slice: standard deviation of a slice's throughput, relative to its epoch's. Slowest slice: "
        f"relative to the same. Stalled: below {STALL:.0%} of it. Restart to restart: standard deviation of the epochs "
        "over their mean, including the machine's own drift, which cancels in the ratios. Slices in which no "
        "event both began and ended are left out.",
    )


# Restarts with empty caches.


def _restarts(context: Context) -> list[ArmRestarts]:
    if context.study.cache is not Cache.COLD:
        return []
    records = {epoch: context.run.server_json(epoch, RESTART, dict[str, Any]) for epoch in context.valid_epochs}
    found = {each.arm: each for each in compare_restarts(records, context.analysis.baseline)}
    return [found[arm] for arm in context.arms if arm in found]


def restart_section(context: Context) -> Section | None:
    table = Table.of(
        "restarts",
        context.once(_restarts),
        Column("arm", lambda each: context.labels[each.arm]),
        Column("until warm", lambda each: f"{each.typical_s:.3g} s" if each.typical_s else "never"),
        Column("of it starting", lambda each: f"{each.start_s:.3g} s"),
        Column("ratio", lambda each: numbers.ratio_of(each.ratio) if each.ratio else ""),
        Column("95% interval", lambda each: numbers.interval(each.ratio.interval) or "n/a" if each.ratio else ""),
        Column("too late", lambda each: str(each.late) if each.late else ""),
        slot=lambda each: context.slots[each.arm],
        note="Seconds from the start of the process, with an empty page cache and buffer pool, until a second of load "
        f"had {WARM_SHARE:.0%} of the throughput before: geometric mean over epochs. In each epoch every arm is "
        "restarted alone, after measuring. Below 1 the arm is fast again sooner. Too late: epochs in which it was not "
        "warm within the time limit; they are left out.",
    )
    return Section.of("After a restart", table, anchor="restarts", nav="Restarts", in_terminal=True)


def restart_findings(context: Context) -> Iterator[str]:
    found = context.once(_restarts)
    base = next((each for each in found if each.arm == context.analysis.baseline), None)
    for each in found:
        if base and base.typical_s and each.ratio and each.typical_s and each.ratio.interval.low is not None:
            yield (
                f"After a restart with empty caches {context.labels[each.arm]} takes {each.typical_s:.3g} s to be fast "
                f"again, {numbers.ratio_of(each.ratio)} ({numbers.interval(each.ratio.interval)}) as long as "
                f"{context.labels[base.arm]}."
            )


# Every epoch.


def epochs_section(context: Context) -> Section | None:
    return Section.of(
        "Every epoch",
        Charts(
            panels=tuple(_epoch_panel(context, index, cell) for index, cell in enumerate(context.detail_cells)),
            intro="One point per epoch, in the order of measuring. The intervals come from these points alone.",
            note=cells_not_drawn(context),
        ),
        Prose(text=epoch_counts(context), small=True),
        Section.of("Discarded epochs", _discarded_table(context)),
        anchor="epochs",
        nav="Every epoch",
    )


def epoch_counts(context: Context) -> str:
    abandoned = context.run.abandoned_epochs()
    parts = [f"{context.analysis.epochs_used} counted", f"{len(context.analysis.discarded)} discarded"]
    if abandoned:
        parts.append(f"{abandoned} not finished")
    spent = sum(outcome.wall_s for outcome in context.outcomes)
    measured = sum(outcome.measured_s for outcome in context.outcomes)
    text = f"Epochs: {', '.join(parts)}."
    if spent > 0:
        text += f" {format_duration(spent)} in epochs, {format_duration(measured)} of it measuring."
    return text


def _epoch_panel(context: Context, index: int, cell: str) -> Panel:
    comparisons = [comparison for comparison in context.analysis.comparisons if comparison.cell == cell]
    several = len(context.analysis.contenders) > 1 or context.analysis.control is not None
    return Panel(
        id=f"epochs-{index}",
        title=context.cell_title(cell),
        x_title="epoch",
        y_title=f"ratio to {context.labels[context.analysis.baseline]}" if several else "ratio",
        mark="points",
        series=tuple(_epoch_series(context, comparison) for comparison in comparisons),
        y_zero=False,
        one="1: as fast",
    )


def _epoch_series(context: Context, comparison: Comparison) -> Series:
    label = context.labels[comparison.contender]
    return context.arm_series(
        comparison.contender,
        (point.epoch for point in comparison.points),
        (math.exp(point.value) for point in comparison.points),
        tips=tuple(
            f"{label}, epoch {point.epoch}, build {point.build}: {numbers.ratio(point.value, 0.002)}"
            for point in comparison.points
        ),
    )


def _discarded_table(context: Context) -> Table:
    return Table.of(
        "discarded",
        context.analysis.discarded.items(),
        Column("epoch", itemgetter(0)),
        Column("reason", lambda each: context.with_labels(each[1])),
        all_text=True,
    )


# Latency: a table of percentiles, and curves over all quantiles from the full histograms.

_CURVE_POINTS = 40
_LEAST_QUANTILE = 0.2


def latency_section(context: Context) -> Section | None:
    return Section.of(
        "Latency",
        _latency_table(context),
        Charts(panels=_percentile_panels(context), note=cells_not_drawn(context)),
        anchor="latency",
        nav="Latency",
        note=_latency_note(context),
    )


def _latency_note(context: Context) -> str:
    clocks = {summary.clock for summary in context.analysis.arms}
    if clocks == {"response"}:
        return "Response time: from the moment a request was due to its last byte, at the same schedule for every arm."
    text = (
        "Service time at saturation: from sending to the last byte, each thread sending its next request at once. It "
        "is how long a busy server takes, not the response time that users see at a given load, and has no verdict."
    )
    if clocks <= {"service"}:
        return text
    return f"{text} Cells at a fixed rate show response time, from the moment a request was due."


def _latency_table(context: Context) -> Table:
    quantiles = sorted({q for summary in context.analysis.arms for q in summary.quantiles_ns}, key=float)
    contenders = context.analysis.contenders
    events = [each for each in context.analysis.latencies if each.operation == "event" and each.contender in contenders]
    ratios = {(each.cell, each.contender, each.quantile): each for each in events}

    def value(summary: ArmSummary, quantile: str) -> Value:
        found = summary.quantiles_ns.get(quantile)
        ratio = ratios.get((summary.cell, summary.arm, float(quantile)))
        sub = numbers.estimate_short(ratio.estimate) if ratio and ratio.estimate else ""
        if ratio and ratio.differs:
            sub += "\N{NO-BREAK SPACE}*"
        return Value(text="n/a" if found is None else format_ns(found), sub=sub)

    return summary_table(
        context,
        "latency",
        *(Column(f"p{float(q) * 100:g}", partial(value, quantile=q)) for q in quantiles),
        Column("events/s", lambda summary: summary.tps, format_rate),
        note="* The arms differ, at a false discovery rate of 5% over all percentiles of response times in this report."
        if any(ratio.differs for ratio in ratios.values())
        else "",
    )


def summary_table(context: Context, name: str, *columns: Column[ArmSummary], note: str) -> Table:
    found = (context.summaries.get((cell, arm)) for cell in context.cells for arm in context.compared_arms)
    return Table.of(
        name,
        filter(None, found),
        Column("arm", lambda each: context.labels[each.arm]),
        *columns,
        **context.by_arm,
        note=note,
    )


def _percentile_panels(context: Context) -> tuple[Panel, ...]:
    """Latency against the share of events that were faster; each nine takes equal room."""
    messages: dict[tuple[str, str], list[str]] = {}
    for message in chain.from_iterable(context.histograms.values()):
        if message["operation"] == "event" and message["hdr"]:
            messages.setdefault((message["cell"], message["arm"]), []).append(message["hdr"])
    panels = list[Panel]()
    for cell in context.detail_cells:
        found = {arm: mean_curve(messages[cell, arm]) for arm in context.slots if (cell, arm) in messages}
        series = tuple(_percentile_series(context, cell, arm, curve) for arm, curve in found.items() if curve)
        if series:
            clock = next(summary.clock for key, summary in context.summaries.items() if key[0] == cell)
            panels.append(
                Panel(
                    id=f"percentiles-{len(panels)}",
                    title=context.cell_title(cell),
                    x_title="share of events",
                    y_title=f"{clock} time, ms",
                    series=series,
                    x_kind="tail",
                )
            )
    return tuple(panels)


def _percentile_series(context: Context, cell: str, arm: str, curve: dict[float, float]) -> Series:
    """Return a curve with its named percentiles as points on it."""
    summary = context.summaries.get((cell, arm))
    all_named = summary.quantiles_ns.items() if summary else ()
    named = {float(q): ns for q, ns in all_named if float(q) <= max(curve)}
    points = sorted((curve | named).items())
    return context.arm_series(
        arm,
        (-math.log10(1 - quantile) for quantile, _ in points),
        (ns / 1e6 for _, ns in points),
        tips=tuple(
            f"{context.labels[arm]}, p{100 * quantile:g}: {format_ns(ns)}" if quantile in named else ""
            for quantile, ns in points
        ),
    )


def mean_curve(texts: list[str]) -> dict[float, float]:
    """Average one histogram per epoch: quantile below 1 -> latency in ns; empty if there are too few events.

    The curve ends where fewer than `TAIL_MIN` events lie beyond.
    """
    histograms = list(map(decode_histogram, texts))
    fewest = min(histogram.total for histogram in histograms)
    if fewest <= 2 * TAIL_MIN:
        return {}
    nines = np.linspace(-math.log10(1 - _LEAST_QUANTILE), math.log10(fewest / TAIL_MIN), _CURVE_POINTS)
    quantiles: NDArray[np.float64] = 1 - 10.0**-nines
    logs = np.log(np.maximum([histogram.quantiles(quantiles) for histogram in histograms], 1))
    return dict(zip(quantiles.tolist(), np.exp(logs.mean(axis=0)).tolist(), strict=True))
