"""A panel drawn: a Vega-Lite description becomes a static SVG (vl-convert), and its colours become CSS variables.

The SVG is meant to stand inside an HTML page: it needs no script and no network, takes its colours (light, dark, print)
and its font from the page's style, and gives a point's value in a `<title>`.
"""

import html
import json
import math
import re
from collections.abc import Mapping
from typing import Any

import vl_convert

from bakeoff.report.view import Panel, Series

WIDTH, HEIGHT = 480, 230

ARM_SLOTS = 8
"""Colours for arms; a study with more arms uses them again."""

_KEYS = (
    "ink", "second", "muted", "grid",
    "cpu-user", "cpu-system", "cpu-iowait", "cpu-steal", "cpu-idle",
    *(f"arm-{slot}" for slot in range(ARM_SLOTS)),
)  # fmt: skip
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
LEGEND_SHAPES = (
    "M8.4 6a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0-7.2 0z",
    "M8.6 2.6h6.8v6.8h-6.8z",
    "M12 1.6l4.4 7.6h-8.8z",
    "M12 1l4.4 5l-4.4 5l-4.4-5z",
    "M10.7 1.9h2.6v2.8h2.8v2.6h-2.8v2.8h-2.6v-2.8h-2.8v-2.6h2.8z",
    "M12 10.4l4.4-7.6h-8.8z",
    "M16.4 6l-7.6 4.4v-8.8z",
    "M7.6 6l7.6 4.4v-8.8z",
)
"""The same shapes as SVG paths around (12, 6), for legends."""
_QUANTITY = "datum.value == 0 ? '0' : abs(datum.value) < 1 ? format(datum.value, '.3~f') : format(datum.value, '.3~s')"
_FRACTION = "format(datum.value, '.3~f')"
_TAIL_TICKS = {0.30103: "50%", 1.0: "90%", 1.30103: "95%", 2.0: "99%", 3.0: "99.9%", 4.0: "99.99%", 5.0: "99.999%"}

Json = Any


def css_key(key: str) -> str:
    """The CSS variable's name of a colour key, arms beyond the palette folded back into it."""
    kind, _, number = key.partition("-")
    return f"arm-{int(number) % ARM_SLOTS}" if kind == "arm" and number.isdigit() else key


def draw(panel: Panel, *, dashed: frozenset[str] = frozenset()) -> str:
    """Draw a panel as an SVG element.

    Args:
        panel: data of at least one series; one without points gives an empty frame.
        dashed: colour keys whose lines are dashed (the control).
    """
    return _for_page(vl_convert.vegalite_to_svg(describe(panel, dashed)), panel)


def describe(panel: Panel, dashed: frozenset[str]) -> dict[str, Json]:
    """The Vega-Lite description of a panel (the grammar's reference: vega.github.io/vega-lite)."""
    datasets: dict[str, list[dict[str, Json]]] = {"rows": [row for series in panel.series for row in _rows(series)]}
    layers: list[Json] = []
    if panel.level_band:
        datasets["band"] = [{"low": panel.level_band[0], "high": panel.level_band[1]}]
        band = {"y": number("low", title=None), "y2": {"field": "high"}}
        layers.append(layer("band", "rect", band, color=stand_in("muted"), opacity=0.16, aria=False))
    if panel.boundaries:
        datasets["limits"] = [{"x": limit} for limit in panel.boundaries]
        limits = {"x": number("x", title=panel.x_title)}
        layers.append(layer("limits", "rule", limits, color=stand_in("grid"), aria=False))
    if panel.level is not None:
        datasets["level"] = [{"y": panel.level}]
        level = {"y": number("y", title=None)}
        layers.append(layer("level", "rule", level, color=stand_in("ink"), aria=False))
    return {
        "layer": [*layers, *_marks(panel, dashed)],
        "width": WIDTH,
        "height": HEIGHT,
        "background": "transparent",
        "padding": 2,
        "autosize": {"type": "fit", "contains": "padding"},
        "config": CONFIG,
        "datasets": datasets,
    }


def _marks(panel: Panel, dashed: frozenset[str]) -> list[Json]:
    """The layers of the series themselves."""
    x, y = _x_encoding(panel), _y_encoding(panel)
    keys = list(dict.fromkeys(series.key for series in panel.series))
    colour = by_key(keys, [stand_in(css_key(key)) for key in keys]) | {"sort": None}
    if panel.mark == "stack":
        ranked = {"calculate": f"indexof({json.dumps(keys)}, datum.k)", "as": "o"}
        encoding = {"x": x, "y": y | {"stack": "zero"}, "color": colour, "order": number("o")}
        # No break at a restart: Vega-Lite would fill a stack's gaps with zeros.
        return [layer("rows", "area", encoding, transform=ranked, aria=False, opacity=0.9)]
    layers: list[Json] = []
    group = {"field": "g", "type": "nominal"}
    if any(series.low for series in panel.series):
        encoding = {"x": x, "y": number("l", title=None), "y2": {"field": "h"}, "color": colour, "detail": group}
        layers.append(layer("rows", "area", encoding, opacity=0.14, aria=False, line=False))
    if panel.mark == "line":
        dash = by_key(keys, [[5, 3] if key in dashed else [1, 0] for key in keys])
        encoding = {"x": x, "y": y, "color": colour, "strokeDash": dash, "detail": group}
        width = 1.2 if panel.boundaries else 1.8
        drawn = {"filter": "!datum.p"}
        layers.append(
            layer("rows", "line", encoding, transform=drawn, aria=False, strokeWidth=width, strokeJoin="round")
        )
    if any(any(series.tips) for series in panel.series):
        shape = by_key(keys, [_shape(key) for key in keys])
        encoding = {"x": x, "y": y, "color": colour, "shape": shape, "description": {"field": "t", "type": "nominal"}}
        tipped = {"filter": "datum.t"}
        layers.append(layer("rows", "point", encoding, transform=tipped, filled=True, size=42, opacity=1))
    return layers


