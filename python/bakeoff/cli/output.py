"""Options that several commands share."""

from enum import StrEnum

import typer


class Format(StrEnum):
    """How a command answers."""

    TEXT = "text"
    JSON = "json"


format_option = typer.Option("--format", help="text for people, json for programs.")
