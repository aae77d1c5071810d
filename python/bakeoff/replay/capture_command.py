"""`bakeoff capture`: make a capture from logs or a running server, and show it."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import click
from pydantic import Field
from rich.console import Console
from rich.progress import DownloadColumn, Progress, TransferSpeedColumn

from bakeoff.cli.commands import Group
from bakeoff.cli.options import command
from bakeoff.cli.printing import console, print_sentence
from bakeoff.errors import SpecError
from bakeoff.replay.capture_view import capture_view
from bakeoff.replay.captures import capture_totals, make_capture
from bakeoff.replay.kept_statements import KeptIn, kept_statements
from bakeoff.report import render_csv, render_html, render_markdown, render_terminal
from bakeoff.servers import RemoteServer
from bakeoff.spec import parse_server
from bakeoff.spec.fields import Argument, Option
from bakeoff.spec.server_name import is_url, url_database, url_password
from bakeoff.units import format_bytes

_SHOWN = 20
_SHOWN_AFTER_MAKING = 10


class LogFormat(StrEnum):
    SLOW = "slow"
    GENERAL = "general"
    SQL = "sql"


class ShowFormat(StrEnum):
    TEXT = "text"
    HTML = "html"
    MARKDOWN = "md"
    CSV = "csv"
    JSON = "json"


class _MakeByDefault(Group):
    """`bakeoff capture slow.log` means `bakeoff capture make slow.log`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help", "-h"):
            args = ["make", *args]
        return super().parse_args(ctx, args)


app = _MakeByDefault(help="Make a capture of query logs, and show what is in one.")

ShowLiterals = Annotated[bool, Option("Show a sample of each digest, with its literals.")]


@command(
    "bakeoff capture slow.log -o shop.capture",
    "bakeoff capture mysql://app@db.example/ -o shop.capture --redact",
    most_used=("--output", "--redact"),
    into=app,
)
def make(
    logs: Annotated[
        list[str],
        Argument(
            "Logs or files of SQL, in their order; `-`: standard input; or one running server: mysql://user@host/.",
            "LOG",
        ),
    ],
    output: Annotated[Path, Option("The capture to write.", "FILE", flags="--output -o -O")],
    redact: Annotated[bool, Option("Replace literals by others of the same type and length.")] = False,
    log_format: Annotated[
        LogFormat | None, Option("Format of the logs.", flags="--format", default="found by their content")
    ] = None,
    source: Annotated[
        KeptIn | None,
        Option(
            "What to read of a running server.", flags="--from", default="its slow log if that has rows, else digests"
        ),
    ] = None,
    limit: Annotated[int, Field(ge=0), Option("Digests shown at the end.", "N")] = _SHOWN_AFTER_MAKING,
    show_literals: ShowLiterals = False,
) -> None:
    """Make a capture of logs, files of SQL or a running server.

    The logs are slow logs or general logs. The word `make` may be left out.
    """
    urls = [log for log in logs if is_url(log)]
    if urls and (len(logs) > 1 or log_format):
        reason = "capture: a running server is read alone, without --format."
        raise SpecError(reason, hint="See docs/reference/capture.md.")
    if source and not urls:
        raise SpecError("--from: a log has only one source.", hint="It is for a running server: mysql://user@host/.")
    if output.exists() and not output.is_file():
        raise SpecError(f"capture: {output} is not a file.", hint="Name one with -o.")
    if any(Path(log).exists() and output.exists() and output.samefile(log) for log in logs):
        raise SpecError(f"capture: {output} is one of the logs.", hint="Name another file with -o.")
    with reading(console()) as report:
        if urls:
            summary = _of_server(urls[0], output, source, redact=redact, on_progress=report)
        else:
            summary = make_capture(logs, output, redact=redact, log_format=log_format, on_progress=report)
    render_terminal(capture_view(summary, output, limit=limit, literals=show_literals), console())
    print_sentence(f"Capture: {output} ({format_bytes(output.stat().st_size)})")


@contextmanager
def reading(page: Console) -> Iterator[Callable[[int, int | None], None]]:
    columns = (*Progress.get_default_columns(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, transient=True, console=page, disable=not page.is_terminal) as bars:
        task = bars.add_task("reading", total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def _of_server(
    url: str, output: Path, source: KeptIn | None, *, redact: bool, on_progress: Callable[[int, int | None], None]
) -> dict[str, Any]:
    spec = parse_server(url)
    server = RemoteServer(spec, password=url_password(url))
    with kept_statements(server, url_database(spec.location), source) as kept:
        print_sentence(kept.about)
        return make_capture(
            ["-"], output, redact=redact, log_format=kept.log_format, on_progress=on_progress, text=kept.text
        )


@command(
    "bakeoff capture show shop.capture --limit 50",
    "bakeoff capture show shop.capture --format html > shop.html",
    into=app,
)
def show(
    capture: Annotated[Path, Argument("A capture.", "FILE")],
    output: Annotated[ShowFormat, Option("What to print.", flags="--format")] = ShowFormat.TEXT,
    limit: Annotated[
        int | None,
        Field(ge=1),
        Option("Digests shown: those with the most time.", "N", default="20; csv and json: all"),
    ] = None,
    show_literals: ShowLiterals = False,
) -> None:
    """Show a capture's digests, those with the most time first.

    Each has its percentiles and rows, and at the end is what cannot be replayed.
    """
    summary = capture_totals(capture)
    if limit is None:
        limit = len(summary["digests"]) if output in (ShowFormat.CSV, ShowFormat.JSON) else _SHOWN
    view = capture_view(summary, capture, limit=limit, literals=show_literals)
    if output is ShowFormat.TEXT:
        render_terminal(view, console())
    elif output is ShowFormat.JSON:
        click.echo(json.dumps(_for_programs(summary, limit, literals=show_literals), indent=1, ensure_ascii=False))
    else:
        render = {ShowFormat.HTML: render_html, ShowFormat.MARKDOWN: render_markdown, ShowFormat.CSV: render_csv}
        click.echo(render[output](view), nl=False)


def _for_programs(summary: dict[str, Any], limit: int, *, literals: bool) -> dict[str, Any]:
    hidden = () if literals else ("sample",)
    digests = [{key: each[key] for key in each if key not in hidden} for each in summary["digests"][:limit]]
    return summary | {"digests": digests}
