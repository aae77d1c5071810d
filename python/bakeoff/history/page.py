"""A history's lines and changes: as a page, as tables, and for other programs."""

import csv
import io
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np

from bakeoff.errors import ResultsError, SpecError
from bakeoff.history.changes import POINTS_MIN, Change, Track, changes_of
from bakeoff.history.compare import SINGLE
from bakeoff.history.history_file import P95, THROUGHPUT, Annotation, Point
from bakeoff.report import numbers
from bakeoff.report.context import read_analysis
from bakeoff.report.view import Charts, Column, Fold, Panel, Prose, ReportView, Section, Series, Table, Value
from bakeoff.results import RunDirectory
from bakeoff.stats import hosts
from bakeoff.stats import interval as iv
from bakeoff.stats.model import Analysis, Comparison
from bakeoff.units import format_rate

_P95_QUANTILE = 0.95
_REFUSED = "It cannot be added to a history."
_NEAR_ONE = 0.25  # log ratio; further away the line at 1 would squeeze the points

T = TypeVar("T")

UNITS = {THROUGHPUT: "events per second", P95: "95th percentile, ms"}


# The points of a run.


def points_of(run: RunDirectory, *, series: str, commit: str = "", at: datetime | None = None) -> list[Point]:
    """Return a point for each comparison's throughput, and for its events' 95th percentile; `at` dates them."""
    analysis = read_analysis(run)
    if analysis is None:
        raise ResultsError(f"run {run.name} has no analysis.", hint=f"End it first: bakeoff run --resume {run.name}.")
    if analysis.trusted is False:
        raise ResultsError(f"run {run.name} is UNTRUSTED: its control differs.", hint=_REFUSED)
    manifest, study = run.manifest(), run.study()
    labels = {arm.name: arm.label for arm in study.arms}
    variables = run.newest_variables()
    machine = "; ".join(sorted({f"{host}, kernel {host.kernel}" for host in run.measured_on()}))
    shared: dict[str, Any] = {
        "series": series, "commit": commit, "at": at or manifest.created_at, "run": run.name,
        "path": str(run.path.absolute()), "tool": f"bakeoff {manifest.bakeoff}", "machine": machine,
    }  # fmt: skip
    arms = {(each.cell, each.arm): each for each in analysis.arms}
    points = []
    for each in analysis.comparisons:
        values = [point.value for point in each.points]
        if each.is_control or len(values) < 2 or not each.estimate.n:
            continue
        base, own = (arms[each.cell, arm] for arm in (each.baseline, each.contender))
        shared |= {
            "cell": each.cell, "baseline": labels[each.baseline], "contender": labels[each.contender],
            "versions": tuple(variables.get(arm, {}).get("version", "") for arm in (each.baseline, each.contender)),
        }  # fmt: skip
        found = hosts.moments(values, [point.host for point in each.points])
        points.append(
            Point(
                **shared, ratio=each.estimate.mean, error=found.sd / math.sqrt(found.n),
                low=each.estimate.interval.low, high=each.estimate.interval.high, epochs=len(values),
                reference=base.tps, value=own.tps,
            )
        )  # fmt: skip
        points += _latency(analysis, each, shared, base.quantiles_ns, own.quantiles_ns)
    if not points:
        raise ResultsError(f"run {run.name} has no comparison with two epochs.", hint=_REFUSED)
    return points


def _latency(
    analysis: Analysis, compared: Comparison, shared: dict[str, Any], *quantiles_ns: dict[str, float]
) -> list[Point]:
    what = (compared.cell, compared.contender, "event", _P95_QUANTILE)
    found = (each for each in analysis.latencies if (each.cell, each.contender, each.operation, each.quantile) == what)
    ratio = next(found, None)
    if ratio is None or ratio.estimate is None or ratio.error is None:
        return []
    estimate, ends = ratio.estimate, [quantiles.get(str(_P95_QUANTILE)) for quantiles in quantiles_ns]
    reference, value = (None if ns is None else ns / 1e6 for ns in ends)
    return [
        Point(
            **shared, metric=P95, ratio=estimate.mean, error=ratio.error, low=estimate.interval.low,
            high=estimate.interval.high, epochs=estimate.n, reference=reference, value=value,
        )
    ]  # fmt: skip


