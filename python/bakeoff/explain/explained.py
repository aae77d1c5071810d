"""What a run's explaining epochs found, read once for all sections."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import NamedTuple, TypeVar

from bakeoff.explain.costs import Explanation, explain
from bakeoff.explain.off_cpu import OffCpuComparison, compare_off_cpu
from bakeoff.explain.profiles import OFF_CPU, PROFILE_FILE, PROFILES, Profile, ProfileComparison, compare_profiles
from bakeoff.explain.waits import WAITS, WAITS_DOCUMENT, CellWaits, WaitDifference, wait_differences
from bakeoff.report.context import Context
from bakeoff.report.view import Prose
from bakeoff.results.epoch_data import COUNTERS, CellCounters

T = TypeVar("T")
_Profiles = Mapping[int, Profile]


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
        return self._compared(PROFILES, compare_profiles)

    @cached_property
    def pauses(self) -> dict[Pair, OffCpuComparison]:
        return self._compared(OFF_CPU, compare_off_cpu)

    def _compared(self, kind: str, compare: Callable[[_Profiles, _Profiles], T | None]) -> dict[Pair, T]:
        epochs = self.recorded(kind, PROFILE_FILE, dict[str, Profile]) if self.pairs else {}
        found = {pair: compare(*sides_of(pair, epochs)) for pair in self.pairs}
        return {pair: each for pair, each in found.items() if each}

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
