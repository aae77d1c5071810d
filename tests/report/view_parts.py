"""Parts of a report's sections by what they are."""

from bakeoff.report.view import Bars, Charts, Fold, Panel, ReportView


def parts_of(view: ReportView, kind: type) -> list:
    """Parts of this class in all sections, in order."""
    inner = (each for section in view.sections for each in section.sections())
    return [part for section in inner for part in section.parts if isinstance(part, kind)]


def panels_of(view: ReportView, name: str = "") -> list[Panel]:
    """Charts whose id begins with `name`; all of them without it."""
    return [panel for charts in parts_of(view, Charts) for panel in charts.panels if panel.id.startswith(name)]


def bars_of(view: ReportView) -> list:
    """Bars of the processors' time."""
    return [bar for bars in parts_of(view, Bars) for bar in bars.bars]


def folded(view: ReportView, name: str) -> list:
    """Contents that are folded away under a title that begins so."""
    return [fold.content for fold in parts_of(view, Fold) if fold.title.startswith(name)]
