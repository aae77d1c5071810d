"""`bakeoff report`: render a run's report in one of several formats."""

import io
import sys
import webbrowser
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import click
from rich.console import Console

from bakeoff.cli.arguments import Runs
from bakeoff.cli.options import command
from bakeoff.cli.printing import console
from bakeoff.errors import ResultsError, SpecError
from bakeoff.plan import Plan
from bakeoff.report import build_view, render_csv, render_html, render_json, render_markdown, render_terminal
from bakeoff.report.charts import VERDICTS, picture_png, picture_svg
from bakeoff.report.markdown import markdown_files
from bakeoff.report.view import ReportView
from bakeoff.results import open_run
from bakeoff.spec.fields import Argument, Option
from bakeoff.stats.analysis import analyse
from bakeoff.stats.model import Analysis, Stop

_FILE_WIDTH = 120


class ReportFormat(StrEnum):
    TEXT = "text"
    HTML = "html"
    MARKDOWN = "md"
    CSV = "csv"
    JSON = "json"
    SVG = "svg"
    PNG = "png"


@command(
    "bakeoff report latest --open",
    "bakeoff report latest --format text",
    "bakeoff report latest --format md -o result.md",
    most_used=("--open", "--format", "--output"),
)
def report(
    run: Annotated[str, Argument("A run directory, the beginning of a run's name, or latest.", "RUN")],
    output: Annotated[ReportFormat, Option("What to render.", flags="--format")] = ReportFormat.HTML,
    to: Annotated[
        Path | None, Option("File to write; `-` for standard output.", "FILE", flags="--output -o -O")
    ] = None,
    chart: Annotated[
        str | None, Option("With svg and png: which chart; a wrong name lists them.", "NAME", default=VERDICTS)
    ] = None,
    runs: Runs = None,
    open_report: Annotated[bool, Option("Open the page in a browser.", flags="--open")] = False,
) -> None:
    """Render a run's report: HTML to RUN/report.html, other formats to standard output, unless --output says where."""
    to_screen = str(to) == "-" if to else output is not ReportFormat.HTML
    if open_report and (output is not ReportFormat.HTML or to_screen):
        raise SpecError("report: --open shows the page, but no file is written.", hint="Leave --open out.")
    if to and to.is_dir():
        raise SpecError(f"report: {to} is a folder.", hint="Name a file in it.")
    picture = output in (ReportFormat.SVG, ReportFormat.PNG)
    if chart and not picture:
        raise SpecError("report: --chart is for --format svg and png.", hint="Leave it out.")
    directory = open_run(run, runs)
    analysis = directory.read("analysis.json", Analysis)
    if analysis is None:
        # The run is still going or was killed; its finished epochs can be analysed, as after Ctrl-C.
        if not directory.finished_epochs():
            raise ResultsError(f"run {directory.name} has no finished epoch.", hint="There is nothing to report.")
        plan = directory.read("plan.json", Plan)
        analysis = analyse(
            directory.load_epochs(),
            directory.study(),
            plan=plan,
            ended=Stop.ABORTED,
            network=directory.network(),
        )
        if analysis.stopped is Stop.ABORTED:
            analysis = analysis.model_copy(update={"stopped": Stop.RUNNING})  # it may still be going
    view = build_view(directory, analysis)
    if output is ReportFormat.TEXT and to_screen:
        render_terminal(view, console())
        return
    if picture:
        _write_picture(view, output, chart or VERDICTS, None if to_screen else to)
        return
    if output is ReportFormat.MARKDOWN and to and not to_screen and Path("/dev") not in to.parents:
        for name, text in markdown_files(view, to.name, f"{to.stem}-").items():
            to.with_name(name).write_text(text, encoding="utf-8")
            click.echo(f"{to.with_name(name)}")
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
        click.echo(text, nl=not text.endswith("\n"))
        return
    if to is None:
        to = directory.path / "report.html"
        directory.write_text(to.name, text)
    else:
        to.write_text(text, encoding="utf-8")
    click.echo(f"{to}")
    if open_report:
        webbrowser.open(to.resolve().as_uri())


def _write_picture(view: ReportView, output: ReportFormat, chart: str, to: Path | None) -> None:
    drawn = picture_png(view, chart) if output is ReportFormat.PNG else picture_svg(view, chart).encode()
    if to is not None:
        to.write_bytes(drawn)
        click.echo(f"{to}")
    elif output is ReportFormat.PNG and sys.stdout.isatty():
        raise SpecError("report: a PNG cannot be printed to a terminal.", hint="Name a file: --output FILE.")
    else:
        sys.stdout.buffer.write(drawn)


def _plain(view: ReportView) -> str:
    page = io.StringIO()
    render_terminal(view, Console(file=page, width=_FILE_WIDTH, markup=False, emoji=False))
    return page.getvalue()
