"""`bakeoff explain`: measure epochs that explain a finished run's differences, and report it anew."""

import threading
from typing import Annotated

from bakeoff.cli.arguments import Output, Verdict
from bakeoff.cli.options import Take, command
from bakeoff.cli.run import RunOptions, ending_in_order, run_and_report, show_report
from bakeoff.errors import BakeoffError, ExitCode, SpecError
from bakeoff.explain.after_verdict import BUDGET_SHARE, Explaining, explained_pairs, require_explainable
from bakeoff.report import build_view, render_html
from bakeoff.report.live import live_for
from bakeoff.results import RunDirectory, open_run
from bakeoff.run.resume import check_machine, resumed_study
from bakeoff.search.attribute import arms_in_between
from bakeoff.search.attribute import attribute as attribute_arms
from bakeoff.spec import Study
from bakeoff.spec.fields import Argument, Option
from bakeoff.stats.model import Analysis


@command()
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
            "Measure arms in between instead: which of the settings that differ explains the difference. Its budget is "
            "the run's own for every two arms."
        ),
    ] = False,
) -> int:
    """Explain what is FASTER or SLOWER in a finished run, by epochs that count for no verdict; report it anew."""
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
    """Measure the arms in between every two arms in question, and report the run anew.

    Raises:
        BakeoffError: no two of them could be measured; that of the last two.
    """
    analysis = run.read("analysis.json", Analysis)
    assert analysis  # else there is nothing to explain
    claimed = dict.fromkeys(name for names in explained_pairs(analysis).values() for name in names)
    pairs = [pair] if pair else [(study.baseline.name, name) for name in claimed]
    stop, failed = threading.Event(), 0
    with run.hold(), ending_in_order(stop):
        for two in pairs:
            try:
                _attribute_two(run, study, two, budget_s, options, stop)
            except BakeoffError as error:
                failed += 1
                if failed == len(pairs):  # nothing was measured
                    raise
                with live_for(study, quiet=options.quiet, json=options.json) as live:
                    live.note(str(error))  # the other contenders may have settings to tell apart
            if stop.is_set():
                break
        view = build_view(run, analysis)
        run.write_text("report.html", render_html(view))
    show_report(run, view, options)
    return ExitCode.INTERRUPTED if stop.is_set() else ExitCode.DONE


def _attribute_two(
    run: RunDirectory,
    study: Study,
    two: tuple[str, str],
    budget_s: float | None,
    options: RunOptions,
    stop: threading.Event,
) -> None:
    """Measure the arms in between two arms (`BakeoffError`: there are none, or one of them cannot be measured)."""
    baseline, contender = two
    with live_for(study, quiet=options.quiet, json=options.json) as live:
        asked, in_between = arms_in_between(
            run, contender, baseline=baseline, listener=live, stop=stop, budget_s=budget_s
        )
    with live_for(in_between, quiet=options.quiet, json=options.json) as live:
        attribute_arms(run, asked, in_between, listener=live, stop=stop, command_line=options.command_line)


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
