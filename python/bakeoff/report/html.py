"""Render a report as one HTML file that needs no network.

Labels, logs and server names are untrusted: the template escapes everything, undefined names are errors, and a content
security policy in the page forbids all requests and all scripts but its own.
"""

import base64
import hashlib
import re
from collections.abc import Iterable
from functools import cache
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from bakeoff.report import charts, setups
from bakeoff.report.view import Panel, ReportView, Row
from bakeoff.results import run_argument
from bakeoff.results.manifest import bakeoff_version

_LONG_NAME = re.compile(r"\w{22,}")


def render_html(view: ReportView) -> str:
    # Safe: the drawing library escapes texts in the SVG (tests/report/test_report_untrusted.py).
    drawings = {panel.id: Markup(charts.draw(panel)) for panel in view.panels}
    page = environment(charts.TEMPLATES).get_template("report.html.j2")
    digests = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in view.scripts]
    allowed = "".join(f" 'sha256-{digest}'" for digest in digests)
    policy = Markup(f"; script-src{allowed}" if allowed else "")
    return page.render(view=view, drawings=drawings, script_policy=policy, version=bakeoff_version())


@cache
def environment(templates: Path) -> Environment:
    made = Environment(
        loader=FileSystemLoader(templates),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "breakable": _breakable,
        "by_group": _by_group,
        "code": _with_code,
        "explained": _explained,
        "has_own_keys": _has_own_keys,
        "run_argument": run_argument,
    }
    made.globals |= {"arm_key": _arm_key, "swatch": _swatch}
    return made


def _arm_key(slot: int) -> str:
    return charts.css_key(f"arm-{slot}")


def _swatch(slot: int) -> Markup:
    mark = Markup('<i class="swatch" style="color:var(--{key})" aria-hidden="true">{shape}</i>')
    return mark.format(key=_arm_key(slot), shape=charts.LEGEND_SHAPES[charts.shape_of(slot)])


def _by_group(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    return [(group, list(part)) for group, part in groupby(rows, key=lambda row: row.group)]


def _with_code(text: str) -> Markup:
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))


def _breakable(text: str) -> Markup:
    """Escape a text, and allow a line break after a comma or equals sign inside a word, and inside a long name."""
    parts = re.sub(r"(,(?=[a-z@])|=(?=\S))", r"\1<wbr>", str(escape(text)))
    return Markup(_LONG_NAME.sub(lambda found: found[0].replace("_", "_<wbr>"), parts))


def _explained(heading: str, listed: bool) -> Markup:
    """Link a heading to its entry in the list of words."""
    meaning = setups.WORDS.get(heading) or setups.WORDS.get(heading.removesuffix("s"))
    if meaning is None or not listed:
        return _breakable(heading)
    return Markup('<a class="word" href="#table-words" title="{}">{}</a>').format(meaning, heading)


def _has_own_keys(panel: Panel) -> bool:
    return any(not series.key.startswith("arm-") for series in panel.series)
