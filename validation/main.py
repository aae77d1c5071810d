"""`bakeoff gauntlet`: proof, on this machine, that the verdicts can be trusted."""

import os
import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bakeoff.cli.arguments import console
from bakeoff.cli.execution import ending_signals
from bakeoff.errors import ExitCode, SpecError
from bakeoff.servers import Catalog
from bakeoff.spec import Origin, parse_server
from validation.journal import Journal, Record
from validation.model import Size
from validation.suite import markdown, print_table, run_checks, select

_SEED = 1
_SERVER = "mysql:8.0.15"


class TableFormat(StrEnum):
    """How the table is told."""

    TEXT = "text"
    MARKDOWN = "md"
    JSON = "json"


def gauntlet(
    size: Annotated[
        Size | None,
        typer.Option(help="replay: minutes, no server (the default); quick: 7 minutes; full: hours."),
    ] = None,
    only: Annotated[str, typer.Option(help="Tests by number, with commas: G1,G3.")] = "",
    seed: Annotated[int | None, typer.Option(help=f"Everything random follows from it. [default: {_SEED}]")] = None,
    server: Annotated[str | None, typer.Option(help=f"What real tests are run on. [default: {_SERVER}]")] = None,
    resume: Annotated[Path | None, typer.Option(metavar="DIR", help="Go on with a run that was ended.")] = None,
    runs: Annotated[
        Path | None,
        typer.Option("--runs", help="Where gauntlet-<time> is made; default: ./bakeoff-runs or $BAKEOFF_RUNS."),
    ] = None,
    output: Annotated[TableFormat, typer.Option("--format", help="text, md for a document, json for programs.")] = (
        TableFormat.TEXT
    ),
) -> int:
    """Test the method against known truths; exit code 1 when a target does not hold."""
    names = tuple(name.strip().upper() for name in only.split(",") if name.strip())
    if resume:
        if size or names or seed is not None or server:
            raise SpecError("--resume goes on with what was asked then.", hint="Leave the other options away.")
        journal = Journal.open(resume)
        checks = select(journal.record.size, journal.record.only)
    else:
        size = size or Size.REPLAY
        checks = select(size, names)
        if server:
            _check_server(server, size)
        journal = Journal.begin(
            runs or Path(os.environ.get("BAKEOFF_RUNS", "bakeoff-runs")),
            size=size,
            only=names,
            seed=_SEED if seed is None else seed,
            server=server or _SERVER,
            command=("bakeoff", *sys.argv[1:]),
        )
    for number in ending_signals():
        signal.signal(number, signal.default_int_handler)
    try:
        record = run_checks(journal, checks, tell=lambda text: typer.echo(text, err=True))
    except KeyboardInterrupt:
        _print(journal.record, output)
        typer.echo(f"bakeoff: interrupted. Go on with: bakeoff gauntlet --resume {journal.path}", err=True)
        return ExitCode.INTERRUPTED
    _print(record, output)
    typer.echo(f"Findings: {journal.path}/results.json", err=True)
    return ExitCode.DIFFERENCE if record.failed else ExitCode.DONE


def _check_server(text: str, size: Size) -> None:
    """See, before minutes are spent, that the tests can be run on this server.

    Raises:
        SpecError: they cannot.
    """
    if size is Size.REPLAY:
        raise SpecError("gauntlet: the size replay starts no server.", hint="Leave --server out, or add --size quick.")
    spec = parse_server(text)
    if spec.origin is Origin.URL:
        raise SpecError(
            "gauntlet: a running server cannot be tested: the tests start their servers again and again.",
            hint="Name one that bakeoff starts: --server mysql:8.0.",
        )
    if spec.origin is Origin.CATALOG:
        Catalog.load().resolve(spec)


def _print(record: Record, output: TableFormat) -> None:
    if output is TableFormat.JSON:
        typer.echo(record.model_dump_json(indent=1))
    elif output is TableFormat.MARKDOWN:
        typer.echo(markdown(record), nl=False)
    else:
        print_table(record, console(piped_width=140))
