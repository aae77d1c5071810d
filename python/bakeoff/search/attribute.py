"""Search for the setting that explains the difference between two arms of a run (`bakeoff explain --attribute`)."""

import threading
from collections.abc import Sequence

from bakeoff.cli.run import RunOptions, ending_in_order, show_report
from bakeoff.errors import BakeoffError, ExitCode, ServerError, SpecError
from bakeoff.report import build_view, render_html
from bakeoff.report.live import live_for
from bakeoff.results import RunDirectory
from bakeoff.run.arms import download_reporter, settings_of, share_memory
from bakeoff.run.forecast import forecast, require_disk
from bakeoff.run.runner import Invocation, run_study
from bakeoff.search.attribution import DOCUMENT, FOLDER, Attribution, differing, search_study
from bakeoff.search.model import SERVER, Setting
from bakeoff.servers import ServerPool, install
from bakeoff.servers.options import option_text
from bakeoff.servers.paths import work_root
from bakeoff.spec import Arm, Study
from bakeoff.stats.model import Analysis
from bakeoff.stats.progress import Listener
from bakeoff.units import format_duration

BUDGET_FACTOR = 8.0  # default budget of a search, times that of the run: it ends as soon as the settings are known

_BUDGET_MARGIN = 1.2  # over the smallest budget that gives a verdict


def attribute_pairs(
    run: RunDirectory, study: Study, pairs: Sequence[tuple[str, str]], budget_s: float | None, options: RunOptions
) -> int:
    """Search for every pair of arms and write the report again; raise if no pair could be searched."""
    analysis = run.read("analysis.json", Analysis)
    assert analysis, "a run without a verdict is not explained"
    stop, failed = threading.Event(), 0
    with run.hold(), ending_in_order(stop):
        for done, (baseline, contender) in enumerate(pairs):
            try:
                with live_for(study, quiet=options.quiet, json=options.json) as live:
                    asked, made = _prepare(run, (baseline, contender), budget_s, live, stop)
                with live_for(made, quiet=options.quiet, json=options.json) as live:
                    _search(run, asked, made, live, stop, options.command_line)
            except KeyboardInterrupt:
                if failed == done:  # nothing was measured
                    raise
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


def _prepare(
    run: RunDirectory, pair: tuple[str, str], budget_s: float | None, listener: Listener, stop: threading.Event
) -> tuple[Attribution, Study]:
    study, analysis = run.study(), run.read("analysis.json", Analysis)
    assert analysis
    arms = {arm.name: arm for arm in study.arms}
    first, other = (arms[name] for name in pair)
    asked = differing(study, first, other, run.newest_variables())
    asked = asked.without(_refused(asked, study, first, other, listener, stop))
    return asked, _with_budget(search_study(study, analysis, asked, budget_s=study.budget_s), budget_s)


def _search(
    run: RunDirectory,
    asked: Attribution,
    study: Study,
    listener: Listener,
    stop: threading.Event,
    command: Sequence[str],
) -> None:
    names = ", ".join(each.name for each in asked.settings)
    listener.note(f"searching among {names}; at most {format_duration(study.budget_s)}")
    found, _ = run_study(study, run.path / FOLDER, Invocation(command), listener=listener, stop=stop)
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
    """Return the reason for each setting that the baseline's server does not accept, by factor.

    Other versions' values are tried together, and in halves if that fails.
    """
    has_server = any(each.factor == SERVER for each in asked.settings)
    foreign = [each for each in asked.settings if has_server and each.factor.startswith("option.")]
    if not foreign:
        return {}
    installation = install(baseline.server, download_reporter(listener, stop))
    memory = share_memory(study).memory

    def ignored(settings: Sequence[Setting], pool: ServerPool) -> list[str]:
        arm = baseline
        for each in settings:
            arm = each.applied(arm, contender)
        instance = pool.create("trial", installation, settings_of(arm, installation, study, memory))
        try:
            instance.start()
            return [line.partition(": ")[0] for line in instance.ignored_settings()]
        finally:
            instance.remove()

    def refused(settings: Sequence[Setting], pool: ServerPool) -> list[str]:
        if stop.is_set():
            raise KeyboardInterrupt
        try:
            said = ignored(settings, pool)
        except (ServerError, SpecError):
            if len(settings) == 1:
                return [settings[0].factor]
            middle = len(settings) // 2
            return [*refused(settings[:middle], pool), *refused(settings[middle:], pool)]
        return [each.factor for each in settings if any(option_text(*pair) in said for pair in each.pairs)]

    listener.stage(f"trying {len(foreign)} settings on {baseline.label}")
    with ServerPool(work_root()) as pool:
        ignored((), pool)  # if the server does not start at all, no setting is to blame
        return dict.fromkeys(refused(foreign, pool), f"{baseline.label} does not take this value")
