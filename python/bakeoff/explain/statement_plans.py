"""Record how servers run the statements of a workload, in epochs that explain (`bakeoff.explain.after_verdict`).

One server writes its general log while a cell is measured, which slows it down; the statements in it are explained on
every arm.
"""

import contextlib
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bakeoff.captures import capture_events, make_capture
from bakeoff.engine import Message
from bakeoff.explain.waits_and_plans import PLANS_DOCUMENT, CellPlans, StatementPlans
from bakeoff.plan import Cell
from bakeoff.replay.answers import READ_HANDLERS, READS, first_word
from bakeoff.replay.sessions import Event, Sessions, Step, same_plan, statement_of
from bakeoff.results import EpochWriter
from bakeoff.run.epoch_servers import EpochServers
from bakeoff.servers import Server

STATEMENTS_MAX = 200
"""Distinct statements of a cell that are explained, the most frequent."""

_SAMPLES = 2  # of a digest
_EXPLAINED = (*READS, "UPDATE", "DELETE", "REPLACE", "INSERT")
_LOG = "statements.log"


class Plans:
    """What surrounds the measuring of a cell (`bakeoff.run.epoch.Watch`): its statements and their plans.

    Args:
        writer: of the epoch; `plans.json` of each round's last arm, which is in no other round, grows with every cell.
            A replay has its plans already.
    """

    def __init__(self, writer: EpochWriter) -> None:
        self._writer = writer
        self._found: defaultdict[str, dict[str, Any]] = defaultdict(dict)

    @contextlib.contextmanager
    def __call__(self, servers: EpochServers, cell: Cell) -> Iterator[Callable[[Message], None]]:
        """Have the first arm's server log its statements meanwhile; then explain them on every arm."""
        if cell.fixed_work:
            yield lambda _message: None
            return
        # In the study's order, not in that in which they were started: plans are compared with the first arm's.
        arms = [setup.arm.name for setup in servers.setups]
        ours = {arm: servers.ours[arm] for arm in arms if arm in servers.ours}
        first, last_arm = next(iter(ours.values())), arms[-1]
        log = first.home / _LOG
        first.query("SET GLOBAL log_output='FILE'")
        first.query("SET GLOBAL general_log_file=%s", (str(log),))
        first.query("SET GLOBAL general_log=1")
        try:
            yield lambda _message: None
        finally:
            first.query("SET GLOBAL general_log=0")
        self._found[last_arm][cell.name] = plans_of(log, ours).model_dump(mode="json")
        self._writer.write_server_json(last_arm, PLANS_DOCUMENT, self._found[last_arm])
        log.unlink(missing_ok=True)


def plans_of(log: Path, servers: Mapping[str, Server]) -> CellPlans:
    """Explain the statements of a general log on these servers; nothing that writes is run.

    Raises:
        ServerError: a server is gone. SpecError, HostError: the log cannot be read.
    """
    with tempfile.TemporaryDirectory() as folder:
        capture = Path(folder) / "statements.capture"
        made = make_capture([str(log)], capture, redact=False, log_format="general", on_progress=lambda *_: None)
        digests = {each["digest"]: each for each in made["digests"]}
        wanted = [name for name, each in digests.items() if first_word(each["text"]) in _EXPLAINED][:STATEMENTS_MAX]
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
    """The plans of one digest, empty where nobody can explain it; None when it reads no table, or has no sample."""
    shown: dict[str, tuple[Step, ...]] = {}
    differs: list[str] = []
    analyzed: dict[str, tuple[str, ...]] = {}
    rows: Counter[str] = Counter()
    reads = first_word(text) in READS
    for event in samples:
        sql = statement_of(event)
        plans = {arm: each.explain(event, sql) for arm, each in sessions.items()}
        known = {arm: steps for arm, steps in plans.items() if steps}
        first = next(iter(known.values()), ())
        other = [arm for arm, steps in known.items() if not same_plan(first, steps)]
        if not any(shown.values()) or (other and not differs):
            shown, differs = plans, other
            if other and reads and "writes" not in event:
                analyzed = {arm: each.analyzed(event, sql) for arm, each in sessions.items()}
        if reads and "writes" not in event:
            for arm, each in sessions.items():
                _, handlers = each.examined(event, sql)
                rows[arm] += sum(handlers.get(f"Handler_read_{name}", 0) for name in READ_HANDLERS)
    steps_shown = [step for steps in shown.values() for step in steps]
    if not shown or (steps_shown and not any(step.table for step in steps_shown)):
        return None
    return StatementPlans(
        text=text,
        plans={arm: tuple(map(str, steps)) for arm, steps in shown.items()},
        differs=tuple(differs),
        rows_read={arm: rows[arm] / len(samples) for arm in sessions} if rows else {},
        analyzed={arm: lines for arm, lines in analyzed.items() if lines},
    )
