"""What a run must know of the captures that it replays; what a running server has kept, read as a slow log."""

import math
import re
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pymysql
from pymysql.connections import Connection

from bakeoff.engine import Message, capture_events, capture_totals
from bakeoff.errors import ServerError, SpecError
from bakeoff.plan import Cell, SliceLength
from bakeoff.servers import RemoteServer
from bakeoff.servers.client import lift_limits, raw_rows
from bakeoff.spec import Study, Workload
from bakeoff.spec.dumps import SYSTEM_SCHEMAS
from bakeoff.spec.study import is_capture
from bakeoff.units import format_duration

_BLOCKS_MIN = 4  # of one pass over a capture that writes
_EVENTS_PER_S = 1_000.0  # where the log has no times
_EVENTS_PER_S_MAX = 10_000.0  # by the times of the log, which another server may not reach
_SILENCE_MAX_S = 30.0  # by the clock: nobody waits longer for a statement
_CHUNK_MAX_S = 60.0  # by the clock: from its first to its last statement, wherever it begins in the log


def capture_lock(capture: Path) -> str:
    """The lock that replays of a log share, by the log's digest, with which the name of its capture ends."""
    return f"capture-{capture.stem.rpartition('-')[2]}"


@dataclass(frozen=True)
class CaptureFacts:
    """A capture, as far as planning needs it.

    Attributes:
        statements: that can be replayed.
        reads: it has plain reads.
        writes: how many of its statements are no plain reads, by the word that says so.
        connections: that it has, 1 at least.
        at_once: the most connections that were at work at the same time: within a statement that can be replayed, or a
            transaction.
        mean_s: of a statement in the log; None: not known.
        starts_us: when each began or one before it, whichever was later [µs since 1970]; those with a known time.
        reads_only: of each: it is no write.
    """

    statements: int
    reads: bool
    writes: Counter[str]
    connections: int
    at_once: int
    mean_s: float | None
    starts_us: np.ndarray = field(compare=False)
    reads_only: np.ndarray = field(compare=False)

    def moments_us(self, *, reads_only: bool) -> np.ndarray:
        """Beginnings in the order of the replay; of all statements, or of those that are no writes."""
        return self.starts_us[self.reads_only] if reads_only else self.starts_us

    def copies(self, threads: int) -> int:
        """Times that each connection is replayed at once by so many sessions, when all are reads and none by the clock.

        The engine reckons likewise (docs/engine.md, *A replay*).
        """
        return math.ceil(threads / self.connections)


@cache
def capture_facts(path: str) -> CaptureFacts:
    """Read a capture's totals and all of its events; needs 33 bytes of memory for each.

    Raises:
        SpecError: it is no capture, or nothing of it can be replayed. HostError: it cannot be read.
    """
    totals = capture_totals(Path(path))
    reads, writes, work = False, Counter[str](), _Work()
    starts, are_reads = array("q"), array("b")
    for event in capture_events(Path(path)):
        if "digest" in event and "not_replayable" not in event:
            reads |= "writes" not in event
            writes.update([event["writes"]] if "writes" in event else ())
            if event.get("start_us"):
                starts.append(int(event["start_us"]))
                are_reads.append("writes" not in event)
        work.add(event)
    if not reads and not writes:
        raise SpecError(
            f"capture: {path}: nothing of it can be replayed.", hint=f"`bakeoff capture show {path}` says why."
        )
    timed = sum(digest["timed"] for digest in totals["digests"])
    total_us = sum(digest["total_us"] for digest in totals["digests"])
    return CaptureFacts(
        statements=sum(each["events"] - sum(each["not_replayable"].values()) for each in totals["digests"]),
        reads=reads,
        writes=writes,
        connections=max(1, int(totals["overall"]["connections"])),
        at_once=work.most_at_once(),
        mean_s=total_us / timed / 1e6 if timed and total_us else None,
        starts_us=np.maximum.accumulate(np.array(starts, dtype=np.int64)),
        reads_only=np.array(are_reads, dtype=bool),
    )


SESSION_ENDS = ("Quit", "Connect", "Reset Connection")
"""Commands after which a connection has no session any more, or a new one."""


class _Transaction(NamedTuple):
    """One that has not ended: its begin, the end of its last statement so far [µs], and whether BEGIN began it."""

    begin: int
    end: int = 0
    explicit: bool = False


def _autocommit_is_off(event: Message) -> bool:
    """Whether a statement begins a transaction where none is open (the engine has the same rule for a replay)."""
    session = event.get("session") or {}
    return str(session.get("autocommit", "1")).lower() in ("0", "off", "false")


