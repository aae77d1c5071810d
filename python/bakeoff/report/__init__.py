"""Reports: the view model first, then the renderers. Reads run directories; starts nothing, measures nothing."""

from bakeoff.report.build import build_view
from bakeoff.report.html import render_html
from bakeoff.report.view import ReportView

__all__ = ["ReportView", "build_view", "render_html"]
