"""Load your own data, from a dump or a running server, not by a script's `prepare` (docs/reference/data.md).

A running server is only read, in one transaction, into a dump in mydumper's layout in the cache.
"""

import gzip
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bakeoff.engine import Engine
from bakeoff.errors import EngineError, HostError, ServerError, SpecError
from bakeoff.run.arms import ArmSetup, address_of
from bakeoff.run.kept_loads import MARKS, KeptLoad, Loaded, Marks
from bakeoff.servers import Instance, RemoteServer, Server
from bakeoff.servers.client import Connection, MySQLError
from bakeoff.servers.paths import cache_root, share
from bakeoff.spec import Arm, Study, dumps, parse_server
from bakeoff.spec.dumps import TABLE_TYPES, default_database, quoted, read_dump
from bakeoff.spec.server_name import is_url, url_database, url_password
from bakeoff.stats.progress import Listener

_SERVER_GONE = frozenset({1053, *range(2000, 2100)})
# For the largest rows and for functions that the binary log would refuse; both settings end with the server.
_WHILE_LOADING = ("max_allowed_packet = 1073741824", "log_bin_trust_function_creators = 1")


@dataclass(frozen=True)
class OwnData:
    """What `--data` names: a source without password, and its database (empty if it names none or several)."""

    source: str = ""
    database: str = ""
    password: str | None = None


def own_data(text: str) -> OwnData:
    if not is_url(text):
        source = str(Path(text).absolute())
        databases = databases_in(source)
        return OwnData(source, databases[0] if len(databases) == 1 else "")
    server = parse_server(text)
    database = default_database(server.location) if server.is_running else ""
    if not database:
        shown = text.partition("://")[0] + "://…"
        raise SpecError(f"--data {shown}: no database is named.", hint="Write mysql://user@host/DATABASE.")
    return OwnData(server.location, database, url_password(text))


def databases_in(source: str) -> tuple[str, ...]:
    """Return the databases that a dump creates or uses, judging by file names and the beginning of a file."""
    dump = read_dump(source)
    if Path(source).is_dir():
        return dump.databases
    head = dumps.head_of(source)
    if dumps.is_utf16(head):
        raise SpecError(
            f"data {source}: it is UTF-16 text, as PowerShell's `>` writes it.",
            hint="Dump again with mysqldump --result-file=FILE; converting the file does not restore all bytes.",
            field=("data", "source"),
        )
    return dumps.used_databases(head.decode(errors="replace"))


def load_dump(
    engine: Engine,
    setup: ArmSetup,
    server: Instance,
    study: Study,
    listener: Listener,
    *,
    threads: int,
    kept: KeptLoad | None = None,
) -> Loaded:
    source, label = setup.arm.data.source, setup.arm.label
    dump = read_dump(source)
    # A database that the dump creates has the character set that the dump says.
    database = "information_schema" if study.database in databases_in(source) else study.database
    for setting in _WHILE_LOADING:
        server.query(f"SET GLOBAL {setting}")
    engine.open([address_of(setup, server, database, transport="socket" if study.client else "")])
    marks = Marks.of(server) if kept else Marks(False, {}, {})
    stages, ended_bytes = marks.left(dump.stages)

    def report(done: int, total: int) -> None:
        done, total = done + ended_bytes, total + ended_bytes
        listener.progress(f"{label} {Path(source).name}", done, total, "bytes")
        if kept:
            kept.progress(done, total)

    try:
        found = engine.load(
            setup.arm.name,
            stages,
            threads=threads,
            on_progress=report,
            marks=MARKS if kept else None,
            resumed=marks.resumed,
        )
    except EngineError as error:
        if error.sql_errno in _SERVER_GONE:
            lost = f"{label}: the server was lost while it was filled: {error.message}."
            raise ServerError(lost, log_tail=server.error_log_tail()) from None
        if error.code in ("sql_error", "script_error"):
            error.hint = "The dump was read up to there; nothing of it is kept."
        raise
    found.names.update(marks.names | found.names)
    if said := dumps.as_loaded(label, found.names):
        listener.note(f"{said}, because it does not know them. {dumps.TEXTS_DIFFER}")
    if found.left_out:
        what = ", ".join(f"{reason} ({count})" for reason, count in found.left_out.items())
        listener.note(f"{label}: statements of the dump that were left out: {what}")
    return Loaded(databases=databases_of(server), translated=found.names)


