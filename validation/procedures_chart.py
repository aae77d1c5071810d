"""Draws the procedures in common use beside bakeoff: every judgement is a mark at its ratio, by procedure and truth.

The SVG stands alone (a README shows it as an image): it needs no script and no network, and has colours for light and
dark pages.
"""

import math
import re
from collections.abc import Sequence
from typing import Any

import altair as alt
import vl_convert

from validation.procedures import VISIBLE, Asked, Procedure

_WIDTH, _ROW_HEIGHT = 240, 62
_NAMES = {each: each.value for each in Procedure} | {Procedure.THREE_APART: "three runs each, all apart"}
_CLAIMS = ("wrong claim", "right claim", "no claim")
_WORDS = {"wrong claim": "wrong", "right claim": "right", "no claim": "none"}
_SHAPES = ("cross", "circle", "diamond")
# Stand-ins, replaced after drawing: light and dark value of each.
_COLOURS = {
    "#fe0001": ("ink", "#1d1d1b", "#e9e7e1"),
    "#fe0002": ("muted", "#5f5d57", "#a9a69d"),
    "#fe0003": ("grid", "#e2dfd7", "#34373a"),
    "#fe0004": ("wrong", "#c8400c", "#f0883a"),
    "#fe0005": ("right", "#0072b2", "#56b4e9"),
}
_INK, _MUTED, _GRID, _WRONG, _RIGHT = _COLOURS
_EDGE_SHARE = 0.98  # of all marks lie within the axis; the others stand at its ends
_EDGE_MIN = 0.03


def draw(asked: Sequence[Asked]) -> str:
    """Draw all judgements as one SVG document."""
    truths = sorted({each.slowdown_percent for each in asked})
    edge = _edge(asked)
    panels = [
        _panel([each for each in asked if each.slowdown_percent == percent], percent, edge, first=place == 0)
        for place, percent in enumerate(truths)
    ]
    chart = alt.hconcat(*panels, spacing=14).properties(background="transparent", padding=4)
    return _alone(vl_convert.vegalite_to_svg(chart.to_dict() | {"config": _CONFIG}))


def _edge(asked: Sequence[Asked]) -> float:
    """Half of the axis, per cent: a round number that nearly all marks lie within."""
    sizes = sorted(abs(math.expm1(each.judgement.log_ratio)) for each in asked)
    reach = max(sizes[math.ceil(_EDGE_SHARE * len(sizes)) - 1] * 1.05, _EDGE_MIN)
    steps = (0.03, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8)
    return 100 * next((step for step in steps if step >= reach), 1.0)


def _panel(asked: Sequence[Asked], percent: float, edge: float, *, first: bool) -> Any:  # noqa: ANN401 — Altair has no type for it
    truth = 100 * math.expm1(-math.log1p(percent / 100))
    names = [_NAMES[procedure] for procedure in Procedure]
    rows = _rows(asked, edge)
    x = alt.X(
        "percent:Q",
        title="ratio, %",
        scale=alt.Scale(domain=[-edge, edge], nice=False),
        axis=alt.Axis(grid=False, tickCount=5, labelExpr="(datum.value > 0 ? '+' : '') + datum.value"),
    )
    y = alt.Y("procedure:N", sort=names, title=None, scale=alt.Scale(domain=names), axis=alt.Axis() if first else None)
    offset = alt.YOffset("place:Q", scale=alt.Scale(domain=[-1.6, 1.2]))
    colour = alt.Color("claim:N", legend=None, scale=alt.Scale(domain=_CLAIMS, range=[_WRONG, _RIGHT, _MUTED]))
    shape = alt.Shape("claim:N", legend=None, scale=alt.Scale(domain=_CLAIMS, range=list(_SHAPES)))
    data = _data(rows)
    band = {"low": -100 * math.expm1(VISIBLE), "high": 100 * math.expm1(VISIBLE)}
    layers = [
        alt.Chart(_data([band]))
        .mark_rect(color=_MUTED, opacity=0.14)
        .encode(x=alt.X("low:Q", title="ratio, %"), x2="high:Q"),
        alt.Chart(_data([{"percent": truth}])).mark_rule(color=_INK, strokeWidth=1.2).encode(x=x),
        alt.Chart(data)
        .transform_filter("datum.low != null")
        .mark_rule(opacity=0.3, strokeWidth=1)
        .encode(x=alt.X("low:Q", title="ratio, %"), x2="high:Q", y=y, yOffset=offset, color=colour),
        alt.Chart(data)
        .mark_point(size=30, filled=True, opacity=0.85, strokeWidth=1.6)
        .encode(x=x, y=y, yOffset=offset, color=colour, shape=shape),
        alt.Chart(_data(_words(asked, edge)))
        .mark_text(align="left", baseline="middle", fontSize=11, color=_INK)
        .encode(x=alt.X("at:Q", title="ratio, %"), y=y, yOffset=offset, text="text:N"),
    ]
    title = "the same server twice" if not percent else f"B {-truth:.1f} % slower"
    return alt.layer(*layers).properties(
        width=_WIDTH,
        height=_ROW_HEIGHT * len(names),
        title=alt.TitleParams(title, anchor="start", color=_INK, fontSize=13, fontWeight="normal", offset=8),
    )


