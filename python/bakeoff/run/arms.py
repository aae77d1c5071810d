"""Prepare the arms of a study: check scripts, install binaries, work out settings, share out memory.

Nothing is started here. Besides memory the kernel's asynchronous I/O limits how many servers run at once: each InnoDB
takes its share of `fs.aio-max-nr` at its start, and a server for which too little is left does not start.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath

import psutil

from bakeoff.engine import ArmAddress, Message, describe_workloads
from bakeoff.errors import BakeoffError, HostError, KeyPath, SpecError, within
from bakeoff.plan.epochs import data_bytes, database_of, options_of, table_sizes, uses_sysbench_tables, writes
from bakeoff.run.captures import check_capture
from bakeoff.run.script_options import check_value, first_unknown, remedy_for
from bakeoff.servers import (
    Installation,
    RemoteServer,
    Server,
    ServerMemory,
    Settings,
    install,
    settings_for,
    table_engine,
)
from bakeoff.spec import Arm, Data, Origin, Study, Workload
from bakeoff.spec.factors import client_charset
from bakeoff.spec.study import OptionValue, is_capture
from bakeoff.units import format_bytes, parse_bytes, parse_scaled

# Options that change how fast the data is read and written, and nothing of what lies on disk after a clean stop. An arm
# with any other option gets loads of its own.
_NOT_IN_DATA = frozenset(
    {
        "back_log", "eq_range_index_dive_limit", "flush_time", "innodb_adaptive_flushing", "innodb_adaptive_hash_index",
        "innodb_buffer_pool_instances", "innodb_buffer_pool_size", "innodb_deadlock_detect", "innodb_doublewrite",
        "innodb_flush_log_at_trx_commit", "innodb_flush_method", "innodb_flush_neighbors", "innodb_flush_sync",
        "innodb_io_capacity", "innodb_io_capacity_max", "innodb_log_buffer_size", "innodb_lru_scan_depth",
        "innodb_max_dirty_pages_pct", "innodb_max_dirty_pages_pct_lwm", "innodb_old_blocks_pct",
        "innodb_old_blocks_time", "innodb_page_cleaners", "innodb_purge_threads", "innodb_read_io_threads",
        "innodb_spin_wait_delay", "innodb_sync_spin_loops", "innodb_thread_concurrency", "innodb_use_native_aio",
        "innodb_write_io_threads",
        "internal_tmp_mem_storage_engine", "join_buffer_size", "max_connect_errors", "max_connections",
        "max_error_count", "max_heap_table_size", "net_buffer_length", "net_retry_count", "optimizer_prune_level",
        "optimizer_search_depth", "optimizer_switch", "performance_schema", "query_cache_size", "query_cache_type",
        "read_buffer_size", "read_rnd_buffer_size", "sort_buffer_size", "sync_binlog", "table_definition_cache",
        "table_open_cache", "table_open_cache_instances", "temptable_max_ram", "thread_cache_size", "thread_handling",
        "tmp_table_size", "transaction_isolation",
    }
)  # fmt: skip
# Administration, readiness checks and statistics connect besides the load.
_SPARE_CONNECTIONS = 32
# Options of scripts that settings of a study set by other names than `script.NAME`.
_OF_SETTINGS = (
    "table_size",
    "column_charset",
    "column_collation",
    "content",
    "compressibility",
    "text_length",
    "column_type",
    "column_length",
)
_LEAVE_OUT = "Leave the setting or the workload out, or give the script that option."
_WAITS = ("keying_time", "think_time")
_OFF = ("off", "false", "0", "no")
_WITHOUT_TRANSACTIONS = frozenset({"myisam", "memory", "heap", "archive", "csv", "aria", "merge", "mrg_myisam"})
# Options with which `prepare` of the bundled scripts makes other tables.
_OF_TABLES = frozenset({
    "auto_inc", "secondary", "create_secondary", "create_table_options", "content",
    "compressibility", "column_type", "column_length", "text_length", "column_charset", "column_collation",
    "table_suffix", "new_order_table", "use_fk", "force_pk", "load_index",
})  # fmt: skip
# Times the data expected: room for what updates and inserts add, and for InnoDB's own pages.
_HEAD_ROOM = 1.6
_BUFFER_POOL_MIN_BYTES = 128 * 2**20
# Of the memory that is free: the rest is for the page cache, the client and what servers use outside the pool.
_MEMORY_SHARE = 0.6
_BESIDES_POOL_BYTES = 400 * 2**20
_STEP_BYTES = 32 * 2**20
# Loading more data than that into the small redo log would wait for checkpoints.
_SMALL_DATA_BYTES = 512 * 2**20
_REDO_BYTES, _SMALL_REDO_BYTES = 256 * 2**20, 64 * 2**20
# 256 for each of InnoDB's handler threads: four that read, four that write, two more.
_AIO_EVENTS = 2_700
_POOL_OPTION = "innodb_buffer_pool_size"
_ENGINE_OPTION = "default_storage_engine"


def check_workloads(study: Study) -> None:
    """Check that every script is there, loads, can run, and knows the options it is given, before any time is spent.

    Raises:
        SpecError: one of these does not hold, with the nearest known name; or a script would find another one's tables,
            or fewer rows than it asks for. Its field is the workload, or the option of an arm.
    """
    wanted = study.workloads
    for index, workload in enumerate(wanted):
        with within("workloads", index):
            if is_capture(workload.script):
                check_capture(workload)
            elif workload.speed is not None:
                raise SpecError(f"workload {workload.script}: a script has no speed.", hint="Give it a rate.")
    places = [index for index, workload in enumerate(wanted) if not is_capture(workload.script)]
    if not places:
        return
    with within("workloads"):
        descriptions = describe_workloads(wanted[index].script for index in places)
    for index, described in zip(places, descriptions, strict=True):
        with within("workloads", index):
            _check_workload(wanted[index], described, study.arms)
        for arm in study.arms:
            try:
                _check_arm_options(wanted[index], described, arm)
                _check_declared_tables(wanted[index], arm)
                # A cnf file is read for a version, which `settings_of` knows.
                server = arm.server.model_copy(update={"cnf_files": ()})
                engine = table_engine(server, arm.data)
                _check_transactions(wanted[index], arm, engine)
                _check_table_options(wanted[index], described, arm, engine)
            except SpecError as error:
                error.field = ("arms", arm.name, *error.field) if error.field else ("workloads", index)
                raise
    if not study.baseline.data.source:
        _check_empty_tables(study)
        _check_shared_tables(study, dict(zip(places, descriptions, strict=True)))


def _check_shared_tables(study: Study, described: Mapping[int, Message]) -> None:
    """Refuse a workload that would find other tables or fewer rows than it wants: a database is filled once."""
    fills: dict[str, int] = {}
    filled = [arm for arm in study.arms if arm.server.origin is not Origin.URL]
    of_factors = {option for arm in filled for option, _ in arm.data.options}  # go before what a workload says
    for index in described:
        workload = study.workloads[index]
        filler = fills.setdefault(database_of(study, workload), index)
        first = study.workloads[filler]
        with within("workloads", index):
            if filled and first.script != workload.script and not uses_sysbench_tables(workload):
                raise SpecError(
                    f"workload {workload.script}: it would find the tables of {first.script}.",
                    hint="A script's database is called after its file, so rename one of the two.",
                )
            for arm in filled:
                asked, made = (
                    table_sizes(each.script, options_of(study, each, arm.data)) for each in (workload, first)
                )
                for option, wanted in asked.items():
                    if wanted > made[option]:
                        raise SpecError(
                            f"workload {workload.script}: it asks for {option}={wanted}, and would find "
                            f"{made[option]}: {first.script} stands before it and makes its tables.",
                            hint="Put the workload that asks for most first.",
                        )
            own, others = (_of_tables(study.workloads[each], described[each]) for each in (index, filler))
            for option in sorted((own.keys() & others) - of_factors) if filled else ():
                if own[option] != others[option]:
                    raise SpecError(
                        f"workload {workload.script}: it asks for {option}={own[option]}, and would find "
                        f"{others[option]}: {first.script} stands before it and makes its tables.",
                        hint=f"Give both the same, or compare the two by a factor script.{option}.",
                    )


def _check_empty_tables(study: Study) -> None:
    """Refuse `oltp_insert` with ids of its own, for which its `prepare` makes empty tables, beside another workload."""
    for index, workload in enumerate(study.workloads):
        if workload.script != "oltp_insert":
            continue
        own_ids = any(
            _normal(dict(options_of(study, workload, arm.data)).get("auto_inc", True), "bool") == "off"
            for arm in study.arms
        )
        database = database_of(study, workload)
        beside = [each.script for each in study.workloads if database_of(study, each) == database]
        other = next((script for script in beside if script != workload.script), None)
        if own_ids and other:
            with within("workloads", index):
                raise SpecError(
                    f"workload {workload.script}: with auto_inc off it wants empty tables, and {other} shares them.",
                    hint="Leave auto_inc out, or measure it in a run of its own.",
                )


def _of_tables(workload: Workload, described: Message) -> dict[str, str]:
    """What a script is to make its tables with, by option."""
    values = {each["name"]: each["default"] for each in described["options"] if each["name"] in _OF_TABLES}
    values |= {name: value for name, value in workload.options if name in values}
    kinds = {each["name"]: each["type"] for each in described["options"]}
    return {name: _normal(value, kinds[name]) for name, value in values.items()}


def _normal(value: OptionValue, kind: str) -> str:
    """A value as another way of writing it has it, too."""
    text = str(value).lower()
    if kind == "bool":
        return "off" if text in _OFF else "on"
    number = parse_scaled(text)
    return text if number is None else f"{number:g}"


def _check_workload(workload: Workload, described: Message, arms: Sequence[Arm]) -> None:
    name = f"workload {workload.script}"
    if not described["runs"]:
        raise SpecError(f"{name}: it has no event() function, so it cannot be run.")
    fills = any(each["name"] == "prepare" for each in described["commands"]) or uses_sysbench_tables(workload)
    if not fills and any(not arm.data.source and arm.server.origin is not Origin.URL for arm in arms):
        raise SpecError(
            f"{name}: it has no prepare() function, so it has no tables.",
            hint='Give it one; require("oltp_common") makes sysbench\'s tables, and --data DUMP loads your own.',
        )
    if unknown := first_unknown([option for option, _ in workload.options], described):
        raise SpecError(
            f"{name}: it has no option {unknown}.", hint=remedy_for(unknown, described), field=("options", unknown)
        )
    _check_values(workload, workload.options, described)
    # Terminals that wait half a minute between transactions do next to nothing in slices of seconds.
    given = [*workload.options, *(option for arm in arms for option in arm.data.options)]
    waits = [option for option, value in given if option in _WAITS and str(value).lower() not in _OFF]
    if workload.script == "tpcc" and waits:
        raise SpecError(
            f"{name}: {waits[0]} needs minutes without a break, and arms take turns in slices of seconds.",
            hint="Leave it out here, or measure each server alone: bakeoff sysbench tpcc --mysql-socket=… "
            "--scale=… --threads=… --keying-time --think-time --time=1200 run. Efficiency is reported there.",
        )


def _check_arm_options(workload: Workload, described: Message, arm: Arm) -> None:
    """Check the options that an arm's data gives to every script; what only settings set is the workload's lack."""
    name = f"workload {workload.script}"
    if unknown := first_unknown(_options_of(arm.data), described):
        near = "" if unknown in _OF_SETTINGS else remedy_for(unknown, described)
        raise SpecError(
            f"{name}: it has no option {unknown}, which the study sets.",
            hint=near if near.startswith(("Did", "Write")) else _LEAVE_OUT,
            field=() if unknown in _OF_SETTINGS else ("data", "options", unknown),
        )
    with within("data"):
        _check_values(workload, arm.data.options, described)


def _check_declared_tables(workload: Workload, arm: Arm) -> None:
    """Refuse an option of the script that would go before what the study's settings say of the tables."""
    data = arm.data
    charset = data.column_collation or data.column_charset or ""
    by_settings = {
        "create_table_options": data.declared_table_options,
        "column_charset": charset,
        "column_collation": charset,
    }
    for options, place in ((workload.options, ()), (data.options, ("data", "options"))):
        for option, _ in options:
            if declared := by_settings.get(option):
                raise SpecError(
                    f"workload {workload.script}: its option {option} would replace what the study sets ({declared}).",
                    hint="Leave the option out, and say all of it in the settings: table_options, column_charset.",
                    field=(*place, option) if place else (),
                )


