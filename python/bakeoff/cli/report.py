"""`bakeoff report`: a run's report, in any format, at any later time."""

import io
import webbrowser
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bakeoff.cli.output import console
from bakeoff.errors import ResultsError, SpecError
from bakeoff.plan import Plan
from bakeoff.report import build_view, render_csv, render_html, render_json, render_markdown, render_terminal
from bakeoff.report.view import ReportView
from bakeoff.results import open_run
from bakeoff.stats.analysis import analyse
from bakeoff.stats.model import Analysis, Stop

_FILE_WIDTH = 120


class ReportFormat(StrEnum):
    """What the report is rendered as."""

    TEXT = "text"
    HTML = "html"
    MARKDOWN = "md"
    CSV = "csv"
    JSON = "json"


def report(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run directory, or (the beginning of) a run's name.")],
    output: Annotated[ReportFormat, typer.Option("--format", help="How to render it.")] = ReportFormat.HTML,
    to: Annotated[Path | None, typer.Option("--output", "-O", help="File to write; `-` for standard output.")] = None,
    runs: Annotated[Path | None, typer.Option("--runs", help="Folder of run directories.")] = None,
    open_report: Annotated[bool, typer.Option("--open", help="Open it in a browser (html).")] = False,
) -> None:
    """Render a run's report: HTML to RUN/report.html, other formats to standard output, unless --output says where."""
    to_screen = str(to) == "-" if to else output is not ReportFormat.HTML
    if open_report and (output is not ReportFormat.HTML or to_screen):
        raise SpecError("report: --open shows the page, and no file of it is written.", hint="Leave --open out.")
    directory = open_run(run, runs)
    stored = directory.analysis()
    if stored is not None:
        analysis = Analysis.model_validate(stored)
    else:
        # Killed before its end: what was finished can be analysed all the same.
        epochs = directory.load_epochs()
        if not epochs:
            raise ResultsError(f"run {directory.name} has no finished epoch.", hint="There is nothing to report.")
        plan = directory.plan()
        analysis = analyse(
            epochs, directory.study(), plan=Plan.model_validate(plan) if plan else None, ended=Stop.ABORTED
        )
    view = build_view(directory, analysis)
    if output is ReportFormat.TEXT and to_screen:
        render_terminal(view, console())
        return
    renderers = {
        ReportFormat.TEXT: _plain,
        ReportFormat.HTML: render_html,
        ReportFormat.MARKDOWN: render_markdown,
        ReportFormat.CSV: render_csv,
        ReportFormat.JSON: render_json,
    }
    text = renderers[output](view)
    if to_screen:
        typer.echo(text, nl=not text.endswith("\n"))
        return
    to = to or directory.path / "report.html"
    to.write_text(text, encoding="utf-8")
    typer.echo(f"{to}")
    if open_report:
        webbrowser.open(to.resolve().as_uri())


def _plain(view: ReportView) -> str:
    """What a terminal shows, for a file."""
    page = io.StringIO()
    render_terminal(view, Console(file=page, width=_FILE_WIDTH, markup=False, emoji=False))
    return page.getvalue()
