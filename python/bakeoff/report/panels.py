"""The data of every chart: what is drawn, in which unit, in which colour. No drawing here."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from bakeoff.report import numbers
from bakeoff.report.context import CellTimes, Context, Curve, cell_times, host_times
from bakeoff.report.verdicts import threads_text
from bakeoff.report.view import Panel, Series
from bakeoff.stats.model import Comparison
from bakeoff.units import format_ns, format_rate

_DOINGS_CELLS = 2  # cells for which each server's CPU, memory, disk, network and switches are drawn
_DOINGS = (
    ("server_cpus", "server CPU", "processors kept busy"),
    ("rss_bytes", "server memory", "bytes resident"),
    ("read_bytes_per_s", "server reads from disk", "bytes per second"),
    ("write_bytes_per_s", "server writes to disk", "bytes per second"),
    ("network_bytes_per_s", "to and from the client", "bytes per second"),
    ("context_switches_per_s", "context switches", "per second, the whole machine"),
)
_CPU_ARMS = 6  # arms whose processors' time by kind is drawn


def threads_panels(context: Context) -> tuple[Panel, ...]:
    """Throughput against threads with its band, one chart a workload; none where only one concurrency was measured."""
    panels: list[Panel] = []
    for workload in dict.fromkeys(comparison.workload for comparison in context.primary):
        cells = {c.threads: c.cell for c in context.primary if c.workload == workload}
        if len(cells) < 2:
            continue
        series = []
        for arm, slot in context.slots.items():
            found = [
                (t, context.summaries[cell, arm])
                for t, cell in sorted(cells.items())
                if (cell, arm) in context.summaries
            ]
            series.append(
                Series(
                    name=context.labels[arm],
                    key=f"arm-{slot}",
                    x=tuple(float(threads) for threads, _ in found),
                    y=numbers.rounded(summary.tps for _, summary in found),
                    low=numbers.rounded(summary.tps_low for _, summary in found),
                    high=numbers.rounded(summary.tps_high for _, summary in found),
                    tips=tuple(
                        f"{context.labels[arm]}, {threads_text(t)}: {format_rate(s.tps)} events/s" for t, s in found
                    ),
                )
            )
        panels.append(
            Panel(
                id=f"threads-{len(panels)}",
                title=workload,
                x_title="threads",
                y_title="events per second",
                mark="line",
                series=tuple(series),
                x_kind="threads",
            )
        )
    return tuple(panels)


def epoch_panels(context: Context) -> tuple[Panel, ...]:
    """Every epoch's ratio as a point, in the order in which they were measured."""
    several = len(context.analysis.contenders) > 1 or context.analysis.control is not None
    panels: list[Panel] = []
    for cell in context.detail_cells:
        comparisons = [comparison for comparison in context.analysis.comparisons if comparison.cell == cell]
        primary = next((comparison for comparison in comparisons if not comparison.is_control), comparisons[0])
        band = primary.estimate.interval
        single = len(context.analysis.contenders) == 1
        panels.append(
            Panel(
                id=f"epochs-{len(panels)}",
                title=_cell_title(context, cell),
                x_title="epoch",
                y_title=f"ratio to {context.labels[context.analysis.baseline]}" if several else "ratio",
                mark="points",
                series=tuple(_epoch_series(context, comparison) for comparison in comparisons),
                y_zero=False,
                level=float(f"{math.exp(primary.estimate.mean):.5g}") if single else 1.0,
                level_band=(float(f"{math.exp(band.low):.5g}"), float(f"{math.exp(band.high):.5g}"))
                if single and band.low is not None and band.high is not None
                else None,
            )
        )
    return tuple(panels)


def percentile_panels(context: Context, curves: Mapping[tuple[str, str], Curve]) -> tuple[Panel, ...]:
    """Latency against the share of events that were faster; x is stretched so that each further nine takes equal room.

    Args:
        context: the run.
        curves: (cell, arm) -> (quantile below 1, ns), ascending.
    """
    panels: list[Panel] = []
    for cell in context.detail_cells:
        series = []
        for arm, slot in context.slots.items():
            if curve := curves.get((cell, arm), []):
                series.append(_percentile_series(context, cell, arm, f"arm-{slot}", curve))
        if series:
            clock = next(summary.clock for key, summary in context.summaries.items() if key[0] == cell)
            panels.append(
                Panel(
                    id=f"percentiles-{len(panels)}",
                    title=_cell_title(context, cell),
                    x_title="share of events",
                    y_title=f"{clock} time, ms",
                    mark="line",
                    series=tuple(series),
                    x_kind="tail",
                )
            )
    return tuple(panels)


