"""Reduce the epochs of a run, one at a time, to what its analysis needs, so that many fit in memory."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from sys import intern
from typing import Any

from bakeoff.results.epoch_data import EpochData
from bakeoff.results.frame import Frame, Stack
from bakeoff.spec import Study
from bakeoff.stats.diagnostics import long_waits, windows
from bakeoff.stats.differences import Changes, differences, undeclared
from bakeoff.stats.estimate import EpochEstimates, epoch_estimates
from bakeoff.stats.summary import arm_sums

_WINDOWED = 1000  # epochs whose windows are kept: enough for the share of a state, and more would not fit
_OF_HISTOGRAM = ("cell", "arm", "operation", "clock", "round", "count")


@dataclass
class Reduced:
    """The epochs of a run without their slices.

    Attributes:
        history: of the valid ones, by number.
        epochs: likewise, with their histograms' quantiles and nothing else.
        sums, waits: of every valid epoch, whose number is in `epoch`: `stats.summary.arm_sums`,
            `stats.diagnostics.long_waits`.
        discarded: reason, by number.
        undeclared: settings that differed in any epoch, by contender: `stats.differences.undeclared`.
        changes: variables that changed on an arm while a cell was measured, in any epoch, by (cell, arm).
        versions: of the servers, by arm.
    """

    history: list[EpochEstimates] = field(default_factory=list)
    epochs: list[EpochData] = field(default_factory=list)
    sums: Stack = field(default_factory=Stack)
    waits: Stack = field(default_factory=Stack)
    discarded: dict[int, str] = field(default_factory=dict)
    undeclared: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict)
    changes: dict[tuple[str, str], Changes] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    _windows: list[Frame] = field(default_factory=list)
    _every: int = 1  # one epoch in so many has its windows kept
    _compared: set[int] = field(default_factory=set)

    def windows(self) -> Frame:
        """Of at most two thousand epochs, evenly chosen: `stats.diagnostics.windows`."""
        return Frame.concat(self._windows) if self._windows else Frame({})

    def add(self, epoch: EpochData, study: Study) -> None:
        """Reduce one more."""
        if not epoch.valid:
            self.discarded[epoch.epoch] = epoch.discard_reason
            return
        if len(epoch.slices):
            self.sums.add(arm_sums(epoch.slices).with_columns(epoch=epoch.epoch, host=epoch.host))
            self.waits.add(long_waits(epoch))
            self._add_windows(epoch)
        self._compare(epoch.variables, study)
        for arm, cells in epoch.changes.items():
            for cell, found in cells.items():
                self.changes.setdefault((cell, arm), {}).update(found)
        self.history.append(epoch_estimates(epoch, baseline=study.baseline.name))
        quantiles = [_quantiles(row) for row in epoch.histograms]
        self.epochs.append(
            replace(
                epoch, slices=Frame({}), histograms=quantiles, variables={}, changes={}, server_counts={}, failures=[]
            )
        )

    def _add_windows(self, epoch: EpochData) -> None:
        if len(self.epochs) % self._every:
            return
        self._windows.append(windows(epoch.slices).with_columns(host=epoch.host))
        if len(self._windows) > 2 * _WINDOWED:
            self._windows, self._every = self._windows[::2], 2 * self._every

    def _compare(self, variables: Mapping[str, Mapping[str, str]], study: Study) -> None:
        self.versions |= {arm: values.get("version", "") for arm, values in variables.items()}
        base = variables.get(study.baseline.name)
        for arm in study.arms[1:]:
            theirs = variables.get(arm.name)
            if not base or not theirs:
                continue
            fingerprint = hash((arm.name, frozenset(base.items()), frozenset(theirs.items())))
            if fingerprint in self._compared:
                continue
            self._compared.add(fingerprint)
            if differing := undeclared(differences(base, theirs, study, arm)):
                self.undeclared.setdefault(arm.name, {}).update(differing)


def reduced(epochs: Iterable[EpochData], study: Study) -> Reduced:
    """Reduce all epochs of a run, in any order."""
    run = Reduced()
    for epoch in epochs:
        run.add(epoch, study)
    run.history.sort(key=lambda each: each.epoch)
    run.epochs.sort(key=lambda each: each.epoch)
    run.discarded = dict(sorted(run.discarded.items()))
    return run


def _quantiles(row: Mapping[str, Any]) -> dict[str, Any]:
    """A histogram without its counts; texts that recur in every epoch are one object."""
    kept = {name: row[name] for name in _OF_HISTOGRAM if name in row}
    kept |= {name: intern(value) for name, value in kept.items() if isinstance(value, str)}
    return kept | {"quantiles_ns": {intern(name): value for name, value in row["quantiles_ns"].items()}}
