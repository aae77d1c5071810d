"""Prepare the arms of a study: install binaries, choose settings, share out memory. Starts nothing."""

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath

import psutil

from bakeoff.engine import ArmAddress
from bakeoff.errors import BakeoffError, HostError, KeyPath, SpecError, within
from bakeoff.plan.workloads import data_bytes, writes
from bakeoff.run.measuring import measuring_of
from bakeoff.servers import (
    Installation,
    RemoteServer,
    Server,
    ServerMemory,
    Settings,
    find_entry,
    install,
    settings_for,
    table_engine,
)
from bakeoff.servers.cnf import read_cnf
from bakeoff.servers.fetch import NOTICE
from bakeoff.servers.options import Target
from bakeoff.spec import Arm, Origin, Study
from bakeoff.spec.factors import client_charset, spoken_charset
from bakeoff.spec.server_name import is_limit, stem
from bakeoff.stats.progress import Listener
from bakeoff.units import format_bytes, parse_bytes

# Options that affect speed but not what is on disk after a clean stop. Arms with any other option get separate loads.
_NOT_IN_DATA = frozenset(Path(__file__).with_name("not_in_data.txt").read_text("ascii").split())
_SPARE_CONNECTIONS = 32  # for administration, readiness checks and statistics, besides the load
_HEAD_ROOM = 1.6  # buffer pool over expected data: room for what updates and inserts add, and for InnoDB's own pages
_BUFFER_POOL_MIN_BYTES = 128 * 2**20
# Share of the free memory. The rest is for the page cache, the client and what servers use outside the pool.
_MEMORY_SHARE = 0.6
_BESIDES_POOL_BYTES = 400 * 2**20
_CHUNK_BYTES, _CHUNKS = 128 * 2**20, 8  # from 1 GiB on MySQL up to 8.0 has 8 instances of whole chunks
_SMALL_DATA_BYTES = 512 * 2**20  # loading more data than that into the small redo log would wait for checkpoints
_REDO_BYTES, _SMALL_REDO_BYTES = 256 * 2**20, 64 * 2**20
_AIO_EVENTS = 2_700  # 256 for each of InnoDB's handler threads: four that read, four that write, two more
_POOL_OPTION = "innodb_buffer_pool_size"


@dataclass(frozen=True)
class ArmSetup:
    """One arm ready to start, or a running server (`remote`)."""

    arm: Arm
    installation: Installation | None = None
    settings: Settings | None = None
    remote: RemoteServer | None = field(default=None, repr=False)

    @property
    def load_key(self) -> tuple[object, ...]:
        return load_key(self.arm)

    @property
    def table_engine(self) -> str:
        return table_engine(self.arm.server, self.arm.data, self.installation)


def load_key(arm: Arm) -> tuple[object, ...]:
    kept = tuple(pair for pair in arm.server.options if pair[0] not in _NOT_IN_DATA)
    return (arm.server.with_settings(env=(), options=kept, limits=()), arm.data)


def settings_of(arm: Arm, installation: Installation, study: Study, memory: ServerMemory) -> Settings:
    for workload in study.workloads:
        measuring_of(workload.script).check_engine(workload, arm, table_engine(arm.server, arm.data, installation))
    return settings_for(
        installation,
        arm.server,
        study.profile,
        arm.data,
        memory,
        connections=max(study.threads) + _SPARE_CONNECTIONS,
        tls=arm.connection.tls != "disabled",
    )


def download_reporter(listener: Listener, stop: threading.Event) -> Callable[[str, int, int | None], None]:
    """Make a callback for downloads: (what, bytes done, total bytes if known). `stop` ends the download."""
    last_stage = ""

    def report(what: str, done: int, total: int | None) -> None:
        nonlocal last_stage
        if stop.is_set():
            raise KeyboardInterrupt
        if total == NOTICE:
            listener.note(what)
        elif total:
            listener.progress(what, done, total, "bytes")
        elif what != last_stage:
            last_stage = what
            listener.stage(what)

    return report