# Lines and their changes.


@dataclass(frozen=True)
class Line:
    """Points of one metric in the order of time. Its name is unique in its series; single runs have no changes."""

    name: str
    metric: str
    points: tuple[Point, ...]
    changes: tuple[Change, ...] = ()

    @property
    def series(self) -> str:
        return self.points[0].series

    @property
    def title(self) -> str:
        return f"{self.series}: {self.name}"

    @property
    def is_single(self) -> bool:
        return self.points[0].is_single


def lines_of(points: Iterable[Point], *, alpha: float) -> list[Line]:
    """Group points by series, cell, metric and baseline (or tool), and find their changes."""
    groups: dict[tuple[str, ...], list[Point]] = {}
    for point in points:
        tool = point.tool.partition(" ")[0] if point.is_single else ""
        groups.setdefault((point.series, point.cell, point.metric, point.baseline, tool), []).append(point)
    lines = []
    for (_, cell, metric, baseline, tool), own in groups.items():
        several = max(Counter((point.run, point.at) for point in own).values()) > 1
        for contender in dict.fromkeys(point.contender for point in own) if several else [""]:
            kept = tuple(point for point in own if contender in ("", point.contender))
            about = tool or f"over {baseline}"
            lines.append(Line(" ".join(filter(None, (cell, metric, contender, about))), metric, kept))
    asked = [line for line in lines if not line.is_single]
    tracks = [Track([p.ratio or 0.0 for p in line.points], [p.error or 0.0 for p in line.points]) for line in asked]
    found = dict(zip((line.title for line in asked), changes_of(tracks, alpha=alpha), strict=True))
    return [replace(line, changes=found.get(line.title, ())) for line in lines]


def _word(line: Line, change: Change) -> str:
    word = "faster" if (change.size < 0) is (line.metric == P95) else "slower"
    return f"{word}: {numbers.change(change.size, change.interval.half_width)}"


def _name(point: Point) -> str:
    return point.commit[:12] or point.run


# The page.


def history_view(
    points: Sequence[Point], annotations: Sequence[Annotation], *, title: str, alpha: float, beside: Path | None = None
) -> ReportView:
    """Build the view of a history. Runs are linked if the page's folder, `beside`, is given."""
    if not points:
        raise ResultsError(f"{title} has no points yet.", hint="`bakeoff history add RUN` adds a run's.")
    lines = lines_of(points, alpha=alpha)
    series = list(dict.fromkeys(point.series for point in points))
    paired = [line for line in lines if not line.is_single]
    single = [line for line in lines if line.is_single]
    own = [each for each in annotations if each.series in ("", *series)]
    annotations = sorted([*own, *_noticed(points)], key=lambda each: each.at)
    changes = [Prose(text=_lead(paired, alpha)) if paired else None, _changes_table(paired, annotations)]
    of_series = {name: [line for line in paired if line.series == name] for name in series}
    runs_alone = [Prose(text=SINGLE) if single else None, _charts("single", single, annotations)]
    all_points = Fold(title="All points", content=_points_table(points, beside))
    made = (
        Section.of("What changed", *changes, anchor="changes", nav="What changed", in_terminal=True),
        Section.of("Lines", _lines_table(lines), anchor="lines", nav="Lines", in_terminal=True),
        *(
            Section.of(name, _charts(f"series-{at}", own, annotations, _NOTE), anchor=f"series-{at}", nav=name)
            for at, (name, own) in enumerate(of_series.items())
        ),
        Section.of("Single runs", *runs_alone, anchor="single", nav="Single runs"),
        Section.of("Points", all_points, anchor="points", nav="Points"),
    )
    runs = numbers.counted(len({point.run for point in points}), "run")
    return ReportView(
        run=title,
        title=title,
        question=f"History: {', '.join(series)}",
        dateline=f"{points[0].at:%Y-%m-%d} to {points[-1].at:%Y-%m-%d} · {runs} · "
        f"{numbers.counted(len(lines), 'line')}",
        sections=tuple(section for section in made if section),
        records=tuple(record(line, at) for line in lines for at in range(len(line.points))),
    )


