"""Run a capture's statements on one server, one at a time, each in the session of its captured connection."""

import base64
import contextlib
import json
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Any

from bakeoff.errors import ServerError
from bakeoff.replay.answer_rules import Column, Reply, kind_of, without_literals
from bakeoff.replay.plans import Step, key_parts_of, steps_of, steps_of_tree
from bakeoff.servers import Server
from bakeoff.servers.client import MySQLError, StreamCursor
from bakeoff.spec.dumps import quoted

Event = Mapping[str, Any]

STATEMENT_LIMIT_S = 10.0  # a statement that takes longer is ended and not compared
TOO_LONG = 2013  # error number of a statement that was ended by the limit: the connection is lost
_READ_HANDLERS = [b"Handler_read_" + name for name in b"first key last next prev rnd rnd_next".split()]
_SESSIONS_MAX = 100  # per server; `max_connections` is at least 151
_ROWS_AT_ONCE = 1000
_IN_TRANSACTION = 1  # bit of the server's status
# One statement runs at a time, so nobody would release a lock that it waits for.
# SHOW WARNINGS lists `max_error_count` of them, whose default differs between versions.
_OWN_SETTINGS = (
    b"SET character_set_results=utf8mb4, innodb_lock_wait_timeout=1, lock_wait_timeout=1, max_error_count=65535"
)
# Set first, because they also set other variables.
_SET_FIRST = {"names": 0, "character_set": 1}
_READ_ONLY = b"SET SESSION TRANSACTION READ ONLY"
_NOT_KNOWN = (1064, 1193)  # errors before MySQL 5.6 and MariaDB 10.0: syntax, unknown variable
# What may precede the first word: comments, and openings of executable ones.
_LEAD = rb"(?:\s|/\*M?!\d*|/\*(?!M?!).*?\*/|#[^\n]*\n|--\s[^\n]*\n)*"
_READ_WRITE = re.compile(_LEAD + rb"start\s+transaction\b.*\bread\s+write\b", re.IGNORECASE | re.DOTALL)
_SET = re.compile(_LEAD + rb"set\s+(?!timestamp)", re.IGNORECASE | re.DOTALL)
_USE = re.compile(_LEAD + rb"use\b", re.IGNORECASE | re.DOTALL)
_LOCK = re.compile(_LEAD + rb"lock\s+tables?\b[^;]*;?\s*\Z", re.IGNORECASE | re.DOTALL)
_BARE_VALUE = re.compile(r"-?\d+|default|null|true|false|on|off", re.IGNORECASE)
_PLAIN_VALUE = re.compile(r"[\w-]+(?: COLLATE \w+)?", re.IGNORECASE)


def statement_of(event: Event) -> bytes:
    if "sql_base64" in event:
        return base64.b64decode(event["sql_base64"])
    return str(event.get("sql", "")).encode("utf8", "surrogateescape")


def connection_of(event: Event) -> int:
    """Events whose connection is unknown share number 0, as in the timed pass."""
    return int(event.get("connection") or 0)


