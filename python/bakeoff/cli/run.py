"""`bakeoff run`: a study, from its file to its report."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from bakeoff.cli.asking import ask, telling_the_line
from bakeoff.cli.output import Format, format_option
from bakeoff.cli.running import RunOptions, run_and_tell
from bakeoff.errors import SpecError
from bakeoff.results import RunDirectory, open_run
from bakeoff.stats.stopping import control_name
from bakeoff.trial.arms import check_workloads
from bakeoff.trial.outlook import outlook, require_disk
from bakeoff.trial.resume import resumed_study
from bakeoff.units import parse_duration_s


def run(
    study: Annotated[
        str | None,
        typer.Argument(metavar="[STUDY]", help="A study file, or the name of one that ships; not needed to resume."),
    ] = None,
    scale: Annotated[str, typer.Option(help="demo, small, paper: a size that the study has.")] = "",
    budget: Annotated[str | None, typer.Option(help="Instead of the study's: 90s, 4m, 1h.")] = None,
    precision: Annotated[str | None, typer.Option(help="Instead of the study's: 1%.")] = None,
    control: Annotated[bool, typer.Option("--control", help="Add a second instance of the baseline.")] = False,
    publish: Annotated[
        bool,
        typer.Option("--publish", help="For a report to be published: with a control; fails when that does not hold."),
    ] = False,
    resume: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Go on with a run that was killed: a run directory, or a run's name."),
    ] = None,
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
    options = RunOptions(
        runs_root=runs or Path(os.environ.get("BAKEOFF_RUNS", "bakeoff-runs")),
        command_line=("bakeoff", *sys.argv[1:]),
        passwords={},  # those of running servers come from MYSQL_PWD or ~/.my.cnf
        quiet=quiet,
        json=output is Format.JSON,
        open_report=open_report,
        publish=publish,
    )
    if resume is not None:
        return _resume(study, open_run(resume, runs), options, scale=scale, budget=budget, precision=precision)
    if study is None:
        raise SpecError("run: no study is named.", hint="Write bakeoff run STUDY; see `bakeoff list studies`.")
    asked = ask(study, scale=scale, budget=budget, precision=precision, seed=seed, control=control or publish)
    with telling_the_line(asked):
        check_workloads(asked.study.workloads)
        require_disk(outlook(asked.study))
        return run_and_tell(asked.study, options)


def _resume(
    name: str | None, run: RunDirectory, options: RunOptions, *, scale: str, budget: str | None, precision: str | None
) -> int:
    """Go on with a run; a study named beside it must be the run's."""
    begun = run.study()
    if options.publish and control_name(begun) is None:
        raise SpecError(
            f"run: {run.name} was begun without a control, so it cannot be published.",
            hint="Begin it anew with --publish.",
        )
    asked = None
    if name is not None:
        scale = scale or (begun.design.scale if begun.design else "")
        control = control_name(begun) is not None
        asked = ask(name, scale=scale, precision=precision, control=control).study
    elif precision is not None or scale:
        raise SpecError(
            "run: a resumed run keeps its study; only its budget can be changed.",
            hint="Leave --precision and --scale out.",
        )
    study = resumed_study(run, budget_s=parse_duration_s(budget) if budget else None, asked=asked)
    return run_and_tell(study, replace(options, resume=run))
