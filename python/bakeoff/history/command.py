"""`bakeoff history`: what runs found over months, what changed when, and results of other tools (docs/history.md)."""

import os
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bakeoff.cli.arguments import Runs
from bakeoff.cli.help import Command
from bakeoff.cli.printing import console, print_sentence
from bakeoff.errors import ResultsError, SpecError
from bakeoff.history.changes import ALPHA
from bakeoff.history.history_file import Annotation, History, Point
from bakeoff.history.imports import read_points
from bakeoff.history.page import github_json, history_view, lines_of, otava_csv, otava_json, points_of
from bakeoff.report import render_csv, render_html, render_terminal
from bakeoff.results import RunDirectory, open_run

DEFAULT_FILE = Path("bakeoff-history.db")
DEFAULT_SERIES = "main"
_COMMITS = ("GITHUB_SHA", "CI_COMMIT_SHA")


class ShowFormat(StrEnum):
    """What `history show` prints."""

    TEXT = "text"
    CSV = "csv"


class ExportFormat(StrEnum):
    """What other programs read."""

    OTAVA_CSV = "otava-csv"
    OTAVA_JSON = "otava-json"
    GITHUB = "github-action-benchmark"


app = typer.Typer(
    help="Keep what runs found over months: what changed when.", rich_markup_mode=None, add_completion=False
)

HistoryFile = Annotated[
    Path,
    typer.Option("--history", metavar="FILE", help="The history. [default: ./bakeoff-history.db]", show_default=False),
]
Series = Annotated[
    str, typer.Option("--series", metavar="NAME", help="Only this series. [default: all]", show_default=False)
]
Cell = Annotated[
    str,
    typer.Option("--cell", metavar="CELL", help="Only this one, as `show` has it. [default: all]", show_default=False),
]
Metric = Annotated[
    str, typer.Option("--metric", metavar="NAME", help="Only throughput, or p95. [default: all]", show_default=False)
]
SeriesToAddTo = Annotated[
    str, typer.Option("--series", metavar="NAME", help="Name of what is followed: a branch, a pipeline.")
]
Commit = Annotated[
    str | None,
    typer.Option(
        "--commit", metavar="SHA", help="Of what was measured, or its version. [default: $GITHUB_SHA, $CI_COMMIT_SHA]"
    ),
]
Date = Annotated[str | None, typer.Option("--date", metavar="DATE", help="2026-11-25, or 2026-11-25T03:00; UTC.")]


@app.command("add", cls=Command)
def add(
    run: Annotated[list[str], typer.Argument(metavar="RUN", help="Runs, as for `report`.")],
    history: HistoryFile = DEFAULT_FILE,
    series: SeriesToAddTo = DEFAULT_SERIES,
    commit: Commit = None,
    date: Date = None,
    runs: Runs = None,
) -> None:
    """Add runs: a point for each comparison with the baseline. A run that is there already is replaced."""
    if len(run) > 1 and (commit or date):
        raise SpecError("history add: one commit or date is not that of several runs.", hint="Add them one by one.")
    for name in run:
        add_run(open_run(name, runs), history, series=series, commit=commit, date=date)


def add_run(run: RunDirectory, file: Path, *, series: str, commit: str | None = None, date: str | None = None) -> None:
    """Add a run to a history, and say so on standard error.

    Raises:
        SpecError: the date or the name is none.
        ResultsError: the run has no point, or the file cannot be written.
    """
    at = _moment(date) if date else None
    points = points_of(run, series=_named(series), commit=_commit(commit), at=at)
    new = History(file).add(points)
    replaced = f", {len(points) - new} of them in place of earlier ones" if new < len(points) else ""
    print_sentence(f"{file}: {len(points)} points of {run.name}{replaced}", stderr=True)


@app.command("import", cls=Command)
def import_(
    file: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE", help="Of sysbench, HammerDB, BenchBase, go-tpc or mysqlslap: what it printed or wrote."
        ),
    ],
    history: HistoryFile = DEFAULT_FILE,
    series: SeriesToAddTo = DEFAULT_SERIES,
    workload: Annotated[
        str, typer.Option(metavar="NAME", help="Its name. [default: the file's]", show_default=False)
    ] = "",
    server: Annotated[
        str, typer.Option(metavar="NAME", help="What was measured. [default: as the file says]", show_default=False)
    ] = "",
    commit: Annotated[str, typer.Option(metavar="SHA", help="Of what was measured, or its version.")] = "",
    date: Date = None,
) -> None:
    """Add single runs of other tools.

    They have no reference of the same hour, so there is no verdict.
    """
    at = _moment(date) if date else None
    points: list[Point] = []
    for path in file:
        points += read_points(path, series=_named(series), workload=workload, server=server, commit=commit, at=at)
    new = History(history).add(points)
    print_sentence(f"{history}: {len(points)} figures of single runs, {new} of them new", stderr=True)


