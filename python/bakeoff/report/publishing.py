"""A report to be published: page, tables and numbers in one folder, with a control that says whether it holds."""

from pathlib import Path

from bakeoff.report.html import render_html
from bakeoff.report.machine import render_csv, render_json
from bakeoff.report.markdown import render_markdown
from bakeoff.report.view import ReportView
from bakeoff.results import RunDirectory
from bakeoff.stats.model import Analysis

FOLDER = "publish"


def publish(run: RunDirectory, view: ReportView) -> Path:
    """Write `RUN/publish/`: report.html (nothing outside it is needed), report.md, results.csv and results.json."""
    run.path.joinpath(FOLDER).mkdir(exist_ok=True)
    for name, text in (
        ("report.html", render_html(view)),
        ("report.md", render_markdown(view)),
        ("results.csv", render_csv(view)),
        ("results.json", render_json(view)),
    ):
        run.write_text(f"{FOLDER}/{name}", text)
    return run.path / FOLDER


def objection(analysis: Analysis) -> str | None:
    """Why the report must not be relied on, in a line; None when its own control holds."""
    if analysis.trusted:
        return None
    if analysis.control is None:
        return "the run has no control."
    if analysis.trusted is False:
        return "UNTRUSTED: the control, a second instance of the baseline, came out different from the baseline."
    return "the control has fewer than five usable epochs and proves nothing: give the run a larger budget."
