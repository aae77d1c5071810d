"""Write the man page bakeoff.1 from the help of every command and two tables of docs/reference/cli.md. `make docs`."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from bakeoff.cli.help import parameter_rows
from bakeoff.cli.main import app

ROOT = Path(__file__).parent.parent
# maturin installs what lies in data/ under the environment's prefix: share/man is where `man` looks beside bin.
PAGE = ROOT / "python/bakeoff.data/data/share/man/man1/bakeoff.1"


def man_page() -> str:
    """The whole page as roff."""
    command = typer.main.get_command(app)
    context = command.make_context("bakeoff", [], resilient_parsing=True)
    lines = [
        '.TH BAKEOFF 1 "" bakeoff "User Commands"',
        ".nh",
        ".ad l",
        ".SH NAME",
        "bakeoff \\- compare MySQL setups on real servers",
    ]
    lines += [".SH SYNOPSIS", ".B bakeoff", ".I COMMAND", "[\\fIARGUMENTS\\fR]"]
    lines += [".SH DESCRIPTION", _text(command.help), ".SH OPTIONS", *_parameters(command, context), ".SH COMMANDS"]
    for name in command.list_commands(context):
        lines += _command(command.get_command(context, name), name, context)
    reference = (ROOT / "docs/reference/cli.md").read_text("utf-8")
    for heading, title in (("Exit codes", "EXIT STATUS"), ("Environment", "ENVIRONMENT")):
        lines.append(f".SH {title}")
        for term, meaning in _table(reference, heading):
            lines += [".TP", f"\\fB{_text(term.strip('`'))}\\fR", _text(meaning)]
    return "\n".join(line for line in lines if line) + "\n"


def _command(command: Any, name: str, parent: Any) -> Iterator[str]:  # noqa: ANN401 — Typer keeps Click's types private
    """A command with its arguments and options, and the commands below it."""
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    words = " ".join(command.collect_usage_pieces(context))
    below = command.list_commands(context) if hasattr(command, "list_commands") else []
    if not below:
        yield f".SS {context.command_path} {words}".replace("-", "\\-")
        yield _text(command.help)
        yield from _parameters(command, context)
    for each in below:
        yield from _command(command.get_command(context, each), each, context)


def _parameters(command: Any, context: Any) -> Iterator[str]:  # noqa: ANN401
    for name, meaning in parameter_rows(command, context, "argument", "option"):
        if "--help" not in name:
            yield from (".TP", f"\\fB{_text(name)}\\fR", _text(meaning))


def _table(markdown: str, heading: str) -> list[list[str]]:
    """The rows of the table below a heading, without its own heading."""
    part = markdown.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("|").split("|") for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def _text(text: str | None) -> str:
    """Text as roff: nothing in it is a request or an escape; words between backticks are bold."""
    plain = " ".join((text or "").split()).replace("\\", "\\e").replace("-", "\\-")
    plain = re.sub(r"`([^`]*)`", r"\\fB\1\\fR", plain)
    return re.sub(r"^([.'])", r"\\&\1", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", plain))


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(man_page(), encoding="utf-8")