@app.command("show", cls=Command)
def show(
    history: HistoryFile = DEFAULT_FILE,
    series: Series = "",
    cell: Cell = "",
    metric: Metric = "",
    output: Annotated[
        ShowFormat, typer.Option("--format", metavar="FORMAT", help="text: lines and changes; csv: every point.")
    ] = ShowFormat.TEXT,
) -> None:
    """Show what changed when, and every line with its newest point."""
    found = History(history)
    points = _points(found, series, cell, metric)
    view = history_view(points, found.annotations(), title=history.name, alpha=ALPHA)
    if output is ShowFormat.CSV:
        typer.echo(render_csv(view), nl=False)
    else:
        render_terminal(view, console())


@app.command("annotate", cls=Command)
def annotate(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What happened: `new compiler`.")],
    history: HistoryFile = DEFAULT_FILE,
    series: Annotated[
        str, typer.Option(metavar="NAME", help="That it is about. [default: all]", show_default=False)
    ] = "",
    date: Date = None,
) -> None:
    """Remark what happened on a day; the default is now.

    Charts and the table of changes show it.
    """
    at = _moment(date) if date else datetime.now(UTC).replace(microsecond=0)
    if not text.strip():
        raise SpecError("history annotate: the remark is empty.", hint="Say what happened.")
    History(history).annotate(Annotation(at=at, series=series, text=text))


@app.command("export", cls=Command)
def export(
    output: Annotated[
        ExportFormat, typer.Option("--format", metavar="FORMAT", help="otava-csv, otava-json, github-action-benchmark.")
    ],
    history: HistoryFile = DEFAULT_FILE,
    series: Series = "",
    cell: Cell = "",
    metric: Metric = "",
) -> None:
    """Write points or changes for other programs, to standard output."""
    lines = lines_of(_points(History(history), series, cell, metric), alpha=ALPHA)
    render = {ExportFormat.OTAVA_CSV: otava_csv, ExportFormat.OTAVA_JSON: otava_json, ExportFormat.GITHUB: github_json}
    typer.echo(render[output](lines), nl=False)


@app.command("report", cls=Command)
def report(
    history: HistoryFile = DEFAULT_FILE,
    to: Annotated[Path, typer.Option("--output", "-o", "-O", metavar="FILE", help="The page to write.")] = Path(
        "history.html"
    ),
    series: Series = "",
) -> None:
    """Write one HTML page, which needs no network.

    It has every line with its intervals, changes and annotations.
    """
    found = History(history)
    folder = to.absolute().parent
    view = history_view(_points(found, series), found.annotations(), title=history.name, alpha=ALPHA, beside=folder)
    to.write_text(render_html(view), encoding="utf-8")
    typer.echo(f"{to}")


def _points(history: History, series: str, cell: str = "", metric: str = "") -> list[Point]:
    """The points that were asked for.

    Raises:
        SpecError: there is none such.
    """
    points = history.points(series)
    kept = [each for each in points if cell in ("", each.cell) and metric in ("", each.metric)]
    if not kept:
        if not points:
            raise ResultsError(f"{history.path} has no point yet.", hint="`bakeoff history add RUN` adds a run's.")
        cells = ", ".join(dict.fromkeys(f"{each.cell} ({each.metric})" for each in points))
        raise SpecError(f"{history.path} has nothing of that cell and metric.", hint=f"It has: {cells}.")
    return kept


def _named(series: str) -> str:
    if not series.strip() or len(series) > 100:
        raise SpecError(f"--series: {series[:20]!r} is no name of 1 to 100 characters.", hint="Write --series nightly.")
    return series


def _commit(given: str | None) -> str:
    return given if given is not None else next(filter(None, map(os.environ.get, _COMMITS)), "")


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text.strip())
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise SpecError(f"--date: {text[:40]!r} is no date.", hint="Write --date 2026-11-25.") from None