_NOTE = "Points with their 95% intervals; vertical lines: changes. Point at a mark for its date, run and figures."


def _lead(lines: Sequence[Line], alpha: float) -> str:
    changed = [line for line in lines if line.changes]
    short = sum(len(line.points) < POINTS_MIN for line in lines)
    text = f"{len(changed)} of {len(lines)} lines changed" if changed else "No line changed"
    if short:
        text += f"; {short} {'has' if short == 1 else 'have'} fewer than {POINTS_MIN} points, too few to tell"
    return (
        f"{text}. Tested on the ratios to the reference of the same run, with each point's own uncertainty; at most "
        f"{alpha:.0%} of histories without a change show one."
    )


def _changes_table(lines: Sequence[Line], annotations: Sequence[Annotation]) -> Table:
    found = [
        (line, change, line.points[change.at - 1], line.points[change.at]) for line in lines for change in line.changes
    ]

    def noted(line: Line, before: Point, after: Point) -> str:
        return "; ".join(each.text for each in annotations if before.at < each.at <= after.at and _about(each, line))

    return Table.of(
        "changes",
        sorted(found, key=lambda each: each[3].at),
        Column("from", lambda each: f"{each[3].at:%Y-%m-%d}"),
        Column("line", lambda each: each[0].title),
        Column("first run", lambda each: Value(text=_name(each[3]), sub=f"after {_name(each[2])}")),
        Column("may be", lambda each: _between(each[0], each[1]), wide=True),
        Column("change", lambda each: _word(*each[:2])),
        Column("95% interval", lambda each: numbers.change_interval(each[1].interval)),
        Column("p", lambda each: each[1].p_value, "{:.2g}".format, wide=True),
        Column("with it", lambda each: noted(each[0], each[2], each[3])),
        all_text=True,
    )


def _about(annotation: Annotation, line: Line) -> bool:
    return annotation.series in ("", line.series)


def _between(line: Line, change: Change) -> str:
    if change.first == change.last:
        return "this one"
    return f"{_name(line.points[change.first])} to {_name(line.points[change.last])}"


def _noticed(points: Sequence[Point]) -> Iterable[Annotation]:
    seen: dict[tuple[str, str], set[str]] = {}
    for point in points:
        found = {"machine": point.machine, f"version of {point.baseline}": point.versions[0], "tool": point.tool}
        for what, value in found.items() if not point.is_single else ():
            known = seen.setdefault((point.series, what), set())
            if known and value not in known:
                yield Annotation(at=point.at, series=point.series, text=f"first {what} {value}".strip())
            known.add(value)


def _lines_table(lines: Sequence[Line]) -> Table:
    def unchanged(line: Line) -> str:
        since = len(line.points) - (line.changes[-1].at if line.changes else 0)
        return "single runs" if line.is_single else numbers.counted(since, "point")

    return Table.of(
        "lines",
        lines,
        Column("line", lambda line: line.name),
        Column("points", lambda line: len(line.points), wide=True),
        Column("newest", lambda line: f"{line.points[-1].at:%Y-%m-%d}", wide=True),
        *_figure_columns(lambda line: line.points[-1]),
        Column("unchanged for", unchanged),
        group=lambda line: line.series,
        group_title="series",
    )


def _figure_columns(point_of: Callable[[T], Point]) -> Iterator[Column[T]]:
    for at, title in enumerate(("ratio", "95% interval", "reference", "value")):
        yield Column(title, partial(lambda at, each: _figures(point_of(each))[at], at), wide=title == "reference")


def _figures(point: Point) -> tuple[str, str, str, str]:
    reference, value = ("" if each is None else format_rate(each) for each in (point.reference, point.value))
    if point.ratio is None:
        return "", "", reference, value
    interval = numbers.interval(point.interval)
    return numbers.ratio(point.ratio, point.interval.half_width), interval, reference, value


def _charts(name: str, lines: Sequence[Line], annotations: Sequence[Annotation], note: str = "") -> Charts:
    panels = tuple(_panel(f"{name}-{at}", line, annotations) for at, line in enumerate(lines))
    return Charts(panels=panels, legend=False, note=note)