class Sessions:
    """The sessions of one server, one per captured connection.

    Args:
        database: the default for statements whose schema is unknown.
        now_s: the time seen by statements whose own time is unknown; the same on every server.
        read_only: have the server refuse writes, if it can (MySQL 5.6, MariaDB 10.0).
        several: allow several statements in one text. Not when explaining, so that nothing runs behind an EXPLAIN.
    """

    def __init__(
        self, server: Server, database: str | None, *, now_s: int, read_only: bool = False, several: bool = False
    ) -> None:
        self.server = server
        self._read_only, self._several = read_only, several
        self._database = database
        self._now_s = now_s
        self._open: OrderedDict[int, _Session] = OrderedDict()

    def close(self, connection: int | None = None) -> None:
        for number in [connection] if connection is not None else list(self._open):
            session = self._open.pop(number, None)
            if session:
                session.close()

    def in_transaction(self, event: Event) -> bool:
        session = self._open.get(connection_of(event))
        return session is not None and session.in_transaction

    def run(self, event: Event, sql: bytes) -> Reply:
        """Run a statement in its connection's session; raises ServerError if the server is gone."""
        number = connection_of(event)
        session = self._open.get(number)
        if session is None:
            if len(self._open) >= _SESSIONS_MAX:
                idle = (number for number, each in self._open.items() if not each.in_transaction)
                self.close(next(idle, next(iter(self._open))))
            session = _Session(self.server, event, read_only=self._read_only, several=self._several)
            self._open[number] = session
        self._open.move_to_end(number)
        session.set_time(int(event.get("start_us") or 0) // 1_000_000 or self._now_s)
        reply = session.use(event.get("schema") or self._database) or session.run(sql)
        if session.lost:
            self.close(number)
            self.server.query("SELECT 1")  # a server that is gone ends the pass
        return reply

    def explain(self, event: Event, sql: bytes) -> tuple[Step, ...]:
        """Return a statement's plan; empty if the server cannot explain it."""
        rows = self._table(event, b"EXPLAIN FORMAT=TRADITIONAL " + sql) or self._table(event, b"EXPLAIN " + sql)
        if not rows:
            return ()
        document: object = None
        found = self._table(event, b"EXPLAIN FORMAT=JSON " + sql)
        if found:
            with contextlib.suppress(ValueError):
                document = json.loads(next(iter(found[0].values())) or b"")
        # The hypergraph optimizer refuses the traditional format, and EXPLAIN alone is a tree then.
        return steps_of(rows, key_parts_of(document)) if "select_type" in rows[0] else steps_of_tree(document)

    def examined(self, event: Event, sql: bytes, rows: Counter[str], name: str) -> Reply:
        """Run a statement, and add the rows that it read to `rows[name]`."""
        idle, before = self._rows_read(event), self._rows_read(event)
        reply = self.run(event, sql)
        # Reading the counters increments them, too.
        rows[name] += max(0, self._rows_read(event) - before - (before - idle))
        return reply

    def _rows_read(self, event: Event) -> int:
        counters = (tuple(row.values()) for row in self._table(event, b"SHOW SESSION STATUS LIKE 'Handler_read%'"))
        return sum(int(value or 0) for name, value in counters if name in _READ_HANDLERS)

    def _table(self, event: Event, sql: bytes) -> list[dict[str, bytes | None]]:
        reply = self.run(event, sql)
        if reply.errno or reply.kept is None:
            return []
        return [dict(zip((each.name.lower() for each in reply.columns), row, strict=True)) for row in reply.kept]


class _Session:
    """A connection that returns text as utf8mb4 bytes."""

    def __init__(self, server: Server, event: Event, *, read_only: bool, several: bool) -> None:
        self._server = server
        self._read_only = read_only
        self._connection = server.connect(own_settings=False)
        self._connection.use_bytes()
        self._connection.limit_reads(STATEMENT_LIMIT_S)
        if several:
            with contextlib.suppress(MySQLError, OSError):  # otherwise such texts fail
                self._connection.allow_several_statements()
        self._schema: str | None = None
        self._second = 0
        self.lost = False
        state = dict(event.get("session") or {})
        for name, value in sorted(state.items(), key=lambda item: _SET_FIRST.get(item[0], len(_SET_FIRST))):
            self._set(str(name), str(value))
        self._set_own()

    @property
    def in_transaction(self) -> bool:
        return bool(self._connection.server_status & _IN_TRANSACTION)

    def close(self) -> None:
        with contextlib.suppress(MySQLError, OSError):
            self._connection.close()

    def set_time(self, second: int) -> None:
        """Fix NOW() at this second since 1970, so that the same time is written on every server."""
        if second != self._second:
            self._second = second
            self.run(f"SET timestamp={second}".encode())

    def use(self, schema: str | None) -> Reply | None:
        if not schema or schema == self._schema:
            return None
        reply = self.run(f"USE {quoted(schema)}".encode())
        self._schema = None if reply.errno else schema
        return reply if reply.errno else None

    def run(self, sql: bytes) -> Reply:
        if self._read_only and _READ_WRITE.match(sql):
            sql = b"START TRANSACTION"
        if _LOCK.match(sql):  # one statement runs at a time, so others would wait in vain for the lock
            sql = b"COMMIT"
        reply = Reply()
        thread = self._connection.thread_id()
        try:
            with contextlib.closing(StreamCursor(self._connection)) as cursor:
                cursor.execute(sql)
                self._read(cursor, reply, time.monotonic() + STATEMENT_LIMIT_S)
                warned = cursor.warnings
            if warned:
                reply.warnings = self._warnings()
        except MySQLError as problem:
            number = problem.args[0] if problem.args and isinstance(problem.args[0], int) else TOO_LONG
            reply = Reply(errno=number or TOO_LONG, message=without_literals(str(problem.args[-1])))
        except (OSError, UnicodeDecodeError) as problem:  # such as names that are not utf8mb4, with rows still to come
            self._connection.drop()
            reply = Reply(errno=TOO_LONG, message=str(problem))
        self.lost = reply.errno in (2006, TOO_LONG) or not self._connection.open
        if self.lost:
            with contextlib.suppress(ServerError):
                self._server.query(f"KILL {int(thread)}")
        elif _SET.match(sql) and sql not in (_OWN_SETTINGS, _READ_ONLY):
            self._set_own()
        elif _USE.match(sql):
            self._schema = None
        return reply

    def _set_own(self) -> None:
        self.run(_OWN_SETTINGS)
        if self._read_only and not self.lost:
            reply = self.run(_READ_ONLY)
            if reply.errno not in (0, *_NOT_KNOWN) and not self.lost:
                raise ServerError(f"server {self._server.name}: {_READ_ONLY.decode()} failed: {reply.message}.")

    def _read(self, cursor: StreamCursor, reply: Reply, until: float) -> None:
        """Read every result set. The first one gives the columns."""
        while True:
            result = cursor._result
            if result.field_count:
                columns = tuple(
                    Column(name=str(each.name), kind=kind_of(each.type_code, each.charsetnr)) for each in result.fields
                )
                reply.kept = None if reply.columns else reply.kept
                reply.columns = reply.columns or columns
                while rows := cursor.fetchmany(_ROWS_AT_ONCE):
                    for row in rows:
                        reply.add(row, columns)
                    if time.monotonic() > until:
                        # Closing the cursor would read the rest.
                        self._connection.drop()
                        cursor.connection = None
                        raise TimeoutError(f"reading its rows took longer than {STATEMENT_LIMIT_S:g} s")
            else:
                reply.affected = (reply.affected or 0) + int(result.affected_rows)
            if not cursor.nextset():
                return

    def _warnings(self) -> tuple[int, ...]:
        with self._connection.cursor() as cursor:
            cursor.execute(b"SHOW WARNINGS")
            return tuple(sorted(int(code) for _, code, _ in cursor.fetchall()))

    def _set(self, name: str, value: str) -> None:
        plain = _PLAIN_VALUE.fullmatch(value)
        if name in ("names", "character_set"):
            sql = f"SET {'NAMES' if name == 'names' else 'CHARACTER SET'} {value}" if plain else ""
        else:
            with self._connection.cursor() as cursor:  # escapes according to the server's SQL mode
                literal = value if _BARE_VALUE.fullmatch(value) else cursor.mogrify("%s", (value,))
            sql = f"SET SESSION {name} = {literal}" if name.replace("_", "").isalnum() else ""
        if sql:
            self.run(sql.encode())
