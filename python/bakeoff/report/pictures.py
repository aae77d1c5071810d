"""Charts of a report as pictures of their own, SVG or PNG: in light colours, with title and legend inside."""

import difflib
import json
import re

import vl_convert

from bakeoff.errors import SpecError
from bakeoff.report import charts
from bakeoff.report.view import Panel, ReportView

VERDICTS = "verdicts"
"""Name of the chart of all ratios with their intervals; the others are called as their panels are on the page."""

_ROW_PX = 26
_PNG_SCALE = 2.0


def picture_svg(view: ReportView, name: str) -> str:
    """One chart as an SVG file.

    Raises:
        SpecError: the report has no such chart; the message names those that it has.
    """
    panels = {panel.id: panel for panel in view.panels}
    names = [VERDICTS, *panels]
    if name not in names:
        near = difflib.get_close_matches(name, names, n=3) or names
        raise SpecError(f"report: there is no chart {name!r}.", hint=f"There are: {', '.join(near)}.")
    described = _verdicts(view) if name == VERDICTS else _panel(view, panels[name])
    style = (charts.TEMPLATES / "report.css").read_text(encoding="utf-8").partition("@media")[0]
    colours = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", style))
    return charts.painted(vl_convert.vegalite_to_svg(described), colours)


def picture_png(view: ReportView, name: str) -> bytes:
    """The same as a PNG file, at two pixels for each of the SVG's."""
    png: bytes = vl_convert.svg_to_png(picture_svg(view, name), scale=_PNG_SCALE)
    return png


def _panel(view: ReportView, panel: Panel) -> charts.Json:
    described = charts.describe(panel, view.dashed)
    names = {f"arm-{arm.slot}": arm.label for arm in view.arms}
    names |= {series.key: series.name for series in panel.series if series.key not in names}
    legend = {"title": None, "orient": "bottom", "labelLimit": 400, "symbolOpacity": 1}
    legend["labelExpr"] = f"({json.dumps(names)})[datum.label]"
    for layer in described["layer"]:
        if layer["encoding"].get("color", {}).get("field") == "k":
            layer["encoding"]["color"] = layer["encoding"]["color"] | {"legend": legend}
    title = {"text": panel.title, "subtitle": panel.y_title, "anchor": "start"}
    return described | {"title": title, "background": "white", "padding": 10}


def _verdicts(view: ReportView) -> charts.Json:
    """A line for every comparison: the ratio and its interval on a logarithmic axis, and both in figures."""
    forest = view.forest
    several = len({row.contender for row in forest.rows}) > 1
    measured = [row for row in forest.rows if row.measured]
    rows = [
        {
            "y": f"{index} {row.label}" + (f" · {row.contender}" if several else ""),
            "x": row.point,
            "low": row.point if row.low is None else row.low,
            "high": row.point if row.high is None else row.high,
            "k": f"arm-{row.slot}",
            "text": f"{row.ratio}  {row.interval}  {row.verdict}".strip(),
        }
        for index, row in enumerate(measured)
    ]
    keys = list(dict.fromkeys(f"arm-{row.slot}" for row in measured))
    colour = charts.by_key(keys, [charts.stand_in(charts.css_key(key)) for key in keys])
    ticks = {f"{position:.6g}": text for position, text in forest.ticks}
    scale = {"domain": [0, 100], "nice": False}
    labels = f"({json.dumps(ticks)})[format(datum.value, '.6~g')]"
    x = charts.number("x", title="ratio", scale=scale)
    x["axis"] = {"values": [position for position, _ in forest.ticks], "labelExpr": labels}
    y: dict[str, charts.Json] = {"field": "y", "type": "nominal", "sort": None, "title": None}
    y["axis"] = {"labelExpr": "slice(datum.label, indexof(datum.label, ' ') + 1)", "labelLimit": 400, "ticks": False}
    interval = {"x": charts.number("low", scale=scale), "x2": {"field": "high"}, "y": y, "color": colour}
    figures = {"y": y, "text": {"field": "text", "type": "nominal"}, "x": {"value": "width"}}
    ink = charts.stand_in("ink")
    return {
        "width": charts.WIDTH,
        "height": {"step": _ROW_PX},
        "background": "white",
        "padding": 10,
        "title": {"text": view.question, "subtitle": view.dateline, "anchor": "start"},
        "config": charts.CONFIG,
        "datasets": {"rows": rows, "one": [{"x": forest.one}]},
        "layer": [
            charts.layer("one", "rule", {"x": charts.number("x")}, color=ink),
            charts.layer("rows", "rule", interval, strokeWidth=3),
            charts.layer("rows", "point", {"x": x, "y": y, "color": colour}, filled=True, size=60, opacity=1),
            charts.layer("rows", "text", figures, align="left", dx=8, color=ink),
        ],
    }
