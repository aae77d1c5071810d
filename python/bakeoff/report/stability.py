"""Stability and jitter over time, and the warm-up curve after every start."""

import math
from collections.abc import Mapping

import polars as pl

from bakeoff.report import numbers
from bakeoff.report.answers import threads_text
from bakeoff.report.context import Context
from bakeoff.report.view import Panel, Row, Series, Table, Value
from bakeoff.stats.stability import STALL, stability
from bakeoff.units import format_ns

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
