"""Draws the procedures in common use beside bakeoff: every judgement is a mark at its ratio, by procedure and truth.

The SVG stands alone (a README shows it as an image): it needs no script and no network, and has colours for light and
dark pages.
"""

import math
import re
from collections.abc import Sequence

import vl_convert

from bakeoff.report.charts import CONFIG, Json, by_key, layer, number, stand_in
from validation.procedures import VISIBLE, Asked, Procedure

_WIDTH, _ROW_HEIGHT = 240, 62
_NAMES = {each: each.value for each in Procedure} | {Procedure.THREE_APART: "three runs each, all apart"}
_CLAIMS = ("wrong claim", "right claim", "no claim")
_WORDS = {"wrong claim": "wrong", "right claim": "right", "no claim": "none"}
_SHAPES = ("cross", "circle", "diamond")
# Light and dark value of each; the names of arms stand for a wrong claim and for a right one.
_COLOURS = {
    "ink": ("#1d1d1b", "#e9e7e1"),
    "muted": ("#5f5d57", "#a9a69d"),
    "grid": ("#e2dfd7", "#34373a"),
    "arm-1": ("#c8400c", "#f0883a"),
    "arm-0": ("#0072b2", "#56b4e9"),
}
_EDGE_SHARE = 0.98  # of all marks lie within the axis; the others stand at its ends
_EDGE_MIN = 0.03


def draw(asked: Sequence[Asked]) -> str:
    """Draw all judgements as one SVG document."""
    truths = sorted({each.slowdown_percent for each in asked})
    edge = _edge(asked)
    datasets: dict[str, Json] = {}
    panels = [
        _panel([each for each in asked if each.slowdown_percent == percent], percent, edge, datasets)
        for percent in truths
    ]
    described = {"hconcat": panels, "spacing": 14, "background": "transparent", "padding": 4, "config": _CONFIG}
    return _alone(vl_convert.vegalite_to_svg(described | {"datasets": datasets}))


def _edge(asked: Sequence[Asked]) -> float:
    """Half of the axis, per cent: a round number that nearly all marks lie within."""
    sizes = sorted(abs(math.expm1(each.judgement.log_ratio)) for each in asked)
    reach = max(sizes[math.ceil(_EDGE_SHARE * len(sizes)) - 1] * 1.05, _EDGE_MIN)
    steps = (0.03, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8)
    return 100 * next((step for step in steps if step >= reach), 1.0)


def _panel(asked: Sequence[Asked], percent: float, edge: float, datasets: dict[str, Json]) -> Json:
    """Marks over a row for each procedure; their data are added to `datasets`. The first panel names the rows."""
    truth = 100 * math.expm1(-math.log1p(percent / 100))
    names = [_NAMES[procedure] for procedure in Procedure]
    rows = _rows(asked, edge)
    axis = {"grid": False, "tickCount": 5, "labelExpr": "(datum.value > 0 ? '+' : '') + datum.value"}
    x = number("percent", title="ratio, %", scale={"domain": [-edge, edge], "nice": False}, axis=axis)
    low, to_high = number("low", title="ratio, %"), {"field": "high"}
    row: dict[str, Json] = {"field": "procedure", "type": "nominal", "title": None, "scale": {"domain": names}}
    row |= {"axis": None} if datasets else {}
    place = {"y": row, "yOffset": number("place", scale={"domain": [-1.6, 1.2]})}
    colour = by_key(list(_CLAIMS), [stand_in(key) for key in ("arm-1", "arm-0", "muted")])
    shape = by_key(list(_CLAIMS), list(_SHAPES))
    band = {"low": -100 * math.expm1(VISIBLE), "high": 100 * math.expm1(VISIBLE)}

    def data(name: str) -> str:
        return f"{name} {percent:g}"

    datasets |= {
        data("band"): [band],
        data("truth"): [{"percent": truth}],
        data("intervals"): [each for each in rows if "low" in each],
        data("marks"): rows,
        data("words"): _words(asked, edge),
    }
    layers = [
        layer(data("band"), "rect", {"x": low, "x2": to_high}, color=stand_in("muted"), opacity=0.14),
        layer(data("truth"), "rule", {"x": x}, color=stand_in("ink"), strokeWidth=1.2),
        layer(
            data("intervals"), "rule", place | {"x": low, "x2": to_high, "color": colour}, opacity=0.3, strokeWidth=1
        ),
        layer(
            data("marks"), "point", place | {"x": x, "color": colour, "shape": shape},
            size=30, filled=True, opacity=0.85, strokeWidth=1.6,
        ),
        layer(
            data("words"), "text",
            place | {"x": number("at", title="ratio, %"), "text": {"field": "text", "type": "nominal"}},
            align="left", baseline="middle", fontSize=11, color=stand_in("ink"),
        ),
    ]  # fmt: skip
    title: Json = {"text": "the same server twice" if not percent else f"B {-truth:.1f} % slower"}
    title |= {"anchor": "start", "color": stand_in("ink"), "fontSize": 13, "fontWeight": "normal", "offset": 8}
    return {"layer": layers, "width": _WIDTH, "height": _ROW_HEIGHT * len(names), "title": title}


def _rows(asked: Sequence[Asked], edge: float) -> list[dict[str, Json]]:
    """A mark each; those of one procedure in turn on a few lines, so that they do not overlap."""
    rows = []
    counts = dict.fromkeys(Procedure, 0)
    for each in asked:
        judgement = each.judgement
        counts[each.procedure] += 1
        row: dict[str, Json] = {
            "procedure": _NAMES[each.procedure],
            "percent": _clamped(judgement.log_ratio, edge),
            "k": _claim(each),
            "place": (counts[each.procedure] * 3 % 7) / 3 - 1,
        }
        if judgement.half_width is not None and math.isfinite(judgement.half_width):
            row["low"] = _clamped(judgement.log_ratio - judgement.half_width, edge)
            row["high"] = _clamped(judgement.log_ratio + judgement.half_width, edge)
        rows.append(row)
    return rows


def _words(asked: Sequence[Asked], edge: float) -> list[dict[str, Json]]:
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


_CONFIG = CONFIG | {
    "view": {"stroke": stand_in("grid")},
    "axisY": {"ticks": False, "labelColor": stand_in("ink"), "labelPadding": 8, "labelLimit": 200},
}


def _alone(svg: str) -> str:
    """Colours by CSS variables with a light and a dark value; what only a script could use is left out."""
    light, dark = ("".join(f"--{name}:{values[shade]};" for name, values in _COLOURS.items()) for shade in (0, 1))
    style = f"<style>:root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}</style>"
    for name in _COLOURS:
        svg = svg.replace(f'"{stand_in(name)}"', f'"var(--{name})"')
    svg = re.sub(r' (?:aria-[a-z]+|role|pointer-events|class)="[^"]*"', "", svg)
    svg = re.sub(r"(\d+\.\d)\d+", r"\1", svg)
    return re.sub(r"(<svg [^>]*>)", rf"\1{style}", svg, count=1) + "\n"
