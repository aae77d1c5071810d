"""Run a capture's statements on all arms, one at a time and untimed, and compare replies and plans (`answers.json`).

Each captured connection has a session on every arm. A statement runs on all arms before the next one begins, so equal
data stay equal.
"""

import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bakeoff.replay.answer_rules import (
    Answers,
    Compared,
    DigestAnswers,
    Reply,
    Shape,
    compare_replies,
    shape_of,
    volatile_words,
)
from bakeoff.replay.captures import capture_events, make_capture
from bakeoff.replay.plans import Step, same_plan
from bakeoff.replay.sessions import TOO_LONG, Event, Sessions, connection_of, statement_of
from bakeoff.run.data_check import ask_tables
from bakeoff.servers import Server, readiness
from bakeoff.spec.dumps import SYSTEM_SCHEMAS, quoted

EXECUTIONS_MAX = 100  # plain reads per digest; writes always run, so that later answers have their data
_EXPLAINED = 2  # executions per digest
_PROGRESS_EVERY = 100  # statements
READS = ("SELECT", "WITH", "(", "VALUES", "TABLE")
SESSION_WORDS = ("SET", "USE", "BEGIN", "START", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE")
# Text of the one digest for all statements beyond a capture's limit. They may use volatile functions.
_OTHERS = "(other statements)"


def first_word(text: str) -> str:
    return text.partition(" ")[0].upper()


@dataclass
class _Digest:
    text: str
    volatile: tuple[str, ...]
    executed: int = 0
    explained: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    differences: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    listed: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    examples: dict[str, dict[str, tuple[str, str]]] = field(default_factory=lambda: defaultdict(dict))
    other_plan: set[str] = field(default_factory=set)
    plans: dict[str, tuple[str, ...]] = field(default_factory=dict)
    rows_examined: Counter[str] = field(default_factory=Counter)

    @property
    def first_word(self) -> str:
        return first_word(self.text)


class AnswersPass:
    """The untimed pass over one capture.

    `servers` and `databases` are by arm, the baseline first. A database is the default for statements whose schema is
    unknown, "" for none. With `reads_only`, only plain reads run, in read-only sessions.
    """

    def __init__(
        self,
        servers: Mapping[str, Server],
        totals: Mapping[str, Any],
        *,
        capture: str,
        databases: Mapping[str, str],
        limit_s: float,
        reads_only: bool,
        stop: threading.Event | None = None,
    ) -> None:
        now_s = int(time.time())
        refusing = reads_only and not all(server.ours for server in servers.values())
        self._arms = {
            # Read-only servers refuse several statements in one text.
            arm: Sessions(server, databases[arm], now_s=now_s, read_only=refusing, several=not reads_only)
            for arm, server in servers.items()
        }
        self._baseline, *self._contenders = self._arms
        self._texts = {each["digest"]: str(each["text"]) for each in totals["digests"]}
        self._capture, self._databases, self._limit_s = capture, databases, limit_s
        self._reads_only = reads_only
        self._stop = stop or threading.Event()
        self.on_progress: Callable[[int], None] = lambda _count: None
        self._digests: dict[str, _Digest] = {}
        self._skipped: Counter[str] = Counter()
        self._executed, self._not_reached = 0, sum(each["events"] for each in totals["digests"])
        self._schemas: set[str] = set()
        self._wrote = False
        self._ended_by = ""

    def run(self, events: Iterable[Event]) -> Answers:
        """Run every event, or as many as `limit_s` allows; raises KeyboardInterrupt if `stop` was set."""
        begin = time.monotonic()
        try:
            for event in events:
                if self._stop.is_set():
                    raise KeyboardInterrupt
                if self._ended_by or time.monotonic() - begin > self._limit_s:
                    break
                if event.get("ends_session"):
                    self._close(connection_of(event))
                elif event.get("type") == "event" and "digest" in event:
                    self._take(event)
        finally:  # before tables are compared, because a session may hold locks
            self._close(None)
        tables, other_tables = self._compare_tables() if self._wrote and not self._ended_by else (0, {})
        return Answers(
            capture=self._capture,
            seconds=round(time.monotonic() - begin, 3),
            limit_s=self._limit_s,
            executed=self._executed,
            skipped=dict(self._skipped.most_common()),
            not_reached=self._not_reached,
            digests={name: self._document(digest) for name, digest in self._digests.items()},
            tables=tables,
            other_tables=other_tables,
            ended_by=self._ended_by,
        )

    def _close(self, connection: int | None) -> None:
        for sessions in self._arms.values():
            sessions.close(connection)

    def _take(self, event: Event) -> None:
        self._not_reached -= 1
        text = self._texts.get(event["digest"], "")
        digest = self._digests.get(event["digest"])
        digest = digest or _Digest(text, (text,) if text == _OTHERS else volatile_words(text))
        session_word = digest.first_word in SESSION_WORDS
        # Captures mark what would end a server or another session, but not `KILL connection_id()`.
        reason = event.get("not_replayable") or (digest.first_word == "KILL" and "KILL")
        if self._reads_only:
            reason = reason or event.get("writes")
        if reason:
            self._skipped[str(reason)] += 1
        elif "writes" not in event and not session_word and digest.executed >= EXECUTIONS_MAX:
            self._skipped["enough of its digest"] += 1
        else:
            self._digests[event["digest"]] = digest
            self._wrote = self._wrote or "writes" in event
            self._schemas.update([event["schema"]] if event.get("schema") else self._databases.values())
            self._compare(event, digest, is_read="writes" not in event and digest.first_word in READS)

    def _compare(self, event: Event, digest: _Digest, *, is_read: bool) -> None:
        sql = statement_of(event)
        explain = is_read and digest.explained < _EXPLAINED
        if explain:  # before it runs, because MySQL 8.0 reads its dictionary at the first use of a table
            digest.explained += 1
            self._compare_plans(event, sql, digest)
        in_transaction = any(each.in_transaction(event) for each in self._arms.values())
        replies = {
            arm: sessions.examined(event, sql, digest.rows_examined, arm) if explain else sessions.run(event, sql)
            for arm, sessions in self._arms.items()
        }
        digest.executed += 1
        self._executed += 1
        if self._executed % _PROGRESS_EVERY == 0:
            self.on_progress(self._executed)
        digest.failed.update(arm for arm, reply in replies.items() if reply.errno not in (0, TOO_LONG))
        base = replies[self._baseline]
        for arm in self._contenders:
            other = replies[arm]
            if TOO_LONG in (base.errno, other.errno):
                digest.listed[arm]["too long"] += 1
                continue
            shape = shape_of(sql) if is_read and not base.errno and base.sequence != other.sequence else Shape()
            found = compare_replies(
                base,
                other,
                shape,
                volatile=bool(digest.volatile),
                rerun=lambda shape=shape, arm=arm: self._rerun(event, shape, arm),  # type: ignore[misc]
            )
            digest.differences[arm].update(found.differences.keys())
            digest.listed[arm].update(found.listed)
            for kind, sides in found.differences.items():
                digest.examples[arm].setdefault(kind, sides)
        if len({reply.errno == TOO_LONG for reply in replies.values()}) > 1:
            if not self._reads_only and ("writes" in event or in_transaction):
                self._ended_by = digest.text  # data may differ from now on
            self._close(connection_of(event))

    def _rerun(self, event: Event, shape: Shape, arm: str) -> tuple[Reply, Reply] | None:
        if not shape.longer:
            return None
        return self._arms[self._baseline].run(event, shape.longer), self._arms[arm].run(event, shape.longer)

    def _compare_plans(self, event: Event, sql: bytes, digest: _Digest) -> None:
        plans: dict[str, tuple[Step, ...]] = {arm: each.explain(event, sql) for arm, each in self._arms.items()}
        base = plans[self._baseline]
        others = {arm for arm in self._contenders if base and plans[arm] and not same_plan(base, plans[arm])}
        if not digest.plans or (others and not digest.other_plan):
            digest.plans = {arm: tuple(map(str, steps)) for arm, steps in plans.items()}
        digest.other_plan |= others

    def _compare_tables(self) -> tuple[int, dict[str, dict[str, str]]]:
        checksums = {arm: self._checksums(sessions.server) for arm, sessions in self._arms.items()}
        base = checksums[self._baseline]
        other: dict[str, dict[str, str]] = {}
        for arm in self._contenders:
            odd = sorted(t for t in base.keys() | checksums[arm].keys() if base.get(t) != checksums[arm].get(t))
            if odd:
                other[arm] = dict(self._explained(arm, odd))
        return len(base), other

    def _checksums(self, server: Server) -> dict[str, str]:
        found = {}
        for schema in sorted(self._schemas - {""} - SYSTEM_SCHEMAS):
            for table in readiness.tables_of(server, schema):
                if self._stop.is_set():
                    raise KeyboardInterrupt
                # unlimited, because the server reads the whole table first
                sql = f"CHECKSUM TABLE {quoted(schema)}.{quoted(table)}"
                ((_, checksum),) = server.query(sql, limited=False)
                found[f"{schema}.{table}"] = str(checksum)
        return found

    def _explained(self, arm: str, tables: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Say how each of these tables differs. Versions compute checksums of some types differently."""
        schemas = sorted({name.partition(".")[0] for name in tables})
        base, other = (ask_tables(self._arms[name].server, schemas) for name in (self._baseline, arm))
        for table in tables:
            ours, theirs = (answers.get(table, {}).get("rows") for answers in (base, other))
            if (table in base) != (table in other):
                yield table, "missing on one of them"
            elif ours and theirs and ours.columns == theirs.columns and ours.answer != theirs.answer:
                yield table, f"{ours.answer}; {theirs.answer}"
            else:
                yield table, "checksum only: times, floats, JSON, or another way to compute it"

    def _document(self, digest: _Digest) -> DigestAnswers:
        return DigestAnswers(
            text=digest.text,
            volatile=digest.volatile,
            compared={
                arm: Compared(
                    executed=digest.executed,
                    differences=dict(digest.differences[arm]),
                    listed=dict(digest.listed[arm]),
                    examples=digest.examples[arm],
                    plan=arm in digest.other_plan,
                    failed={name: digest.failed[name] for name in (self._baseline, arm) if digest.failed[name]},
                )
                for arm in self._contenders
            },
            plans=digest.plans,
            rows_examined=dict(digest.rows_examined),
        )


# ---- plans of a log --------------------------------------------------------------------------------------------------

STATEMENTS_MAX = 200  # distinct statements that are explained, the most frequent
_SAMPLES = 2  # per digest
_CAN_EXPLAIN = (*READS, "UPDATE", "DELETE", "REPLACE", "INSERT")


def plans_of(log: Path, servers: Mapping[str, Server]) -> dict[str, Any]:
    """Explain the most frequent statements of a general log, without running anything that writes.

    Returns `statements` and `counts` by digest, in the form of explain's `CellPlans`.
    """
    with tempfile.TemporaryDirectory() as folder:
        capture = Path(folder) / "statements.capture"
        made = make_capture([str(log)], capture, redact=False, log_format="general", on_progress=lambda *_: None)
        digests = {each["digest"]: each for each in made["digests"]}
        wanted = [name for name, each in digests.items() if first_word(each["text"]) in _CAN_EXPLAIN][:STATEMENTS_MAX]
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
    """Return the plans of one digest; None if it reads no table or has no sample."""
    shown: dict[str, tuple[Step, ...]] = {}
    differs: list[str] = []
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
        if reads and "writes" not in event:
            for arm, each in sessions.items():
                each.examined(event, sql, rows, arm)
    steps_shown = [step for steps in shown.values() for step in steps]
    if not shown or (steps_shown and not any(step.table for step in steps_shown)):
        return None
    return {
        "text": text,
        "plans": {arm: list(map(str, steps)) for arm, steps in shown.items()},
        "differs": differs,
        "rows_read": {arm: rows[arm] / len(samples) for arm in sessions} if rows else {},
    }
