"""`bakeoff compare`: earlier runs side by side, as what they are: unpaired."""

import json
import math
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from bakeoff.cli.output import Format, console, format_option
from bakeoff.errors import SpecError
from bakeoff.report.compare import CAVEAT, Comparison, compare_runs, texts_of
from bakeoff.results import open_run


def compare(
    run: Annotated[
        list[str], typer.Argument(metavar="RUN RUN...", help="Runs; the others are compared with the first.")
    ],
    across_machines: Annotated[
        bool, typer.Option("--across-machines", help="Compare runs of different machines all the same.")
    ] = False,
    runs: Annotated[Path | None, typer.Option("--runs", help="Folder of run directories.")] = None,
    output: Annotated[Format, format_option] = Format.TEXT,
) -> None:
    """Compare earlier runs in what they have in common: throughput of each arm, and ratios to the baseline."""
    if len(run) < 2:
        raise SpecError("compare: it takes at least two runs.", hint="See `bakeoff list runs`.")
    directories = [open_run(name, runs) for name in run]
    if len({directory.path.resolve() for directory in directories}) < len(directories):
        raise SpecError("compare: a run is named twice.", hint="See `bakeoff list runs`.")
    found = compare_runs(directories, across_machines=across_machines)
    if output is Format.JSON:
        typer.echo(json.dumps(_record(found), indent=1))
    else:
        _print(found)


def _record(found: Comparison) -> dict[str, object]:
    lines = []
    for line in found.lines:
        interval = line.found.estimate.interval
        lines.append(
            {
                "run": line.run,
                "cell": line.cell,
                "kind": line.kind,
                "label": line.label,
                "earlier": line.earlier,
                "later": line.later,
                "ratio": math.exp(line.found.estimate.mean),
                "ratio_low": None if interval.low is None else math.exp(interval.low),
                "ratio_high": None if interval.high is None else math.exp(interval.high),
                "p_value": line.found.p_value,
                "p_adjusted": line.p_adjusted,
                "differs": line.differs,
            }
        )
    return {"runs": found.runs, "paired": False, "caveat": CAVEAT, "notes": found.notes, "lines": lines}


def _print(found: Comparison) -> None:
    page = console(piped_width=200)
    for number, name in enumerate(found.runs, start=1):
        page.print(f"run {number}: {name}", highlight=False)
    for note in found.notes:
        page.print(note, highlight=False)
    table = Table("cell", "what", "run 1", "then", "ratio", "95% interval", "", box=SIMPLE_HEAD)
    if len(found.runs) > 2:
        table.columns[3].header = "run"
    before = ""
    for line in found.lines:
        earlier, later, ratio, interval, says = texts_of(line)
        number = found.runs.index(line.run) + 1
        then = later if len(found.runs) == 2 else f"{number}: {later}"
        table.add_row("" if line.cell == before else line.cell, line.label, earlier, then, ratio, interval, says)
        before = line.cell
    page.print(table)
    page.print(CAVEAT)
