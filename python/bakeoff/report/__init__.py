"""Reports: the view model first, then the renderers. Reads run directories; starts nothing, measures nothing."""

from bakeoff.report.build import build_view
from bakeoff.report.live import LiveView, live_for
from bakeoff.report.renderers import render_csv, render_html, render_json, render_markdown, render_terminal
from bakeoff.report.view import ReportView

__all__ = [
    "LiveView", "ReportView", "build_view", "live_for", "render_csv", "render_html", "render_json", "render_markdown",
    "render_terminal",
]  # fmt: skip
