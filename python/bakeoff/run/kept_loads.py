"""Keep loads of your own data, so that an interrupted run continues with them (docs/reference/data.md).

WORK_ROOT/load-HASH/ARM-BUILD/ has data/ and load.json. The progress of a load is stored in its own server: the engine
marks each statement in the transaction of the rows, so that after a crash InnoDB has both or neither.
"""

import hashlib
import shutil
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ValidationError

from bakeoff.errors import EngineError, ServerError
from bakeoff.files import write_atomically
from bakeoff.results import RunDirectory
from bakeoff.results.manifest import bakeoff_version
from bakeoff.run.arms import ArmSetup
from bakeoff.servers import Instance, Server, ServerPool
from bakeoff.servers.paths import boot_id, bytes_on_disk, remove_lock, work_root
from bakeoff.spec.dumps import SYSTEM_SCHEMAS, TABLE_TYPES, DumpFile, quoted, read_dump
from bakeoff.stats.progress import Listener

MARKS = "bakeoff_marks"  # the database of the marks; it is dropped when everything is loaded
_WORTH_KEEPING_S = 10.0  # less is loaded again as quickly, so it is not kept when the run ends in order
_RECORD_PERIOD_S = 5.0
_RECOVERY_LIMIT_S = 3600.0
_RECORD = "load.json"
_TORN_PAGES = ("OFF", "0", "DETECT_ONLY")


class CannotGoOnError(Exception):
    """A kept load cannot be used, so the load starts over. The message says why."""


class Loaded(BaseModel, frozen=True):
    databases: tuple[str, ...]
    translated: dict[str, str]  # names that the server does not know -> what replaced them, or ""


class _Record(BaseModel):
    basis: dict[str, str]  # what the data depends on, by name; if it differs, the load starts over
    seconds: float = 0.0
    done: float = 0.0  # share of the dump's bytes
    loaded: Loaded | None = None  # None until everything is loaded
    complete: bool = False  # its server was stopped with everything in it
    boot: str = ""  # the kernel's boot id at the last write


@dataclass
class KeptLoad:
    """One load and its folder; `resumed` if it has data of an earlier process, which spent `before_s` seconds on it."""

    home: Path
    record: _Record
    resumed: bool = False
    before_s: float = 0.0
    _begun: float | None = None
    _written: float = 0.0

    def start(self, server: Instance) -> None:
        if not self.resumed:
            self.record, self.before_s, self._begun = _Record(basis=self.record.basis), 0.0, None
            self.write()
            server.start()
            return
        try:
            server.start(_RECOVERY_LIMIT_S)
            if not self.record.complete:
                _check_safe_from_crash(server, same_boot=self.record.boot == boot_id())
        except ServerError:
            raise CannotGoOnError("the server cannot start from what was loaded") from None

    def filling(self) -> None:
        self._begun = time.monotonic()
        self.write()

    def progress(self, done: int, total: int) -> None:
        self.record.done = done / total if total else 1.0
        if time.monotonic() - self._written > _RECORD_PERIOD_S:
            self.write()

    def fill(self, server: Server, loaded: Loaded) -> None:
        """Record that everything is loaded, once it is on the disk."""
        server.query("FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS")
        self.record.loaded = loaded
        self.write()
        server.query(f"DROP DATABASE IF EXISTS {MARKS}")

    def write(self) -> None:
        own_s = time.monotonic() - self._begun if self._begun else 0.0
        self.record.seconds, self.record.boot = self.before_s + own_s, boot_id()
        write_atomically(self.home / _RECORD, self.record.model_dump_json().encode())
        self._written = time.monotonic()


