"""Reports: a view first, then its forms. Reads run directories; starts nothing, measures nothing."""

from bakeoff.report.build import build_view
from bakeoff.report.csv import render_csv
from bakeoff.report.html import render_html
from bakeoff.report.json import render_json
from bakeoff.report.markdown import render_markdown
from bakeoff.report.text import render_screen, render_terminal

__all__ = [
    "build_view",
    "render_csv",
    "render_html",
    "render_json",
    "render_markdown",
    "render_screen",
    "render_terminal",
]
