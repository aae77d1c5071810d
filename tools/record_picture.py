"""Draw published ratios and the measured ones as an SVG for light and dark pages.

Text is not measured for the layout, so the same data give the same bytes on every machine.
"""

import html
import math
from collections.abc import Sequence

from bakeoff.report.verdicts import Axis
from bakeoff.stats.effects import Agreement, PublishedRatio

_WIDTH, _ROW, _ROWS_MAX = 800, 44, 24
_STYLE = """<style>
text { font: 12px sans-serif; fill: #1d1d1b } .grid { stroke: #a09c92 } .published { fill: #d55e00; opacity: 0.55 }
.measured { stroke: #0072b2; fill: #0072b2; stroke-width: 3 }
@media (prefers-color-scheme: dark) { text { fill: #e9e7e1 } .published { fill: #f0883a } .measured { stroke: #56b4e9; fill: #56b4e9 } }
</style>"""  # noqa: E501


def picture(claims: Sequence[tuple[PublishedRatio, str]]) -> str:
    """Draw what was published and measured on one axis. If there are too many, those that agree are left out first."""
    chosen = sorted(claims, key=lambda each: each[0].agreement is Agreement.AGREES)[:_ROWS_MAX]
    shown = [each for each in claims if each in chosen]
    measured = [each.measured for each, _ in shown if each.measured and each.measured.n]
    core = [-0.01, 0.01, *(each.published for each, _ in shown), *(each.mean for each in measured)]
    ends = [end for each in measured for end in (each.interval.low, each.interval.high) if end is not None]
    span, bottom = max(core) - min(core), 30 + _ROW * len(shown)
    axis = Axis(max(min(core + ends), min(core) - span), min(max(core + ends), max(core) + span))

    def x(log_ratio: float) -> float:
        return round(axis.place(log_ratio) * _WIDTH / 100)

    drawn = [_text(8, 16, f"orange: published · blue: measured, 95% interval · {len(shown)} of {len(claims)} ratios")]
    for place, text in axis.ticks():
        at = round(place * _WIDTH / 100)
        drawn.append(
            f'<path class="grid" stroke-width="{1 + (abs(place - axis.place(0)) < 0.01)}" d="M{at} 24V{bottom}"/>'
        )
        drawn.append(_text(at, bottom + 16, text, "middle"))
    for y, (each, where) in enumerate(shown):
        y, own = 44 + _ROW * y, each.measured
        drawn += [_text(8, y, where), _text(_WIDTH - 8, y, each.agreement, "end")]
        low, high = (each.claim.low, each.claim.high) if each.claim else (math.exp(each.published),) * 2
        left, right = x(math.log(low)) - 2 if low else 0, x(math.log(high)) + 2 if high else _WIDTH
        drawn.append(f'<rect class="published" x="{left}" y="{y + 8}" width="{right - left}" height="14"/>')
        if own in measured:
            low, high = (own.mean if end is None else end for end in (own.interval.low, own.interval.high))
            drawn.append(f'<path class="measured" d="M{x(low)} {y + 15}H{x(high)}"/>')
            drawn.append(f'<circle class="measured" cx="{x(own.mean)}" cy="{y + 15}" r="4"/>')
    size = f'width="{_WIDTH}" height="{bottom + 24}" viewBox="0 0 {_WIDTH} {bottom + 24}"'
    return "\n".join((f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', _STYLE, *drawn, "</svg>\n"))


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{html.escape(text)}</text>'