def prepare_arms(
    study: Study,
    memory: ServerMemory,
    *,
    passwords: Mapping[str, str],
    on_progress: Callable[[str, int, int | None], None],
    stop: threading.Event | None = None,
) -> tuple[ArmSetup, ...]:
    """Install every server of the study and choose its settings. `passwords` of running servers are by arm name."""
    stop = stop or threading.Event()
    setups = []
    for arm in study.arms:
        try:
            setups.append(_prepare_arm(arm, study, memory, passwords.get(arm.name), on_progress))
        except BakeoffError:
            if not stop.is_set():  # else the same Ctrl-C interrupted it
                raise
        if stop.is_set():
            raise KeyboardInterrupt
    return tuple(setups)


def _prepare_arm(
    arm: Arm,
    study: Study,
    memory: ServerMemory,
    password: str | None,
    on_progress: Callable[[str, int, int | None], None],
) -> ArmSetup:
    with within("arms", arm.name):
        if arm.server.is_running:
            encrypted = arm.connection.tls == "required"
            remote = RemoteServer(arm.server, password=password, name=arm.name, encrypted=encrypted)
            remote.query("SELECT 1")  # fail now rather than after loading
            return ArmSetup(arm, remote=remote)
        installation = install(arm.server, progress=on_progress)
        return ArmSetup(arm, installation=installation, settings=settings_of(arm, installation, study, memory))


def address_of(
    setup: ArmSetup, server: Server, database: str, *, pid: int | None = None, transport: str = ""
) -> ArmAddress:
    """Return the address at which the engine reaches an arm's server, in the character set of its data by default."""
    arm = setup.arm
    transport = transport or arm.connection.transport
    place = server.address(transport)
    account = server.account(transport, encrypted=arm.connection.tls == "required")
    charset = spoken_charset(arm.connection) or client_charset(
        arm.data.text_charset or _database_charset(server, database)
    )
    collation = arm.connection.collation
    if collation is None and charset == arm.data.text_charset:
        collation = arm.data.text_collation
    return ArmAddress(
        name=arm.name,
        socket=place.get("socket"),
        host=place.get("host"),
        port=place.get("port"),
        user=account.user,
        password=account.password,
        database=database,
        charset=charset,
        collation=collation,
        tls=arm.connection.tls,
        prepare_mode=arm.connection.prepare_mode,
        server_pid=pid,
        slowdown_percent=arm.slowdown_percent,
    )


def _database_charset(server: Server, database: str) -> str:
    return str(server.query("SELECT @@character_set_database", database=database or None)[0][0])


@dataclass(frozen=True)
class MemoryShare:
    """What every server of a study gets: the same buffer pool and redo log on every arm."""

    memory: ServerMemory
    per_server_bytes: int  # expected total of the largest server
    servers: int  # started by bakeoff
    at_once: int  # how many fit at the same time; at least 2, or 1 if there is only one