def _panel(name: str, line: Line, annotations: Sequence[Annotation]) -> Panel:
    points, single = line.points, line.is_single
    x = tuple(float(at) for at in range(1, len(points) + 1))
    y = [point.value or 0.0 if single else math.exp(point.ratio or 0.0) for point in points]
    tips = tuple(map(_tip, points))
    shown = [Series(name=line.metric, key="arm-0", x=x, y=numbers.rounded(y), tips=tips, line=False)]
    if not single:
        ends = [[point.low, point.high] for point in points]
        low, high = ([value if end[side] is None else math.exp(end[side] or 0.0)
                      for value, end in zip(y, ends, strict=True)] for side in (0, 1))  # fmt: skip
        shown = [shown[0].model_copy(update={"low": numbers.rounded(low), "high": numbers.rounded(high)})]
        means, stretches = _means(line)
        shown.append(Series(name="mean between changes", key="ink", x=x, y=means, group=stretches))
    own = [each for each in annotations if _about(each, line)]
    places = [(sum(point.at < each.at for point in points) + 0.5, each) for each in own]
    if places:
        floor = min(min(series.low or series.y) for series in shown)
        texts = tuple(f"{each.at:%Y-%m-%d}: {each.text}" for _, each in places)
        place = tuple(at for at, _ in places)
        shown.append(Series(name="annotations", key="second", x=place, y=numbers.rounded([floor] * len(places)),
                            tips=texts, line=False))  # fmt: skip
    near = not single and max(abs(point.ratio or 0.0) for point in points) < _NEAR_ONE
    return Panel(
        id=name, title=line.title if single else line.name, x_title="run", series=tuple(shown), y_zero=False,
        one="reference" if near else "",
        y_title=UNITS.get(line.metric, line.metric) if single else f"{line.metric} over the reference",
        boundaries=tuple(change.at + 0.5 for change in line.changes),
    )  # fmt: skip


def _means(line: Line) -> tuple[tuple[float, ...], tuple[int, ...]]:
    limits = [0, *(change.at for change in line.changes), len(line.points)]
    y: list[float] = []
    group: list[int] = []
    for number, (low, high) in enumerate(pairwise(limits)):
        own = line.points[low:high]
        weights = [1 / max(point.error or 0.0, 1e-4) ** 2 for point in own]
        y += [math.exp(np.average([point.ratio or 0.0 for point in own], weights=weights))] * len(own)
        group += [number] * len(own)
    return numbers.rounded(y), tuple(group)


def _tip(point: Point) -> str:
    ratio, interval, reference, value = _figures(point)
    figures = f"{ratio} ({interval}), {value} over {reference}" if ratio else value
    return f"{point.at:%Y-%m-%d} {_name(point)}: {figures}; {point.contender}"


def _points_table(points: Sequence[Point], beside: Path | None) -> Table:
    def run(point: Point) -> Value:
        page = Path(point.path) / "report.html"
        there = beside and point.path and page.is_file()
        return Value(text=point.run, href=quote(os.path.relpath(page, beside)) if there else "")

    return Table.of(
        "points",
        reversed(points),
        Column("date", lambda point: f"{point.at:%Y-%m-%d %H:%M}"),
        Column("commit", lambda point: point.commit[:12]),
        Column("run", run),
        Column("cell", lambda point: point.cell),
        Column("metric", lambda point: point.metric),
        Column("what", lambda point: point.contender),
        *_figure_columns(lambda point: point),
        Column("rests on", lambda point: "single run" if point.is_single else f"{point.epochs} restarts"),
        Column("tool", lambda point: point.tool),
        Column("machine", lambda point: point.machine),
        group=lambda point: point.series,
        group_title="series",
        all_text=True,
    )


# For other programs.


def record(line: Line, at: int) -> dict[str, str | int | float | bool | None]:
    """Return a flat record of a point, with its change, if any."""
    point = line.points[at]
    flat = point.model_dump(mode="json", exclude={"ratio", "low", "high", "versions"})
    ratios = {name: getattr(point, name) for name in ("ratio", "low", "high")}
    change = next((change for change in line.changes if change.at == at), None)
    return {
        "line": line.title,
        **flat,
        **{name: None if value is None else math.exp(value) for name, value in ratios.items()},
        "reference_version": point.versions[0],
        "version": point.versions[1],
        "changed_by": None if change is None else math.exp(change.size),
        "p_value": None if change is None else change.p_value,
    }