def layer(
    data: str, mark: str, encoding: dict[str, Json], *, transform: Json = None, **settings: Json
) -> dict[str, Json]:
    """One layer over a named data set."""
    drawn: dict[str, Json] = {"data": {"name": data}, "mark": {"type": mark} | settings, "encoding": encoding}
    return drawn | ({"transform": [transform]} if transform else {})


def number(field: str, **more: Json) -> dict[str, Json]:
    """The encoding of a quantity."""
    return {"field": field, "type": "quantitative"} | more


def by_key(keys: list[str], shown: list[Json]) -> dict[str, Json]:
    """An encoding that shows each series' key in its own way; the page has the legend."""
    return {"field": "k", "type": "nominal", "legend": None, "scale": {"domain": keys, "range": shown}}


def _rows(series: Series) -> list[dict[str, Json]]:
    rows: list[dict[str, Json]] = []
    for index, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
        row: dict[str, Json] = ({} if series.line else {"p": 1}) | {
            "x": x,
            "y": y,
            "k": series.key,
            "g": series.group[index] if series.group else 0,
        }
        if series.low and series.high:
            row |= {"l": series.low[index], "h": series.high[index]}
        if series.tips and series.tips[index]:
            row["t"] = series.tips[index]
        rows.append(row)
    return rows


def _x_encoding(panel: Panel) -> Json:
    points = sorted({x for series in panel.series for x in series.x})
    scale: dict[str, Json] = {"nice": False, "zero": True}
    axis: dict[str, Json] = {"grid": False, "tickCount": 6}
    if panel.x_kind == "threads":
        rungs = sorted({x for series in panel.series if any(series.tips) for x in series.x}) or points
        scale = {"type": "log", "base": 2, "nice": False, "padding": 12}
        axis = {"values": _thinned(rungs), "format": "~s", "grid": False}
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
    """The vertical axis; its title stands above the chart, in HTML."""
    axis: dict[str, Json] = {"tickCount": 5, "labelExpr": _FRACTION if panel.mark == "points" else _QUANTITY}
    scale: dict[str, Json] = {"zero": panel.y_zero, "nice": True}
    if panel.x_kind == "tail":
        ticks = _one_two_five([y for series in panel.series for y in series.y if y > 0])
        scale = {"type": "log", "nice": False, "domain": [ticks[0], ticks[-1]]}
        axis = {"values": ticks, "format": "~r"}
    elif panel.y_max is not None:
        scale = {"domain": [0, panel.y_max], "clamp": True}
    return number("y", title=None, scale=scale, axis=axis)


def _one_two_five(values: list[float]) -> list[float]:
    """Round numbers 1, 2, 5, 10 … from just below the least value to just above the greatest; at least two."""
    low, high = (min(values), max(values)) if values else (1.0, 10.0)
    first = math.floor(math.log10(low))
    ladder = [step * 10.0**power for power in range(first, math.ceil(math.log10(high)) + 2) for step in (1, 2, 5)]
    start = max(index for index, tick in enumerate(ladder) if tick <= low * 1.0001)
    end = min(index for index, tick in enumerate(ladder) if tick >= high * 0.9999)
    return [float(f"{tick:.6g}") for tick in ladder[start : max(end, start + 1) + 1]]


def _thinned(values: list[float], limit: int = 12) -> list[float]:
    step = -(-len(values) // limit) if values else 1
    return values[::step]


def _shape(key: str) -> str:
    number = key.partition("-")[2]
    return _SHAPES[int(number) % len(_SHAPES)] if number.isdigit() else "circle"


# ---- colours that the page decides ---------------------------------------------------------------------------------


def stand_in(key: str) -> str:
    """A colour that no one would choose, put in for a CSS variable and replaced after drawing."""
    return f"#fe{_KEYS.index(key):04x}"


def painted(svg: str, colours: Mapping[str, str]) -> str:
    """The SVG in colours of its own instead of the page's."""
    return re.sub(r"#fe([0-9a-f]{4})", lambda found: colours[_KEYS[int(found[1], 16)]], svg)


_STAND_IN = re.compile(r'(fill|stroke)="#fe([0-9a-f]{4})"')
_LABELLED = re.compile(r'<path aria-label="([^"]*)"([^>]*?)/>')
_NOISE = re.compile(
    r' (?:aria-roledescription|role|aria-hidden|pointer-events|class|font-family|xmlns(?::\w+)?|version)="[^"]*"'
)
_LONG_DECIMAL = re.compile(r"(-?\d+\.\d)\d+")
_PATH = re.compile(r' d="([^"]*)"')

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


def _for_page(svg: str, panel: Panel) -> str:
    """Strip what a page has no use for, take colours from CSS, keep ids apart, name the points."""
    svg = _LABELLED.sub(r"<path\2><title>\1</title></path>", svg)
    svg = _NOISE.sub("", svg)
    svg = _STAND_IN.sub(lambda found: f'{found[1]}="var(--{_KEYS[int(found[2], 16)]})"', svg)
    svg = _PATH.sub(lambda found: ' d="' + _LONG_DECIMAL.sub(r"\1", found[1]) + '"', svg)
    svg = re.sub(r'id="([A-Za-z]\w*)"', rf'id="{panel.id}-\1"', svg)
    svg = re.sub(r"url\(#(\w+)\)", rf"url(#{panel.id}-\1)", svg)
    named = f'<svg role="img" aria-label="{html.escape(panel.title)}: {html.escape(panel.y_title)}"'
    return re.sub(r'<svg width="[^"]*" height="[^"]*"', lambda _: named, svg, count=1)
