"""Compare counters per event between two servers, and say how much of the time difference each can explain.

The share of CPU and waiting is measured; a count has two upper bounds (docs/reference/explain.md).
"""

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bakeoff.results.epoch_data import CellCounters
from bakeoff.results.frame import Frame
from bakeoff.stats import hosts
from bakeoff.stats import interval as iv
from bakeoff.stats.estimate import with_rates
from bakeoff.stats.model import Comparison, Estimate, Frozen, Interval, Stop

TIME = "time"  # family of counters that are time themselves
NAMED_FROM = 0.3  # share of a time difference that a family must be able to explain to be named as its cause
BUSY = "cpu.busy"  # processors kept busy: if the slower arm keeps fewer busy, it waits
_FLOOR = 0.5  # stands for a count of 0, so that its logarithm exists

Counters = Mapping[int, Mapping[str, Mapping[str, CellCounters]]]  # epoch -> arm -> cell -> what it cost
CostWord = Literal["more", "less", "unclear", "not tested"]


class Cost(Frozen):
    """One counter per event, on a contender and the baseline in one cell.

    `estimate` is the log ratio, contender over baseline, `p_adjusted` after Holm over all counters of the comparison.
    `explains` is the share of the time difference; an upper bound except in the family `TIME`.
    """

    counter: str
    family: str
    baseline: float
    contender: float
    estimate: Estimate
    p_adjusted: float | None
    word: CostWord
    explains: float | None


class Explanation(Frozen):
    """What differs between a contender and the baseline in one cell.

    `time` is the log ratio of the time per event. `costs` begin with the family `TIME`; `causes` has the best counter
    of each named family.
    """

    cell: str
    contender: str
    time: Estimate
    claimed: bool
    costs: tuple[Cost, ...]
    causes: tuple[Cost, ...]


class Family(NamedTuple):
    """A family of counters, and how it can explain time; see families.toml."""

    name: str
    ns: float = 0.0
    saves: bool = False
    generic: bool = False


@dataclass(frozen=True)
class _Samples:
    """A counter's values per event, and what it adds to each epoch's log ratio of time, if it is time."""

    baseline: float
    contender: float
    ratios: NDArray[np.float64]
    added: NDArray[np.float64] | None = None


_KNOWN = tomllib.loads(files("bakeoff.explain").joinpath("families.toml").read_text("utf-8"))
_GAUGES = re.compile(rf"status\.({'|'.join(_KNOWN['levels'])})")
_FAMILIES = [
    (re.compile(each["is"]), Family(family["name"], **{key: each[key] for key in each if key != "is"}))
    for family in _KNOWN["family"]
    for each in family["counters"]
]


@cache
def family_of(counter: str) -> Family | None:
    """Return the family of a counter, or None for gauges."""
    if _GAUGES.fullmatch(counter):
        return None
    return next((family for pattern, family in _FAMILIES if pattern.fullmatch(counter)), Family("other"))


def explain(
    comparisons: Sequence[Comparison],
    counters: Counters,
    slices: Frame,
    *,
    exist: Mapping[str, frozenset[str]],
    ended: Stop,
    cpus: int,
) -> tuple[Explanation, ...]:
    """Compare costs per event for every comparison that has a ratio and counters.

    `exist` has each arm's status variables. One that did not move is 0, not unknown. More connections than `cpus` wait
    for each other's CPU time.
    """
    sums = _slice_sums(slices)
    found = []
    for comparison in comparisons:
        if not comparison.estimate.n:  # an arm completed nothing in an epoch, so there is nothing to explain
            continue
        pair = (comparison.baseline, comparison.contender)
        epochs = [
            point.epoch
            for point in comparison.points
            if all(comparison.cell in counters.get(point.epoch, {}).get(arm, {}) for arm in pair)
            and all((comparison.cell, arm, point.epoch) in sums for arm in pair)
        ]
        if not epochs:
            continue
        cells = [[counters[epoch][arm][comparison.cell] for epoch in epochs] for arm in pair]
        own = [[sums[comparison.cell, arm, epoch] for epoch in epochs] for arm in pair]
        known = frozenset.intersection(*(exist.get(arm, frozenset()) for arm in pair))
        found.append(_explanation(comparison, epochs, cells, own, known, ended=ended, cpus=cpus))
    return tuple(found)


