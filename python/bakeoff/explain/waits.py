"""Record what servers wait for while a cell is measured, in explaining epochs.

Servers start with the wait and stage instruments of performance_schema, which slow them down. Their summaries are read
before and after each cell.
"""

import contextlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace

from bakeoff.engine_messages import SliceMessage
from bakeoff.errors import ServerError
from bakeoff.explain.waits_and_plans import WAITS_DOCUMENT, CellWaits, Wait
from bakeoff.plan import Cell
from bakeoff.results import EpochWriter
from bakeoff.run.counters import all_events
from bakeoff.run.epoch_servers import EpochServers, EpochTools
from bakeoff.servers import Installation, Instance, Server

_IDLE = ("idle", "wait/io/socket/")
"""Instruments of a thread that has nothing to do."""

_TABLES = {"waits": "wait/%", "stages": "stage/%"}
_SEMAPHORE = re.compile(r"(Mutex spin waits|RW-shared spins|RW-excl spins|RW-sx spins)\b.*?OS waits (\d+)")
_SEMAPHORES = {
    "Mutex spin waits": "mutex", "RW-shared spins": "rw-lock, shared", "RW-excl spins": "rw-lock, exclusive",
    "RW-sx spins": "rw-lock, shared-exclusive",
}  # fmt: skip
ROW_LOCK = "innodb/row lock"
"""Name of the wait for row locks, which the server's status counts and no instrument does."""


def with_instruments(tools: EpochTools) -> EpochTools:
    """Have servers start with the wait instruments of performance_schema."""
    setups = []
    for setup in tools.setups:
        if setup.installation and setup.settings:
            options = {**setup.settings.options, **_instruments(setup.installation)}
            setup = replace(setup, settings=replace(setup.settings, options=options))
        setups.append(setup)
    return replace(tools, setups=tuple(setups))


def _instruments(installation: Installation) -> dict[str, str]:
    """List the instruments. MySQL 5.5 has all of them on; stages are switched on in the running server."""
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
            after, missing = _read(server), _missing(server)
            waits = {
                name: Wait(count=count, ns=ns)
                for name, (count, ns) in _grown(before[arm], after).items()
                if count > 0 or ns > 0
            }
            if any(each["events"] for each in slices[arm]):
                found = CellWaits(events=all_events(slices[arm]), waits=waits, missing=missing)
                cells = self._found.setdefault(arm, {})
                cells[cell.name] = _sum(cells[cell.name], found) if cell.name in cells else found
                kept = {name: each.model_dump(mode="json") for name, each in cells.items()}
                self._writer.write_server_json(arm, WAITS_DOCUMENT, kept)


def _sum(one: CellWaits, other: CellWaits) -> CellWaits:
    waits = dict(one.waits)
    for name, wait in other.waits.items():
        known = waits.get(name, Wait(count=0, ns=0.0))
        waits[name] = Wait(count=known.count + wait.count, ns=known.ns + wait.ns)
    return CellWaits(events=one.events + other.events, waits=waits, missing=other.missing)


_Reading = dict[str, tuple[int, float]]  # name -> count, ns


def _switch_stages_on(server: Server) -> None:
    with contextlib.suppress(ServerError):  # MySQL 5.5 has none
        server.query(
            "UPDATE performance_schema.setup_instruments SET enabled='YES', timed='YES' "
            "WHERE name LIKE 'stage/%' AND (enabled='NO' OR timed='NO')"
        )


def _read(server: Server) -> _Reading:
    """Read all waits so far.

    Threads that serve connections count with everything but idling, others only with files, because they mostly sleep.
    MySQL 5.5 cannot tell them apart, so conditions, on which threads sleep, are left out there.
    """
    found: _Reading = {}
    for kind, pattern in _TABLES.items():
        served = _summary(server, f"events_{kind}_summary_by_user_by_event_name", "user IS NOT NULL", pattern)
        if served is None and kind == "waits":
            everything = _summary(server, "events_waits_summary_global_by_event_name", "1", pattern) or {}
            served = {name: value for name, value in everything.items() if not name.startswith("wait/synch/cond/")}
        found |= {name: value for name, value in (served or {}).items() if not name.startswith(_IDLE)}
    files = _summary(server, "events_waits_summary_global_by_event_name", "1", "wait/io/file/%")
    found |= files or {}
    status = server.status()
    found[ROW_LOCK] = (
        int(status.get("Innodb_row_lock_waits", 0)), int(status.get("Innodb_row_lock_time", 0)) * 1e6
    )  # fmt: skip
    return found | _semaphores(server)


def _summary(server: Server, table: str, where: str, pattern: str) -> _Reading | None:
    """Return a performance_schema table's sums by instrument; None if the server has no such table."""
    try:
        rows = server.query(
            f"SELECT event_name, SUM(count_star), SUM(sum_timer_wait) FROM performance_schema.{table} "
            f"WHERE {where} AND event_name LIKE %s AND count_star > 0 GROUP BY event_name",
            (pattern,),
        )
    except ServerError:
        return None
    return {str(name): (int(count), float(picoseconds) / 1000) for name, count, picoseconds in rows}


def _semaphores(server: Server) -> _Reading:
    """Count how often an InnoDB thread gave up spinning and slept, from SHOW ENGINE INNODB STATUS."""
    try:
        text = str(server.query("SHOW ENGINE INNODB STATUS")[0][-1])
    except (ServerError, IndexError):
        return {}
    return {f"innodb/semaphore: {_SEMAPHORES[name]}": (int(count), 0.0) for name, count in _SEMAPHORE.findall(text)}


def _grown(before: _Reading, after: _Reading) -> _Reading:
    return {
        name: (count - before.get(name, (0, 0.0))[0], max(0.0, ns - before.get(name, (0, 0.0))[1]))
        for name, (count, ns) in after.items()
    }


def _missing(server: Instance) -> tuple[str, ...]:
    installation = server.installation
    if installation.family == "mysql" and installation.version < (5, 6):
        return (f"{installation.name} has no stages, and does not tell its background threads from those of clients.",)
    return ()