class _Work:
    """When connections were within a statement that can be replayed, or a transaction."""

    def __init__(self) -> None:
        self._begins, self._ends, self._connections = array("q"), array("q"), array("q")
        self._transactions: dict[int, _Transaction] = {}  # by connection

    def add(self, event: Message) -> None:
        start, connection = int(event.get("start_us") or 0), int(event.get("connection") or 0)
        if not start:
            return
        end = int(event.get("end_us") or start)
        words = str(event.get("sql", ""))[:24].upper().replace(";", " ").split() or [""]
        explicit = words[0] in ("BEGIN", "START")
        ends = (words[0] in ("COMMIT", "ROLLBACK") and "TO" not in words) or event.get("command") in SESSION_ENDS
        known = self._transactions.get(connection)
        statement = "digest" in event and "not_replayable" not in event
        off = _autocommit_is_off(event)
        if known and not known.explicit and "digest" in event and not off:
            self._end(connection)  # what switched it on has committed
            known = None
        implicit = statement and off and not ends and words[0] not in ("SET", "USE")
        if known or explicit or implicit:
            known = known or _Transaction(start)
            self._transactions[connection] = _Transaction(known.begin, end, explicit or known.explicit)
            if ends:
                self._end(connection)
        elif statement:
            self._worked(connection, start, end)

    def _end(self, connection: int) -> None:
        ended = self._transactions.pop(connection)
        self._worked(connection, ended.begin, ended.end)

    def _worked(self, connection: int, begin: int, end: int) -> None:
        self._begins.append(begin)
        self._ends.append(end)
        self._connections.append(connection)

    def most_at_once(self) -> int:
        for connection in list(self._transactions):  # the log ends before they do
            self._end(connection)
        if not self._begins:
            return 1
        begins = np.array(self._begins)
        # At the same microsecond one ends before another begins, but each counts for itself.
        times = np.concatenate([begins, np.maximum(np.array(self._ends), begins + 1)])
        steps = np.repeat([1, -1], len(begins))
        # Statements of one connection overlap where the log has whole seconds, or one runs within another.
        order = np.lexsort((steps, times, np.tile(np.array(self._connections), 2)))
        times, steps = times[order], steps[order]
        depth = np.cumsum(steps)
        changes = depth == np.where(steps > 0, 1, 0)
        times, steps = times[changes], steps[changes]
        return int(np.cumsum(steps[np.lexsort((steps, times))]).max())


def with_captures(study: Study) -> Study:
    """The study in which every capture is known to write or not; on running servers only its reads are replayed.

    Raises:
        SpecError, HostError: as `capture_facts`.
    """

    def known(workload: Workload) -> Workload:
        if workload.writes is not None or not is_capture(workload.script):
            return workload
        writes = bool(capture_facts(workload.script).writes) and not study.has_running_server
        return workload.model_copy(update={"writes": writes})

    return study.model_copy(update={"workloads": tuple(map(known, study.workloads))})


def check_capture(workload: Workload) -> None:
    """Check that a capture can be replayed as it is asked for.

    Raises:
        SpecError: it cannot be. HostError: it cannot be read.
    """
    name = f"workload {workload.script}"
    if workload.options:
        raise SpecError(f"{name}: a capture has no options.", hint=f"Leave {workload.options[0][0]} out.")
    if workload.rate_per_s is not None:
        raise SpecError(f"{name}: a capture has no rate.", hint="Replay it by its own clock: speed.")
    facts = capture_facts(workload.script)
    if workload.speed is not None:
        _check_clock(name, facts.moments_us(reads_only=workload.writes is False), workload.speed)


def _check_clock(name: str, moments_us: np.ndarray, speed: float) -> None:
    """Refuse a replay by the clock that has no times, or would do nothing for long."""
    if not len(moments_us):
        raise SpecError(f"{name}: the log has no times to replay it by.", hint="Leave the speed out.")
    silences_us = np.diff(moments_us, append=moments_us[-1])
    longest = int(silences_us.argmax())
    silence_s = float(silences_us[longest]) / 1e6
    if silence_s > _SILENCE_MAX_S * speed:
        begin = datetime.fromtimestamp(int(moments_us[longest]) / 1e6, UTC)
        raise SpecError(
            f"{name}: the log is silent for {format_duration(silence_s)} from {begin:%H:%M:%S} UTC on; by the clock a "
            f"replay would wait {format_duration(silence_s / speed)} there.",
            hint=f"Replay it at speed {math.ceil(silence_s / _SILENCE_MAX_S)} or more, or as fast as it goes.",
        )


