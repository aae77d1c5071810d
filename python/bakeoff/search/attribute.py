"""Measure the arms in between two arms of a run, so that its report can say which setting carries the difference.

They are a run of their own, in a run directory below that of the run they explain (`bakeoff.search.attribution`).
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from bakeoff.errors import ServerError, SpecError
from bakeoff.results import RunDirectory
from bakeoff.run.arms import settings_of, share_memory
from bakeoff.run.forecast import forecast, require_disk
from bakeoff.run.reporters import download_reporter
from bakeoff.run.runner import run_study
from bakeoff.search.attribution import DOCUMENT, FOLDER, Attribution, Candidate, differing, study_in_between
from bakeoff.servers import Installation, ServerMemory, ServerPool, install
from bakeoff.servers.options import option_text
from bakeoff.servers.paths import work_root
from bakeoff.spec import Arm, Study
from bakeoff.stats.model import Analysis
from bakeoff.stats.progress import Listener
from bakeoff.units import format_duration

_BUDGET_MARGIN = 1.2
"""Over the smallest budget that gives a verdict: shares take a few epochs more."""


def arms_in_between(
    run: RunDirectory,
    contender: str,
    *,
    baseline: str,
    listener: Listener,
    stop: threading.Event,
    budget_s: float | None,
) -> tuple[Attribution, Study]:
    """Find the settings that differ between two arms of a run, and the study of the arms in between.

    Args:
        run: it has an analysis.
        contender: name of an arm.
        baseline: name of another arm.
        listener: receives what happens.
        stop: set it to end in order.
        budget_s: wall seconds; None: those of the run for every two arms, or what verdicts take if that is more.

    Raises:
        SpecError: there is nothing to tell apart, the budget is too small, or a setting needs another one.
        ServerError: the baseline's server cannot be fetched. HostError: memory or disk are too small.
    """
    study, analysis = run.study(), run.read("analysis.json", Analysis)
    assert analysis, "a run without a verdict is not explained"
    arms = {arm.name: arm for arm in study.arms}
    first, other = arms[baseline], arms[contender]
    asked = differing(study, first, other, run.newest_variables())
    asked = asked.without(_refused(asked, study, first, other, listener, stop))
    in_between, name = study_in_between(study, analysis, asked, budget_s=budget_s or study.budget_s)
    in_between = _with_budget(in_between, budget_s)
    _require_starts(asked, in_between, first, other, listener, stop)
    return asked.model_copy(update={"contender_arm": name}), in_between


def attribute(
    run: RunDirectory,
    asked: Attribution,
    in_between: Study,
    *,
    listener: Listener,
    stop: threading.Event,
    command_line: Sequence[str],
) -> None:
    """Measure the arms in between.

    Args:
        run: that is explained.
        asked: the settings, of `arms_in_between`.
        in_between: the study, likewise.
        listener: receives what happens.
        stop: set it to end in order.
        command_line: for the manifest.

    Raises:
        BakeoffError: as `run_study`.
    """
    names = ", ".join(each.name for each in asked.candidates)
    budget = format_duration(in_between.budget_s)
    listener.note(f"{len(in_between.arms)} arms with {names} of one side or the other; at most {budget}")
    found, _ = run_study(
        in_between,
        run.path / FOLDER,
        listener=listener,
        stop=stop,
        passwords={},
        command_line=command_line,
    )
    found.write_json(DOCUMENT, asked)


def _with_budget(study: Study, asked_s: float | None) -> Study:
    """The study with its budget, after a look at what it would take.

    Raises:
        SpecError: the budget that was asked for is too small. HostError: memory or disk are.
    """
    seen = forecast(study)
    require_disk(seen)
    needed_s = seen.plan.budget_needed_s
    if asked_s is None:
        budget_s = max(study.budget_s * len(study.arms) / 2, _BUDGET_MARGIN * needed_s)
        return study.model_copy(update={"budget_s": budget_s})
    if asked_s < needed_s:
        raise SpecError(
            f"attribute: {format_duration(asked_s)} is too small for {len(study.arms)} arms: about "
            f"{format_duration(needed_s)} would do.",
            hint=f"Give --explain-budget {needed_s:.0f}s or more, or leave it out.",
        )
    return study


def _require_starts(
    asked: Attribution, in_between: Study, baseline: Arm, contender: Arm, listener: Listener, stop: threading.Event
) -> None:
    """Start the servers of the arms in between once, those with the fewest changes first, before anything is loaded.

    Raises:
        SpecError: one does not start: what it has changed needs another of the settings that differ.
    """
    arms = {arm.server: arm for arm in reversed(in_between.arms)}  # of those that differ in their data only, one
    tried = [arm for server, arm in arms.items() if server not in (baseline.server, contender.server)]
    if not tried:
        return
    assert in_between.design, "the arms in between have one"
    levels = in_between.design.levels
    changed = {
        arm.name: [each.contender == value for each, value in zip(asked.candidates, levels[arm.name], strict=False)]
        for arm in tried
    }
    installation = install(baseline.server, download_reporter(listener, stop))
    listener.stage(f"trying the settings of {len(tried)} arms in between")
    with ServerPool(work_root()) as pool:
        trial = _Trial(pool, installation, in_between, share_memory(in_between).memory, baseline, contender)
        for arm in sorted(tried, key=lambda arm: sum(changed[arm.name])):
            if stop.is_set():
                return
            try:
                trial.start(arm)
            except ServerError:
                raise _needs_others(asked, changed[arm.name], baseline) from None


def _needs_others(asked: Attribution, changed: Sequence[bool], baseline: Arm) -> SpecError:
    """Of candidates of which those that were changed keep the baseline's server from starting."""
    both = [
        (each, is_changed)
        for each, is_changed in zip(asked.candidates, changed, strict=True)
        if each.factor.startswith(("option.", "env."))
    ]
    typed = ", ".join(f"{each.name}={each.contender}" for each, is_changed in both if is_changed)
    others = ", ".join(each.name for each, is_changed in both if not is_changed)
    return SpecError(
        f"attribute: with {typed} {baseline.label} does not start without the other options that differ ({others}).",
        hint="Give the arms only options that stand alone.",
    )


def _refused(
    asked: Attribution, study: Study, baseline: Arm, contender: Arm, listener: Listener, stop: threading.Event
) -> dict[str, str]:
    """Candidates that the baseline's server does not take: factor -> reason.

    What was typed for binaries that are the same has been taken by the contender already. Another version's values are
    tried out: its server is started with all of them, and with each alone when it does not start.
    """
    foreign = [each for each in asked.candidates if asked.server and each.factor.startswith("option.")]
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

    def refused(self, candidates: Sequence[Candidate]) -> list[str]:
        """Factors of the candidates that keep the server from starting, or that it ignores or changes."""
        if not candidates:
            return []
        arm = self.baseline
        for each in candidates:
            arm = each.applied(arm, self.contender)
        try:
            ignored = self.start(arm)
        except (ServerError, SpecError):
            if len(candidates) == 1:
                return [candidates[0].factor]
            return [factor for each in candidates for factor in self.refused([each])]
        said = [line.partition(": ")[0] for line in ignored]
        return [each.factor for each in candidates if any(option_text(*pair) in said for pair in each.value)]

    def start(self, arm: Arm) -> list[str]:
        """Start a server with an arm's settings; returns those that it ignores or changes.

        Raises:
            ServerError: it does not start. SpecError: it does not know one of them.
        """
        settings = settings_of(arm, self.installation, self.study, self.memory)
        instance = self.pool.create("trial", self.installation, settings)
        try:
            instance.start()
            return instance.ignored_settings()
        finally:
            instance.remove()