def _check_table_options(workload: Workload, described: Message, arm: Arm, engine: str) -> None:
    """Refuse a script that lacks the options with which the arm's tables would be made as the study says."""
    names = {option["name"] for option in described["options"]}
    wanted = {"create_table_options": arm.data.declared_table_options}
    if engine != dict(arm.server.options).get(_ENGINE_OPTION, Data().engine).lower():  # the server makes no such tables
        wanted["mysql_storage_engine"] = f"engine {engine}"
    for option, value in wanted.items() if names and not arm.data.source else ():
        if value and option not in names:
            raise SpecError(
                f"workload {workload.script}: it has no option {option}, so its tables would not be as the study sets "
                f"them ({value}).",
                hint=_LEAVE_OUT,
            )


def _check_transactions(workload: Workload, arm: Arm, engine: str) -> None:
    """Refuse TPC-C in tables without transactions: of a New-Order that is rolled back they keep a part."""
    if workload.script == "tpcc" and engine in _WITHOUT_TRANSACTIONS and not arm.data.source:
        raise SpecError(
            f"workload tpcc: tables of {engine} have no transactions, so rolled-back orders leave inconsistent data.",
            hint="Take another engine or workload.",
            field=("data", "engine") if arm.data.engine.lower() == engine else ("server", "options", _ENGINE_OPTION),
        )


