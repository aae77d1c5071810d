"""Read the statements that a running server has kept, from `mysql.slow_log` or its digests, as a slow log."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain

from bakeoff.errors import ServerError
from bakeoff.replay.answer_rules import KNOWN
from bakeoff.servers import RemoteServer
from bakeoff.servers.client import Connection, MySQLError
from bakeoff.spec.dumps import SYSTEM_SCHEMAS

_EVENTS_MAX = 10_000  # enough for a digest with 0.01 % of all statements
_PIECE_BYTES = 256 * 1024
_PS_PER_US = 1_000_000
_COMMANDS = {name.lower().encode(): name.encode() for name in KNOWN["administrator_commands"]}

Row = Mapping[str, bytes]


class KeptIn(StrEnum):
    SLOW_LOG = "slow-log"
    DIGESTS = "performance-schema"


_TABLES = {
    KeptIn.SLOW_LOG: "mysql.slow_log",
    KeptIn.DIGESTS: "performance_schema.events_statements_summary_by_digest",
}


@dataclass(frozen=True)
class KeptStatements:
    """A log in pieces, its format, and sentences about it."""

    log_format: str
    text: Iterator[bytes]
    about: str


@contextmanager
def kept_statements(server: RemoteServer, database: str, wanted: KeptIn | None) -> Iterator[KeptStatements]:
    """Read `mysql.slow_log` if it has rows, else digests, or only the `wanted` source.

    With a database, only statements with this default schema; else with any but the system's. Raises ServerError if
    the server has kept nothing.
    """
    connection = server.connect("information_schema")
    try:
        # Otherwise the server logs these queries in the slow log that they read.
        _first_row(connection, "SET SESSION min_examined_row_limit = 4294967295")
        connection.lift_limits()
        kept, missing = None, list[str]()
        for source, read in ((KeptIn.SLOW_LOG, _slow_log), (KeptIn.DIGESTS, _digests)):
            if kept or wanted not in (None, source):
                continue
            try:
                kept = read(connection, database)
                missing += [] if kept else [f"{_TABLES[source]} has no statements"]
            except MySQLError as problem:
                missing.append(str(problem.args[-1]))
        if not kept:
            raise ServerError(
                f"capture {server.name}: nothing can be read: {'; '.join(missing)}.",
                hint="Set log_output = TABLE, slow_query_log = 1 and long_query_time = 0, or start the server with "
                "performance_schema = ON; the account needs SELECT on one of the tables.",
            )
        yield replace(kept, about=" ".join([kept.about, *(f"{reason}." for reason in missing)]))
    except MySQLError as problem:
        raise ServerError(f"capture {server.name}: {problem.args[-1]}.") from None
    finally:
        connection.close()


def _first_row(connection: Connection, sql: str) -> tuple[str, ...]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return tuple(map(str, cursor.fetchone() or ()))


def _columns(connection: Connection, table: str) -> dict[str, str]:
    with connection.cursor() as cursor:
        cursor.execute(f"SHOW COLUMNS FROM {table}")
        return {str(name): str(kind) for name, kind, *_ in cursor.fetchall()}


def _rows(connection: Connection, sql: str, names: Iterable[str], schema: str, database: str) -> Iterator[Row]:
    """Yield rows by column name, NULL as empty, without those of system schemas."""
    names = list(names)
    sql += f" WHERE LOWER(COALESCE({schema}, '')) NOT IN {tuple(sorted(SYSTEM_SCHEMAS))}" + (
        f" AND {schema} = %s" if database else ""
    )
    for (row,) in connection.raw_rows(sql, (database,) if database else (), at_once=1):
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
    name = schema.replace(b"`", b"``")
    head = b"# %b  Statement_bytes: %d\nuse `%b`;\nSET %btimestamp=DEFAULT;\n" % (fields, len(sql), name, ids)
    return head + sql + b";\n"


def _slow_log(connection: Connection, database: str) -> KeptStatements | None:
    version, at_least_s = _first_row(connection, "SELECT VERSION(), @@global.long_query_time")
    kinds = _columns(connection, _TABLES[KeptIn.SLOW_LOG])
    end = "ADDTIME(start_time, query_time)" if _has_start(version) else "start_time"
    sql = f"SELECT *, {end} FROM {_TABLES[KeptIn.SLOW_LOG]}"
    rows = _rows(connection, sql, [*kinds, "end_time"], "db", database)
    first = next(rows, None)
    if first is None:
        return None
    about = [
        "Read: mysql.slow_log. It has no errors and no statements faster than long_query_time "
        f"(now {float(at_least_s):g} s), and is ordered by their ends."
    ]
    if "thread_id" not in kinds:
        about.append("This server does not log connections.")
    if kinds["query_time"] == "time":
        about.append("Its times are whole seconds.")
    if "blob" not in kinds["sql_text"]:
        about.append("This server writes ? for characters of four bytes and for bytes that are not UTF-8.")
    return KeptStatements("slow", _in_pieces(map(_logged_event, chain([first], rows))), " ".join(about))


def _has_start(version: str) -> bool:
    found = re.match(r"((\d+)\.(\d+))\.(\d+).*mariadb", version, re.IGNORECASE)
    if not found:
        return False
    since = KNOWN["mariadb_with_start"].get(found[1])
    return (int(found[2]), int(found[3])) >= (11, 4) or (since is not None and int(found[4]) >= since)


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
    table = _TABLES[KeptIn.DIGESTS]
    rows = list(_rows(connection, f"SELECT * FROM {table}", _columns(connection, table), "SCHEMA_NAME", database))
    known = [row for row in rows if row["DIGEST"] and _count(row)]
    if not known:
        return None
    with_sample = sum(_sample(row) is not None for row in known)
    about = [
        f"Read: the digests of performance_schema: {len(known):,}, {with_sample:,} with a whole sample. They tell "
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
    sample = row.get("QUERY_SAMPLE_TEXT")
    return None if not sample or sample.endswith(b"...") else sample


def _digest_text(row: Row) -> bytes:
    text = row["DIGEST_TEXT"]
    for short, long in KNOWN["digest_lists"].items():
        text = text.replace(short.encode(), long.encode())
    return text


def _digest_events(rows: list[Row]) -> Iterator[bytes]:
    """Spread each digest's events evenly, in proportion to its count."""
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
