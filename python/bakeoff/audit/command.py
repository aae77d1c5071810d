"""`bakeoff audit`: say whether the setups of a benchmark were alike, and what its numbers can carry."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import click

from bakeoff.audit.compare import BY_DEFAULT, Difference, compare, ignored
from bakeoff.audit.record import Record, Size, read_record
from bakeoff.audit.runs import Cell, cells, flaws
from bakeoff.audit.settle import draft_study
from bakeoff.audit.setups import Setup, read_setup
from bakeoff.cli.options import command
from bakeoff.cli.printing import print_sentence, print_table
from bakeoff.errors import ExitCode, SpecError
from bakeoff.report import numbers
from bakeoff.spec.fields import Argument, Option
from bakeoff.units import percent_text, shortened, visible

_VALUE_MAX, _OTHERS_MAX = 48, 40
_NORMAL_95 = 1.96


class AuditFormat(StrEnum):
    TEXT = "text"
    MARKDOWN = "md"
    JSON = "json"


@dataclass(frozen=True)
class Audit:
    """What was found; `texts` are sentences by the heading that they stand under."""

    setups: Sequence[Setup]
    differences: Sequence[Difference]
    cells: Sequence[Cell]
    record: Record
    texts: dict[str, list[str]]

    @property
    def undeclared(self) -> list[str]:
        return [each.setting for each in self.differences if each.counts]

    def sizes(self, of: Difference) -> list[Size]:
        return self.record.sizes_of(of.setting, of.factor.removeprefix("option."))

    def table(self, *, of_known: bool) -> list[list[str]]:
        """Return the rows of the settings known to matter, or of others that all setups have."""
        rows = []
        for each in self.differences:
            values = [
                "(absent)" if value is None else shortened(value, _VALUE_MAX) or "(empty)" for value in each.values
            ]
            if of_known and each.rank is not None:
                remark = [
                    *(["declared"] if each.declared else []),
                    *(["default of the version"] if each.by_default else []),
                ]
                why = f"{each.why} ({', '.join(remark)})" if remark else each.why
                rows.append([each.setting, *values, why, str(next(iter(self.sizes(each)), ""))])
            elif not of_known and each.rank is None and None not in each.values:
                rows.append([each.setting, *values])
        return rows if of_known else rows[:_OTHERS_MAX]

    def document(self) -> dict[str, object]:
        def record(of: Size | Cell) -> dict[str, object]:
            fields = {name: value for name, value in asdict(of).items() if name != "estimate"}
            return fields | numbers.ratio_fields(of.estimate)

        return {
            "setups": [{"name": each.name, "version": each.version_text, "files": each.files} for each in self.setups],
            "undeclared": self.undeclared,
            "differences": [asdict(each) | {"sizes": [*map(record, self.sizes(each))]} for each in self.differences],
            "cells": [*map(record, self.cells)],
            "restart_spread": self.record.spread,
            "texts": self.texts,
        }


def _audit(setups: Sequence[Setup], declared: set[str]) -> Audit:
    found, unseen = compare(setups, declared)
    measured, record = [*cells(setups)], read_record()
    if any(run.tool.startswith("sysbench 1.0.") for setup in setups for run in setup.runs):
        unseen.append("sysbench 1.0 ignores --mysql-ssl=off with libmysqlclient: it encrypts if the server offers TLS")
    single = [_single_runs(record)] if any(min(each.runs) < 2 for each in measured) else []
    texts = {
        "Not read": [line for setup in setups for line in setup.problems],
        "Options that the server ignored or rounded": [line for setup in setups for line in ignored(setup)],
        "What the numbers can carry": [*map(_cell_line, measured), *single, *flaws(setups)],
        "What these files do not show": [*unseen, *(note for setup in setups for note in setup.notes)],
    }
    return Audit(setups, found, measured, record, texts)


def _single_runs(record: Record) -> str:
    if record.spread is None:
        return "One run a cell shows no difference: docs/record does not yet say how far restarts spread."
    least, of = percent_text(_NORMAL_95 * record.spread), numbers.counted(len(record.spreads), "comparison")
    spread = f"restarts spread that far (95%, median of {of} in docs/record)"
    return f"One run a cell shows no difference below {least}: {spread}."


def _cell_line(cell: Cell) -> str:
    runs = f"{cell.runs[0]} and {numbers.counted(cell.runs[1], 'run')}"
    interval = numbers.interval(cell.estimate.interval)
    how_sure = f"{interval}, {runs}" if interval else f"{runs}: too few for an interval"
    return f"{cell.name}: {cell.setup} over {cell.over} is {numbers.ratio_of(cell.estimate)} ({how_sure})"


def _blocks(done: Audit) -> list[tuple[str, Sequence[str], list[list[str]], list[str]]]:
    """Return heading, columns, rows and sentences of everything that is printed."""
    names, known = [setup.name for setup in done.setups], done.table(of_known=True)
    count = numbers.counted(len(done.undeclared), "undeclared difference")
    versions = [
        f"{each.name}: {each.version_text or 'version unknown'}, {numbers.counted(each.files, 'file')}"
        for each in done.setups
    ]
    equal = [] if known else ["All settings known to matter that both show are equal."]
    return [
        ("Setups", (), [], versions),
        (f"{count} known to matter", ["setting", *names, "why it matters", "measured here"], known, equal),
        ("Other settings that differ (all are in --format json)", ["setting", *names], done.table(of_known=False), []),
        *((title, (), [], lines) for title, lines in done.texts.items()),
    ]


def _print(done: Audit) -> None:
    for title, columns, rows, lines in _blocks(done):
        if rows or lines:
            click.echo(f"\n{title}")
        if rows:
            print_table(columns, rows)
        for line in lines:
            print_sentence(f"  {line}", indent=4)


def _markdown(done: Audit) -> str:
    text = "# Audit\n"
    for title, columns, rows, lines in _blocks(done):
        table = [columns, ["---"] * len(columns), *rows] if rows else []
        cells_of = ([visible(cell).replace("|", "\\|") for cell in row] for row in table)
        body = [*(f"| {' | '.join(row)} |" for row in cells_of), *(f"- {visible(line)}" for line in lines)]
        text += f"\n## {title}\n\n" + "\n".join(body) + "\n" if body else ""
    return text


@command(
    "bakeoff audit old/ new/",
    "bakeoff audit old/ new/ -o settle.yaml",
    "bakeoff audit mysql://root@old/ mysql://root@new/",
)
def audit(
    setup: Annotated[
        list[str], Argument("Two or more: a folder or file of dumps, logs and my.cnf, or a server's URL.", "SETUP")
    ],
    declared: Annotated[
        list[str],
        Option(
            f"A difference that is meant and published; repeatable. `{BY_DEFAULT}`: all defaults of versions.",
            "SETTING",
        ),
    ] = [],  # noqa: B006 — not changed
    to: Annotated[
        Path | None, Option("Write a study that would tell which difference matters.", "FILE", flags="--output -o")
    ] = None,
    output: Annotated[AuditFormat, Option("What to print.", flags="--format")] = AuditFormat.TEXT,
) -> int:
    """Check from the files of a benchmark whether it compares like with like, and what its numbers can carry.

    Exits with 1 if settings known to matter differ and are not declared.
    """
    if len(setup) < 2 or len(set(setup)) < len(setup):
        raise SpecError("audit: it takes two or more different setups.", hint="Write bakeoff audit old/ new/.")
    if to and to.is_dir():
        raise SpecError(f"audit: {to} is a folder.", hint="Name a file in it.")
    done = _audit([*map(read_setup, setup)], {each.lower() for each in declared})
    if to:
        to.write_text(draft_study(done.setups, done.differences), encoding="utf-8")
        click.echo(f"{to}: run it with `bakeoff run {to}`, or see `bakeoff plan {to}`.", err=True)
    if output is AuditFormat.JSON:
        click.echo(json.dumps(done.document(), indent=1))
    elif output is AuditFormat.MARKDOWN:
        click.echo(_markdown(done), nl=False)
    else:
        _print(done)
    return ExitCode.DIFFERENCE if done.undeclared else ExitCode.DONE
