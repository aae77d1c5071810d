"""Compare the waits of two arms, and the form in which explaining epochs keep waits and plans.

A wait is time of a server's threads, compared in ns per event. These epochs are few and carry instruments: they say
where time goes, while the verdict comes from other epochs.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from bakeoff.stats import interval as iv
from bakeoff.stats.interval import Paired, Unpaired
from bakeoff.stats.model import Estimate, Frozen

WAITS, PLANS = "waits", "plans"
"""Kinds of epochs that explain: folders below `explain/`."""

WAITS_DOCUMENT = "waits.json"
"""File of an arm's server in an epoch that explains: {cell: `CellWaits`}."""

PLANS_DOCUMENT = "plans.json"
"""Likewise, of one arm of each round: {cell: `CellPlans`}."""


class Wait(Frozen):
    """What an instrument counted; `ns` is 0 if it has no time."""

    count: int
    ns: float


class CellWaits(Frozen):
    """What an arm waited for in one cell of one epoch.

    Attributes:
        events: of the workload, including those outside the connections' windows.
        waits: by instrument, without those never used.
        missing: sentences on what this server cannot tell.
    """

    events: float
    waits: dict[str, Wait]
    missing: tuple[str, ...] = ()


class StatementPlans(Frozen):
    """How the arms run one statement of the workload.

    Attributes:
        text: of the digest, without literals.
        plans: by arm, one line per table, of the first sample whose plans differ, else of the first. Empty if the
            server cannot explain it.
        differs: arms whose plan is not that of the first arm that has one.
        rows_read: by arm, per execution, by the handler counters; empty for writes.
        analyzed: by arm, one line per step of the same sample, if a plan differs.
    """

    text: str
    plans: dict[str, tuple[str, ...]]
    differs: tuple[str, ...] = ()
    rows_read: dict[str, float] = {}
    analyzed: dict[str, tuple[str, ...]] = {}


class CellPlans(Frozen):
    """The statements of a cell by digest, the most frequent first, and how often each was seen."""

    statements: dict[str, StatementPlans]
    counts: dict[str, int]


# ---- waits -----------------------------------------------------------------------------------------------------------

_SHARE_LEAST = 0.002
"""Share of an event's time below which a wait on both arms is not compared."""


@dataclass(frozen=True)
class WaitDifference(Paired):
    """One wait of two arms in one cell: ns per event, or counts per event if not `timed`.

    Attributes:
        name: of the instrument.
        ratio: log ratio; None if an arm has none of it in some epoch.
        p_adjusted: that nothing differs, after Holm over the cell's waits; None below `EPOCHS_MIN_PAIRED` epochs.
    """

    name: str
    timed: bool
    ratio: Estimate | None
    p_adjusted: float | None

    @property
    def differs(self) -> bool:
        return self.p_adjusted is not None and self.p_adjusted < iv.ALPHA_PRECISE

    @property
    def grows(self) -> bool:
        """Whether it is longer on the contender, by the tested value: one epoch can turn the sign of the difference."""
        return (self.ratio or self.difference).mean > 0


def wait_differences(
    epochs: Iterable[Mapping[str, Mapping[str, CellWaits]]],
    *,
    cell: str,
    baseline: str,
    contender: str,
    event_ns: float | None,
) -> tuple[WaitDifference, ...]:
    """Compare the waits of two arms in one cell, the largest difference of time first, untimed ones last.

    Args:
        epochs: {arm: {cell: waits}} of each valid epoch; those without this cell on both arms are left out.
        event_ns: time of one connection's event; if None, every wait is compared.
    """
    pairs = []
    for epoch in epochs:
        mine, theirs = (epoch.get(arm, {}).get(cell) for arm in (baseline, contender))
        if mine and theirs and mine.events and theirs.events:
            pairs.append((mine, theirs))
    names = dict.fromkeys(name for pair in pairs for side in pair for name in side.waits)
    found = []
    for name in names:
        timed = any(side.waits[name].ns for pair in pairs for side in pair if name in side.waits)
        own, other = ([_per_event(pair[at], name, timed=timed) for pair in pairs] for at in (0, 1))
        if timed and event_ns and max(fmean(own), fmean(other)) < _SHARE_LEAST * event_ns:
            continue
        found.append((name, timed, own, other))
    adjusted = iv.holm([_p_value(_logs(own, other) or _less(own, other)) for _, _, own, other in found])
    compared = [
        WaitDifference(
            **vars(Paired.of(own, other)),
            name=name,
            timed=timed,
            ratio=iv.t_estimate(logs) if (logs := _logs(own, other)) else None,
            p_adjusted=p,
        )
        for (name, timed, own, other), p in zip(found, adjusted, strict=True)
    ]
    return tuple(sorted(compared, key=lambda each: (not each.timed, -abs(each.difference.mean), each.name)))


def instruments_cost(explaining: Mapping[int, float], counted: Mapping[int, float]) -> Unpaired | None:
    """Return the log ratio of throughput [1/s by epoch] with instruments to that without, if both are known."""
    explained, plain = (iv.moments([math.log(rate) for rate in each.values()]) for each in (explaining, counted))
    return iv.welch(explained, plain)


def _per_event(of: CellWaits, name: str, *, timed: bool) -> float:
    wait = of.waits.get(name)
    if wait is None:
        return 0.0
    return (wait.ns if timed else wait.count) / of.events


def _less(own: Sequence[float], other: Sequence[float]) -> list[float]:
    return [b - a for a, b in zip(own, other, strict=True)]


def _logs(own: Sequence[float], other: Sequence[float]) -> list[float]:
    """Return log ratios, which vary less than differences if a whole epoch is slow; empty if an arm has a zero."""
    return [math.log(b / a) for a, b in zip(own, other, strict=True)] if min(*own, *other) > 0 else []


def _p_value(values: Sequence[float]) -> float | None:
    return iv.p_value(*iv.moments(values), inflation=1.0) if len(values) >= iv.EPOCHS_MIN_PAIRED else None