def chunk_events(cell: Cell, slices: SliceLength, *, reads_only: bool, events_per_s: float | None) -> int:
    """Statements of a chunk: as many as take about as long as a slice; of a capture that writes at most an eighth.

    Their number follows from `events_per_s`, measured before; None: from the times of the log. By the clock it follows
    from the log alone, and no chunk waits for long.
    """
    facts = capture_facts(cell.script)
    if events_per_s is None or cell.speed:
        guess = _EVENTS_PER_S_MAX if cell.speed else _EVENTS_PER_S
        events_per_s = min(_EVENTS_PER_S_MAX, cell.threads / facts.mean_s) if facts.mean_s else guess
    most = facts.statements if reads_only or not facts.writes else facts.statements // (2 * _BLOCKS_MIN)
    if reads_only and not cell.speed:
        most *= facts.copies(cell.threads)
    wanted = max(1, min(round(events_per_s * slices.slice_ns / 1e9), most))
    if cell.speed:
        begun = _begun_in_time(facts.moments_us(reads_only=reads_only), slices.slice_ns / 1e3 * cell.speed, cell.speed)
        wanted = min(wanted, begun)
    return wanted


def _begun_in_time(moments_us: np.ndarray, mean_us: float, speed: float) -> int:
    """Statements that begin within `mean_us` on the mean, and anywhere within the longest chunk; 1 at least."""
    count = len(moments_us)
    length_us = int(moments_us[-1] - moments_us[0]) if count else 0
    sizes = range(2, min(count, round(count * mean_us / max(length_us, 1))) + 1)

    def span_us(size: int) -> int:
        return int((moments_us[size - 1 :] - moments_us[: count + 1 - size]).max())

    return 1 + bisect_right(sizes, _CHUNK_MAX_S * 1e6 * speed, key=span_us)


# ---- what a running server has kept: mysql.slow_log or digests -------------------------------------------------------

_EVENTS_MAX = 10_000  # of digests: one with a hundredth of a percent of all statements still has its share
_PIECE_BYTES = 256 * 1024
_PS_PER_US = 1_000_000
# The table has the name alone where the file has `# administrator command: ` before it.
# By their names in lower case: MariaDB writes `Reset connection`.
_COMMANDS = {
    name.lower(): name
    for name in (
        b"Quit|Init DB|Field List|Refresh|Shutdown|Statistics|Processlist|Connect|Kill|Debug|Ping|Time|Change user|"
        b"Prepare|Binlog Dump|Binlog Dump GTID|Table Dump|Register Slave|Register Replica|Execute|Long Data|Close stmt|"
        b"Reset stmt|Set option|Fetch|Daemon|Reset Connection"
    ).split(b"|")
}
# From here on MariaDB's start_time is the start (MDEV-11628); before, and in MySQL, it is the end.
_MARIADB_WITH_START = {
    (10, 4): 33, (10, 5): 24, (10, 6): 17, (10, 11): 7, (11, 0): 5, (11, 1): 4, (11, 2): 3, (11, 3): 2,
}  # fmt: skip
# What a digest's text has for lists, as values that make the same digest again.
_LISTS = (
    (b"(...) /* , ... */", b"(?, ?), (?, ?)"),
    (b"(?) /* , ... */", b"(?), (?)"),
    (b"(...)", b"(?, ?)"),
    (b"?, ...", b"?, ?"),
)

Row = Mapping[str, bytes]


class KeptIn(StrEnum):
    """Where a server keeps statements."""

    SLOW_LOG = "slow-log"
    DIGESTS = "performance-schema"


_TABLES = {
    KeptIn.SLOW_LOG: "mysql.slow_log",
    KeptIn.DIGESTS: "performance_schema.events_statements_summary_by_digest",
}


@dataclass(frozen=True)
class KeptStatements:
    """What a server has kept.

    Attributes:
        log_format: of `text`, as the engine names it.
        text: the log in pieces, as they come over the connection.
        about: sentences that say what was read, and what it cannot say.
    """

    log_format: str
    text: Iterator[bytes]
    about: str


