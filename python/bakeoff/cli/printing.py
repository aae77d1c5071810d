"""Print tables and sentences: fitted to a terminal, or one line per row in a pipe, for grep and awk."""

import re
import textwrap
from collections.abc import Sequence
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bakeoff.units import visible


def console(*, stderr: bool = False) -> Console:
    """Return the console for tables. Markup is off, because questions and levels may contain `[…]` and `:x:`."""
    return _Console(markup=False, emoji=False, highlight=False, stderr=stderr)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, grouped: bool = False) -> None:
    """Print a table. In a pipe it has no frame, and an empty cell is `-`, so that fields can be counted."""
    page = console()
    if not page.is_terminal:
        for line in _piped([columns, *rows]):
            click.echo(line)
        return
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    for index, column in enumerate(columns):
        first, longest = index == 0, widths[index] == max(widths)
        table.add_column(
            column,
            overflow="fold",
            no_wrap=first and widths[index] < page.width / 2,
            max_width=None if first or longest else page.width // 5,  # leaves room for the longest text
        )
    before = ""
    for row in rows:
        name = "" if grouped and row[0] == before else row[0]
        table.add_row(*(Text(visible(cell)) for cell in (name, *row[1:])))
        before = row[0]
    page.print(table)


def print_sentence(text: str, *, indent: int = 0, stderr: bool = False) -> None:
    """Print a sentence, wrapped on a terminal without breaking paths; `indent` is for the lines after the first."""
    page = console(stderr=stderr)
    lines = [visible(text)]
    if page.is_terminal:
        together = re.sub(r"(?<=\d) (?=[A-Za-zµ]{1,3}\b)", "\N{NO-BREAK SPACE}", lines[0])  # a number and its unit
        further = " " * indent
        lines = textwrap.wrap(
            together, page.width, subsequent_indent=further, break_long_words=False, break_on_hyphens=False
        )
    for line in lines:
        click.echo(line.replace("\N{NO-BREAK SPACE}", " "), err=stderr)


def _piped(rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [[visible(cell) or "-" for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


class _Console(Console):
    def render_str(self, text: str, **style: Any) -> Text:  # noqa: ANN401 — Rich's own
        return super().render_str(visible(text), **style)