def _slice_sums(slices: Frame) -> dict[tuple[str, str, int], dict[str, float]]:
    if not len(slices):
        return {}
    rated = with_rates(slices)
    by = rated.by("cell", "arm", "epoch")
    columns = {
        "events": rated["events"],
        "seconds": rated["seconds"],
        "connection_ns": rated["seconds"] * rated["connections"] * 1e9,
        "client_ns": rated["client_user_ns"] + rated["client_system_ns"],
        "server_cpu_ns": rated["server_cpu_ns"],
        "context_switches": rated.get("context_switches", np.nan),
    }
    summed = {name: by.sum(values.astype(np.float64)).tolist() for name, values in columns.items()}
    rows = [dict(zip(summed, row, strict=True)) for row in zip(*summed.values(), strict=True)]
    found: dict[tuple[str, str, int], dict[str, float]] = by.by_key(rows)
    return {key: row for key, row in found.items() if row["events"] > 0 and row["seconds"] > 0}


Rows = Sequence[Mapping[str, float]]


def _explanation(
    comparison: Comparison,
    epochs: Sequence[int],
    cells: Sequence[Sequence[CellCounters]],
    own: Sequence[Rows],
    known: frozenset[str],
    *,
    ended: Stop,
    cpus: int,
) -> Explanation:
    log_time = -comparison.estimate.mean
    values = {point.epoch: -point.value for point in comparison.points}
    time = np.array([values[epoch] for epoch in epochs])
    connection_ns, events, seconds = (
        np.array([math.fsum(row[name] for row in rows) for rows in own])
        for name in ("connection_ns", "events", "seconds")
    )
    at_work = float(connection_ns.sum() / seconds.sum()) / 1e9  # connections: in a replay some may be idle
    lost_ns = float(abs(np.diff(connection_ns / events)[0])) / max(1.0, at_work / cpus)
    samples = _time_samples(time, cells, own) | _count_samples(cells, own, known)
    host_of = {point.epoch: point.host for point in comparison.points}
    measured_by = [host_of[epoch] for epoch in epochs]
    shares = _shares(samples, time, measured_by)
    costs = _judged(samples, shares, measured_by, log_time, lost_ns, anytime=ended.anytime_only)
    claimed = comparison.verdict.claims
    low, high = comparison.estimate.interval.low, comparison.estimate.interval.high
    interval = Interval(low=None if high is None else -high, high=None if low is None else -low)
    return Explanation(
        cell=comparison.cell,
        contender=comparison.contender,
        time=Estimate(mean=log_time, interval=interval, n=comparison.estimate.n),
        claimed=claimed,
        costs=costs,
        causes=named(costs) if claimed else (),
    )


def _shares(
    samples: Mapping[str, _Samples], time: NDArray[np.float64], measured_by: Sequence[str]
) -> dict[str, float | None]:
    """Return each time counter's share of the difference. Epochs have equal weight, so shares add up to 1."""
    weights = hosts.epoch_weights(time.tolist(), measured_by)
    whole = float(np.dot(weights, time))
    return {
        counter: float(np.dot(weights, sample.added)) / whole if whole else None
        for counter, sample in samples.items()
        if sample.added is not None
    }