def _check_values(workload: Workload, options: Iterable[tuple[str, OptionValue]], described: Message) -> None:
    for option, value in options:
        try:
            check_value(option, value, described)
        except SpecError as error:
            message = f"workload {workload.script}: {error.message}"
            raise SpecError(message, hint=error.hint, field=("options", option)) from None


def _options_of(data: Data) -> tuple[str, ...]:
    """Options that the data of an arm gives to every script."""
    columns = {"column_charset": data.column_charset, "column_collation": data.column_collation}
    return (*(name for name, _ in data.options), *(name for name, value in columns.items() if value))


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
        return build_key(self.arm)


def build_key(arm: Arm) -> tuple[object, ...]:
    """What an arm's loaded data depends on: binaries, the options that touch it, what the tables hold."""
    kept = tuple(pair for pair in arm.server.options if pair[0] not in _NOT_IN_DATA)
    return (arm.server.model_copy(update={"env": (), "options": kept}), arm.data)


def settings_of(arm: Arm, installation: Installation, study: Study, memory: ServerMemory) -> Settings:
    """The settings of an arm's server.

    Raises:
        SpecError: an option that the server does not know, or a workload that its storage engine cannot run.
    """
    for workload in study.workloads:
        _check_transactions(workload, arm, table_engine(arm.server, arm.data, installation))
    return settings_for(
        installation,
        arm.server,
        study.profile,
        arm.data,
        memory,
        connections=max(study.threads) + _SPARE_CONNECTIONS,
        tls=arm.connection.tls != "disabled",
    )