@dataclass(frozen=True)
class OverTime:
    """Charts over the measured time, epochs joined.

    Attributes:
        throughput: one a cell; `jitter`: the longest event of each stretch, likewise.
        metrics: what each server did, from the slices in which it alone was loaded.
    """

    throughput: tuple[Panel, ...]
    jitter: tuple[Panel, ...]
    metrics: tuple[Panel, ...]


def time_panels(context: Context) -> OverTime:
    """Throughput, jitter, and what each server did over time."""
    times = cell_times(context.slices, context.detail_cells)
    cells = [(index, cell) for index, cell in enumerate(context.detail_cells) if cell in times]
    throughput = tuple(
        _time_panel(
            context, times[cell], f"time-{index}", _cell_title(context, cell), "events per second", "tps", band=True
        )
        for index, cell in cells
    )
    jitter = tuple(
        _time_panel(
            context, times[cell], f"jitter-{index}", _cell_title(context, cell), "longest event, ms", "longest_ms"
        )
        for index, cell in cells
    )
    metrics: list[Panel] = []
    for place, (_, cell) in enumerate(cells[:_DOINGS_CELLS]):
        for column, title, unit in _DOINGS:
            values = times[cell].bins[column].drop_nulls()
            if values.len() and values.ne(0).any():
                panel_title = f"{title} · {_cell_title(context, cell)}"
                metrics.append(_time_panel(context, times[cell], f"arm-{len(metrics)}", panel_title, unit, column))
        if place == 0:
            metrics += _cpu_panels(context, times[cell], cell)
    return OverTime(throughput, jitter, tuple(metrics))


def _cpu_panels(context: Context, times: CellTimes, cell: str) -> list[Panel]:
    """All processors' time by kind while one arm was loaded, a chart for each arm."""
    _, x_title, factor = _time_axis(times.bins["seconds"])
    panels: list[Panel] = []
    for arm in list(context.slots)[:_CPU_ARMS]:
        part = times.bins.filter((pl.col("arm") == arm) & pl.col("user").is_not_null())
        if part.is_empty():
            continue
        x = numbers.rounded(value * factor for value in part["seconds"])
        panels.append(
            Panel(
                id=f"arm-cpu-{len(panels)}",
                title=f"processors while {context.labels[arm]} was loaded · {_cell_title(context, cell)}",
                x_title=x_title,
                y_title="per cent of all processors; the rest is idle",
                mark="stack",
                series=tuple(
                    Series(
                        name=kind,
                        key=f"cpu-{kind}",
                        x=x,
                        y=numbers.rounded(100 * value for value in part[kind]),
                        group=tuple(part["epoch"].to_list()),
                    )
                    for kind in ("user", "system", "iowait", "steal")
                ),
                y_max=100.0,
                boundaries=numbers.rounded(limit * factor for limit in times.boundaries_s),
            )
        )
    return panels