def _judged(
    samples: Mapping[str, _Samples],
    shares: Mapping[str, float | None],
    measured_by: Sequence[str],
    log_time: float,
    lost_ns: float,
    *,
    anytime: bool,
) -> tuple[Cost, ...]:
    """Test every counter. `lost_ns` is the difference in time per event, without waiting for a processor."""
    statistics = [hosts.moments(each.ratios.tolist(), measured_by) for each in samples.values()]
    costs = []
    for (counter, sample), found, claim in zip(
        samples.items(), statistics, iv.family_claims(statistics, anytime=anytime), strict=True
    ):
        family = family_of(counter)
        assert family
        tested = found.n >= iv.N_MIN_DECISIVE
        estimate = iv.estimate(found, iv.precision_interval)
        # With five restarts the anytime-valid test at 5 % / M of more than 22 counters rejects nothing: Holm decides,
        # and a difference must show in the anytime-valid interval, too.
        made = claim.made and iv.excludes_zero(iv.claim_interval(*found, anytime=anytime))
        word: CostWord = "not tested" if not tested else "unclear" if not made else "more" if found.mean > 0 else "less"
        share = None
        if counter in shares:
            share = shares[counter]
        elif tested and made:
            share = _at_most(family, sample, log_time, lost_ns)
        costs.append(
            Cost(
                counter=counter,
                family=family.name,
                baseline=sample.baseline,
                contender=sample.contender,
                estimate=estimate,
                p_adjusted=claim.p_adjusted,
                word=word,
                explains=share,
            )
        )
    return tuple(sorted(costs, key=lambda cost: (cost.family != TIME, -(cost.explains or 0.0), cost.counter)))


def _time_samples(
    time: NDArray[np.float64], cells: Sequence[Sequence[CellCounters]], own: Sequence[Rows]
) -> dict[str, _Samples]:
    """Return CPU of client and server, and busy processors. What they add sums to the log ratio of time.

    With CPU time c per event and u busy processors an event takes c / u. A part of c adds its difference over the
    logarithmic mean of both c.
    """
    if not all(math.isfinite(row["server_cpu_ns"] + row["client_ns"]) for rows in own for row in rows):
        return {}
    divided = all(_of_kind(cell, "user") + _of_kind(cell, "system") > 0 for side in cells for cell in side)
    a, b = (_cpu_parts(rows, counted, divided=divided) for rows, counted in zip(own, cells, strict=True))
    cpu_a, cpu_b = (sum((side[name] for name in _WHOLE if name in side), np.zeros_like(time)) for side in (a, b))
    if not (cpu_a > 0).all() or not (cpu_b > 0).all():
        return {}
    growth = np.log(cpu_b / cpu_a)
    middle = np.where(np.abs(growth) < 1e-9, cpu_a, (cpu_b - cpu_a) / np.where(growth == 0, 1.0, growth))
    weights = [np.array([row["events"] for row in rows]) for rows in own]
    found = {}
    for name in (key for key in a if key in b and a[key].all() and b[key].all()):
        found[name] = _Samples(
            float(np.average(a[name], weights=weights[0])),
            float(np.average(b[name], weights=weights[1])),
            np.log((b[name] + _FLOOR) / (a[name] + _FLOOR)),
            (b[name] - a[name]) / middle,
        )
    busy = [
        sum(cpu * events) / sum(row["seconds"] for row in rows) / 1e9
        for cpu, events, rows in zip((cpu_a, cpu_b), weights, own, strict=True)
    ]
    found[BUSY] = _Samples(float(busy[0]), float(busy[1]), growth - time, time - growth)
    return found


_WHOLE = ("cpu.server.user_ns", "cpu.server.system_ns", "cpu.server_ns", "cpu.client_ns")


def _of_kind(cell: CellCounters, kind: str) -> float:
    return cell["counters"].get(f"cpu.{kind}_ns", 0.0)


def _cpu_parts(rows: Rows, counted: Sequence[CellCounters], *, divided: bool) -> dict[str, NDArray[np.float64]]:
    per_event = np.array([row["server_cpu_ns"] / row["events"] for row in rows])
    found = {"cpu.server_ns": per_event}
    if divided:
        user = np.array([_of_kind(c, "user") / (_of_kind(c, "user") + _of_kind(c, "system")) for c in counted])
        found = {"cpu.server.user_ns": per_event * user, "cpu.server.system_ns": per_event * (1 - user)}
    found["cpu.client_ns"] = np.array([row["client_ns"] / row["events"] for row in rows])
    groups = {name for cell in counted for name in cell["counters"] if name.startswith("cpu.thread.")}
    for name in sorted(groups):
        found[name] = np.array([cell["counters"].get(name, 0.0) / max(cell["events"], _FLOOR) for cell in counted])
    return found


