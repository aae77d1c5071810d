"""`bakeoff run`: run or resume a study."""

import sys
from dataclasses import replace
from typing import Annotated

import typer

from bakeoff.cli.arguments import (
    FailOnOption,
    Format,
    NoVerdict,
    Open,
    Publish,
    Quiet,
    Runs,
    Seed,
    format_option,
    naming_the_line,
    request_study,
)
from bakeoff.cli.execution import RunOptions, check_and_run, run_and_report
from bakeoff.errors import SpecError
from bakeoff.results import RunDirectory, open_run, runs_root
from bakeoff.run.forecast import forecast, require_disk
from bakeoff.run.resume import resumed_study
from bakeoff.spec import Study
from bakeoff.stats.stopping import control_name
from bakeoff.units import parse_duration_s


def run(
    study: Annotated[
        str | None,
        typer.Argument(metavar="STUDY", help="A study file, or the name of one that ships; not needed to resume."),
    ] = None,
    scale: Annotated[str, typer.Option(metavar="NAME", help="demo, small, paper: a size that the study has.")] = "",
    budget: Annotated[str | None, typer.Option(metavar="DURATION", help="Instead of the study's: 90s, 4m, 1h.")] = None,
    no_verdict: NoVerdict = False,
    precision: Annotated[str | None, typer.Option(metavar="PERCENT", help="Instead of the study's: 1%.")] = None,
    control: Annotated[bool, typer.Option("--control", help="Add a second instance of the baseline.")] = False,
    publish: Publish = False,
    fail_on: FailOnOption = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Go on with a run that was killed: a run directory, or a run's name."),
    ] = None,
    seed: Seed = None,
    runs: Runs = None,
    open_report: Open = False,
    quiet: Quiet = False,
    output: Annotated[Format, format_option] = Format.TEXT,
) -> int:
    """Run a study: every arm in every cell, until the intervals are narrow enough or the budget is spent."""
    options = RunOptions(
        runs_root=runs_root(runs),
        command_line=("bakeoff", *sys.argv[1:]),
        passwords={},  # those of running servers come from MYSQL_PWD or ~/.my.cnf
        quiet=quiet,
        json=output is Format.JSON,
        open_report=open_report,
        publish=publish,
        fail_on=fail_on,
    )
    if resume is not None:
        begun = open_run(resume, runs)
        _refuse_changes(study, begun.study(), scale=scale, precision=precision, seed=seed, control=control)
        return _resume(study, begun, options, scale=scale, budget=budget, precision=precision)
    if study is None:
        raise SpecError("run: no study is named.", hint="Write bakeoff run STUDY; see `bakeoff list studies`.")
    request = request_study(
        study, scale=scale, budget=budget, precision=precision, seed=seed, control=control or publish
    )
    with naming_the_line(request):
        return check_and_run(request.study, options, no_verdict=no_verdict)


def _resume(
    name: str | None, run: RunDirectory, options: RunOptions, *, scale: str, budget: str | None, precision: str | None
) -> int:
    """Resume a run. A study given with it must be the run's own."""
    begun = run.study()
    if options.publish and control_name(begun) is None:
        raise SpecError(
            f"run: {run.name} was begun without a control, so it cannot be published.",
            hint="Begin it anew with --publish.",
        )
    named = None
    if name is not None:
        scale = scale or (begun.design.scale if begun.design else "")
        control = control_name(begun) is not None
        named = request_study(name, scale=scale, precision=precision, control=control).study
    study = resumed_study(run, budget_s=parse_duration_s(budget) if budget else None, asked=named)
    require_disk(forecast(study))
    return run_and_report(study, replace(options, resume=run))


def _refuse_changes(
    name: str | None, begun: Study, *, scale: str, precision: str | None, seed: int | None, control: bool
) -> None:
    """Refuse changes to a resumed run, except of its budget; --scale and --precision may describe the given study."""
    changes = {
        "--scale": name is None and bool(scale),
        "--precision": name is None and precision is not None,
        "--seed": seed not in (None, begun.seed),
        "--control": control and control_name(begun) is None,
    }
    changed = [option for option, is_changed in changes.items() if is_changed]
    if changed:
        raise SpecError(
            "run: a resumed run keeps its study; only its budget can be changed.",
            hint=f"Leave {' and '.join(changed)} out.",
        )
