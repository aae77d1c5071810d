"""`bakeoff explain`: measure epochs that explain a finished run's differences, and report it anew."""

from typing import Annotated

import typer

from bakeoff import features
from bakeoff.cli.arguments import ExplainBudget, Format, Open, Quiet, Runs, format_option
from bakeoff.cli.run import RunOptions, run_and_report
from bakeoff.errors import SpecError
from bakeoff.explain.after_verdict import BUDGET_SHARE, Explaining, explained_pairs, require_explainable
from bakeoff.results import RunDirectory, open_run, runs_root
from bakeoff.run.resume import check_machine, resumed_study
from bakeoff.spec import Study
from bakeoff.stats.model import Analysis
from bakeoff.units import parse_duration_s


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
    attribute: Annotated[
        bool,
        typer.Option(
            "--attribute",
            help="Search instead which of the settings that differ explains the difference. "
            "[default budget: three times the run's own]",
        ),
    ] = False,
    explain_budget: ExplainBudget = None,
    runs: Runs = None,
    open_report: Open = False,
    quiet: Quiet = False,
    output: Annotated[Format, format_option] = Format.TEXT,
) -> int:
    """Explain what is FASTER or SLOWER in a finished run, by epochs that count for no verdict; report it anew."""
    found = open_run(run, runs)
    study = resumed_study(found, budget_s=None)
    pair = _pair(arms, study)
    budget_s = parse_duration_s(explain_budget) if explain_budget else None
    asked = Explaining(budget_s or BUDGET_SHARE * study.budget_s, pair, only=True)
    require_explainable(asked, found)
    options = RunOptions(
        runs_root=runs_root(runs),
        quiet=quiet,
        json=output is Format.JSON,
        open_report=open_report,
        resume=found,
        explaining=asked,
    )
    if attribute:
        check_machine(found)
        return _attribute(found, study, pair, budget_s, options)
    return run_and_report(study, options)


def _attribute(
    run: RunDirectory, study: Study, pair: tuple[str, str] | None, budget_s: float | None, options: RunOptions
) -> int:
    search = features.part("search", "attribute")
    if search is None:
        raise SpecError("explain: --attribute needs bakeoff's search, which is not installed.")
    analysis = run.read("analysis.json", Analysis)
    assert analysis  # else there is nothing to explain
    claimed = dict.fromkeys(name for names in explained_pairs(analysis).values() for name in names)
    pairs = [pair] if pair else [(study.baseline.name, name) for name in claimed]
    code: int = search.attribute_pairs(run, study, pairs, budget_s, options)
    return code


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
