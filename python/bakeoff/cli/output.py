"""Options that several commands share."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


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


def runs_root(asked: Path | None) -> Path:
    """Where run directories are made."""
    return asked or Path(os.environ.get("BAKEOFF_RUNS", "bakeoff-runs"))
