"""Record what servers wait for and how they run their statements, in epochs that explain (`bakeoff.run.explaining`).

`waits`: servers are started with the instruments of performance_schema for waits and stages; their summaries are read
before and after the measuring of each cell. `plans`: the baseline's server writes its general log while a cell is
measured; the statements in it are explained on every arm. Both differ from an epoch that counts in their speed.
"""

import contextlib
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bakeoff.engine import Message, capture_events, capture_totals, make_capture
from bakeoff.errors import ServerError
from bakeoff.plan import Cell
from bakeoff.results import EpochWriter
from bakeoff.run.answers import READ_HANDLERS, READS
from bakeoff.run.arms import ArmSetup
from bakeoff.run.epoch_servers import EpochServers, EpochTools
from bakeoff.run.sessions import Event, Sessions, Step, same_plan, statement_of
from bakeoff.servers import Installation, Instance, Server
from bakeoff.stats.waits_and_plans import PLANS_DOCUMENT, WAITS_DOCUMENT, CellPlans, CellWaits, StatementPlans, Wait

# ---- waits -----------------------------------------------------------------------------------------------------------

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


def waits_hindrance(setups: Sequence[ArmSetup]) -> str:
    """Why the waits of these arms cannot be recorded; empty: they can."""
    running = [setup.arm.label for setup in setups if setup.remote]
    if running:
        return f"Waits: {' and '.join(running)} were running already, and bakeoff does not switch their instruments on."
    return ""


def with_instruments(tools: EpochTools) -> EpochTools:
    """Servers that start with the instruments of performance_schema for waits."""
    setups = []
    for setup in tools.setups:
        if setup.installation and setup.settings:
            options = {**setup.settings.options, **_instruments(setup.installation)}
            setup = replace(setup, settings=replace(setup.settings, options=options))
        setups.append(setup)
    return replace(tools, setups=tuple(setups))


def _instruments(installation: Installation) -> dict[str, str]:
    """MySQL 5.5 has all of them on once performance_schema is; stages are switched on in the running server."""
    old = installation.family == "mysql" and installation.version < (5, 6)
    return {"performance_schema": "ON"} | ({} if old else {"performance_schema_instrument": "wait/%=ON"})


class Waits:
    """What surrounds the measuring of a cell (`bakeoff.run.epoch.Watch`): the servers' waits in it.

    Args:
        writer: of the epoch; each arm's `waits.json` grows with every cell.
    """

    def __init__(self, writer: EpochWriter) -> None:
        self._writer = writer
        self._found: dict[str, dict[str, Any]] = {}

    @contextlib.contextmanager
    def __call__(self, servers: EpochServers, cell: Cell) -> Iterator[Callable[[Message], None]]:
        """Read the summaries of every server before and after."""
        for server in servers.ours.values():
            _switch_stages_on(server)
        before = {arm: _read(server) for arm, server in servers.ours.items()}
        events: Counter[str] = Counter()
        yield lambda message: events.update({message["arm"]: message["events"]})
        for arm, server in servers.ours.items():
            after, missing = _read(server), _missing(server)
            waits = {
                name: Wait(count=count, ns=ns)
                for name, (count, ns) in _grown(before[arm], after).items()
                if count > 0 or ns > 0
            }
            found = CellWaits(events=events[arm], waits=waits, missing=missing)
            if events[arm]:
                self._found.setdefault(arm, {})[cell.name] = found.model_dump(mode="json")
                self._writer.write_server_json(arm, WAITS_DOCUMENT, self._found[arm])


_Reading = dict[str, tuple[int, float]]  # name -> count, ns


def _switch_stages_on(server: Server) -> None:
    with contextlib.suppress(ServerError):  # MySQL 5.5 has none
        server.query(
            "UPDATE performance_schema.setup_instruments SET enabled='YES', timed='YES' "
            "WHERE name LIKE 'stage/%' AND (enabled='NO' OR timed='NO')"
        )


