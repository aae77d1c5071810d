"""Record what servers wait for while a cell is measured, in explaining epochs, and compare it between two arms.

Servers start with the wait and stage instruments of performance_schema, which slow them down.
"""

import contextlib
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from pydantic import ConfigDict

from bakeoff.engine_messages import SliceMessage
from bakeoff.errors import ServerError
from bakeoff.plan import Cell
from bakeoff.results import EpochWriter
from bakeoff.run.counters import all_events
from bakeoff.run.epoch_servers import EpochServers, EpochTools
from bakeoff.servers import Installation, Server
from bakeoff.stats import interval as iv
from bakeoff.stats.interval import Paired
from bakeoff.stats.model import Estimate, Frozen

WAITS = "waits"  # kind of the explaining epochs in which waits are recorded
WAITS_DOCUMENT = "waits.json"  # an arm's document in such an epoch: cell -> `CellWaits`


class CellWaits(Frozen):
    """What an arm waited for in one cell of one epoch: ns by instrument.

    `events` includes those outside the connections' windows.
    """

    model_config = ConfigDict(extra="ignore")  # older files also have `missing`

    events: float
    waits: dict[str, int]


_SHARE_LEAST = 0.002  # share of an event's time below which a wait on both arms is not compared


@dataclass(frozen=True)
class WaitDifference(Paired):
    """One wait of two arms in one cell, in ns per event.

    `ratio` is None if an arm has none of it in some epoch. `p_adjusted` is after Holm over the cell's waits.
    """

    name: str
    ratio: Estimate | None
    p_adjusted: float | None

    @property
    def differs(self) -> bool:
        return self.p_adjusted is not None and self.p_adjusted < iv.ALPHA_PRECISE

    @property
    def grows(self) -> bool:
        """Whether it grew by the tested value; one epoch can reverse the sign of the difference."""
        return (self.ratio or self.difference).mean > 0


def wait_differences(
    epochs: Iterable[Mapping[str, Mapping[str, CellWaits]]],
    *,
    cell: str,
    baseline: str,
    contender: str,
    event_ns: float | None,
) -> tuple[WaitDifference, ...]:
    """Compare the waits of two arms in one cell, the largest difference first.

    `epochs` has {arm: {cell: waits}}. `event_ns` is the time of one connection's event; None compares every wait.
    """
    pairs = []
    for epoch in epochs:
        mine, theirs = (epoch.get(arm, {}).get(cell) for arm in (baseline, contender))
        if mine and theirs and mine.events and theirs.events:
            pairs.append((mine, theirs))
    found = []
    for name in dict.fromkeys(name for pair in pairs for side in pair for name in side.waits):
        own, other = ([pair[at].waits.get(name, 0.0) / pair[at].events for pair in pairs] for at in (0, 1))
        if not event_ns or max(fmean(own), fmean(other)) >= _SHARE_LEAST * event_ns:
            found.append((name, own, other))
    adjusted = iv.holm([_p_value(_logs(own, other) or _less(own, other)) for _, own, other in found])
    compared = [
        WaitDifference(
            **vars(Paired.of(own, other)),
            name=name,
            ratio=iv.t_estimate(logs) if (logs := _logs(own, other)) else None,
            p_adjusted=p,
        )
        for (name, own, other), p in zip(found, adjusted, strict=True)
    ]
    return tuple(sorted(compared, key=lambda each: (-abs(each.difference.mean), each.name)))


def _less(own: Sequence[float], other: Sequence[float]) -> list[float]:
    return [b - a for a, b in zip(own, other, strict=True)]


def _logs(own: Sequence[float], other: Sequence[float]) -> list[float]:
    """Return log ratios, which vary less than differences if a whole epoch is slow; empty if an arm has a zero."""
    return [math.log(b / a) for a, b in zip(own, other, strict=True)] if min(*own, *other) > 0 else []


def _p_value(values: Sequence[float]) -> float | None:
    return iv.p_value(*iv.moments(values), inflation=1.0) if len(values) >= iv.EPOCHS_MIN_PAIRED else None


