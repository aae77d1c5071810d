"""`bakeoff history` (docs/reference/history.md)."""

import os
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import click

from bakeoff.cli.arguments import Runs
from bakeoff.cli.commands import Group
from bakeoff.cli.options import command
from bakeoff.cli.printing import console, print_sentence
from bakeoff.errors import ResultsError, SpecError
from bakeoff.history.changes import ALPHA
from bakeoff.history.history_file import Annotation, History, Point
from bakeoff.history.imports import read_points
from bakeoff.history.page import github_json, history_view, lines_of, otava_csv, otava_json, points_of
from bakeoff.report import render_csv, render_html, render_terminal
from bakeoff.results import RunDirectory, open_run
from bakeoff.spec.fields import Argument, Option

DEFAULT_FILE = Path("bakeoff-history.db")
DEFAULT_SERIES = "main"
_COMMITS = ("GITHUB_SHA", "CI_COMMIT_SHA")


class ShowFormat(StrEnum):
    TEXT = "text"
    CSV = "csv"


class ExportFormat(StrEnum):
    OTAVA_CSV = "otava-csv"
    OTAVA_JSON = "otava-json"
    GITHUB = "github-action-benchmark"


app = Group(help="Keep what runs found over months: what changed when.")

HistoryFile = Annotated[Path, Option("The history.", "FILE", default="./bakeoff-history.db")]
Series = Annotated[str, Option("Only this series.", "NAME", default="all")]
Cell = Annotated[str, Option("Only this cell, as `show` prints it.", "CELL", default="all")]
Metric = Annotated[str, Option("Only this metric: throughput, p95, NOPM, tpmC.", "NAME", default="all")]
SeriesToAddTo = Annotated[str, Option("Series to add to: a branch, a pipeline.", "NAME")]
Commit = Annotated[
    str | None, Option("Commit or version of what was measured.", "SHA", default="$GITHUB_SHA, $CI_COMMIT_SHA")
]
Date = Annotated[str | None, Option("2026-11-25, or 2026-11-25T03:00; UTC.", "DATE")]


@command(
    "bakeoff history add latest",
    "bakeoff history add latest --history nightly.db --series main --commit 1a2b3c",
    into=app,
)
def add(
    run: Annotated[list[str], Argument("Runs, as for `report`.", "RUN")],
    history: HistoryFile = DEFAULT_FILE,
    series: SeriesToAddTo = DEFAULT_SERIES,
    commit: Commit = None,
    date: Date = None,
    runs: Runs = None,
) -> None:
    """Add runs: a point for each comparison with the baseline. A run that is already there is replaced."""
    if len(run) > 1 and (commit or date):
        raise SpecError("history add: --commit and --date are for one run.", hint="Add the runs one by one.")
    for name in run:
        add_run(open_run(name, runs), history, series=series, commit=commit, date=date)


def add_run(run: RunDirectory, file: Path, *, series: str, commit: str | None = None, date: str | None = None) -> None:
    at = _moment(date) if date else None
    points = points_of(run, series=_named(series), commit=_commit(commit), at=at)
    new = History(file).add(points)
    replaced = f", {len(points) - new} of them in place of earlier ones" if new < len(points) else ""
    print_sentence(f"{file}: {len(points)} points of {run.name}{replaced}", stderr=True)


@command("bakeoff history import sysbench.txt --server mysql:8.0.15", into=app, name="import")
def import_(
    file: Annotated[list[Path], Argument("Output of sysbench, HammerDB, BenchBase, go-tpc or mysqlslap.", "FILE")],
    history: HistoryFile = DEFAULT_FILE,
    series: SeriesToAddTo = DEFAULT_SERIES,
    workload: Annotated[str, Option("Its name.", "NAME", default="the file's")] = "",
    server: Annotated[str, Option("What was measured.", "NAME", default="as the file says")] = "",
    commit: Annotated[str, Option("Commit or version of what was measured.", "SHA")] = "",
    date: Date = None,
) -> None:
    """Add single runs of other tools.

    No baseline was measured beside them, so they get no verdict.
    """
    at = _moment(date) if date else None
    points: list[Point] = []
    for path in file:
        points += read_points(path, series=_named(series), workload=workload, server=server, commit=commit, at=at)
    new = History(history).add(points)
    print_sentence(f"{history}: {len(points)} figures of single runs, {new} of them new", stderr=True)