@contextmanager
def kept_statements(server: RemoteServer, database: str, wanted: KeptIn | None) -> Iterator[KeptStatements]:
    """What the server has kept: `mysql.slow_log` if it has rows, else digests.

    Args:
        server: to read.
        database: only statements with this default schema; empty: with any but the system's.
        wanted: read only this.

    Raises:
        HostError, ServerError: it does not answer or refuses; it has kept nothing.
    """
    connection = server.connect("information_schema")
    try:
        # Else the server would write what reads its slow log into it.
        _first_row(connection, "SET SESSION min_examined_row_limit = 4294967295")
        lift_limits(connection)
        kept, missing = None, list[str]()
        for source, read in ((KeptIn.SLOW_LOG, _slow_log), (KeptIn.DIGESTS, _digests)):
            if kept or wanted not in (None, source):
                continue
            try:
                kept = read(connection, database)
                missing += [] if kept else [f"{_TABLES[source]} has no statements"]
            except pymysql.MySQLError as problem:
                missing.append(str(problem.args[-1]))
        if not kept:
            raise ServerError(
                f"capture {server.name}: nothing can be read: {'; '.join(missing)}.",
                hint="Set log_output = TABLE, slow_query_log = 1 and long_query_time = 0, or start the server with "
                "performance_schema = ON; the account needs SELECT on one of the tables.",
            )
        yield replace(kept, about=" ".join([kept.about, *(f"{reason}." for reason in missing)]))
    except pymysql.MySQLError as problem:
        raise ServerError(f"capture {server.name}: {problem.args[-1]}.") from None
    finally:
        connection.close()


def _first_row(connection: Connection, sql: str) -> tuple[str, ...]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return tuple(map(str, cursor.fetchone() or ()))


def _columns(connection: Connection, table: str) -> dict[str, str]:
    """Types of a table's columns by their names."""
    with connection.cursor() as cursor:
        cursor.execute(f"SHOW COLUMNS FROM {table}")
        return {str(name): str(kind) for name, kind, *_ in cursor.fetchall()}


def _rows(connection: Connection, sql: str, names: Iterable[str], schema: str, database: str) -> Iterator[Row]:
    """Rows by the names of their columns, but for those of the system's schemas; `schema`: the column that holds it.

    NULL is empty.
    """
    names = list(names)
    sql += f" WHERE LOWER(COALESCE({schema}, '')) NOT IN {tuple(sorted(SYSTEM_SCHEMAS))}" + (
        f" AND {schema} = %s" if database else ""
    )
    for (row,) in raw_rows(connection, sql, (database,) if database else (), at_once=1):
        yield {name: value or b"" for name, value in zip(names, row, strict=True)}


def _in_pieces(events: Iterable[bytes]) -> Iterator[bytes]:
    piece = bytearray()
    for event in events:
        piece += event
        if len(piece) >= _PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece)


def _event(sql: bytes, schema: bytes, fields: bytes, ids: bytes = b"") -> bytes:
    """An event of a slow log; `fields`: the last line of its head."""
    name = schema.replace(b"`", b"``")
    head = b"# %b  Statement_bytes: %d\nuse `%b`;\nSET %btimestamp=DEFAULT;\n" % (fields, len(sql), name, ids)
    return head + sql + b";\n"


def _slow_log(connection: Connection, database: str) -> KeptStatements | None:
    """All rows of `mysql.slow_log`; None: it has none."""
    version, at_least_s = _first_row(connection, "SELECT VERSION(), @@global.long_query_time")
    kinds = _columns(connection, _TABLES[KeptIn.SLOW_LOG])
    end = "ADDTIME(start_time, query_time)" if _has_start(version) else "start_time"
    sql = f"SELECT *, {end} FROM {_TABLES[KeptIn.SLOW_LOG]}"
    rows = _rows(connection, sql, [*kinds, "end_time"], "db", database)
    first = next(rows, None)
    if first is None:
        return None
    about = [
        "Read: mysql.slow_log. It records no errors and nothing of statements that are faster than long_query_time "
        f"(now {float(at_least_s):g} s); their order is that of their ends."
    ]
    if "thread_id" not in kinds:
        about.append("This server does not log connections.")
    if kinds["query_time"] == "time":
        about.append("Its times are whole seconds.")
    if "blob" not in kinds["sql_text"]:
        about.append("This server writes ? for characters of four bytes and for bytes that are not UTF-8.")
    return KeptStatements("slow", _in_pieces(map(_logged_event, chain([first], rows))), " ".join(about))


