"""`bakeoff compare`: compare earlier runs, or series of single runs."""

import json
from pathlib import Path
from string import ascii_uppercase
from typing import Annotated

import click

from bakeoff.cli.arguments import Format, FormatOption, Runs
from bakeoff.cli.options import command
from bakeoff.cli.printing import console, print_sentence, print_table
from bakeoff.errors import SpecError
from bakeoff.history.compare import CAVEAT, RunComparison, compare_runs, texts_of
from bakeoff.history.history_file import History
from bakeoff.history.page import compare_series
from bakeoff.report import numbers
from bakeoff.results import open_run
from bakeoff.spec.fields import Argument, Option


@command()
def compare(
    run: Annotated[list[str], Argument("Two or more, each as for `report`; the first is the reference.", "RUN")],
    across_machines: Annotated[bool, Option("Compare runs of different machines all the same.")] = False,
    history: Annotated[
        Path | None, Option("RUNs are series of single runs in this history: each run one observation.", "FILE")
    ] = None,
    runs: Runs = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Compare earlier runs in what they have in common: throughput of each arm, and ratios to the baseline."""
    if len(run) < 2:
        raise SpecError("compare: it takes at least two runs.", hint="See `bakeoff list runs`.")
    found = _in_history(run, history) if history else _of_runs(run, runs, across_machines=across_machines)
    if output is Format.JSON:
        click.echo(json.dumps(_record(found), indent=1))
    else:
        _print(found)


def _in_history(names: list[str], file: Path) -> RunComparison:
    if len(set(names)) < len(names):
        raise SpecError("compare: a series is named twice.", hint="See `bakeoff history show`.")
    return compare_series(History(file).points(), names)


def _of_runs(run: list[str], runs: Path | None, *, across_machines: bool) -> RunComparison:
    directories = [open_run(name, runs) for name in run]
    if len({directory.path.resolve() for directory in directories}) < len(directories):
        raise SpecError("compare: a run is named twice.", hint="See `bakeoff list runs`.")
    return compare_runs(directories, across_machines=across_machines)


def _record(found: RunComparison) -> dict[str, object]:
    names = ("run", "cell", "kind", "label", "earlier", "later")
    lines = [
        {name: getattr(line, name) for name in names}
        | numbers.ratio_fields(line.found.estimate)
        | {"p_value": line.found.p_value, "p_adjusted": line.p_adjusted, "differs": line.differs}
        for line in found.lines
    ]
    return {"runs": found.runs, "paired": False, "caveat": CAVEAT, "notes": found.notes, "lines": lines}


def _print(found: RunComparison) -> None:
    for number, name in enumerate(found.runs, start=1):
        click.echo(f"run {number}: {name}")
    for note in found.notes:
        print_sentence(note)
    several = len(found.runs) > 2
    letters = _letters(found) if console().is_terminal else {}
    for label, letter in letters.items():
        if len(letter) == 1:
            print_sentence(f"{letter}: {label}", indent=3)
    rows = []
    for line in found.lines:
        earlier, later, ratio, interval, says = texts_of(line)
        then = f"{found.runs.index(line.run) + 1}: {later}" if several else later
        rows.append((line.cell, letters.get(line.label, line.label), earlier, then, ratio, interval, says))
    columns = ("cell", "what", "run 1", "run" if several else "run 2", "ratio", "95% interval", "finding")
    print_table(columns, rows, grouped=True)
    print_sentence(CAVEAT)


def _letters(found: RunComparison) -> dict[str, str]:
    """Give each arm a letter, and each pair `B/A`: their settings have no room in a table of 80 columns."""
    arms = dict.fromkeys(line.label for line in found.lines if line.kind == "throughput")
    letters = dict(zip(arms, ascii_uppercase, strict=False))
    pairs = [(one, other) for one in letters for other in letters if one != other]
    return letters | {f"{one} over {other}": f"{letters[one]}/{letters[other]}" for one, other in pairs}