_IDLE = ("idle", "wait/io/socket/")  # instruments of a thread that has nothing to do
_TABLES = {"waits": "wait/%", "stages": "stage/%"}
ROW_LOCK = "innodb/row lock"
"""Name of the wait for row locks, which only the server's status counts, not an instrument."""


def with_instruments(tools: EpochTools) -> EpochTools:
    setups = []
    for setup in tools.setups:
        if setup.installation and setup.settings:
            options = {**setup.settings.options, **_instruments(setup.installation)}
            setup = replace(setup, settings=replace(setup.settings, options=options))
        setups.append(setup)
    return replace(tools, setups=tuple(setups))


def _instruments(installation: Installation) -> dict[str, str]:
    old = installation.family == "mysql" and installation.version < (5, 6)
    return {"performance_schema": "ON"} | ({} if old else {"performance_schema_instrument": "wait/%=ON"})


class Waits:
    """A `bakeoff.run.epoch.Watch` that adds each cell's waits to the arm's `waits.json`."""

    def __init__(self, writer: EpochWriter) -> None:
        self._writer = writer
        self._found: dict[str, dict[str, CellWaits]] = {}

    @contextlib.contextmanager
    def __call__(self, servers: EpochServers, cell: Cell) -> Iterator[Callable[[SliceMessage], None]]:
        for server in servers.ours.values():
            _switch_stages_on(server)
        before = {arm: _read(server) for arm, server in servers.ours.items()}
        slices: defaultdict[str, list[SliceMessage]] = defaultdict(list)
        yield lambda message: slices[message["arm"]].append(message)
        for arm, server in servers.ours.items():
            if any(each["events"] for each in slices[arm]):
                cells = self._found.setdefault(arm, {})
                known = cells.get(cell.name)  # of an earlier round
                cells[cell.name] = CellWaits(
                    events=all_events(slices[arm]) + (known.events if known else 0.0),
                    waits=_read(server) - before[arm] + Counter(known.waits if known else {}),
                )
                kept = {name: each.model_dump(mode="json") for name, each in cells.items()}
                self._writer.write_server_json(arm, WAITS_DOCUMENT, kept)


def _switch_stages_on(server: Server) -> None:
    with contextlib.suppress(ServerError):  # MySQL 5.5 has none
        server.query(
            "UPDATE performance_schema.setup_instruments SET enabled='YES', timed='YES' "
            "WHERE name LIKE 'stage/%' AND (enabled='NO' OR timed='NO')"
        )


def _read(server: Server) -> Counter[str]:
    """Read all waits so far [ns by instrument].

    Count everything but idling of threads that serve connections, and only file waits of others, which mostly sleep.
    MySQL 5.5 cannot tell them apart, so conditions, on which threads sleep, are left out there.
    """
    found: dict[str, int] = {}
    for kind, pattern in _TABLES.items():
        served = _summary(server, f"events_{kind}_summary_by_user_by_event_name", "user IS NOT NULL", pattern)
        if served is None and kind == "waits":
            everything = _summary(server, "events_waits_summary_global_by_event_name", "1", pattern)
            served = {name: ns for name, ns in (everything or {}).items() if not name.startswith("wait/synch/cond/")}
        found |= {name: ns for name, ns in (served or {}).items() if not name.startswith(_IDLE)}
    found |= _summary(server, "events_waits_summary_global_by_event_name", "1", "wait/io/file/%") or {}
    found[ROW_LOCK] = int(server.status().get("Innodb_row_lock_time", 0)) * 1_000_000
    return Counter(found)


def _summary(server: Server, table: str, where: str, pattern: str) -> dict[str, int] | None:
    try:
        rows = server.query(
            f"SELECT event_name, SUM(sum_timer_wait) FROM performance_schema.{table} "
            f"WHERE {where} AND event_name LIKE %s AND count_star > 0 GROUP BY event_name",
            (pattern,),
        )
    except ServerError:
        return None
    return {str(name): int(picoseconds) // 1000 for name, picoseconds in rows}