def databases_of(server: Server) -> tuple[str, ...]:
    rows = server.query(
        f"SELECT DISTINCT table_schema FROM information_schema.tables WHERE table_type IN {TABLE_TYPES} ORDER BY 1"
    )
    return tuple(str(name) for (name,) in rows if str(name) not in dumps.SYSTEM_SCHEMAS | {MARKS})


def check_source(study: Study) -> None:
    for source in dict.fromkeys(arm.data.source for arm in study.arms):
        if source and not is_url(source) and (databases := databases_in(source)):
            require_database(study, source, databases)


def require_database(study: Study, source: str, there: Sequence[str]) -> None:
    if study.database not in there:
        raise SpecError(
            f"data {source}: it contains {', '.join(there) or 'no database'}, but the study measures {study.database}.",
            hint=f"Write --database {(*there, 'NAME')[0]} (`database:` in a study file).",
            field=("database",),
        )


_INSERT_BYTES = 256 * 1024
_DELIMITER = "//bakeoff//"
_HEAD = "SET NAMES utf8mb4;\nSET time_zone = '+00:00', sql_mode = 'NO_AUTO_VALUE_ON_ZERO';\n"
_NUMBERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "double", "float"})
_BINARY = re.compile(
    r"(tiny|medium|long)?blob|(var)?binary|bit|vector|geometry|point|linestring|polygon|multi\w+|geom(etry)?collection"
)
# Not DEFAULT_GENERATED: MySQL writes that for a default that is an expression.
_GENERATED = re.compile(r"\b(virtual|stored|persistent)\b", re.IGNORECASE)
_ROUTINES = (
    "SELECT routine_type, routine_name FROM information_schema.routines WHERE routine_schema = %s "
    "AND routine_type IN ('PROCEDURE', 'FUNCTION') ORDER BY 1, 2",
    "SELECT 'EVENT', event_name FROM information_schema.events WHERE event_schema = %s",
)
_TRIGGERS = (
    "SELECT 'TRIGGER', trigger_name FROM information_schema.triggers WHERE trigger_schema = %s "
    "ORDER BY event_object_table, action_timing, event_manipulation, action_order"
)


def sources_of(study: Study) -> list[str]:
    return list(dict.fromkeys(arm.data.source for arm in study.arms if is_url(arm.data.source)))


def with_expected_sizes(study: Study, passwords: Mapping[str, str]) -> Study:
    sizes = {source: _server(source, passwords).data_bytes(url_database(source)) for source in sources_of(study)}
    return _with_data(study, {source: {"source_bytes": size} for source, size in sizes.items()})


def take_snapshots(study: Study, listener: Listener, passwords: Mapping[str, str], stop: threading.Event) -> Study:
    """Dump every running server that supplies data, and return the study with the dumps in their place."""
    taken: dict[str, dict[str, Any]] = {}
    for source in sources_of(study):
        folder = cache_root() / "dumps" / f"{url_database(source)}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
        folder = folder.with_name(f"{folder.name}-{secrets.token_hex(2)}")
        share(folder.name)  # locked until this process ends, so that no other prunes it
        folder.mkdir(parents=True, mode=0o700)
        listener.stage(f"taking the data of {source}")
        try:
            dump_database(_server(source, passwords), url_database(source), folder, listener, stop)
        except BaseException as error:
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, OSError):
                raise HostError(f"data {source}: it cannot be written to {folder}: {error.strerror}.") from None
            raise
        listener.note(f"the data of {source} was taken to {folder}; `bakeoff cache prune` deletes it")
        taken[source] = {"source": str(folder), "source_bytes": 0}
    return _with_data(study, taken)


