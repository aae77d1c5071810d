"""Searches: what is believed of a study's builds or settings, what its next epoch measures, and when it has ended.

All of it follows from the study and the values so far, so a resumed run continues as it would have.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bakeoff.plan.epochs import seed_for
from bakeoff.plan.factorial import arm_names
from bakeoff.plan.timing import EpochTime
from bakeoff.search import first_slow_build, guilty
from bakeoff.search.model import SERVER, Search, search_of
from bakeoff.spec import Arm, Study
from bakeoff.stats import interval as iv
from bakeoff.stats.estimate import by_comparison
from bakeoff.stats.model import Estimate, Stop
from bakeoff.stats.stopping import Decision, Progress

_LABELLED = 3  # settings that an arm's label names
_CONFIRMING = 2  # epochs of exactly the named settings: one of two that act only together may look like the cause

Values = Mapping[str, Sequence[float]]  # arm -> log ratios over the baseline, one per valid epoch


@dataclass(frozen=True)
class Believed:
    """What is believed of the builds, or of the settings."""

    probabilities: tuple[float, ...]  # that a build is the first bad one, or that a setting matters
    effects: tuple[float, ...]  # log ratio of each setting; empty for builds
    named: tuple[int, ...] | None  # builds or settings found, by number, once the search has ended
    whole: Estimate  # the log ratio to be explained
    nothing: bool = False  # good and bad do not differ by more than the target precision
    beliefs: guilty.Beliefs | None = None
    to_confirm: tuple[bool, ...] = ()  # settings to be named once exactly these were measured


def beliefs_of(study: Study, values: Values, *, skipped: Collection[str] = ()) -> Believed | None:
    """Return what is believed after these values; None before the bad arm was measured."""
    search = search_of(study)
    if not values.get(study.arms[1].name):
        return None
    if not search.builds:
        return _of_options(study, values, skipped)
    return _of_builds(study, search, values, _build_numbers(search, skipped))


def by_build(search: Search, values: Values) -> dict[int, list[float]]:
    numbers = {arm.name: number for number, arm in enumerate(search.builds)}
    return {numbers[name]: list(own) for name, own in values.items() if name in numbers and own}


def _build_numbers(search: Search, names: Collection[str]) -> list[int]:
    return [number for number, arm in enumerate(search.builds) if arm.name in names]


def _of_builds(study: Study, search: Search, values: Values, without: Collection[int]) -> Believed:
    of_builds = by_build(search, values)
    probabilities = first_slow_build.posterior(of_builds, len(search.builds))
    named = first_slow_build.culprits(probabilities, without=without)
    best = named[-1] if named else int(probabilities.argmax())
    bad = [value for build, own in of_builds.items() if build >= best for value in own]
    whole = iv.estimate_of(bad, iv.precision_interval)
    enough = len(of_builds[len(search.builds) - 1]) >= first_slow_build.EPOCHS_FIRST
    clear = enough and iv.excludes_zero(iv.live_interval(*iv.moments(bad)))
    nothing = _is_nothing(bad, study)
    return Believed(tuple(probabilities.tolist()), (), () if nothing else named if clear else None, whole, nothing)


def _of_options(study: Study, values: Values, skipped: Collection[str]) -> Believed:
    arms = [arm for arm in study.arms[1:] if values.get(arm.name)]
    rows = [(subset(study, arm), value) for arm in arms for value in values[arm.name]]
    believed = guilty.beliefs([row for row, _ in rows], [value for _, value in rows])
    whole = list(values[study.arms[1].name])
    named = believed.named() if len(whole) >= first_slow_build.EPOCHS_FIRST else None
    nothing = len(rows) == len(whole) and _is_nothing(whole, study)
    to_confirm: tuple[bool, ...] = ()
    if named:
        settings = search_of(study).settings
        alone = tuple(each in named for each in range(len(settings)))
        tried = any(subset(study, arm) == alone for arm in study.arms if arm.name in skipped)
        tried |= not all(alone) and any(settings[each].factor == SERVER for each in named)
        if not tried and sum(tuple(row) == alone for row, _ in rows) < _CONFIRMING:
            named, to_confirm = None, alone
    return Believed(
        tuple(believed.guilty.tolist()),
        tuple(believed.effects.tolist()),
        () if nothing else named or None,
        iv.estimate_of(whole, iv.precision_interval),
        nothing,
        believed,
        to_confirm,
    )


def _is_nothing(values: Sequence[float], study: Study) -> bool:
    found = iv.moments(values)
    half_width = iv.precision_half_width(found.sd, found.n)
    return found.n >= iv.N_MIN and half_width <= study.precision and abs(found.mean) < half_width


def search_decision(progress: Progress) -> Decision:
    """Decide what the next epoch measures: the baseline, and the arm that tells most."""
    study, plan = progress.study, progress.plan
    (cell,) = plan.cells
    values = {
        arm: [pair.value for pair in pairs if math.isfinite(pair.value)]
        for (_, arm), pairs in by_comparison(progress.history).items()
    }
    skipped = skipped_arms(study, values, last_tried=study.arms[-1].name in progress.newest)
    believed = beliefs_of(study, values, skipped=skipped)
    epoch_time = progress.epoch_time or EpochTime(overhead_s=plan.overhead_s, wall_per_planned=1.0)
    next_s = progress.load_s + epoch_time.epoch_s(plan.measuring_seconds({cell.name: 2}))
    stop = Stop.RUNNING
    if progress.aborted:
        stop = Stop.ABORTED
    elif believed and believed.named is not None:
        stop = Stop.ANSWERED
    elif progress.elapsed_s + next_s > study.budget_s:
        stop = Stop.BUDGET
    arm = study.arms[1]
    if stop is Stop.RUNNING and believed:
        arm = next_arm(study, believed, values, skipped=skipped)
    return Decision(
        stop=stop,
        settled=frozenset((cell.name, each.name) for each in study.arms[1:] if each.name != arm.name),
        more_s=None if stop is Stop.RUNNING else 0.0,
        share=1.0,
        joins=None if arm.name in plan.arms else arm,
    )


def _is_begun(study: Study, values: Values) -> bool:
    first = iv.moments(values[study.arms[1].name])
    if first.n < first_slow_build.EPOCHS_FIRST:
        return False
    return bool(search_of(study).builds) or abs(first.mean) > iv.precision_half_width(first.sd, first.n)


def skipped_arms(study: Study, values: Values, *, last_tried: bool) -> set[str]:
    """Return arms that could not be measured; `last_tried`: an epoch has finished since the last arm joined."""
    tried = study.arms[2:] if last_tried else study.arms[2:-1]
    did_nothing = {name for name, own in values.items() if not own}  # a server that completes no event
    return {arm.name for arm in tried if not values.get(arm.name)} | (did_nothing - {study.arms[1].name})


def next_arm(study: Study, believed: Believed, values: Values, *, skipped: Collection[str] = ()) -> Arm:
    if not _is_begun(study, values):
        return study.arms[1]
    search = search_of(study)
    if search.builds:
        probabilities, without = np.array(believed.probabilities), _build_numbers(search, skipped)
        # The build is known, but the difference is not yet shown.
        if first_slow_build.culprits(probabilities, without=without):
            return study.arms[1]
        return search.builds[first_slow_build.next_build(probabilities, without=without)]
    assert believed.beliefs
    epoch = sum(map(len, values.values())) + len(skipped)
    rng = np.random.default_rng(seed_for(study.seed, "subset", epoch))
    only_all = tuple(each.factor == SERVER for each in search.settings)
    started = [subset(study, arm) for arm in study.arms[1:] if values.get(arm.name)]
    refused = [subset(study, arm) for arm in study.arms[1:] if arm.name in skipped]
    chosen = believed.to_confirm or guilty.next_subset(
        believed.beliefs, rng, only_all=only_all, started=started, refused=refused
    )
    same = [arm for arm in study.arms[1:] if subset(study, arm) == chosen and arm.name not in skipped]
    return same[0] if same else arm_with(study, chosen)


# ---- arms of settings ------------------------------------------------------------------------------------------------


def subset(study: Study, arm: Arm) -> tuple[bool, ...]:
    bad, settings = study.arms[1], search_of(study).settings
    return tuple(arm.name == bad.name or each.is_bad(arm, bad) for each in settings)


def arm_with(study: Study, chosen: Sequence[bool]) -> Arm:
    """Return the baseline with these settings at their bad value; the bad arm itself if all are chosen."""
    bad = [setting for setting, is_bad in zip(search_of(study).settings, chosen, strict=True) if is_bad]
    if all(chosen):
        return study.arms[1]
    arm = study.baseline
    for setting in bad:
        arm = setting.applied(arm, study.arms[1])
    name = arm_names(len(study.arms) + 1)[-1]
    what = ", ".join(each.name for each in bad) if len(bad) <= _LABELLED else f"{len(bad)} of the settings"
    return arm.renamed(name, f"{name}: {what}")
