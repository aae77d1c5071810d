"""Search for the setting that explains the difference between two arms of a run (`bakeoff explain --attribute`).

The search has its own run directory, below that of the run it explains.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from bakeoff.cli.run import RunOptions, ending_in_order, show_report
from bakeoff.errors import BakeoffError, ExitCode, ServerError, SpecError
from bakeoff.report import build_view, render_html
from bakeoff.report.live import live_for
from bakeoff.results import RunDirectory
from bakeoff.run.arms import settings_of, share_memory
from bakeoff.run.forecast import forecast, require_disk
from bakeoff.run.reporters import download_reporter
from bakeoff.run.runner import Invocation, run_study
from bakeoff.search.attribution import DOCUMENT, FOLDER, Attribution, differing, search_study
from bakeoff.search.model import SERVER, Setting
from bakeoff.servers import Installation, ServerMemory, ServerPool, install
from bakeoff.servers.options import option_text
from bakeoff.servers.paths import work_root
from bakeoff.spec import Arm, Study
from bakeoff.stats.model import Analysis
from bakeoff.stats.progress import Listener
from bakeoff.units import format_duration

BUDGET_FACTOR = 8.0
"""Default budget of a search, times that of the run: it ends as soon as the settings are known."""

_BUDGET_MARGIN = 1.2  # over the smallest budget that gives a verdict


def attribute_pairs(
    run: RunDirectory, study: Study, pairs: Sequence[tuple[str, str]], budget_s: float | None, options: RunOptions
) -> int:
    """Search for every two arms, and report the run anew; return the exit code.

    Raises:
        BakeoffError: no two of them could be searched; that of the last two.
    """
    analysis = run.read("analysis.json", Analysis)
    assert analysis, "a run without a verdict is not explained"
    stop, failed = threading.Event(), 0
    with run.hold(), ending_in_order(stop):
        for baseline, contender in pairs:
            try:
                with live_for(study, quiet=options.quiet, json=options.json) as live:
                    asked, made = prepare(
                        run, contender, baseline=baseline, listener=live, stop=stop, budget_s=budget_s
                    )
                with live_for(made, quiet=options.quiet, json=options.json) as live:
                    attribute(run, asked, made, listener=live, stop=stop, command_line=options.command_line)
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


def prepare(
    run: RunDirectory,
    contender: str,
    *,
    baseline: str,
    listener: Listener,
    stop: threading.Event,
    budget_s: float | None,
) -> tuple[Attribution, Study]:
    """Find the settings that differ between two arms of an analysed run, and the study that searches them.

    Raises:
        SpecError: there is nothing to tell apart, or the budget is too small.
    """
    study, analysis = run.study(), run.read("analysis.json", Analysis)
    assert analysis, "a run without a verdict is not explained"
    arms = {arm.name: arm for arm in study.arms}
    first, other = arms[baseline], arms[contender]
    asked = differing(study, first, other, run.newest_variables())
    asked = asked.without(_refused(asked, study, first, other, listener, stop))
    return asked, _with_budget(search_study(study, analysis, asked, budget_s=study.budget_s), budget_s)


def attribute(
    run: RunDirectory,
    asked: Attribution,
    study: Study,
    *,
    listener: Listener,
    stop: threading.Event,
    command_line: Sequence[str],
) -> None:
    """Search the settings that `prepare` found."""
    names = ", ".join(each.name for each in asked.settings)
    listener.note(f"searching among {names}; at most {format_duration(study.budget_s)}")
    found, _ = run_study(study, run.path / FOLDER, Invocation(command_line), listener=listener, stop=stop)
    found.write_json(DOCUMENT, asked)


def _with_budget(study: Study, asked_s: float | None) -> Study:
    seen = forecast(study)
    require_disk(seen)
    needed_s = seen.plan.budget_needed_s
    if asked_s is None:
        budget_s = max(BUDGET_FACTOR * study.budget_s, _BUDGET_MARGIN * needed_s)
        return study.model_copy(update={"budget_s": budget_s})
    if asked_s < needed_s:
        raise SpecError(
            f"attribute: {format_duration(asked_s)} is too small: a search takes at least {format_duration(needed_s)}.",
            hint=f"Give --explain-budget {needed_s:.0f}s or more, or leave it out.",
        )
    return study.model_copy(update={"budget_s": asked_s})


def _refused(
    asked: Attribution, study: Study, baseline: Arm, contender: Arm, listener: Listener, stop: threading.Event
) -> dict[str, str]:
    """Find settings whose value the baseline's server does not take: factor -> reason.

    Only another version's values are tried: the server is started with all of them, and with each alone if that fails.
    """
    has_server = any(each.factor == SERVER for each in asked.settings)
    foreign = [each for each in asked.settings if has_server and each.factor.startswith("option.")]
    if not foreign:
        return {}
    installation = install(baseline.server, download_reporter(listener, stop))
    memory = share_memory(study).memory
    reasons: dict[str, str] = {}
    does_not = f"{baseline.label} does not take this value"
    for each in foreign:
        try:
            settings_of(each.applied(baseline, contender), installation, study, memory)
        except SpecError:
            reasons[each.factor] = does_not
    left = [each for each in foreign if each.factor not in reasons]
    listener.stage(f"trying {len(left)} settings on {baseline.label}")
    with ServerPool(work_root()) as pool:
        trial = _Trial(pool, installation, study, memory, baseline, contender)
        refused = trial.refused(left)
    return reasons | dict.fromkeys(refused, does_not)


@dataclass(frozen=True)
class _Trial:
    """Starts the baseline's server with other settings, to see whether it takes them."""

    pool: ServerPool
    installation: Installation
    study: Study
    memory: ServerMemory
    baseline: Arm
    contender: Arm

    def refused(self, settings: Sequence[Setting]) -> list[str]:
        """Return factors of the settings that keep the server from starting, or that it ignores or changes."""
        if not settings:
            return []
        arm = self.baseline
        for each in settings:
            arm = each.applied(arm, self.contender)
        try:
            ignored = self.start(arm)
        except (ServerError, SpecError):
            if len(settings) == 1:
                return [settings[0].factor]
            return [factor for each in settings for factor in self.refused([each])]
        said = [line.partition(": ")[0] for line in ignored]
        return [each.factor for each in settings if any(option_text(*pair) in said for pair in each.pairs)]

    def start(self, arm: Arm) -> list[str]:
        """Start a server with an arm's settings; return those that it ignores or changes."""
        settings = settings_of(arm, self.installation, self.study, self.memory)
        instance = self.pool.create("trial", self.installation, settings)
        try:
            instance.start()
            return instance.ignored_settings()
        finally:
            instance.remove()
