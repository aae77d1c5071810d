"""Load the data of every build, once for all arms that share it, and keep each load as a snapshot."""

import math
import os
import re
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime

from bakeoff.engine import Engine
from bakeoff.errors import BakeoffError, EngineError, HostError, ServerError, SpecError
from bakeoff.plan.epochs import seed_for
from bakeoff.plan.workloads import data_bytes as expected_bytes
from bakeoff.plan.workloads import database_of, database_on, kind_of, row_count
from bakeoff.results import RunDirectory
from bakeoff.run.arms import ArmSetup, address_of
from bakeoff.run.data_check import ask_tables, judge_rows, write_answers
from bakeoff.run.kept_loads import CannotGoOnError, KeptLoad, KeptLoads, Loaded
from bakeoff.run.measuring import arm_options, declares, script_options, takes
from bakeoff.run.own_data import databases_in, databases_of, load_dump, require_database
from bakeoff.servers import Instance, Server, ServerPool, Snapshot, readiness
from bakeoff.servers.client import MySQLError
from bakeoff.spec import Arm, Study, Workload
from bakeoff.stats.differences import Answer
from bakeoff.stats.progress import Listener

_ROCKSDB_LIMIT_S = 120.0
_SHUTDOWN_LIMIT_S = 240.0
_MERGED_BYTES_A_S = 20e6  # on a slow disk; a clean shutdown first merges changes of secondary indexes
_LOADER_THREADS_MAX = 8
# If one build of every setup together is no larger than this, two loads run at once.
_SMALL_BYTES, _LOADS_AT_ONCE = 2**29, 2
# Error numbers for an unknown character set or collation, or two that do not match.
_NO_SUCH_TEXT = frozenset({1115, 1253, 1273})
# Error numbers for a table without a primary key, and what forbids it.
_NEEDS_KEY = {3750: "sql_require_primary_key=ON", 1173: "innodb_force_primary_key=ON", 3098: "Group Replication"}
# Fields of `Data` that decide how texts are stored, the innermost first.
_TEXT_FIELDS = (
    "column_collation", "column_charset", "table_collation", "table_charset", "collation", "charset"
)  # fmt: skip
_OTHER_TEXT = "Name a character set and a collation that this server has."
# Error numbers for a full table or disk; other messages contain the system's own number (ENOSPC).
_FULL = frozenset({1021, 1114})
_NO_SPACE = re.compile(r"\b(?:error|errcode|errno):? 28\b", re.IGNORECASE)

SnapshotKey = tuple[tuple[object, ...], int]  # (ArmSetup.load_key, build)