def _data(values: list[dict[str, Any]]) -> alt.InlineData:
    return alt.InlineData(values=values)


def _rows(asked: Sequence[Asked], edge: float) -> list[dict[str, Any]]:
    """A mark each; those of one procedure in turn on a few lines, so that they do not overlap."""
    rows = []
    counts = dict.fromkeys(Procedure, 0)
    for each in asked:
        judgement = each.judgement
        counts[each.procedure] += 1
        row: dict[str, Any] = {
            "procedure": _NAMES[each.procedure],
            "percent": _clamped(judgement.log_ratio, edge),
            "claim": _claim(each),
            "place": (counts[each.procedure] * 3 % 7) / 3 - 1,
        }
        if judgement.half_width is not None and math.isfinite(judgement.half_width):
            row["low"] = _clamped(judgement.log_ratio - judgement.half_width, edge)
            row["high"] = _clamped(judgement.log_ratio + judgement.half_width, edge)
        rows.append(row)
    return rows


def _words(asked: Sequence[Asked], edge: float) -> list[dict[str, Any]]:
    """What the marks of each row add up to."""
    words = []
    for procedure in Procedure:
        claims = [_claim(each) for each in asked if each.procedure is procedure]
        if not claims:
            continue
        parts = [f"{_WORDS[name]} {claims.count(name) / len(claims):.0%}" for name in _CLAIMS if name in claims]
        words.append(
            {"procedure": _NAMES[procedure], "at": -edge * 0.98, "place": -1.45, "text": "claims: " + ", ".join(parts)}
        )
    return words


def _claim(each: Asked) -> str:
    sign = int(math.copysign(1, each.truth)) if each.slowdown_percent else 0
    if not each.judgement.claim:
        return "no claim"
    return "right claim" if each.judgement.claim == sign else "wrong claim"


def _clamped(log_ratio: float, edge: float) -> float:
    return round(min(max(100 * math.expm1(min(log_ratio, 5.0)), -edge), edge), 3)


_CONFIG: dict[str, Any] = {
    "view": {"stroke": _GRID},
    "axis": {
        "labelColor": _MUTED,
        "titleColor": _MUTED,
        "gridColor": _GRID,
        "domain": False,
        "tickColor": _GRID,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelLimit": 200,
    },
    "axisY": {"ticks": False, "labelColor": _INK, "labelPadding": 8},
    "font": "sans-serif",
}


def _alone(svg: str) -> str:
    """Colours by CSS variables with a light and a dark value; what only a script could use is left out."""
    light = "".join(f"--{name}:{value};" for name, value, _ in _COLOURS.values())
    dark = "".join(f"--{name}:{value};" for name, _, value in _COLOURS.values())
    style = f"<style>:root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}</style>"
    for stand_in, (name, _, _) in _COLOURS.items():
        svg = svg.replace(f'"{stand_in}"', f'"var(--{name})"')
    svg = re.sub(r' (?:aria-[a-z]+|role|pointer-events|class)="[^"]*"', "", svg)
    svg = re.sub(r"(\d+\.\d)\d+", r"\1", svg)
    return re.sub(r"(<svg [^>]*>)", rf"\1{style}", svg, count=1) + "\n"