def host_panels(context: Context) -> tuple[Panel, ...]:
    """The whole machine over the whole run: CPU, memory, disk, network, context switches, tasks."""
    times = host_times(context.run, context.valid_epochs)
    if times is None:
        return ()
    samples = times.samples
    x, x_title, factor = _time_axis(samples["seconds"], "of the epochs, joined")
    group = tuple(samples["epoch"].to_list())
    boundaries = numbers.rounded(limit * factor for limit in times.boundaries_s)

    def line(name: str, key: str, column: str, scale: float = 1.0) -> Series:
        y = numbers.rounded((value or 0.0) * scale for value in samples[column])
        return Series(name=name, key=key, x=x, y=y, group=group)

    def panel(name: str, title: str, unit: str, *lines: Series, stacked: bool = False) -> Panel:
        return Panel(
            id=f"host-{name}",
            title=title,
            x_title=x_title,
            y_title=unit,
            mark="stack" if stacked else "line",
            series=lines,
            y_max=100.0 if stacked else None,
            boundaries=boundaries,
        )

    resident = [
        line(context.labels.get(arm, arm), f"arm-{context.slots.get(arm, 0)}", f"rss_bytes:{arm}")
        for arm in times.arms
        if samples[f"rss_bytes:{arm}"].null_count() < samples.height
    ]
    shares = [line(kind, f"cpu-{kind}", kind, 100.0) for kind in ("user", "system", "iowait", "steal")]
    read, written = "disk_read_bytes_per_s", "disk_write_bytes_per_s"
    return (
        panel("cpu", "Processors", "per cent of all processors; the rest is idle", *shares, stacked=True),
        panel(
            "memory", "Memory", "bytes",
            line("used", "ink", "memory_used_bytes"), line("cache", "second", "memory_cached_bytes"),
        ),
        *([panel("rss", "Servers' resident memory", "bytes", *resident)] if resident else []),
        panel("disk", "Disk", "bytes per second", line("written", "ink", written), line("read", "second", read)),
        panel("network", "Network, loopback included", "bytes per second", line("sent", "ink", "network_bytes_per_s")),
        panel(
            "switches", "Context switches and interrupts", "per second",
            line("context switches", "ink", "context_switches_per_s"), line("interrupts", "second", "interrupts_per_s"),
        ),
        panel("tasks", "Tasks", "number", line("running", "ink", "running"), line("blocked", "second", "blocked")),
    )  # fmt: skip


def _epoch_series(context: Context, comparison: Comparison) -> Series:
    label = context.labels[comparison.contender]
    return Series(
        name=label,
        key=f"arm-{context.slots[comparison.contender]}",
        x=tuple(float(point.epoch) for point in comparison.points),
        y=numbers.rounded(math.exp(point.value) for point in comparison.points),
        tips=tuple(
            f"{label}, epoch {point.epoch}, build {point.build}: {numbers.ratio(point.value, 0.002)}"
            for point in comparison.points
        ),
    )


def _percentile_series(context: Context, cell: str, arm: str, key: str, curve: Curve) -> Series:
    """A curve with its named percentiles as points on it."""
    summary = context.summaries.get((cell, arm))
    last = curve[-1][0]
    named = {float(q): ns for q, ns in (summary.quantiles_ns.items() if summary else ()) if float(q) <= last}
    values = dict(curve) | named
    points = sorted(values)
    return Series(
        name=context.labels[arm],
        key=key,
        x=numbers.rounded(-math.log10(1 - quantile) for quantile in points),
        y=numbers.rounded(values[quantile] / 1e6 for quantile in points),
        tips=tuple(
            f"{context.labels[arm]}, p{100 * quantile:g}: {format_ns(named[quantile])}" if quantile in named else ""
            for quantile in points
        ),
    )


def _time_panel(
    context: Context,
    times: CellTimes,
    panel_id: str,
    title: str,
    unit: str,
    column: str,
    *,
    band: bool = False,
) -> Panel:
    _, x_title, factor = _time_axis(times.bins["seconds"])
    series = []
    for arm, slot in context.slots.items():
        part = times.bins.filter((pl.col("arm") == arm) & pl.col(column).is_not_null())
        if part.is_empty():
            continue
        series.append(
            Series(
                name=context.labels[arm],
                key=f"arm-{slot}",
                x=numbers.rounded(value * factor for value in part["seconds"]),
                y=numbers.rounded(part[column]),
                low=numbers.rounded(part[f"{column}_low"]) if band else (),
                high=numbers.rounded(part[f"{column}_high"]) if band else (),
                group=tuple(part["epoch"].to_list()),
            )
        )
    return Panel(
        id=panel_id,
        title=title,
        x_title=x_title,
        y_title=unit,
        mark="line",
        series=tuple(series),
        boundaries=numbers.rounded(limit * factor for limit in times.boundaries_s),
    )


def _time_axis(
    seconds: pl.Series, of_what: str = "of measuring, epochs joined"
) -> tuple[tuple[float, ...], str, float]:
    """The values in the unit that reads best, its title, and the factor from seconds."""
    longest: Any = seconds.max()
    unit, factor = ("seconds", 1.0) if (longest or 0) < 180 else ("minutes", 1 / 60)
    return numbers.rounded(value * factor for value in seconds), f"{unit} {of_what}", factor


def _cell_title(context: Context, cell: str) -> str:
    comparison = next(comparison for comparison in context.analysis.comparisons if comparison.cell == cell)
    return f"{comparison.workload} · {threads_text(comparison.threads)}"