@dataclass(frozen=True)
class Loader:
    study: Study
    pool: ServerPool
    run: RunDirectory
    listener: Listener
    engine: Engine
    stop: threading.Event = field(default_factory=threading.Event)
    engine_lock: threading.Lock = field(default_factory=threading.Lock)  # filling a server keeps all CPUs busy
    answers: dict[SnapshotKey, dict[str, dict[str, Answer]]] = field(default_factory=dict)  # to compare the arms
    left: dict[tuple[str, str], str] = field(default_factory=dict)  # what remains on running servers
    kept: KeptLoads | None = None

    def load_all(self, setups: Sequence[ArmSetup], *, limit_s: float = math.inf) -> dict[SnapshotKey, Snapshot]:
        """Load every build of every distinct setup and return snapshots of the stopped servers.

        The first build is always loaded. Further ones are loaded while loading is expected to end within `limit_s`: six
        epochs of one build are worth more than none of two. Arms that join later are loaded when needed.
        """
        setups = setups[: len(self.study.starting_arms)]
        snapshots: dict[SnapshotKey, Snapshot] = {}
        distinct = {setup.load_key: setup for setup in reversed(setups) if setup.installation is not None}
        small = sum(expected_bytes(self.study, setup.arm.data) for setup in distinct.values()) <= _SMALL_BYTES
        step, at_once = (self.study.builds, _LOADS_AT_ONCE) if small else (1, 1)
        begin = time.monotonic()
        for build in range(0, self.study.builds, step):
            spent_s = time.monotonic() - begin
            if build and spent_s * (build + 1) / build > limit_s:
                self.listener.note(
                    f"loading is slow here ({spent_s:.0f} s): only {build} of {self.study.builds} builds fit the budget"
                )
                return snapshots
            builds = range(build, build + step)
            jobs = [(setup, each) for each in builds for setup in setups if distinct.get(setup.load_key) is setup]
            snapshots |= self._load_jobs(jobs, builds, sharing=setups, at_once=at_once)
        return snapshots

    def load_further(self, setup: ArmSetup, build: int, *, setups: Sequence[ArmSetup]) -> dict[SnapshotKey, Snapshot]:
        return self._load_jobs([(setup, build)], [build], sharing=setups, at_once=1)

    def load_remote(self, setup: ArmSetup, *, measured: bool = False) -> None:
        """Load a running server, or use its tables as they are; if it was `measured` its rows may have changed."""
        assert setup.remote
        for database, workload in families(self.study):
            self._end_if_stopped()
            if not kind_of(workload.script).fills_tables:
                wanted = database_on(self.study, workload, setup.arm.server)
                setup.remote.query("SELECT 1", database=wanted or None)  # fail now if it is missing
            elif not _has_tables(setup.remote, database):
                self._fill(setup, setup.remote, database, workload, build=0)
                self._leave(setup, database, "has filled")
            elif not measured:
                self._check_tables(setup, setup.remote, database, workload)

    def _leave(self, setup: ArmSetup, database: str, done: str) -> None:
        label = setup.arm.label
        self.left[label, database] = f"{label} keeps the database {database}, which bakeoff {done}"

    def _check_tables(self, setup: ArmSetup, server: Server, database: str, workload: Workload) -> None:
        """Check that sysbench's tables match the study. Tables of other scripts are unknown here."""
        options = script_options(self.study, workload, setup.arm.data)
        if database != self.study.database or "table_size" not in options:
            return
        indexed = "create_secondary" not in options and declares(workload.script, "options", "create_secondary")
        found = objection(server, database, **kind_of(workload.script).sizes(options), indexed=indexed)
        if found:
            raise SpecError(
                f"{setup.arm.label}: database {database} is not what the study asks for: {found}.",
                hint="Give its sizes (tables and table_size), or name a server without that database; it may be "
                "somebody's, so bakeoff leaves it alone.",
                field=("arms", setup.arm.name, "server"),
            )

    def _compare_rows(self, setups: Sequence[ArmSetup], build: int) -> None:
        found = {s.arm.name: self.answers[key] for s in setups if (key := (s.load_key, build)) in self.answers}
        write_answers(self.run, found, f"rows/{build}.json")
        judge_rows(self.study, found, self.listener)

    def _load_jobs(
        self, jobs: Sequence[tuple[ArmSetup, int]], builds: Sequence[int], *, sharing: Sequence[ArmSetup], at_once: int
    ) -> dict[SnapshotKey, Snapshot]:
        try:
            with self.pool.killed_once(self.stop), ThreadPoolExecutor(max_workers=at_once) as pool:
                loaded = pool.map(lambda job: self._load(*job, sharing=sharing), jobs)
                snapshots = {(setup.load_key, build): each for (setup, build), each in zip(jobs, loaded, strict=True)}
        except BakeoffError:
            self._end_if_stopped()  # the server was killed for it
            raise
        for build in builds:
            self._compare_rows(sharing, build)
        self._end_if_stopped()
        return snapshots

    def _load(self, setup: ArmSetup, build: int, *, sharing: Sequence[ArmSetup]) -> Snapshot:
        self._end_if_stopped()
        arm = setup.arm
        self.listener.stage(f"loading {arm.label} (build {build + 1} of {self.study.builds})")
        kept = self.kept.open(setup, build) if self.kept and arm.data.source else None
        started_at, started = datetime.now(UTC), time.monotonic()
        instance, loaded = self._filled(setup, build, kept)
        try:
            for database in loaded.databases if not (kept and kept.record.complete) else ():
                readiness.analyze(instance, database)
            data_bytes = {database: instance.data_bytes(database) for database in loaded.databases}
            parts = {database: _parts(instance, database) for database in data_bytes}
            with readiness.flushing_fast(instance):  # pages are written while the rows are read
                self.answers[(setup.load_key, build)] = ask_tables(instance, data_bytes)
            readiness.finish_rocksdb(instance, _ROCKSDB_LIMIT_S, self.stop)
            self._end_if_stopped()
            # A slow shutdown purges and writes what is left sooner than waiting for the server would.
            instance.stop(_SHUTDOWN_LIMIT_S + sum(data_bytes.values()) / _MERGED_BYTES_A_S, slow=True)
            snapshot = self.pool.snapshot(instance, f"{arm.name}-{build}")
            if kept:
                kept.record.complete = True
        finally:
            instance.remove(keep_files=kept is not None)
            if kept:
                kept.write()
        record = f"builds/{arm.name}-{build}.json"
        if self.run.read_json(record) is not None:  # a resumed run: the same seeds, the same data
            return snapshot
        self.run.write_json(
            record,
            {
                "arm": arm.name,
                "arms": [each.arm.name for each in sharing if each.load_key == setup.load_key],
                "build": build,
                "rows": row_count(self.study, arm.data),
                "threads": loader_threads(),
                "started_at": started_at.isoformat(),
                "seconds": round(time.monotonic() - started + (kept.before_s if kept else 0.0), 3),
                "data_bytes": data_bytes,
                "rows_bytes": {database: rows for database, (rows, _) in parts.items()},
                "index_bytes": {database: indexes for database, (_, indexes) in parts.items()},
                "snapshot_bytes": snapshot.bytes_on_disk,
                **({"translated": loaded.translated} if loaded.translated else {}),
            },
        )
        return snapshot

    def _filled(self, setup: ArmSetup, build: int, kept: KeptLoad | None) -> tuple[Instance, Loaded]:
        assert setup.installation
        assert setup.settings
        name, home = f"load-{setup.arm.name}", kept.home if kept else None
        instance = self.pool.create(name, setup.installation, setup.settings, home=home)
        try:
            if kept:
                kept.start(instance)
            else:
                instance.start()
            return instance, self._fill_all(setup, instance, build=build, kept=kept)
        except CannotGoOnError as error:
            instance.remove(keep_files=self.stop.is_set())  # Ctrl-C may have killed it during recovery
            self._end_if_stopped()
            assert self.kept
            assert kept
            self.kept.note_restart(setup, build, str(error))
            kept.resumed = False
        except BaseException:
            if kept:
                kept.write()  # before the stop, which does not count as loading time
            instance.remove(keep_files=kept is not None)
            raise
        return self._filled(setup, build, kept)

    def _fill_all(self, setup: ArmSetup, instance: Instance, *, build: int, kept: KeptLoad | None) -> Loaded:
        if not setup.arm.data.source:
            for database, workload in families(self.study):
                self._fill(setup, instance, database, workload, build=build)
            return Loaded(databases=databases(self.study, instance), translated={})
        if kept and kept.record.loaded:
            kept.fill(instance, kept.record.loaded)
            return kept.record.loaded
        if self.study.database not in databases_in(setup.arm.data.source):
            _create_database(instance, self.study.database, setup.arm)
        with self.engine_lock:
            self._end_if_stopped()
            if kept:
                kept.filling()
            try:
                loaded = load_dump(
                    self.engine, setup, instance, self.study, self.listener, threads=loader_threads(), kept=kept
                )
            except EngineError as error:
                failed = _load_failed(error, setup.arm)
                if kept and kept.resumed and isinstance(failed, SpecError):  # the crash may be at fault
                    raise CannotGoOnError(failed.message.rstrip(".")) from None
                raise failed from None
        self._end_if_stopped()
        require_database(self.study, setup.arm.data.source, loaded.databases)
        if kept:
            kept.fill(instance, loaded)
        return loaded

    def _fill(self, setup: ArmSetup, server: Server, database: str, workload: Workload, *, build: int) -> None:
        arm = setup.arm
        _create_database(server, database, arm)
        if setup.remote:
            self._leave(setup, database, "has begun to fill; drop it before it is used again")
        if not kind_of(workload.script).fills_tables:
            return
        with self.engine_lock:
            self._end_if_stopped()
            self.engine.open([address_of(setup, server, database, transport="socket" if self.study.client else "")])
            try:
                self.engine.command(
                    arm.name,
                    workload.script,
                    "prepare",
                    options=script_options(self.study, workload, arm.data)
                    | arm_options(arm, setup.table_engine, takes(workload.script)),
                    threads=loader_threads(),
                    # Constant beside a running server, whose tables of an earlier run are reused.
                    seed=seed_for(0 if self.study.has_running_server else self.study.seed, "build", build),
                    on_progress=lambda label, done, total: self.listener.progress(
                        f"{arm.label} {label}", done, total, label
                    ),
                )
            except EngineError as error:
                raise _load_failed(error, arm) from None
            self._end_if_stopped()
            check_data(self.engine, self.study, setup, workload)
        self._end_if_stopped()

    def _end_if_stopped(self) -> None:
        if self.stop.is_set():
            raise KeyboardInterrupt