def prepare_arms(
    study: Study,
    memory: ServerMemory,
    *,
    passwords: Mapping[str, str],
    on_progress: Callable[[str, int, int | None], None],
    stop: threading.Event | None = None,
) -> tuple[ArmSetup, ...]:
    """Install every server of the study and work out its settings.

    Args:
        study: its arms and concurrencies.
        memory: what every server is given.
        passwords: of servers named by URL, by arm name.
        on_progress: (what, bytes done, bytes in all or None) of downloads.
        stop: set it to end before the next arm.

    Raises:
        SpecError: unknown version, an option that it does not know; `error.field` begins with the arm.
        ServerError, HostError: it cannot be fetched, or this machine lacks something.
        KeyboardInterrupt: `stop` was set.
    """
    stop = stop or threading.Event()
    setups = []
    for arm in study.arms:
        try:
            setups.append(_prepare_arm(arm, study, memory, passwords.get(arm.name), on_progress))
        except BakeoffError:
            if not stop.is_set():  # else what was broken off by the same Ctrl-C has not failed
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
        if arm.server.origin is Origin.URL:
            remote = RemoteServer(arm.server, password=password, name=arm.name)
            remote.query("SELECT 1")  # whether it answers and lets us in is better known now than after loading
            return ArmSetup(arm, remote=remote)
        installation = install(arm.server, progress=on_progress)
        return ArmSetup(arm, installation=installation, settings=settings_of(arm, installation, study, memory))


def address_of(
    setup: ArmSetup, server: Server, database: str, *, pid: int | None = None, transport: str = ""
) -> ArmAddress:
    """How the engine reaches an arm's server, in the character set of its data unless the study says otherwise.

    `pid`: the server's, for measuring. `transport`: in place of the arm's own.
    """
    arm = setup.arm
    transport = transport or arm.connection.transport
    place = server.address(transport)
    account = server.account(transport, encrypted=arm.connection.tls == "required")
    charset = arm.connection.charset or client_charset(arm.data) or _database_charset(server, database)
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
    """What every server of a study is given.

    Attributes:
        memory: buffer pool and redo, the same for every arm.
        per_server_bytes: what one server is expected to take in all, the largest of the arms.
        servers: how many servers of our own the study has.
        at_once: how many of them fit at the same time; at least 2, or 1 when there is only one.
    """

    memory: ServerMemory
    per_server_bytes: int
    servers: int
    at_once: int


