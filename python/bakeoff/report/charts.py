"""Draw panels: Vega-Lite descriptions become SVGs (vl-convert), inside the HTML page or as files.

Inside the page an SVG needs no script and no network, takes colours (light, dark, print) and font from its style,
and gives a point's value in a `<title>`. As a file it has light colours, and its title and legend inside.
"""

import difflib
import html
import json
import math
import re
from pathlib import Path
from typing import Any

import vl_convert

from bakeoff.errors import SpecError
from bakeoff.report.view import Panel, ReportView, Series

TEMPLATES = Path(__file__).parent / "templates"

WIDTH, HEIGHT = 480, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 10, 6, 44
"""Room around the axes, in pixels: for labels and the title of x."""

ARM_SLOTS = 8
"""Colours and shapes for arms; a study with more arms uses them again, each colour with another shape."""

_KEYS = (
    "ink", "second", "muted", "grid",
    *(f"arm-{slot}" for slot in range(ARM_SLOTS)),
)  # fmt: skip
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
LEGEND_SHAPES = "●■▲◆✚▼▶◀"
_QUANTITY = "datum.value == 0 ? '0' : abs(datum.value) < 1 ? format(datum.value, '.3~f') : format(datum.value, '.3~s')"
_FRACTION = "format(datum.value, '.3~f')"
_TICKS_MAX = 12
_TAIL_TICKS = {0.30103: "50%", 1.0: "90%", 1.30103: "95%", 2.0: "99%", 3.0: "99.9%", 4.0: "99.99%", 5.0: "99.999%"}

Json = Any


def css_key(key: str) -> str:
    kind, _, number = key.partition("-")
    return f"arm-{int(number) % ARM_SLOTS}" if kind == "arm" and number.isdigit() else key


