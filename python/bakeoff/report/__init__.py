"""Reports: the view model first, then the renderers. Reads run directories; starts nothing, measures nothing."""

from bakeoff.report.build import build_view
from bakeoff.report.renderers import render_csv, render_html, render_json, render_markdown, render_terminal

__all__ = ["build_view", "render_csv", "render_html", "render_json", "render_markdown", "render_terminal"]