def loader_threads() -> int:
    return min(_LOADER_THREADS_MAX, len(os.sched_getaffinity(0)))


def check_data(engine: Engine, study: Study, setup: ArmSetup, workload: Workload) -> None:
    """Run the script's own check of its data (TPC-C's consistency conditions), if it has one."""
    if declares(workload.script, "commands", "check"):
        engine.command(
            setup.arm.name,
            workload.script,
            "check",
            options=script_options(study, workload, setup.arm.data),
            threads=loader_threads(),
            seed=study.seed,
        )


def families(study: Study) -> list[tuple[str, Workload]]:
    """Return the databases to load, each with the workload whose `prepare` fills it."""
    found: dict[str, Workload] = {}
    for workload in sorted(study.workloads, key=lambda workload: not kind_of(workload.script).fills_tables):
        found.setdefault(database_of(study, workload), workload)
    return list(found.items())


def databases(study: Study, server: Server) -> tuple[str, ...]:
    if study.baseline.data.source:
        return databases_of(server)
    return tuple(name for name, workload in families(study) if server.ours or kind_of(workload.script).fills_tables)


def _create_database(server: Server, database: str, arm: Arm) -> None:
    sql = f"CREATE DATABASE IF NOT EXISTS `{database}`"
    sql += f" CHARACTER SET {arm.data.charset}" if arm.data.charset else ""
    sql += f" COLLATE {arm.data.collation}" if arm.data.collation else ""
    connection = server.connect()
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql)
    except MySQLError as problem:
        number, words = problem.args[0], problem.args[-1]
        message = f"{arm.label}: {sql} failed: {words}."
        raise (_mistake(arm, message, hint=_OTHER_TEXT) if number in _NO_SUCH_TEXT else ServerError(message)) from None
    finally:
        connection.close()