def shape_of(slot: int) -> int:
    return (slot + slot // ARM_SLOTS) % ARM_SLOTS


def draw(panel: Panel) -> str:
    """Draw a panel as an SVG element for the page."""
    room = {"left": _LEFT, "right": _RIGHT, "top": _TOP, "bottom": _BOTTOM}
    described = describe(panel) | {"autosize": {"type": "none"}, "padding": room}
    svg = _LABELLED.sub(r"<path\2><title>\1</title></path>", vl_convert.vegalite_to_svg(described))
    svg = _NOISE.sub("", svg)
    svg = _STAND_IN.sub(lambda found: f'{found[1]}="var(--{_KEYS[int(found[2], 16)]})"', svg)
    svg = _EMPTY.sub("", svg)
    svg = _PLACES.sub(lambda found: _BEYOND_ONE_DECIMAL.sub("", found[0]), svg)
    name = f"{html.escape(panel.title)}: {html.escape(panel.y_title)}"
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" fill="none" stroke-miterlimit="10"'
    return f'<svg role="img" aria-label="{name}" {size}>' + svg.partition(">")[2]


def describe(panel: Panel) -> dict[str, Json]:
    rows = [row for series in panel.series for row in _rows(series, broken=panel.mark == "line")]
    datasets: dict[str, list[dict[str, Json]]] = {f"{panel.id}-rows": rows}
    layers: list[Json] = []

    def below(name: str, mark: str, rows: list[dict[str, Json]], encoding: dict[str, Json], **settings: Json) -> None:
        datasets[f"{panel.id}-{name}"] = rows
        layers.append(layer(f"{panel.id}-{name}", mark, encoding, aria=False, **settings))

    y = number("y", title=None)
    if panel.boundaries:
        limits = {"x": number("x", title=panel.x_title)}
        below("limits", "rule", [{"x": limit} for limit in panel.boundaries], limits, color=stand_in("grid"))
    if panel.one:
        below("one", "rule", [{"y": 1}], {"y": y}, color=stand_in("ink"), strokeWidth=1.5)
        text = {"y": y, "x": {"value": "width"}, "text": {"value": panel.one}}
        below_it = all(y <= 1 for series in panel.series for y in (*series.y, *series.high))
        at_end = {"align": "right", "baseline": "top" if below_it else "bottom", "dy": 4 if below_it else -2}
        below("one", "text", [{"y": 1}], text, color=stand_in("ink"), fontSize=11, **at_end)
    return {
        "layer": [*layers, *_marks(panel)],
        "width": WIDTH - _LEFT - _RIGHT,
        "height": HEIGHT - _TOP - _BOTTOM,
        "background": "transparent",
        "config": CONFIG,
        "datasets": datasets,
    }


def _marks(panel: Panel) -> list[Json]:
    x, y, data = _x_encoding(panel), _y_encoding(panel), f"{panel.id}-rows"
    keys = list(dict.fromkeys(series.key for series in panel.series))
    colour = by_key(keys, [stand_in(css_key(key)) for key in keys]) | {"sort": None}
    layers: list[Json] = []
    as_given = {"value": None}
    if any(series.low for series in panel.series):
        encoding = {"x": x, "y": number("l", title=None), "y2": {"field": "h"}, "color": colour, "order": as_given}
        layers.append(layer(data, "area", encoding, opacity=0.14, aria=False, line=False))
    if panel.mark == "line":
        encoding = {"x": x, "y": y, "color": colour, "order": as_given}
        width = 1.2 if panel.boundaries else 1.8
        drawn = {"filter": "!datum.p"}
        layers.append(layer(data, "line", encoding, transform=drawn, aria=False, strokeWidth=width, strokeJoin="round"))
    if any(any(series.tips) for series in panel.series):
        shape = by_key(keys, [_shape(key) for key in keys])
        encoding = {"x": x, "y": y, "color": colour, "shape": shape, "description": {"field": "t", "type": "nominal"}}
        tipped = {"filter": "datum.t"}
        layers.append(layer(data, "point", encoding, transform=tipped, filled=True, size=42, opacity=1))
    return layers


def layer(
    data: str, mark: str, encoding: dict[str, Json], *, transform: Json = None, **settings: Json
) -> dict[str, Json]:
    drawn: dict[str, Json] = {"data": {"name": data}, "mark": {"type": mark} | settings, "encoding": encoding}
    return drawn | ({"transform": [transform]} if transform else {})


def number(field: str, **more: Json) -> dict[str, Json]:
    return {"field": field, "type": "quantitative"} | more


def by_key(keys: list[str], shown: list[Json]) -> dict[str, Json]:
    return {"field": "k", "type": "nominal", "legend": None, "scale": {"domain": keys, "range": shown}}


def _rows(series: Series, *, broken: bool) -> list[dict[str, Json]]:
    """A row per point. With `broken`, a row without y ends the line where the group changes and at its end."""
    groups = series.group or (0,) * len(series.x)
    rows: list[dict[str, Json]] = []
    for index, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
        row: dict[str, Json] = ({} if series.line else {"p": 1}) | {"x": x, "y": y, "k": series.key}
        if series.low and series.high:
            row |= {"l": series.low[index], "h": series.high[index]}
        if series.tips and series.tips[index]:
            row["t"] = series.tips[index]
        rows.append(row)
        if broken and groups[index] != (*groups, None)[index + 1]:
            rows.append({"x": x, "y": None, "l": None, "h": None, "k": series.key})
    return rows


def _x_encoding(panel: Panel) -> Json:
    points = sorted({x for series in panel.series for x in series.x})
    scale: dict[str, Json] = {"nice": False, "zero": True}
    axis: dict[str, Json] = {"grid": False, "tickCount": 6}
    if panel.x_kind == "threads":
        drawn = sorted({x for series in panel.series if any(series.tips) for x in series.x}) or points
        scale = {"type": "log", "base": 2, "nice": False, "padding": 12}
        axis = {"values": _thinned(drawn), "format": "~s", "grid": False}
    elif panel.x_kind == "tail":
        ticks = [tick for tick in _TAIL_TICKS if not points or tick <= points[-1] + 0.01]
        names = " : ".join(f"abs(datum.value - {tick}) < 0.001 ? '{_TAIL_TICKS[tick]}'" for tick in ticks)
        scale = {"nice": False, "zero": False}
        axis = {"values": ticks, "labelExpr": f"{names} : ''", "grid": False}
    elif panel.mark == "points":
        scale = {"nice": False, "zero": False, "padding": 14}
        axis = {"format": "d", "grid": False, "values": _thinned([x for x in points if x == int(x)])}
    return number("x", title=panel.x_title, scale=scale, axis=axis)


def _y_encoding(panel: Panel) -> Json:
    axis: dict[str, Json] = {"tickCount": 5, "labelExpr": _FRACTION if panel.mark == "points" else _QUANTITY}
    scale: dict[str, Json] = {"zero": panel.y_zero, "nice": True}
    if panel.x_kind == "tail":
        ticks = _one_two_five([y for series in panel.series for y in series.y if y > 0])
        scale = {"type": "log", "nice": False, "domain": [ticks[0], ticks[-1]]}
        axis = {"values": ticks, "format": "~r"}
    return number("y", title=None, scale=scale, axis=axis)


def _one_two_five(values: list[float]) -> list[float]:
    low, high = (min(values), max(values)) if values else (1.0, 10.0)
    first = math.floor(math.log10(low))
    ticks = [step * 10.0**power for power in range(first, math.ceil(math.log10(high)) + 2) for step in (1, 2, 5)]
    start = max(index for index, tick in enumerate(ticks) if tick <= low * 1.0001)
    end = min(index for index, tick in enumerate(ticks) if tick >= high * 0.9999)
    return [float(f"{tick:.6g}") for tick in ticks[start : max(end, start + 1) + 1]]


def _thinned(values: list[float]) -> list[float]:
    return values[:: -(-len(values) // _TICKS_MAX) or 1]


def _shape(key: str) -> str:
    number = key.partition("-")[2]
    return _SHAPES[shape_of(int(number))] if number.isdigit() else "circle"


# Colours that the page decides.


def stand_in(key: str) -> str:
    """An unlikely colour that stands for a CSS variable until the drawing is done."""
    return f"#fe{_KEYS.index(key):04x}"


_STAND_IN = re.compile(r'(fill|stroke)="#fe([0-9a-f]{4})"')
_LABELLED = re.compile(r'<path aria-label="([^"]*)"([^>]*?)/>')
_NOISE = re.compile(
    r' (?:aria-roledescription|role|aria-hidden|pointer-events|class|font-family|xmlns(?::\w+)?|version)="[^"]*"'
    r'| (?:stroke-width|opacity)="1"'
)
_EMPTY = re.compile(r'<path d="(?:" display="none|M0,0h0v0h0Z)"/>')
_PLACES = re.compile(r' (?:d|transform)="[^"]*"')
_BEYOND_ONE_DECIMAL = re.compile(r"(?<=\.\d)\d+")

CONFIG: dict[str, Json] = {
    "view": {"stroke": None},
    "axis": {
        "labelColor": stand_in("muted"),
        "titleColor": stand_in("muted"),
        "gridColor": stand_in("grid"),
        "domain": False,
        "tickColor": stand_in("grid"),
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "labelPadding": 5,
        "tickSize": 4,
        "labelLimit": 120,
        "titleLimit": 400,
        "aria": False,
    },
    "axisX": {"labelFlush": True, "labelOverlap": True},
    "axisY": {"ticks": False},
    "font": "sans-serif",
}


# Charts as files.

VERDICTS = "verdicts"
"""Name of the chart of all ratios with their intervals; the others have the names of their panels."""

_ROW_PX = 26
_PNG_SCALE = 2.0


def picture_svg(view: ReportView, name: str) -> str:
    """Draw one chart as an SVG file."""
    panels = {panel.id: panel for panel in view.panels}
    names = [*([VERDICTS] if view.forest.rows else []), *panels]
    if name not in names:
        near = ", ".join(difflib.get_close_matches(name, names, n=3) or names) or "none"
        raise SpecError(f"report: {name!r} is not a chart of this report.", hint=f"There are: {near}.")
    described = _verdicts(view) if name == VERDICTS else _panel(view, panels[name])
    style = (TEMPLATES / "report.css").read_text(encoding="utf-8").partition("@media")[0]
    colours = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", style))
    svg = vl_convert.vegalite_to_svg(described)
    return _STAND_IN.sub(lambda found: f'{found[1]}="{colours[_KEYS[int(found[2], 16)]]}"', svg)


def picture_png(view: ReportView, name: str) -> bytes:
    png: bytes = vl_convert.svg_to_png(picture_svg(view, name), scale=_PNG_SCALE)
    return png


def _panel(view: ReportView, panel: Panel) -> Json:
    described = describe(panel)
    names = {f"arm-{arm.slot}": arm.label for arm in view.arms}
    names |= {series.key: series.name for series in panel.series if series.key not in names}
    legend = {"title": None, "orient": "bottom", "labelLimit": 400, "symbolOpacity": 1}
    legend["labelExpr"] = f"({json.dumps(names)})[datum.label]"
    for layer in described["layer"]:
        if layer["encoding"].get("color", {}).get("field") == "k":
            layer["encoding"]["color"] = layer["encoding"]["color"] | {"legend": legend}
    title = {"text": panel.title, "subtitle": panel.y_title, "anchor": "start"}
    return described | {"title": title, "background": "white", "padding": 10}


def _verdicts(view: ReportView) -> Json:
    forest = view.forest
    several = len({row.contender for row in forest.rows}) > 1
    rows: list[dict[str, Json]] = [
        {
            "y": f"{index} {row.label}" + (f" · {row.contender}" if several else ""),
            "x": row.point,
            "low": row.point if row.low is None else row.low,
            "high": row.point if row.high is None else row.high,
            "k": f"arm-{row.slot}",
            "text": "  ".join(filter(None, (row.ratio, row.interval, row.verdict))),
        }
        for index, row in enumerate(forest.rows)
    ]
    measured = [drawn for row, drawn in zip(forest.rows, rows, strict=True) if row.measured]
    keys = list(dict.fromkeys(f"arm-{row.slot}" for row in forest.rows))
    colour = by_key(keys, [stand_in(css_key(key)) for key in keys])
    ticks = {f"{position:.6g}": text for position, text in forest.ticks}
    scale = {"domain": [0, 100], "nice": False}
    labels = f"({json.dumps(ticks)})[format(datum.value, '.6~g')]"
    x = number("x", title="ratio", scale=scale)
    x["axis"] = {"values": [position for position, _ in forest.ticks], "labelExpr": labels}
    y: dict[str, Json] = {"field": "y", "type": "nominal", "sort": None, "title": None}
    y["scale"] = {"domain": [row["y"] for row in rows]}
    y["axis"] = {"labelExpr": "slice(datum.label, indexof(datum.label, ' ') + 1)", "labelLimit": 400, "ticks": False}
    interval = {"x": number("low", scale=scale), "x2": {"field": "high"}, "y": y, "color": colour}
    figures = {"y": y, "text": {"field": "text", "type": "nominal"}, "x": {"value": "width"}}
    ink = stand_in("ink")
    return {
        "width": WIDTH,
        "height": {"step": _ROW_PX},
        "background": "white",
        "padding": 10,
        "title": {"text": view.question, "subtitle": view.dateline, "anchor": "start"},
        "config": CONFIG,
        "datasets": {"rows": rows, "one": [{"x": forest.one}], "measured": measured},
        "layer": [
            layer("one", "rule", {"x": number("x")}, color=ink),
            layer("measured", "rule", interval, strokeWidth=3),
            layer("measured", "point", {"x": x, "y": y, "color": colour}, filled=True, size=60, opacity=1),
            layer("rows", "text", figures, align="left", dx=8, color=ink),
        ],
    }
