"""Reports: the view model first, then the renderers. Reads run directories; starts nothing, measures nothing."""

from bakeoff.report.build import build_view
from bakeoff.report.html import render_html
from bakeoff.report.live import LiveView, live_for
from bakeoff.report.machine import render_csv, render_json
from bakeoff.report.markdown import render_markdown
from bakeoff.report.terminal import render_terminal
from bakeoff.report.view import ReportView

__all__ = [
    "LiveView", "ReportView", "build_view", "live_for", "render_csv", "render_html", "render_json", "render_markdown",
    "render_terminal",
]  # fmt: skip
