"""`bakeoff run`: a study, from its file to its report."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from bakeoff.cli.asking import ask, telling_the_line
from bakeoff.cli.output import Format, format_option
from bakeoff.cli.running import RunOptions, run_and_tell
from bakeoff.trial.arms import check_workloads
from bakeoff.trial.outlook import outlook, require_disk


def run(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="A study file, or the name of one that ships.")],
    scale: Annotated[str, typer.Option(help="demo, small, paper: a size that the study has.")] = "",
    budget: Annotated[str | None, typer.Option(help="Instead of the study's: 90s, 4m, 1h.")] = None,
    precision: Annotated[str | None, typer.Option(help="Instead of the study's: 1%.")] = None,
    control: Annotated[bool, typer.Option("--control", help="Add a second instance of the baseline.")] = False,
    seed: Annotated[int | None, typer.Option(help="Everything random follows from it; default: a new one.")] = None,
    runs: Annotated[
        Path | None,
        typer.Option("--runs", help="Folder for run directories; default: ./bakeoff-runs or $BAKEOFF_RUNS."),
    ] = None,
    open_report: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the verdict.")] = False,
    output: Annotated[Format, format_option] = Format.TEXT,
) -> int:
    """Run a study: every arm in every cell, until the intervals are narrow enough or the budget is spent."""
    asked = ask(study, scale=scale, budget=budget, precision=precision, seed=seed, control=control)
    with telling_the_line(asked):
        check_workloads(asked.study.workloads)
        require_disk(outlook(asked.study))
        return run_and_tell(
            asked.study,
            RunOptions(
                runs_root=runs or Path(os.environ.get("BAKEOFF_RUNS", "bakeoff-runs")),
                command_line=("bakeoff", *sys.argv[1:]),
                passwords={},  # those of running servers come from MYSQL_PWD or ~/.my.cnf
                quiet=quiet,
                json=output is Format.JSON,
                open_report=open_report,
            ),
        )
