"""Write a report that is to be published: page, tables and numbers in one folder."""

from pathlib import Path

from bakeoff.report.csv import render_csv
from bakeoff.report.html import render_html
from bakeoff.report.json import render_json
from bakeoff.report.markdown import markdown_files
from bakeoff.report.view import ReportView
from bakeoff.results import RunDirectory
from bakeoff.stats.model import Analysis

FOLDER = "publish"


def publish(run: RunDirectory, view: ReportView) -> Path:
    """Write the page, tables, numbers and pictures to `RUN/publish/`."""
    run.path.joinpath(FOLDER).mkdir(exist_ok=True)
    files = {
        "report.html": render_html(view),
        "results.csv": render_csv(view),
        "results.json": render_json(view),
    }
    files |= markdown_files(view, "report.md")
    for name, text in files.items():
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
    if analysis.control_is_idle:
        return "the control or the baseline completed nothing in an epoch, so the control proves nothing."
    return "the control has fewer than five usable epochs and proves nothing: give the run a larger budget."
