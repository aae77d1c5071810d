"""`bakeoff explain`: measure epochs that explain a finished run's differences, and report it anew."""

import sys
from typing import Annotated

import typer

from bakeoff.cli.arguments import ExplainBudget, Format, Open, Quiet, Runs, format_option
from bakeoff.cli.run import RunOptions, explaining, run_and_report
from bakeoff.errors import SpecError
from bakeoff.results import open_run, runs_root
from bakeoff.run.resume import resumed_study
from bakeoff.spec import Study


def explain(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="A finished run: its directory, the beginning of its name, latest, or -2."),
    ],
    arms: Annotated[
        str | None,
        typer.Option(
            "--arms", metavar="A,B", help="These two, in every cell. [default: every comparison FASTER or SLOWER]"
        ),
    ] = None,
    explain_budget: ExplainBudget = None,
    runs: Runs = None,
    open_report: Open = False,
    quiet: Quiet = False,
    output: Annotated[Format, format_option] = Format.TEXT,
) -> int:
    """Explain what is FASTER or SLOWER in a finished run, by epochs that count for no verdict; write its report anew."""
    found = open_run(run, runs)
    study = resumed_study(found, budget_s=None)
    asked = explaining(explain_budget, none=False, of_s=study.budget_s, only=True, arms=_pair(arms, study))
    options = RunOptions(
        runs_root=runs_root(runs),
        command_line=("bakeoff", *sys.argv[1:]),
        passwords={},
        quiet=quiet,
        json=output is Format.JSON,
        open_report=open_report,
        resume=found,
        explaining=asked,
    )
    return run_and_report(study, options)


def _pair(text: str | None, study: Study) -> tuple[str, str] | None:
    """The two arms named, in the study's order; None: none are.

    Raises:
        SpecError: not two, or one that the study has not.
    """
    if text is None:
        return None
    words = [arm.name for arm in study.arms if f",{arm.name}," in f",{text},"]
    if len(words) != 2 or text not in (",".join(words), ",".join(reversed(words))):
        names = ", ".join(f"{arm.name} ({arm.label})" for arm in study.arms)
        raise SpecError(f"--arms: {text!r} does not name two arms of the run.", hint=f"It has {names}.")
    return words[0], words[1]
