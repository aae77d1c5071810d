"""Explain the statements of a server's general log on every arm."""

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bakeoff.captures import capture_events, make_capture
from bakeoff.replay.answers import READ_HANDLERS, READS, first_word
from bakeoff.replay.sessions import Event, Sessions, Step, same_plan, statement_of
from bakeoff.servers import Server

STATEMENTS_MAX = 200
"""Distinct statements that are explained, the most frequent."""

_SAMPLES = 2  # of a digest
_EXPLAINED = (*READS, "UPDATE", "DELETE", "REPLACE", "INSERT")


def plans_of(log: Path, servers: Mapping[str, Server]) -> dict[str, Any]:
    """Explain the most frequent statements of a general log on these servers, without running anything that writes.

    Returns `statements` and `counts` by digest, in the form of `CellPlans` of explain.

    Raises:
        ServerError: a server is gone.
        SpecError, HostError: the log cannot be read.
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
        return {"statements": statements, "counts": {name: digests[name]["count"] for name in statements}}
    finally:
        for each in sessions.values():
            each.close()


def _plans(text: str, samples: Sequence[Event], sessions: Mapping[str, Sessions]) -> dict[str, Any] | None:
    """Return the plans of one digest, empty if no arm can explain it; None if it reads no table or has no sample."""
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
    return {
        "text": text,
        "plans": {arm: list(map(str, steps)) for arm, steps in shown.items()},
        "differs": differs,
        "rows_read": {arm: rows[arm] / len(samples) for arm in sessions} if rows else {},
        "analyzed": {arm: lines for arm, lines in analyzed.items() if lines},
    }
