"""`report.html`: one file that opens from a disk, asks nothing of any network and runs no script.

Labels, logs and server names are untrusted: the template escapes everything, undefined names are errors, and a content
security policy inside the page forbids scripts and requests even if something slipped through.
"""

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from bakeoff.report import charts, numbers
from bakeoff.report.view import Panel, ReportView, Role, Row
from bakeoff.results.manifest import bakeoff_version

TEMPLATES = Path(__file__).parent / "templates"


def render_html(view: ReportView) -> str:
    """The whole page as text."""
    dashed = frozenset(f"arm-{arm.slot}" for arm in view.arms if arm.role is Role.CONTROL)
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

    def drawn(panel: Panel) -> Markup:
        # Safe: the drawing library escapes texts in the SVG (tests/report/test_html.py tries to break out of it).
        return Markup(charts.draw(panel, dashed=dashed))

    environment.filters |= {
        "arm_key": lambda slot: charts.css_key(f"arm-{slot}"),
        "arm_shape": _arm_shape,
        "by_group": _by_group,
        "drawn": drawn,
        "has_own_keys": _has_own_keys,
        "percent": numbers.share,
    }
    return environment.get_template("report.html.j2").render(view=view, version=bakeoff_version())


def _by_group(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    """Neighbouring rows of one group together; rows without a group each alone."""
    return [(group, list(part)) for group, part in groupby(rows, key=lambda row: row.group)]


def _has_own_keys(panel: Panel) -> bool:
    """Whether a panel's lines are no arms, so that it needs a legend of its own."""
    return any(not series.key.startswith("arm-") for series in panel.series)


def _arm_shape(slot: int) -> Markup:
    """The point's shape that an arm has in charts, for its swatch."""
    paint = Markup('<path d="{}" fill="var(--{})"/>')
    return paint.format(charts.LEGEND_SHAPES[slot % charts.ARM_SLOTS], charts.css_key(f"arm-{slot}"))