@dataclass
class KeptLoads(AbstractContextManager["KeptLoads"]):
    """The loads of a run; deletes them at the end, unless the run is to be resumed (by the command `again`)."""

    pool: ServerPool
    run: RunDirectory
    listener: Listener
    program: str
    resumed: bool
    again: str = "bakeoff run --resume"
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        if self.keeps(error):
            self.listener.left_behind(
                f"the data loaded so far is kept: `{self.again} {self.run.path}` continues with it, "
                "`bakeoff cache prune` deletes it"
            )
        else:
            delete_kept(self.run)

    def keeps(self, error: object) -> bool:
        """Whether to keep the loads after this error: they did not cause it, and took long enough to be worth it."""
        records = [_read(path) for path in _folder(self.run).glob(f"*/{_RECORD}")]
        worth = sum(record.seconds for record in records if record) >= _WORTH_KEEPING_S
        return worth and isinstance(error, (KeyboardInterrupt, EngineError, ServerError))

    def open(self, setup: ArmSetup, build: int) -> KeptLoad:
        with self._lock:
            home = self.pool.keep(_key(self.run), self.run.path.resolve()) / f"{setup.arm.name}-{build}"
        load = KeptLoad(home, _Record(basis=self._basis(setup)))
        record = _read(home / _RECORD) if (home / "data").is_dir() else None
        if record and record.basis == load.record.basis:
            load.record, load.resumed, load.before_s = record, True, record.seconds
            part = "all" if record.loaded else f"{record.done:.0%}"
            self.listener.note(f"{setup.arm.label}: the load of build {build + 1} continues; {part} of it is there")
        elif record:
            changed = [name for name, value in load.record.basis.items() if record.basis.get(name) != value]
            self.note_restart(setup, build, f"{' and '.join(changed)} changed")
        elif self.resumed:
            self.note_restart(setup, build, "none of it was kept")
        if not load.resumed:
            shutil.rmtree(home, ignore_errors=True)
        return load

    def note_restart(self, setup: ArmSetup, build: int, reason: str) -> None:
        self.listener.note(f"{setup.arm.label}: the load of build {build + 1} starts over: {reason}")

    def _basis(self, setup: ArmSetup) -> dict[str, str]:
        assert setup.installation
        assert setup.settings
        parts = {
            "the server": [setup.installation.name, setup.installation.sha256],
            "its settings": [repr(setup.load_key), sorted(setup.settings.init_options.items())],
            "bakeoff": [bakeoff_version(), self.program],
        }
        digests = {name: hashlib.sha256(repr(part).encode()).hexdigest() for name, part in parts.items()}
        return {"the dump": dump_digest(setup.arm.data.source)} | digests


def dump_digest(source: str) -> str:
    """Hash the paths, sizes and times of modification of a dump's files."""
    files = [Path(file["path"]) for stage in read_dump(source).stages for file in stage]
    stats = [(str(file), status.st_size, status.st_mtime_ns) for file in files for status in [file.stat()]]
    return hashlib.sha256(repr(stats).encode()).hexdigest()


@dataclass(frozen=True)
class Marks:
    resumed: bool
    done: dict[int, tuple[int, bool]]  # each file's statements that were run, and whether that was the whole file
    names: dict[str, str]

    @classmethod
    def of(cls, server: Instance) -> "Marks":
        resumed = bool(server.query("SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", (MARKS,)))
        for sql in (
            f"CREATE DATABASE IF NOT EXISTS {MARKS} CHARACTER SET latin1",
            f"CREATE TABLE IF NOT EXISTS {MARKS}.names (name VARBINARY(255) PRIMARY KEY, other VARBINARY(255)) "
            "ENGINE = InnoDB",
            f"CREATE TABLE IF NOT EXISTS {MARKS}.files (file INT PRIMARY KEY, statements BIGINT, ended INT) "
            "ENGINE = InnoDB",
        ):
            server.query(sql)
        rows = server.query(f"SELECT file, statements, ended FROM {MARKS}.files")
        names = server.query(f"SELECT name, other FROM {MARKS}.names")
        return cls(
            resumed,
            {int(file): (int(statements), bool(ended)) for file, statements, ended in rows},
            {name.decode(): other.decode() for name, other in names},  # VARBINARY is bytes
        )

    def left(self, stages: Sequence[Sequence[DumpFile]]) -> tuple[list[list[DumpFile]], int]:
        numbers = iter(range(sum(map(len, stages))))
        left: list[list[DumpFile]] = []
        ended_bytes = 0
        for stage in stages:
            left.append([])
            for file in stage:
                number = next(numbers)
                statements, ended = self.done.get(number, (0, False))
                if ended:
                    ended_bytes += Path(file["path"]).stat().st_size
                else:
                    left[-1].append(file | {"number": number, "done": statements})
        return left, ended_bytes


def _check_safe_from_crash(server: Server, *, same_boot: bool) -> None:
    if server.variables().get("innodb_doublewrite", "ON") in _TORN_PAGES:
        raise CannotGoOnError("the server writes without innodb_doublewrite")
    tables = server.query(
        f"SELECT table_schema, table_name, engine FROM information_schema.tables WHERE table_type IN {TABLE_TYPES}"
    )
    for schema, name, engine in tables:
        if str(schema) in SYSTEM_SCHEMAS or engine == "InnoDB":
            continue
        # Dumps create empty tables in place of views. After a power cut a table may have lost rows.
        if not same_boot or server.query(f"SELECT 1 FROM {quoted(schema)}.{quoted(name)} LIMIT 1"):
            raise CannotGoOnError(f"it has tables of {engine}, and only InnoDB's are safe from a crash")


def kept_bytes(run: RunDirectory) -> int:
    return bytes_on_disk(_folder(run))


def delete_kept(run: RunDirectory) -> None:
    shutil.rmtree(_folder(run), ignore_errors=True)
    remove_lock(_folder(run).name)


def _folder(run: RunDirectory) -> Path:
    return work_root() / f"load-{_key(run)}"


def _key(run: RunDirectory) -> str:
    return hashlib.sha256(str(run.path.resolve()).encode()).hexdigest()[:8]


def _read(path: Path) -> _Record | None:
    try:
        return _Record.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