@command("bakeoff history show", "bakeoff history show --series main --metric p95", into=app)
def show(
    history: HistoryFile = DEFAULT_FILE,
    series: Series = "",
    cell: Cell = "",
    metric: Metric = "",
    output: Annotated[
        ShowFormat, Option("text: lines and changes; csv: every point.", flags="--format")
    ] = ShowFormat.TEXT,
) -> None:
    """Show what changed when, and every line with its newest point."""
    found = History(history)
    points = _points(found, series, cell, metric)
    view = history_view(points, found.annotations(), title=history.name, alpha=ALPHA)
    if output is ShowFormat.CSV:
        click.echo(render_csv(view), nl=False)
    else:
        render_terminal(view, console())


@command('bakeoff history annotate "new compiler" --date 2026-11-20', into=app)
def annotate(
    text: Annotated[str, Argument("What happened: `new compiler`.", "TEXT")],
    history: HistoryFile = DEFAULT_FILE,
    series: Annotated[str, Option("Series that it is about.", "NAME", default="all")] = "",
    date: Date = None,
) -> None:
    """Note what happened on a day; the default is now.

    Charts and the table of changes show it.
    """
    at = _moment(date) if date else datetime.now(UTC).replace(microsecond=0)
    if not text.strip():
        raise SpecError("history annotate: the remark is empty.", hint="Describe what happened.")
    History(history).annotate(Annotation(at=at, series=series, text=text))


@command("bakeoff history export --format otava-csv --series main > points.csv", into=app)
def export(
    output: Annotated[ExportFormat, Option("For Otava, or for github-action-benchmark.", flags="--format")],
    history: HistoryFile = DEFAULT_FILE,
    series: Series = "",
    cell: Cell = "",
    metric: Metric = "",
) -> None:
    """Write points or changes for other programs, to standard output."""
    lines = lines_of(_points(History(history), series, cell, metric), alpha=ALPHA)
    render = {ExportFormat.OTAVA_CSV: otava_csv, ExportFormat.OTAVA_JSON: otava_json, ExportFormat.GITHUB: github_json}
    click.echo(render[output](lines), nl=False)


@command("bakeoff history report -o history.html", into=app)
def report(
    history: HistoryFile = DEFAULT_FILE,
    to: Annotated[Path, Option("The page to write.", "FILE", flags="--output -o -O")] = Path("history.html"),
    series: Series = "",
) -> None:
    """Write one HTML page, which needs no network.

    It has every line with its intervals, changes and annotations.
    """
    found = History(history)
    folder = to.absolute().parent
    view = history_view(_points(found, series), found.annotations(), title=history.name, alpha=ALPHA, beside=folder)
    to.write_text(render_html(view), encoding="utf-8")
    click.echo(f"{to}")


def _points(history: History, series: str, cell: str = "", metric: str = "") -> list[Point]:
    points = history.points(series)
    kept = [each for each in points if cell in ("", each.cell) and metric in ("", each.metric)]
    if not kept:
        if not points:
            raise ResultsError(f"{history.path} has no points yet.", hint="`bakeoff history add RUN` adds a run's.")
        cells = ", ".join(dict.fromkeys(f"{each.cell} ({each.metric})" for each in points))
        raise SpecError(f"{history.path} has no points of that cell and metric.", hint=f"It has: {cells}.")
    return kept


def _named(series: str) -> str:
    if not series.strip() or len(series) > 100:
        raise SpecError(
            f"--series: {series[:20]!r} is not a name of 1 to 100 characters.", hint="Write --series nightly."
        )
    return series


def _commit(given: str | None) -> str:
    return given if given is not None else next(filter(None, map(os.environ.get, _COMMITS)), "")


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text.strip())
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise SpecError(f"--date: {text[:40]!r} is not a date.", hint="Write --date 2026-11-25.") from None
