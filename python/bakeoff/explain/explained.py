"""What a run's explaining epochs found, read once for all sections."""

import math
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple, TypeVar

from bakeoff.explain.costs import Explanation, explain
from bakeoff.explain.off_cpu import OffCpuComparison, compare_off_cpu
from bakeoff.explain.profiles import OFF_CPU, PROFILE_FILE, PROFILES, Profile, ProfileComparison, compare_profiles
from bakeoff.explain.statement_plans import PLANS, PLANS_DOCUMENT, CellPlans, PlanDifferences, plan_differences
from bakeoff.explain.waits import WAITS, WAITS_DOCUMENT, CellWaits, WaitDifference, wait_differences
from bakeoff.report.context import Context
from bakeoff.report.view import Prose
from bakeoff.results.epoch_data import COUNTERS, CellCounters
from bakeoff.results.frame import quotients
from bakeoff.stats.interval import Moments, moments
from bakeoff.units import shortened

T = TypeVar("T")
_VALUE_MAX = 30


class Pair(NamedTuple):
    cell: str
    baseline: str
    contender: str


def sides_of(pair: Pair, epochs: Mapping[int, Mapping[str, Mapping[str, T]]]) -> tuple[dict[int, T], dict[int, T]]:
    baseline, contender = (
        {epoch: by_arm[arm][pair.cell] for epoch, by_arm in epochs.items() if pair.cell in by_arm.get(arm, {})}
        for arm in (pair.baseline, pair.contender)
    )
    return baseline, contender


class Explained:
    """Get it from a context with `context.once(Explained)`."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @cached_property
    def explanations(self) -> tuple[Explanation, ...]:
        run, epochs = self._context.run, self._context.valid_epochs
        counters = {epoch: run.server_json(epoch, COUNTERS, dict[str, CellCounters]) for epoch in epochs}
        if not any(counters.values()):
            return ()

        status = run.server_json(epochs[0], "status-before.json", dict[str, str])
        exist = {arm: frozenset(f"status.{name}" for name in names) for arm, names in status.items()}
        ended, cpus = self._context.analysis.stopped, self._context.host.cpus_usable
        return explain(self._context.primary, counters, self._context.slices, exist=exist, ended=ended, cpus=cpus)

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """The pairs to explain: requested arms, the last ones first, then claims by their size."""
        primary, mine, sizes = self._context.primary, self._context.analysis.baseline, dict[Pair, float]()
        for each in primary:
            if each.verdict.claims:
                sizes[Pair(each.cell, mine, each.contender)] = abs(each.estimate.mean)
        asked = self._context.run.read("explain/asked.json", list[tuple[str, str]]) or []
        for baseline, contender in asked:
            known = {each.cell: abs(each.estimate.mean) for each in primary if each.contender == contender}
            for cell in self._context.cells:
                sizes.setdefault(Pair(cell, baseline, contender), known.get(cell, 0.0) if baseline == mine else 0.0)
        when = {arms: at for at, arms in enumerate(asked, start=1)}
        return tuple(sorted(sizes, key=lambda pair: (-when.get((pair.baseline, pair.contender), 0), -sizes[pair])))

    def notes(self, kind: str) -> tuple[Prose, ...]:
        notes = self._context.run.read("explain/notes.json", dict[str, list[str]]) or {}
        return tuple(Prose(text=note) for note in notes.get(kind, ()))

    def recorded(self, kind: str, name: str, shape: type[T]) -> dict[int, dict[str, T]]:
        """Valid epoch of this kind -> arm -> content of a file of each server."""
        run = self._context.run.explaining(kind)
        valid = [epoch for epoch in run.finished_epochs() if run.outcome(epoch).valid]
        return {epoch: run.server_json(epoch, name, shape) for epoch in valid}

    @cached_property
    def profiles(self) -> dict[Pair, ProfileComparison]:
        epochs = self._profiles_of(PROFILES)
        found = {pair: compare_profiles(*sides_of(pair, epochs), self._restarts(pair)) for pair in self.pairs}
        return {pair: each for pair, each in found.items() if each}

    @cached_property
    def plans(self) -> dict[Pair, PlanDifferences]:
        epochs = self.recorded(PLANS, PLANS_DOCUMENT, dict[str, CellPlans])
        cells = [cells for by_arm in epochs.values() for cells in by_arm.values()]
        found = {p: plan_differences([each[p.cell] for each in cells if p.cell in each], *p[1:]) for p in self.pairs}
        return {pair: each for pair, each in found.items() if each}

    def declared(self, pair: Pair) -> str:
        """Return the only setting declared to differ, with its values; empty if none, several, or a version."""
        arms, design = [self._context.arms[name] for name in pair[1:]], self._context.study.design
        if design and design.factors:
            names = [factor.name for factor in design.factors]
            mine, theirs = (dict(zip(names, design.levels[arm.name], strict=True)) for arm in arms)
        elif len({arm.with_server(arm.server.with_settings(options=())).renamed("", "") for arm in arms}) > 1:
            return ""
        else:
            mine, theirs = (dict(arm.server.options) for arm in arms)
        differ = [name for name in mine | theirs if mine.get(name) != theirs.get(name)]
        if len(differ) != 1 or differ == ["server"]:
            return ""
        values = (shortened(each.get(differ[0]) or "default", _VALUE_MAX) for each in (mine, theirs))
        return f"{differ[0]} ({' → '.join(values)})"

    @cached_property
    def pauses(self) -> dict[Pair, OffCpuComparison]:
        epochs = self._profiles_of(OFF_CPU)
        found = {pair: compare_off_cpu(*sides_of(pair, epochs)) for pair in self.pairs}
        return {pair: each for pair, each in found.items() if each}

    def _profiles_of(self, kind: str) -> dict[int, dict[str, dict[str, Profile]]]:
        return self.recorded(kind, PROFILE_FILE, dict[str, Profile]) if self.pairs else {}

    def _restarts(self, pair: Pair) -> Moments | None:
        """Return how the log ratio of CPU per event varies over the run's epochs; None if it is not known."""
        logs = [
            math.log(self._cpu_ns[pair.cell, pair.contender, epoch] / self._cpu_ns[pair.cell, pair.baseline, epoch])
            for epoch in self._context.valid_epochs
            if all((pair.cell, arm, epoch) in self._cpu_ns for arm in pair[1:])
        ]
        return moments(logs) if logs else None

    @cached_property
    def _cpu_ns(self) -> dict[tuple[str, str, int], float]:
        slices = self._context.slices
        by = slices.by("cell", "arm", "epoch")
        found = by.by_key(quotients(by.sum(slices["server_cpu_ns"]), by.sum(slices["events"])))
        return {key: ns for key, ns in found.items() if ns > 0}

    @cached_property
    def waits(self) -> dict[Pair, tuple[WaitDifference, ...]]:
        epochs = [*self.recorded(WAITS, WAITS_DOCUMENT, dict[str, CellWaits]).values()]
        return {
            pair: wait_differences(epochs, **pair._asdict(), event_ns=self.event_ns.get((pair.cell, pair.baseline)))
            for pair in self.pairs
            if any(all(pair.cell in epoch.get(arm, {}) for arm in pair[1:]) for epoch in epochs)
        }

    @cached_property
    def event_ns(self) -> dict[tuple[str, str], float]:
        """(cell, arm) -> time that an event takes on one connection."""
        worked = self._context.slices.rows(self._context.slices["events"] > 0)
        by = worked.by("cell", "arm")
        return by.by_key(by.sum(worked["busy_ns"]) / by.sum(worked["events"]))
