"""Options that several commands share."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


class Format(StrEnum):
    """How a command answers."""

    TEXT = "text"
    JSON = "json"


format_option = typer.Option("--format", help="text for people, json for programs.")

Seed = Annotated[
    int | None, typer.Option("--seed", help="Everything random follows from it; default: a new one, printed.")
]
Runs = Annotated[
    Path | None,
    typer.Option("--runs", help="Folder for run directories; default: ./bakeoff-runs or $BAKEOFF_RUNS."),
]
Open = Annotated[bool, typer.Option("--open", help="Open the report in a browser.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only the verdict.")]
Publish = Annotated[
    bool, typer.Option("--publish", help="For a report to be published: with a control; fails when that does not hold.")
]


def console(*, piped_width: int | None = None) -> Console:
    """Where tables are printed. Text is shown as it is: people write `[…]` and `:x:` into questions and levels.

    Args:
        piped_width: columns when nobody looks at a terminal; None: as the environment says.
    """
    made = _Console(markup=False, emoji=False)
    if piped_width and not made.is_terminal:
        made.width = piped_width
    return made


class _Console(Console):
    """Leaves a reader that went away to `bakeoff.cli.main`, as `print` does; Rich would end the process with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def runs_root(asked: Path | None) -> Path:
    """Where run directories are made."""
    return asked or Path(os.environ.get("BAKEOFF_RUNS", "bakeoff-runs"))