def control_groups(
    controller: str, mount: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> Iterator[Path]:
    """Folders of this process's control groups and of all their parents, any of which may limit it.

    Of version 2, and of the controller's hierarchy of version 1. Not every folder exists: a container may know its
    groups by the names that they have outside.
    """
    lines: list[list[str]] = []
    with suppress(OSError, ValueError):
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    for top, name in ((mount, ""), (mount / controller, controller)):
        group = next((PurePath(line[2].lstrip("/")) for line in lines if name in line[1].split(",")), PurePath())
        if ".." not in group.parts:
            yield from (top / folder for folder in (group, *group.parents))
        else:  # outside of what is mounted
            yield top


def free_memory_bytes(mount: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int:
    """Memory that can be had now: the machine's, or what is left of a control group's limit, if that is less."""
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


def servers_by_aio(proc: Path = Path("/proc/sys/fs")) -> int | None:
    """How many more servers the kernel's asynchronous I/O allows now, 2 at least; None when that is not known."""
    try:
        most, used = (int((proc / name).read_text()) for name in ("aio-max-nr", "aio-nr"))
    except (OSError, ValueError):
        return None
    return max(2, (most - used) // _AIO_EVENTS)


def share_memory(study: Study, *, available_bytes: int | None = None, at_most: int | None = None) -> MemoryShare:
    """Size the buffer pools, all equal, and the number of servers that run at once.

    A pool holds the data and a half more; fewer servers run at once rather than with smaller pools. When not even two
    servers fit with that, two run at once with what there is.

    Args:
        study: its arms and data.
        available_bytes: None: what is free now.
        at_most: servers at once, whatever the memory allows (`servers_by_aio`); None: no such limit.

    Raises:
        HostError: not even two servers fit.
    """
    ours = [arm for arm in study.arms if arm.server.origin is not Origin.URL]
    available = free_memory_bytes() if available_bytes is None else available_bytes
    usable = int(available * _MEMORY_SHARE)
    wanted = max((int(data_bytes(study, arm.data) * _HEAD_ROOM) for arm in study.arms), default=0)
    pool = max(_BUFFER_POOL_MIN_BYTES, wanted) // _STEP_BYTES * _STEP_BYTES
    fixed = [size for arm in ours if (size := _asked_pool(arm))]
    shared = len(fixed) < len(ours) or not ours  # some arm uses the pool that is sized here
    largest = max([*fixed, *([pool] if shared else [])])
    least = min(2, max(len(ours), 1))
    at_once = min(max(len(ours), 1), usable // (largest + _BESIDES_POOL_BYTES))
    at_once = min(at_once, at_most or at_once)
    if at_once < least:
        pool = (usable // least - _BESIDES_POOL_BYTES) // _STEP_BYTES * _STEP_BYTES
        if pool < _BUFFER_POOL_MIN_BYTES or (fixed and max(fixed) > pool):
            needed = least * (max([*fixed, _BUFFER_POOL_MIN_BYTES]) + _BESIDES_POOL_BYTES) / _MEMORY_SHARE
            raise HostError(
                f"memory: not even {least} servers fit into the {format_bytes(available)} that are free; "
                f"about {format_bytes(needed)} would do.",
                hint="End other programs, or ask for smaller buffer pools.",
                field=_largest_pool_field(ours),
            )
        at_once, largest = least, max([pool, *fixed])
    return MemoryShare(
        memory=ServerMemory(buffer_pool_bytes=pool, redo_bytes=_redo_bytes(study)),
        per_server_bytes=largest + _BESIDES_POOL_BYTES,
        servers=len(ours),
        at_once=at_once,
    )


def _redo_bytes(study: Study) -> int:
    """A small redo log for small data that is only read: all of it is copied for every start."""
    largest = max((data_bytes(study, arm.data) for arm in study.arms), default=0)
    if largest > _SMALL_DATA_BYTES or any(map(writes, study.workloads)):
        return _REDO_BYTES
    return _SMALL_REDO_BYTES


def _largest_pool_field(arms: Sequence[Arm]) -> KeyPath:
    """The largest buffer pool that an arm sets, else the rows of the tables."""
    largest = max(arms, key=lambda arm: _asked_pool(arm) or 0)
    return ("arms", largest.name, "server", "options", _POOL_OPTION) if _asked_pool(largest) else ("table_size",)


def _asked_pool(arm: Arm) -> int | None:
    """The buffer pool that the arm's own options set, bytes."""
    size = dict(arm.server.options).get(_POOL_OPTION)
    return parse_bytes(size) if size else None
