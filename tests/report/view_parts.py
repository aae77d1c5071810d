"""Find parts of a report's sections."""

from bakeoff.report.view import Charts, Panel, ReportView


def parts_of(view: ReportView, kind: type) -> list:
    inner = (each for section in view.sections for each in section.sections())
    return [part for section in inner for part in section.parts if isinstance(part, kind)]


def panels_of(view: ReportView, name: str = "") -> list[Panel]:
    """Return the charts whose id begins with `name`."""
    return [panel for charts in parts_of(view, Charts) for panel in charts.panels if panel.id.startswith(name)]
