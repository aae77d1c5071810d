"""Render the screen at the end of a run, and check what holds for every screen."""

import io

from rich.console import Console

from bakeoff.report import render_screen
from bakeoff.report.text import SCREEN_LINES
from bakeoff.report.view import ReportView


def screen_of(view: ReportView, width: int = 80) -> str:
    """Return the screen; fail if it is too high or too wide, or if a word is broken."""
    placed = view.model_copy(update={"directory": "bakeoff-runs/RUN"})
    shown, whole = rendered(placed, width), set(rendered(placed, 1000).split())
    lines = shown.splitlines()
    assert len(lines) <= SCREEN_LINES
    assert [line for line in lines if len(line) > width] == []
    uncut = (line for line in lines if not line.startswith("… and ") and set(line) != {"─"})
    assert [word for line in uncut for word in line.split() if word not in whole and not word.endswith("…")] == []
    return shown


def rendered(view: ReportView, width: int) -> str:
    out = io.StringIO()
    render_screen(view, Console(file=out, width=width))
    return out.getvalue()
