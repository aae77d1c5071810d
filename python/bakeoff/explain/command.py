"""`bakeoff explain`: measure epochs that explain a finished run's differences, and render its report again."""

from typing import Annotated

from bakeoff import features
from bakeoff.cli.arguments import Output, Verdict
from bakeoff.cli.options import Take, command
from bakeoff.cli.run import RunOptions, run_and_report
from bakeoff.errors import SpecError
from bakeoff.explain.after_verdict import BUDGET_SHARE, Explaining, explained_pairs, require_explainable
from bakeoff.results import RunDirectory, open_run
from bakeoff.run.resume import check_machine, resumed_study
from bakeoff.spec import Study
from bakeoff.spec.fields import Argument, Option
from bakeoff.stats.model import Analysis


@command(
    "bakeoff explain latest --explain-budget 3m",
    "bakeoff explain latest --arms A,B --open",
    "bakeoff explain latest --attribute",
    most_used=("--explain-budget", "--arms", "--attribute", "--open"),
)
def explain(
    run: Annotated[str, Argument("A finished run: its directory, the beginning of its name, or latest.", "RUN")],
    verdict: Annotated[Verdict, Take("explain_budget")],
    output: Output,
    arms: Annotated[
        str | None, Option("These two, in every cell.", "A,B", default="every comparison FASTER or SLOWER")
    ] = None,
    attribute: Annotated[
        bool,
        Option(
            "Search instead which of the settings that differ explains the difference. Its budget is eight times the "
            "run's own."
        ),
    ] = False,
) -> int:
    """Explain what is FASTER or SLOWER in a finished run with extra epochs, and render its report again."""
    found = open_run(run, output.runs)
    study = resumed_study(found, budget_s=None)
    pair = _pair(arms, study)
    budget_s = verdict.explain_budget
    asked = Explaining(budget_s or BUDGET_SHARE * study.budget_s, pair, only=True)
    require_explainable(asked, found)
    options = RunOptions.of(output, resume=found, explaining=asked)
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
    if text is None:
        return None
    words = [arm.name for arm in study.arms if f",{arm.name}," in f",{text},"]
    if len(words) != 2 or text not in (",".join(words), ",".join(reversed(words))):
        names = ", ".join(f"{arm.name} ({arm.label})" for arm in study.arms)
        raise SpecError(f"--arms: {text!r} does not name two arms of the run.", hint=f"It has {names}.")
    return words[0], words[1]
