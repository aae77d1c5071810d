"""`bakeoff report` renders a run's report; `bakeoff compare` compares earlier runs."""

import io
import json
import math
import sys
import webbrowser
from enum import StrEnum
from pathlib import Path
from string import ascii_uppercase
from typing import Annotated

import typer
from rich.console import Console

from bakeoff.cli.arguments import Format, Runs, format_option
from bakeoff.cli.printing import console, print_sentence, print_table
from bakeoff.errors import ResultsError, SpecError
from bakeoff.history.compare import CAVEAT, RunComparison, compare_runs, texts_of
from bakeoff.history.history_file import History
from bakeoff.history.page import compare_series
from bakeoff.plan import Plan
from bakeoff.report import build_view, render_csv, render_html, render_json, render_markdown, render_terminal
from bakeoff.report.charts import VERDICTS, picture_png, picture_svg
from bakeoff.report.markdown import markdown_files
from bakeoff.report.view import ReportView
from bakeoff.results import open_run
from bakeoff.results.manifest import kinds_of
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
    SVG = "svg"
    PNG = "png"


def report(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="A run directory, the beginning of a run's name, latest, or -2: the one before it."
        ),
    ],
    output: Annotated[
        ReportFormat, typer.Option("--format", metavar="FORMAT", help="text, html, md, csv, json, svg or png.")
    ] = ReportFormat.HTML,
    to: Annotated[
        Path | None,
        typer.Option("--output", "-o", "-O", metavar="FILE", help="File to write; `-` for standard output."),
    ] = None,
    chart: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With svg and png: which one; a wrong name lists them. [default: verdicts]"),
    ] = None,
    runs: Runs = None,
    open_report: Annotated[bool, typer.Option("--open", help="Open it in a browser (html).")] = False,
) -> None:
    """Render a run's report: HTML to RUN/report.html, other formats to standard output, unless --output says where."""
    to_screen = str(to) == "-" if to else output is not ReportFormat.HTML
    if open_report and (output is not ReportFormat.HTML or to_screen):
        raise SpecError("report: --open shows the page, and no file of it is written.", hint="Leave --open out.")
    if to and to.is_dir():
        raise SpecError(f"report: {to} is a folder.", hint="Name a file in it.")
    picture = output in (ReportFormat.SVG, ReportFormat.PNG)
    if chart and not picture:
        raise SpecError("report: --chart is for --format svg and png.", hint="Leave it out.")
    directory = open_run(run, runs)
    analysis = directory.read("analysis.json", Analysis)
    if analysis is None:
        # The run goes on or was killed; its finished epochs can still be analysed, as those of one ended by hand.
        if not directory.finished_epochs():
            raise ResultsError(f"run {directory.name} has no finished epoch.", hint="There is nothing to report.")
        plan = directory.read("plan.json", Plan)
        analysis = analyse(
            directory.load_epochs(),
            directory.study(),
            plan=plan,
            ended=Stop.ABORTED,
            kinds=kinds_of(directory.machines()),
            network=directory.network(),
        )
        if analysis.stopped is Stop.ABORTED:
            analysis = analysis.model_copy(update={"stopped": Stop.RUNNING})  # nobody has ended it, as far as is known
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
            typer.echo(f"{to.with_name(name)}")
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
    if to is None:
        to = directory.path / "report.html"
        directory.write_text(to.name, text)
    else:
        to.write_text(text, encoding="utf-8")
    typer.echo(f"{to}")
    if open_report:
        webbrowser.open(to.resolve().as_uri())


def _write_picture(view: ReportView, output: ReportFormat, chart: str, to: Path | None) -> None:
    drawn = picture_png(view, chart) if output is ReportFormat.PNG else picture_svg(view, chart).encode()
    if to is not None:
        to.write_bytes(drawn)
        typer.echo(f"{to}")
    elif output is ReportFormat.PNG and sys.stdout.isatty():
        raise SpecError("report: a PNG is not for a terminal.", hint="Name a file: --output FILE.")
    else:
        sys.stdout.buffer.write(drawn)