def keep_snapshots(study: Study) -> None:
    """Lock the dumps a resumed run has taken, so that no other bakeoff prunes them."""
    for source in {arm.data.source for arm in study.arms if arm.data.source}:
        if Path(source).parent == cache_root() / "dumps":
            share(Path(source).name)


def _with_data(study: Study, changes: Mapping[str, dict[str, Any]]) -> Study:
    def changed(arms: Iterable[Arm]) -> tuple[Arm, ...]:
        return tuple(arm.with_data(arm.data.model_copy(update=changes.get(arm.data.source, {}))) for arm in arms)

    if not changes:
        return study
    return study.model_copy(update={"arms": changed(study.arms), "question": study.question.map_arms(changed)})


def _server(source: str, passwords: Mapping[str, str]) -> RemoteServer:
    return RemoteServer(parse_server(source), password=passwords.get(source), name=source)


def dump_database(server: RemoteServer, database: str, folder: Path, listener: Listener, stop: threading.Event) -> None:
    total = server.data_bytes(database)

    def report(done: int) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        listener.progress(database, done, total, "bytes")

    connection = server.connect()
    try:
        _Dumper(connection, database, folder, report).run(listener.note)
    except MySQLError as problem:
        raise ServerError(f"data {server.name}: {problem.args[-1]}.") from None
    finally:
        connection.close()


def _literal(kind: str) -> Callable[[bytes], bytes]:
    if _BINARY.fullmatch(kind):
        return lambda value: b"0x" + value.hex().encode() if value else b"''"
    if kind in _NUMBERS:
        return bytes
    return lambda value: b"'" + value.replace(b"\\", b"\\\\").replace(b"'", b"\\'") + b"'"