def _read(server: Server) -> _Reading:
    """All waits so far.

    Of threads that serve connections everything that is not idleness; of the others only files: what they do besides is
    mostly to sleep. MySQL 5.5 does not tell them apart, so there conditions, on which threads sleep, are left out.
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
    """Sums of a table of performance_schema by instrument; None: this server has no such table."""
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
    """How often a thread of InnoDB gave up spinning and went to sleep, by SHOW ENGINE INNODB STATUS."""
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


# ---- plans -----------------------------------------------------------------------------------------------------------

STATEMENTS_MAX = 200
"""Distinct statements of a cell that are explained, the most frequent."""

_SAMPLES = 2  # of a digest
_EXPLAINED = (*READS, "UPDATE", "DELETE", "REPLACE", "INSERT")
_LOG = "statements.log"


def plans_hindrance(setups: Sequence[ArmSetup]) -> str:
    """Why the statements of these arms cannot be recorded; empty: they can."""
    running = [setup.arm.label for setup in setups if setup.remote]
    if running:
        return f"Plans: {' and '.join(running)} were running already, and bakeoff does not log their statements."
    return ""


class Plans:
    """What surrounds the measuring of a cell (`bakeoff.run.epoch.Watch`): its statements and their plans.

    Args:
        writer: of the epoch; `plans.json` of the first arm grows with every cell. A replay has its plans already.
    """

    def __init__(self, writer: EpochWriter) -> None:
        self._writer = writer
        self._found: dict[str, Any] = {}

    @contextlib.contextmanager
    def __call__(self, servers: EpochServers, cell: Cell) -> Iterator[Callable[[Message], None]]:
        """Have the first arm's server log its statements meanwhile; then explain them on every arm."""
        if cell.replay:
            yield lambda _message: None
            return
        arm, first = next(iter(servers.ours.items()))
        log = first.home / _LOG
        first.query("SET GLOBAL log_output='FILE'")
        first.query("SET GLOBAL general_log_file=%s", (str(log),))
        first.query("SET GLOBAL general_log=1")
        try:
            yield lambda _message: None
        finally:
            first.query("SET GLOBAL general_log=0")
        found = plans_of(log, servers.ours)
        self._found[cell.name] = found.model_dump(mode="json")
        self._writer.write_server_json(arm, PLANS_DOCUMENT, self._found)
        log.unlink(missing_ok=True)


def plans_of(log: Path, servers: Mapping[str, Server]) -> CellPlans:
    """Explain the statements of a general log on these servers; nothing that writes is run.

    Raises:
        ServerError: a server is gone. SpecError, HostError: the log cannot be read.
    """
    with tempfile.TemporaryDirectory() as folder:
        capture = Path(folder) / "statements.capture"
        make_capture([str(log)], capture, redact=False, log_format="general", on_progress=lambda _done, _total: None)
        digests = {each["digest"]: each for each in capture_totals(capture)["digests"]}
        wanted = [name for name, each in digests.items() if _first_word(each["text"]) in _EXPLAINED][:STATEMENTS_MAX]
        samples: dict[str, list[Event]] = {name: [] for name in wanted}
        for event in capture_events(capture):
            own = samples.get(event.get("digest", ""))
            if own is not None and len(own) < _SAMPLES and "not_replayable" not in event:
                own.append(event)
    sessions = {arm: Sessions(server, None, now_s=0) for arm, server in servers.items()}
    try:
        found = {name: _plans(digests[name]["text"], samples[name], sessions) for name in wanted}
        statements = {name: plans for name, plans in found.items() if plans}
        return CellPlans(statements=statements, counts={name: digests[name]["count"] for name in statements})
    finally:
        for each in sessions.values():
            each.close()


def _plans(text: str, samples: Sequence[Event], sessions: Mapping[str, Sessions]) -> StatementPlans | None:
    """The plans of one digest; None when it reads no table, or nobody can explain it."""
    shown: dict[str, tuple[Step, ...]] = {}
    differs: list[str] = []
    analyzed: dict[str, tuple[str, ...]] = {}
    rows: Counter[str] = Counter()
    reads = _first_word(text) in READS
    for event in samples:
        sql = statement_of(event)
        plans = {arm: each.explain(event, sql) for arm, each in sessions.items()}
        first, *others = plans.items()
        other = [arm for arm, steps in others if first[1] and steps and not same_plan(first[1], steps)]
        if not shown or (other and not differs):
            shown, differs = plans, other
            if other and reads and "writes" not in event:
                analyzed = {arm: each.analyzed(event, sql) for arm, each in sessions.items()}
        if reads and "writes" not in event:
            for arm, each in sessions.items():
                _, handlers = each.examined(event, sql)
                rows[arm] += sum(handlers.get(f"Handler_read_{name}", 0) for name in READ_HANDLERS)
    if not any(step.table for steps in shown.values() for step in steps):
        return None
    return StatementPlans(
        text=text,
        plans={arm: tuple(map(str, steps)) for arm, steps in shown.items()},
        differs=tuple(differs),
        rows_read={arm: rows[arm] / len(samples) for arm in sessions} if rows else {},
        analyzed={arm: lines for arm, lines in analyzed.items() if lines},
    )


def _first_word(text: str) -> str:
    return text.split(" ", 1)[0].upper()