def control_groups(
    controller: str, mount: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> Iterator[Path]:
    """Return the folders of this process's control groups (v1, v2) and their parents; some may not exist."""
    lines: list[list[str]] = []
    with suppress(OSError, ValueError):
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    for top, name in ((mount, ""), (mount / controller, controller)):
        group = next((PurePath(line[2].lstrip("/")) for line in lines if name in line[1].split(",")), PurePath())
        if ".." not in group.parts:
            yield from (top / folder for folder in (group, *group.parents))
        else:  # outside of the mount
            yield top


def free_memory_bytes(mount: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int:
    """Return the memory available now, on the machine or within a control group's limit."""
    left: list[int] = [psutil.virtual_memory().available]
    for folder in control_groups("memory", mount, own):
        for most, used, cache in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            with suppress(OSError, ValueError, KeyError):  # no such group, or "max"
                stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
                taken = int((folder / used).read_text()) - int(stat[cache])
                left.append(max(0, int((folder / most).read_text()) - taken))
    return min(left)


def max_servers_for_aio(proc: Path = Path("/proc/sys/fs")) -> int | None:
    """Return how many more servers asynchronous I/O allows, at least 2; None if unknown."""
    try:
        most, used = (int((proc / name).read_text()) for name in ("aio-max-nr", "aio-nr"))
    except (OSError, ValueError):
        return None
    return max(2, (most - used) // _AIO_EVENTS)


def share_memory(study: Study, *, available_bytes: int | None = None, at_most: int | None = None) -> MemoryShare:
    """Choose the size of the buffer pools, equal on all arms, and how many servers run at once, `at_most` if given."""
    ours = [arm for arm in study.arms if not arm.server.is_running]
    available = free_memory_bytes() if available_bytes is None else available_bytes
    usable = int(available * _MEMORY_SHARE)
    wanted = max((int(data_bytes(study, arm.data) * _HEAD_ROOM) for arm in study.arms), default=0)
    pool = _kept_pool(max(_BUFFER_POOL_MIN_BYTES, wanted), math.ceil)
    fixed = [size for arm in ours if (size := _asked_pool(arm))]
    shared = len(fixed) < len(ours) or not ours  # some arm uses the pool sized here
    largest = max([*fixed, *([pool] if shared else [])])
    least = min(2, len(ours))
    at_once = min(len(ours), usable // (largest + _BESIDES_POOL_BYTES))
    at_once = min(at_once, at_most or at_once)
    if at_once < least:
        pool = _kept_pool(usable // least - _BESIDES_POOL_BYTES, math.floor)
        if pool < _BUFFER_POOL_MIN_BYTES or (fixed and max(fixed) > pool):
            needed = least * (max([*fixed, _BUFFER_POOL_MIN_BYTES]) + _BESIDES_POOL_BYTES) / _MEMORY_SHARE
            raise HostError(
                f"memory: not even {least} servers fit into the {format_bytes(available)} that is free; "
                f"about {format_bytes(needed)} is needed.",
                hint="End other programs, or ask for smaller buffer pools.",
                field=_largest_pool_field(ours),
            )
        at_once, largest = least, max([pool, *fixed])
    return MemoryShare(
        memory=ServerMemory(buffer_pool_bytes=pool, redo_bytes=_redo_bytes(study)),
        per_server_bytes=largest + _BESIDES_POOL_BYTES,
        servers=len(ours),
        at_once=max(at_once, 1),
    )


def _kept_pool(size: int, rounded: Callable[[float], int]) -> int:
    """Round a buffer pool's size to one that every version keeps as it is."""
    step = _CHUNK_BYTES * (_CHUNKS if size > _CHUNK_BYTES * _CHUNKS else 1)
    return rounded(size / step) * step


def _redo_bytes(study: Study) -> int:
    largest = max((data_bytes(study, arm.data) for arm in study.arms), default=0)
    if largest > _SMALL_DATA_BYTES or any(map(writes, study.workloads)):
        return _REDO_BYTES
    return _SMALL_REDO_BYTES


def _largest_pool_field(arms: Sequence[Arm]) -> KeyPath:
    largest = max(arms, key=lambda arm: _asked_pool(arm) or 0)
    return ("arms", largest.name, "server", "options", _POOL_OPTION) if _asked_pool(largest) else ("table_size",)


def _asked_pool(arm: Arm) -> int | None:
    targets = [Target("", "mysql", ()), Target("", "mariadb", ())]  # either, before a server is asked
    size = _pool_in(dict(arm.server.options))
    if size or not arm.server.cnf_files:
        return size
    with suppress(SpecError):  # mistakes are reported when the settings are chosen
        if arm.server.origin is Origin.CATALOG:
            entry = find_entry(arm.server)
            targets = [Target("", entry.family, entry.numbers)]
        for file in reversed(arm.server.cnf_files):
            if size := max(_pool_in(read_cnf(Path(file), each).options) or 0 for each in targets):
                break
    return size or None


def _pool_in(options: Mapping[str, str]) -> int | None:
    sizes = [size for name, size in options.items() if stem(name) == _POOL_OPTION and not is_limit(name)]
    return parse_bytes(sizes[-1]) if sizes and sizes[-1] else None
