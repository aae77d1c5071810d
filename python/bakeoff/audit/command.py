"""`bakeoff audit`: say whether the setups of a benchmark were alike, and what its numbers can support."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NamedTuple

import click

from bakeoff.audit.compare import BY_DEFAULT, Difference, compare, ignored
from bakeoff.audit.record import Record, read_record
from bakeoff.audit.runs import flaws, ratios
from bakeoff.audit.settle import draft_study
from bakeoff.audit.setups import Setup, read_setup
from bakeoff.cli.options import command
from bakeoff.cli.printing import print_sentence, print_table
from bakeoff.errors import ExitCode, SpecError
from bakeoff.report import numbers
from bakeoff.spec.fields import Argument, Option
from bakeoff.units import shortened, visible

_VALUE_MAX, _OTHERS_MAX = 48, 40


class AuditFormat(StrEnum):
    TEXT = "text"
    MARKDOWN = "md"
    JSON = "json"


class Part(NamedTuple):
    """A heading with a table, sentences or both."""

    title: str
    lines: Sequence[str] = ()
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()


def _differing(setups: Sequence[Setup], found: Sequence[Difference]) -> Iterator[Part]:
    names, count = [setup.name for setup in setups], sum(each.counts for each in found)
    known, others = list[list[str]](), list[list[str]]()
    for each in found:
        row = [each.setting]
        row += ("(absent)" if value is None else shortened(value, _VALUE_MAX) or "(empty)" for value in each.values)
        if each.rank is not None:
            remark = " (declared)" if each.declared else " (default of the version)" if each.by_default else ""
            known.append([*row, each.why + remark, str(each.sizes[0]) if each.sizes else ""])
        elif None not in each.values:
            others.append(row)
    title = f"{numbers.counted(count, 'undeclared difference')} known to matter"
    equal = [] if known else ["All settings known to matter that the setups show are equal."]
    yield Part(title, equal, ["setting", *names, "why it matters", "measured here"], known)
    yield Part("Other settings that differ (--format json has all)", [], ["setting", *names], others[:_OTHERS_MAX])


def _texts(setups: Sequence[Setup], record: Record, unseen: Sequence[str]) -> Iterator[Part]:
    notes = [note for setup in setups for note in setup.notes]
    if any(run.tool.startswith("sysbench 1.0.") for setup in setups for run in setup.runs):
        notes.append("sysbench 1.0 ignores --mysql-ssl=off with libmysqlclient: it encrypts if the server offers TLS")
    yield Part("Not read", [line for setup in setups for line in setup.problems])
    yield Part("Options that the server ignored or rounded", [line for setup in setups for line in ignored(setup)])
    yield Part("What the numbers can carry", [*ratios(setups, record), *flaws(setups)])
    yield Part("What these files do not show", [*unseen, *notes])


def _print(parts: Sequence[Part], *, markdown: bool) -> None:
    for part in parts:
        click.echo(f"\n## {part.title}\n" if markdown else f"\n{part.title}")
        if part.rows and not markdown:
            print_table(part.columns, part.rows)
        for row in [part.columns, ["---"] * len(part.columns), *part.rows] if part.rows and markdown else []:
            click.echo(f"| {' | '.join(visible(cell).replace('|', '/') for cell in row)} |")
        for line in part.lines:
            click.echo(f"- {visible(line)}") if markdown else print_sentence(f"  {line}", indent=4)


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
        Option(f"Setting meant to differ; repeatable. `{BY_DEFAULT}`: all defaults of the versions.", "SETTING"),
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
        raise SpecError("audit: name two or more different setups.", hint="Write bakeoff audit old/ new/.")
    if to and to.is_dir():
        raise SpecError(f"audit: {to} is a folder.", hint="Name a file in it.")
    setups, record = [*map(read_setup, setup)], read_record()
    found, unseen = compare(setups, record, {each.lower() for each in declared})
    if to:
        to.write_text(draft_study(setups, found), encoding="utf-8")
        click.echo(f"{to}: run it with `bakeoff run {to}`, or see `bakeoff plan {to}`.", err=True)
    texts = [*_texts(setups, record, unseen)]
    undeclared = [each.setting for each in found if each.counts]
    if output is AuditFormat.JSON:
        document = {
            "setups": [{"name": each.name, "version": each.version_text, "files": each.files} for each in setups],
            "undeclared": undeclared,
            "differences": [asdict(each) for each in found],
            "texts": {part.title: part.lines for part in texts},
        }
        click.echo(json.dumps(document, indent=1, default=lambda estimate: estimate.model_dump()))
    else:
        versions = [f"{each.name}: {each.version_text or 'version unknown'}" for each in setups]
        parts = [Part("Setups", versions), *_differing(setups, found), *texts]
        _print([part for part in parts if part.lines or part.rows], markdown=output is AuditFormat.MARKDOWN)
    return ExitCode.DIFFERENCE if undeclared else ExitCode.DONE