def _mistake(arm: Arm, message: str, *, hint: str) -> SpecError:
    innermost = next((name for name in _TEXT_FIELDS if getattr(arm.data, name)), "collation")
    return SpecError(message, hint=hint, field=("arms", arm.name, "data", innermost))


def _load_failed(error: EngineError, arm: Arm) -> BakeoffError:
    if error.sql_errno in _FULL or _NO_SPACE.search(error.message):
        return HostError(
            f"disk: {arm.label} has no room for its rows: {error.message}.",
            hint="Load fewer rows, or make room where the server keeps its data (XDG_CACHE_HOME for bakeoff's own).",
            field=("table_size",),
        )
    if needs := _NEEDS_KEY.get(error.sql_errno or 0):
        message = error.message.removeprefix(f"arm {arm.name}: ").rstrip(".")
        return SpecError(
            f"{arm.label}: {message}.",
            hint=f"{needs} forbids tables without a primary key. Give every table one (tpcc: -o force_pk=on), or turn "
            "it off on this arm.",
            field=("arms", arm.name, "server"),
        )
    if arm.data.source and error.code in ("sql_error", "script_error"):
        return SpecError(f"data: {error.message}.", hint=error.hint, field=("arms", arm.name, "data", "source"))
    if error.sql_errno in _NO_SUCH_TEXT:
        return _mistake(arm, f"{arm.label}: {error.message}.", hint=_OTHER_TEXT)
    return error


def _parts(server: Server, database: str) -> tuple[int, int]:
    sql = (
        "SELECT COALESCE(SUM(data_length), 0), COALESCE(SUM(index_length), 0) "
        "FROM information_schema.tables WHERE table_schema = %s"
    )
    ((rows, indexes),) = server.query(sql, (database,))
    return int(rows), int(indexes)


def _has_tables(server: Server, database: str) -> bool:
    return bool(_names(server, "table_name", "tables", database))


def objection(server: Server, database: str, *, tables: int, table_size: int, indexed: bool) -> str | None:
    """Say why sysbench's tables on a running server are not what the study asks for; None if they are.

    Scripts draw ids up to `table_size`, so it must be the last id of each table.
    """
    there = _names(server, "table_name", "tables", database)
    indexes = _names(server, "index_name", "statistics", database)
    for number in range(1, tables + 1):
        table = f"sbtest{number}"
        if table not in there:
            return f"{table} is not there"
        ((last,),) = server.query(f"SELECT MAX(id) FROM `{database}`.{table}")
        if last != table_size:
            return f"{table} is empty" if last is None else f"ids of {table} end at {last}, not at {table_size}"
        if indexed and f"k_{number}" not in indexes:
            return f"{table} has no index k_{number}, which a load builds last"
    return None


def _names(server: Server, column: str, view: str, database: str) -> set[str]:
    sql = f"SELECT DISTINCT {column} FROM information_schema.{view} WHERE table_schema = %s"
    return {str(name) for (name,) in server.query(sql, (database,))}