def _plain(view: ReportView) -> str:
    """The terminal report as text, for a file."""
    page = io.StringIO()
    render_terminal(view, Console(file=page, width=_FILE_WIDTH, markup=False, emoji=False))
    return page.getvalue()


def compare(
    run: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="Runs, as for `report`; compared with the first."),
    ],
    across_machines: Annotated[
        bool, typer.Option("--across-machines", help="Compare runs of different machines all the same.")
    ] = False,
    history: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="RUNs are series of single runs in this history: each run one observation."),
    ] = None,
    runs: Runs = None,
    output: Annotated[Format, format_option] = Format.TEXT,
) -> None:
    """Compare earlier runs in what they have in common: throughput of each arm, and ratios to the baseline."""
    if len(run) < 2:
        raise SpecError("compare: it takes at least two runs.", hint="See `bakeoff list runs`.")
    found = _in_history(run, history) if history else _of_runs(run, runs, across_machines=across_machines)
    if output is Format.JSON:
        typer.echo(json.dumps(_record(found), indent=1))
    else:
        _print(found)


def _in_history(names: list[str], file: Path) -> RunComparison:
    if len(set(names)) < len(names):
        raise SpecError("compare: a series is named twice.", hint="See `bakeoff history show`.")
    return compare_series(History(file).points(), names)


def _of_runs(run: list[str], runs: Path | None, *, across_machines: bool) -> RunComparison:
    directories = [open_run(name, runs) for name in run]
    if len({directory.path.resolve() for directory in directories}) < len(directories):
        raise SpecError("compare: a run is named twice.", hint="See `bakeoff list runs`.")
    return compare_runs(directories, across_machines=across_machines)


def _record(found: RunComparison) -> dict[str, object]:
    lines = []
    for line in found.lines:
        interval = line.found.estimate.interval
        lines.append(
            {
                "run": line.run,
                "cell": line.cell,
                "kind": line.kind,
                "label": line.label,
                "earlier": line.earlier,
                "later": line.later,
                "ratio": math.exp(line.found.estimate.mean),
                "ratio_low": None if interval.low is None else math.exp(interval.low),
                "ratio_high": None if interval.high is None else math.exp(interval.high),
                "p_value": line.found.p_value,
                "p_adjusted": line.p_adjusted,
                "differs": line.differs,
            }
        )
    return {"runs": found.runs, "paired": False, "caveat": CAVEAT, "notes": found.notes, "lines": lines}


def _print(found: RunComparison) -> None:
    for number, name in enumerate(found.runs, start=1):
        typer.echo(f"run {number}: {name}")
    for note in found.notes:
        print_sentence(note)
    several = len(found.runs) > 2
    letters = _letters(found) if console().is_terminal else {}
    for label, letter in letters.items():
        if len(letter) == 1:
            print_sentence(f"{letter}: {label}", indent=3)
    rows = []
    for line in found.lines:
        earlier, later, ratio, interval, says = texts_of(line)
        then = f"{found.runs.index(line.run) + 1}: {later}" if several else later
        rows.append((line.cell, letters.get(line.label, line.label), earlier, then, ratio, interval, says))
    columns = ("cell", "what", "run 1", "run" if several else "run 2", "ratio", "95% interval", "finding")
    print_table(columns, rows, grouped=True)
    print_sentence(CAVEAT)


def _letters(found: RunComparison) -> dict[str, str]:
    """A letter for each arm, and `B/A` for each pair: their settings have no room in a table of 80 columns."""
    arms = dict.fromkeys(line.label for line in found.lines if line.kind == "throughput")
    letters = dict(zip(arms, ascii_uppercase, strict=False))
    pairs = [(one, other) for one in letters for other in letters if one != other]
    return letters | {f"{one} over {other}": f"{letters[one]}/{letters[other]}" for one, other in pairs}