def _count_samples(
    cells: Sequence[Sequence[CellCounters]], own: Sequence[Rows], known: frozenset[str]
) -> dict[str, _Samples]:
    moved = [{name for cell in side for name in cell["counters"]} for side in cells]
    # The kernel's counters are read by groups, all or none.
    read = set.intersection(*({name.split(".")[0] for name in cell["counters"]} for side in cells for cell in side))
    names = {name for name in moved[0] | moved[1] if name in known or name.split(".")[0] in read - {"status"}}
    names |= {name for name in moved[0] & moved[1] if name.startswith("status.")}
    events = [np.array([cell["events"] for cell in side]) for side in cells]
    found = {}
    for name in sorted(names):
        if name.startswith("cpu.") or family_of(name) is None:
            continue
        counts = [np.array([cell["counters"].get(name, 0.0) for cell in side]) for side in cells]
        if name.startswith("memory."):
            found[name] = _compared(counts, [np.ones_like(each) for each in events])
        else:
            found[name] = _compared([np.maximum(each, 0.0) for each in counts], events)
    switches = [np.array([row["context_switches"] for row in side]) for side in own]
    if all(np.isfinite(each).all() and each.any() for each in switches):
        found["switches.machine"] = _compared(switches, [np.array([row["events"] for row in side]) for side in own])
    return found


def _compared(counts: Sequence[NDArray[np.float64]], events: Sequence[NDArray[np.float64]]) -> _Samples:
    none = [count <= 0 for count in counts]
    a, b = (
        np.where(zero, _FLOOR, count) / np.maximum(each, _FLOOR)
        for zero, count, each in zip(none, counts, events, strict=True)
    )
    totals = [float(count.sum() / max(each.sum(), _FLOOR)) for count, each in zip(counts, events, strict=True)]
    # Half a unit over few events may exceed a real count over many. So an arm without any never has more than the
    # other arm, and two arms without any are equal.
    ratios = np.clip(np.log(b / a), np.where(none[0], 0.0, -np.inf), np.where(none[1], 0.0, np.inf))
    return _Samples(totals[0], totals[1], ratios)


def _at_most(family: Family, sample: _Samples, log_time: float, lost_ns: float) -> float | None:
    """Return the largest share of the time difference that a count can explain; None if it points the other way."""
    slower = (sample.contender, sample.baseline) if log_time > 0 else (sample.baseline, sample.contender)
    more, less = slower[::-1] if family.saves else slower
    if more <= less or not lost_ns or not family.ns:
        return None
    taken = (more - less) * family.ns / lost_ns
    if family.saves:
        return min(1.0, taken)
    grown = (1 - less / more) / -math.expm1(-abs(log_time))
    return min(1.0, taken, grown)


def named(costs: Sequence[Cost]) -> tuple[Cost, ...]:
    """Return the best counter of each family that explains `NAMED_FROM` of the difference; generic ones only alone."""
    best: dict[bool, dict[str, Cost]] = {False: {}, True: {}}
    for cost in costs:
        family = family_of(cost.counter)
        if family is None or cost.word not in ("more", "less") or cost.family in (TIME, "other"):
            continue
        if (cost.explains or 0.0) >= NAMED_FROM:
            kept = best[family.generic]
            kept[cost.family] = max(kept.get(cost.family, cost), cost, key=_rank)
    return tuple(sorted((best[False] or best[True]).values(), key=_rank, reverse=True))


def _rank(cost: Cost) -> tuple[float, bool, float]:
    """Sort by the explained share, then saved work (it lowers other counters, not vice versa), then own growth."""
    family = family_of(cost.counter) or Family("")
    return min(1.0, cost.explains or 0.0), family.saves, abs(cost.contender - cost.baseline) * family.ns


def name_of(counter: str) -> str:
    if counter.startswith("cpu.thread."):
        group = counter.removeprefix("cpu.thread.").removesuffix("_ns").replace("_", " ")
        return f"server CPU, {group} threads" if group != "connections" else "server CPU, connections"
    return str(_KNOWN["names"].get(counter, counter.removeprefix("status.")))