@dataclass
class _Dumper:
    connection: Connection
    database: str
    folder: Path
    report: Callable[[int], None]
    done_bytes: int = field(default=0, init=False)

    def run(self, note: Callable[[str], None]) -> None:
        self.connection.lift_limits()
        self._run("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        self._run("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        self._run(f"USE {quoted(self.database)}")
        ((_, create, *_),) = self._texts(f"SHOW CREATE DATABASE {quoted(self.database)}")
        self._write("-schema-create", [create.replace("CREATE DATABASE", "CREATE DATABASE IF NOT EXISTS", 1)])
        kinds = self._texts(
            "SELECT table_name, table_type, engine FROM information_schema.tables WHERE table_schema = %s "
            "ORDER BY data_length DESC, table_name",
            self.database,
        )
        tables = [(name, engine) for name, kind, engine in kinds if kind in TABLE_TYPES]
        if other := [name for name, kind, _ in kinds if kind == "SEQUENCE"]:
            note(f"sequences are left out of the data: {', '.join(other)}")
        if apart := [name for name, engine in tables if engine != "InnoDB"]:
            note(f"tables that are not InnoDB's may have changed while they were read: {', '.join(apart)}")
        for number, (table, _) in enumerate(tables):
            # The rollback releases the locks from reading this table.
            self._run("SAVEPOINT before_table")
            self._table(f".{number:05}", table)
            self._run("ROLLBACK TO SAVEPOINT before_table")
        self._views([name for name, kind, _ in kinds if kind == "VIEW"])
        self._programs("-schema-post", *_ROUTINES)
        self._programs("-schema-triggers", _TRIGGERS)
        self.connection.rollback()

    def _run(self, sql: str) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)

    def _texts(self, sql: str, *arguments: str) -> list[tuple[str, ...]]:
        """Return rows as strings; some versions send bytes."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, arguments or None)
            return [
                tuple(each.decode() if isinstance(each, bytes) else "" if each is None else str(each) for each in row)
                for row in cursor.fetchall()
            ]

    @contextmanager
    def _file(self, name: str) -> Iterator[Any]:
        path = self.folder / f"{self.database}{name}.sql.gz"
        path.touch(mode=0o600)
        with gzip.open(path, "wb", compresslevel=1) as file:
            file.write(_HEAD.encode())
            yield file

    def _write(self, name: str, statements: Sequence[str]) -> None:
        if statements:
            with self._file(name) as file:
                file.write(f"DELIMITER {_DELIMITER}\n".encode())
                for statement in statements:
                    file.write(f"{statement}\n{_DELIMITER}\n".encode())

    def _table(self, file_name: str, table: str) -> None:
        ((_, create, *_),) = self._texts(f"SHOW CREATE TABLE {quoted(table)}")
        self._write(f"{file_name}-schema", [create])
        described = self._texts(
            "SELECT column_name, data_type, extra FROM information_schema.columns "
            "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
            self.database,
            table,
        )
        columns = {name: kind.lower() for name, kind, extra in described if not _GENERATED.search(extra)}
        if columns:
            with self._file(file_name) as file:
                self._rows(table, columns, file)

    def _rows(self, table: str, columns: Mapping[str, str], file: Any) -> None:  # noqa: ANN401 — a file of bytes
        insert = f"INSERT INTO {quoted(table)} ({', '.join(map(quoted, columns))}) VALUES\n".encode()
        selected = (quoted(name) + (" + 0e0" if kind == "float" else "") for name, kind in columns.items())
        literals = [_literal(kind) for kind in columns.values()]
        pending: list[bytes] = []
        size = 0
        for rows in self.connection.raw_rows(f"SELECT {', '.join(selected)} FROM {quoted(table)}"):
            for row in rows:
                values = zip(literals, row, strict=True)
                text = b",".join([b"NULL" if value is None else literal(value) for literal, value in values])
                pending.append(b"(" + text + b")")
                size += len(pending[-1])
                if size >= _INSERT_BYTES:
                    file.write(insert + b",\n".join(pending) + b";\n")
                    self.done_bytes += size
                    pending, size = [], 0
            self.report(self.done_bytes)
        if pending:
            file.write(insert + b",\n".join(pending) + b";\n")

    def _views(self, views: Sequence[str]) -> None:
        """Write placeholder views first, so that views may use each other in any order."""
        stand_ins, statements = [], []
        for view in views:
            columns = self._texts(
                "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s "
                "ORDER BY ordinal_position",
                self.database,
                view,
            )
            ones = ", ".join(f"1 AS {quoted(name)}" for (name,) in columns) or "1"
            stand_ins.append(f"CREATE OR REPLACE VIEW {quoted(view)} AS SELECT {ones}")
            ((_, create, _, collation),) = self._texts(f"SHOW CREATE VIEW {quoted(view)}")
            statements += [f"SET collation_connection = {collation}", create.replace("CREATE", "CREATE OR REPLACE", 1)]
        self._write(".views-schema", stand_ins)
        self._write("-schema-view", statements)

    def _programs(self, file_name: str, *queries: str) -> None:
        """Write routines, events or triggers, each in the SQL mode and collation of the session that created it."""
        statements = []
        for kind, name in [each for query in queries for each in self._texts(query, self.database)]:
            ((_, mode, *rest),) = self._texts(f"SHOW CREATE {kind} {quoted(name)}")
            create, _, collation, *_ = rest[1:] if kind == "EVENT" else rest  # without the time zone
            if not create:
                raise SpecError(
                    f"data: the account may not read {kind.lower()} {name} of {self.database}.",
                    hint="Grant it SHOW_ROUTINE or SELECT on mysql.proc, EVENT and TRIGGER; or dump without them "
                    "yourself.",
                )
            statements += [f"SET sql_mode = '{mode}', collation_connection = {collation}", create]
        self._write(file_name, statements)