def otava_csv(lines: Sequence[Line]) -> str:
    """Return a column per line and a row per commit for Otava's importer: ratios, or figures of single runs.

    A commit that was measured several times at one time has a row for each. A missing value is a SpecError, because the
    format has no empty cells.
    """
    rows: dict[tuple[str, str], list[dict[str, float]]] = {}
    columns = _columns(lines)
    for column, line in zip(columns, lines, strict=True):
        for point in line.points:
            key = (f"{point.at:%Y-%m-%d %H:%M:%S %z}", _name(point))
            value = point.value if point.ratio is None else math.exp(point.ratio)
            own = rows.setdefault(key, [])
            row = next((row for row in own if column not in row), None)
            if row is None:
                own.append(row := {})
            row[column] = value or 0.0
    if any(len(row) < len(columns) for own in rows.values() for row in own):
        series = "--series NAME " if len({line.series for line in lines}) > 1 else ""
        raise SpecError("export: not every run has every line, and Otava's CSV has no empty cells.",
                        hint=f"Name one: {series}--cell CELL --metric METRIC.")  # fmt: skip
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["time", "commit", *columns])
    writer.writerows([*key, *(f"{row[name]:.6g}" for name in columns)] for key, own in rows.items() for row in own)
    return out.getvalue()


def _columns(lines: Sequence[Line]) -> list[str]:
    """Name lines by cell and metric, or by their full name if another line of the series has the same."""
    short = [(line.series, f"{line.points[0].cell}_{line.metric}") for line in lines]
    names = [line.name if short.count(own) > 1 else own[1] for own, line in zip(short, lines, strict=True)]
    return [name.replace("/", "_").replace(" ", "_") for name in names]


def otava_json(lines: Sequence[Line]) -> str:
    """Return change points as Otava's `analyze --output json` writes them."""
    document: dict[str, list[dict[str, Any]]] = {}
    for column, line in zip(_columns(lines), lines, strict=True):
        limits = [0, *(change.at for change in line.changes), len(line.points)]
        for at, change in enumerate(line.changes):
            point = line.points[change.at]
            before, after = (
                [math.exp(p.ratio or 0.0) for p in line.points[slice(*limits[at + side : at + side + 2])]]
                for side in (0, 1)
            )
            means = [math.fsum(values) / len(values) for values in (before, after)]
            found = {
                "metric": column,
                "index": change.at,
                "time": int(point.at.timestamp()),
                "forward_change_percent": f"{math.expm1(change.size) * 100:.3f}",
                "magnitude": f"{abs(math.expm1(change.size)):.6f}",
                "mean_before": f"{means[0]:.6f}",
                "stddev_before": f"{iv.standard_deviation(before):.6f}",
                "mean_after": f"{means[1]:.6f}",
                "stddev_after": f"{iv.standard_deviation(after):.6f}",
                "pvalue": f"{change.p_value:.6f}",
            }
            attributes = {"commit": point.commit, "run": point.run}
            entry = {"time": int(point.at.timestamp()), "attributes": attributes, "changes": [found]}
            document.setdefault(point.series, []).append(entry)
    return json.dumps(document, indent=1) + "\n"


def github_json(lines: Sequence[Line]) -> str:
    """Return the newest throughput of each line as github-action-benchmark's `customBiggerIsBetter`."""
    benches = []
    for line in lines:
        point = line.points[-1]
        if line.metric == P95:
            continue
        single = point.ratio is None
        bench = {
            "name": line.title,
            "unit": UNITS.get(line.metric, line.metric) if single else "ratio to the reference",
            "value": point.value if point.ratio is None else round(math.exp(point.ratio), 6),
        }
        if (half := point.interval.half_width) is not None:
            bench["range"] = f"± {math.expm1(half):.2%}"
        bench["extra"] = f"{point.contender}; {point.run}; {point.machine}"
        benches.append(bench)
    return json.dumps(benches, indent=1, ensure_ascii=False) + "\n"
