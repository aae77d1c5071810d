"""Arms made ready: binaries installed, settings worked out, memory shared out. Nothing is started here."""

import difflib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import psutil

from bakeoff.engine import ArmAddress, describe_workloads
from bakeoff.errors import HostError, SpecError
from bakeoff.servers import Installation, Reading, RemoteServer, ServerMemory, Settings, install, settings_for
from bakeoff.spec import Arm, Origin, Study, Workload
from bakeoff.units import format_bytes

# InnoDB needs 200 to 260 bytes for a row of sbtest (119 + 59 characters, two indexes, pages 15/16 full); the rest is
# head room.
_BYTES_PER_ROW = 400
_BUFFER_POOL_MIN_BYTES = 128 * 2**20
# Of the memory that is free: the rest is for the page cache, the client and what servers use outside the pool.
_MEMORY_SHARE = 0.6
_BESIDES_POOL_BYTES = 400 * 2**20
# Administration, gates and statistics connect besides the load.
_SPARE_CONNECTIONS = 32


# Options of the engine itself, which every script may be given.
_GENERAL_OPTIONS = ("rand_", "mysql_", "db_")


def check_workloads(workloads: Iterable[Workload]) -> None:
    """See that every script is there, loads, can run, and knows the options it is given, before any time is spent.

    Raises:
        SpecError: it is not so; with the nearest name.
    """
    wanted = list(workloads)
    for workload, described in zip(wanted, describe_workloads(w.script for w in wanted), strict=True):
        if not described["runs"]:
            raise SpecError(f"workload {workload.script}: it has no event() function, so it cannot be run.")
        known = [option["name"] for option in described["options"]]
        for name, _ in workload.options:
            if name not in known and not name.startswith(_GENERAL_OPTIONS):
                near = difflib.get_close_matches(name, known, n=1)
                raise SpecError(
                    f"workload {workload.script}: it has no option {name}.",
                    hint=f"Did you mean {near[0]}?" if near else f"It has {', '.join(known)}.",
                )


@dataclass(frozen=True)
class ArmSetup:
    """One arm ready to be started, or a running server to be used as it is (`remote`).

    Attributes:
        build_key: arms with equal keys have equal binaries, settings and data, and share their loads.
    """

    arm: Arm
    installation: Installation | None = None
    settings: Settings | None = None
    remote: RemoteServer | None = field(default=None, repr=False)

    @property
    def build_key(self) -> tuple[object, ...]:
        """What the loaded data depends on."""
        return (self.arm.server, self.arm.data)


def prepare_arms(
    study: Study, *, passwords: Mapping[str, str], on_progress: Callable[[str, int, int | None], None]
) -> tuple[ArmSetup, ...]:
    """Install every server of the study and work out its settings.

    Args:
        study: its arms, memory and concurrencies.
        passwords: of servers named by URL, by arm name.
        on_progress: (what, bytes done, bytes in all or None) of downloads.

    Raises:
        SpecError: unknown version, an option that it does not know.
        ServerError, HostError: it cannot be fetched, or this machine lacks something.
    """
    memory = share_memory(study)
    connections = max(study.threads) + _SPARE_CONNECTIONS
    setups = []
    for arm in study.arms:
        if arm.server.origin is Origin.URL:
            remote = RemoteServer(arm.server, password=passwords.get(arm.name), name=arm.name)
            remote.query("SELECT 1")  # whether it answers and lets us in is better known now than after loading
            setups.append(ArmSetup(arm, remote=remote))
            continue
        installation = install(arm.server, progress=on_progress)
        settings = settings_for(
            installation,
            arm.server,
            study.profile,
            arm.data,
            memory,
            connections=connections,
            tls=arm.connection.tls != "disabled",
        )
        setups.append(ArmSetup(arm, installation=installation, settings=settings))
    return tuple(setups)


def share_memory(study: Study) -> ServerMemory:
    """The same buffer pool for every arm: the data and a half more, as far as memory allows.

    Raises:
        HostError: the servers would not fit into this machine's memory.
    """
    wanted = max(_BUFFER_POOL_MIN_BYTES, study.tables * study.table_size * _BYTES_PER_ROW)
    ours = sum(1 for arm in study.arms if arm.server.origin is not Origin.URL)
    available = psutil.virtual_memory().available
    fits = int(available * _MEMORY_SHARE / max(ours, 1)) - _BESIDES_POOL_BYTES
    if fits < _BUFFER_POOL_MIN_BYTES:
        raise HostError(
            f"memory: {ours} servers do not fit into the {format_bytes(available)} that are free.",
            hint="End other programs or compare fewer servers at once.",
        )
    step = 32 * 2**20
    return ServerMemory(buffer_pool_bytes=min(wanted, fits) // step * step)


def cpu_sets(study: Study) -> tuple[frozenset[int] | None, frozenset[int] | None]:
    """CPUs of the client and of the servers with `--pin`: a quarter for the client; (None, None) without.

    Raises:
        HostError: there is only one CPU to share.
    """
    if not study.pin:
        return None, None
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        raise HostError("pin: there is only one CPU here.", hint="Leave --pin out.")
    split = max(1, len(usable) // 4)
    return frozenset(usable[:split]), frozenset(usable[split:])


def address_of(setup: ArmSetup, server: Reading, database: str, *, pid: int | None) -> ArmAddress:
    """How the engine reaches an arm's server, in the character set of its data unless the study says otherwise."""
    arm = setup.arm
    place = server.address(arm.connection.transport)
    account = server.account(arm.connection.transport)
    charset = arm.connection.charset or arm.data.charset or _database_charset(server, database)
    collation = arm.connection.collation
    if collation is None and arm.connection.charset in (None, arm.data.charset):
        collation = arm.data.collation
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
        shadow_per_100=arm.shadow_per_100,
    )


def _database_charset(server: Reading, database: str) -> str:
    connection = server.connect(database)
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT @@character_set_database")
            return str(cursor.fetchone()[0])
    finally:
        connection.close()