def _has_start(version: str) -> bool:
    """Whether `start_time` is the start of a statement."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if "mariadb" not in version.lower() or not found:
        return False
    major, minor, patch = map(int, found.groups())
    return (major, minor) >= (11, 4) or patch >= _MARIADB_WITH_START.get((major, minor), patch + 1)


def _logged_event(row: Row) -> bytes:
    sql, user = row["sql_text"], row["user_host"].replace(b"\n", b" ")
    if command := _COMMANDS.get(sql.lower()):
        sql = b"# administrator command: " + command
    connection = row.get("thread_id")
    head = b"# Time: %b\n# User@Host: %b%b\n" % (row["end_time"], user, b"  Id: %b" % connection if connection else b"")
    fields = b"Query_time: %b  Lock_time: %b Rows_sent: %b  Rows_examined: %b" % (
        _seconds(row["query_time"]),
        _seconds(row["lock_time"]),
        row["rows_sent"],
        row["rows_examined"],
    )
    if changed := row.get("rows_affected"):
        fields += b"  Rows_affected: " + changed
    ids = [b"%b=%b," % (name.encode(), row[name]) for name in ("last_insert_id", "insert_id") if row[name] != b"0"]
    return head + _event(sql, row["db"], fields, b"".join(ids))


def _seconds(clock: bytes) -> bytes:
    """`00:01:02.000170` as `62.000170`."""
    hours, minutes, seconds = clock.split(b":")
    return b"%d%b" % (int(hours) * 3600 + int(minutes) * 60 + int(seconds[:2]), seconds[2:])


def _digests(connection: Connection, database: str) -> KeptStatements | None:
    """A sample of each digest, or its text, as often as its share of all statements; None: there are no digests."""
    table = _TABLES[KeptIn.DIGESTS]
    rows = list(_rows(connection, f"SELECT * FROM {table}", _columns(connection, table), "SCHEMA_NAME", database))
    known = [row for row in rows if row["DIGEST"] and _count(row)]
    if not known:
        return None
    with_sample = sum(_sample(row) is not None for row in known)
    about = [
        f"Read: the digests of performance_schema: {len(known):,}, {with_sample:,} with a whole sample. They record "
        "how often, the mean time and mean rows; not when, in which order or connection, transactions or errors. A "
        "sample comes again in proportion to its digest's count, always with the same values."
    ]
    if not with_sample:
        about.append("Without samples nothing can be replayed.")
    if beyond := sum(_count(row) for row in rows if not row["DIGEST"]):
        about.append(f"Left out: {beyond:,} statements for which performance_schema_digests_size has no room.")
    return KeptStatements("digests", _in_pieces(_digest_events(known)), " ".join(about))


def _count(row: Row) -> int:
    return int(row["COUNT_STAR"] or 0)


def _sample(row: Row) -> bytes | None:
    """A whole statement; None: the server has none, or cut it at performance_schema_max_sql_text_length."""
    sample = row.get("QUERY_SAMPLE_TEXT")
    return None if not sample or sample.endswith(b"...") else sample


def _digest_text(row: Row) -> bytes:
    text = row["DIGEST_TEXT"]
    for short, long in _LISTS:
        text = text.replace(short, long)
    return text


def _digest_events(rows: list[Row]) -> Iterator[bytes]:
    """Events of all digests, those of each evenly spread; their weights are the digest's count."""
    total = sum(map(_count, rows))
    turns = []
    for at, row in enumerate(rows):
        count = _count(row)
        copies = max(1, count * min(total, _EVENTS_MAX) // total)
        each, more = divmod(count, copies)
        turns += [((copy + 0.5) / copies, at, each + (copy < more)) for copy in range(copies)]
    return (_digest_event(rows[at], weight) for _, at, weight in sorted(turns))


def _digest_event(row: Row, weight: int) -> bytes:
    count, sample = _count(row), _sample(row)
    means = [round(int(row[f"SUM_{name}"] or 0) / count) for name in ("ROWS_SENT", "ROWS_EXAMINED", "ROWS_AFFECTED")]
    times = [round(int(row[f"SUM_{name}"] or 0) / count / _PS_PER_US) for name in ("TIMER_WAIT", "LOCK_TIME")]
    (took_s, took_us), (lock_s, lock_us) = (divmod(us, 1_000_000) for us in times)
    fields = b"Query_time: %d.%06d  Lock_time: %d.%06d  Rows_sent: %d  Rows_examined: %d  Rows_affected: %d" % (
        *(took_s, took_us, lock_s, lock_us),
        *means,
    )
    fields += b"  Log_slow_rate_limit: %d%b" % (weight, b"" if sample else b"  Digest_text: Yes")
    return _event(sample or _digest_text(row), row["SCHEMA_NAME"], fields)
