"""From a spec to the options of a server: what it needs to run, what a profile makes equal, what the user asked for.

`matched`: the same memory and durability everywhere, said in each version's own words: buffer pool, redo size, one
fsync a commit, doublewrite, O_DIRECT, no binary log, no query cache, no performance schema, statistics that do not
change under the measurement, and on fewer than eight CPUs no spinning threads of the redo log. `stock`: each version's
own defaults, and nothing but what is needed to run. TLS belongs to neither: it follows the connection.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from bakeoff.errors import KeyPath, SpecError
from bakeoff.servers.catalog import Catalog, Installation
from bakeoff.servers.install import install
from bakeoff.servers.options import (
    Target,
    is_false,
    is_true,
    no_tls,
    read_cnf,
    redo_options,
    stem,
    translate,
    understands,
    whole_number,
)
from bakeoff.spec import Data, Profile, ServerSpec
from bakeoff.units import parse_bytes

SPARE_CONNECTIONS = 24  # for the gates, the observers and a curious user
_DEFAULT_MAX_CONNECTIONS = 151
_ROCKSDB = "rocksdb"
# The redo log's threads of MySQL 8.0 and later spin once the server uses 80 % of a CPU. Spinning takes a whole CPU. On
# few CPUs throughput halves, and changes for seconds when the server crosses that mark (docs/decisions/placement.md).
_CPUS_TO_SPIN_ON = 8
_NEVER_SPIN = "100000"  # per cent of one CPU


@dataclass(frozen=True)
class ServerMemory:
    """Memory that every arm of a study is given.

    Attributes:
        buffer_pool_bytes: of InnoDB (or the block cache of MyRocks).
        redo_bytes: of the redo log, all files together.
    """

    buffer_pool_bytes: int
    redo_bytes: int = 256 * 2**20


@dataclass(frozen=True)
class Settings:
    """How one server is to be started.

    Attributes:
        options: mysqld options in order, names with underscores; an empty value is a bare flag.
        init_options: those that must be given when the data directory is made; they key the template.
        declared: names that the user asked for, as opposed to what a profile set.
        notes: what was translated or left out, each with its reason, for the report.
    """

    options: Mapping[str, str]
    init_options: Mapping[str, str] = field(default_factory=dict)
    declared: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def settings_for(
    installation: Installation,
    spec: ServerSpec,
    profile: Profile,
    data: Data,
    memory: ServerMemory,
    *,
    connections: int,
    tls: bool = False,
) -> Settings:
    """All options for one arm's server.

    Args:
        installation: the binaries.
        spec: with the user's own options and cnf files.
        profile: `matched` or `stock`.
        memory: the same for every arm; `stock` ignores it.
        data: what the tables will be; some charsets, row formats and engines need options, or do not exist everywhere.
        connections: the largest number that the load will hold open at once.
        tls: False switches TLS off in the server, as no connection will use it.

    Raises:
        SpecError: an option, charset, row format or engine that this server does not have; with the reason.
    """
    target = Target(installation.name, installation.family, installation.version, installation.known_options)
    asked = _asked(spec, installation)
    translated = translate(target, asked)
    engine = _engine_wanted(installation, asked, table_engine(spec, data, installation))
    _check_data(installation, data, translated.options)

    options = _needed(target, connections)
    if not tls:
        options |= no_tls(target)
    if profile is Profile.MATCHED:
        options |= _matched(target, memory, engine) | _charset(data)
    if engine == _ROCKSDB:
        options |= {"plugin_load_add": "ha_rocksdb"} | (_matched_rocksdb(memory) if profile is Profile.MATCHED else {})
    options |= _for_compressed_rows(target, data)
    options = _override(options, translated.options)
    _check_connections(target, options, connections)

    notes = [*translated.notes]
    if target.family == "mariadb" and options.get("plugin_load_add") == "ha_rocksdb":
        notes.append("ha_rocksdb was loaded: the engine is a plugin")
    init_options = dict(translated.init_options)
    if target.family == "mysql" and target.version < (5, 6, 8):  # refuses redo files of another size than it is told
        init_options |= {name: value for name, value in options.items() if name.startswith("innodb_log_file")}
    return Settings(
        options=options, init_options=init_options, declared=frozenset(stem(name) for name in asked), notes=tuple(notes)
    )


def table_engine(spec: ServerSpec, data: Data, installation: Installation | None = None) -> str:
    """The storage engine that the arm's tables should have, lower case.

    A server asked for with `default_storage_engine=RocksDB` (or `plugin=rocksdb`) is meant to be measured with it,
    unless the data names an engine itself.

    Args:
        spec: with the user's own options and cnf files.
        data: what the tables will be.
        installation: the spec's binaries; None: looked up if there are cnf files, whose groups are for some versions.
    """
    asked = _asked(spec, installation)
    if data.engine.lower() != Data().engine:
        return data.engine.lower()
    if "rocksdb" in asked.get("plugin", "").lower():
        return _ROCKSDB
    return asked.get("default_storage_engine", data.engine).lower()


def memory_bytes(installation: Installation, settings: Settings, connections: int) -> int:
    """A server's resident memory under load, estimated, bytes: for planning, a little too much rather than too little.

    Buffer pool and 8 % for its bookkeeping, the process itself as measured for the catalogue, 1 MiB a connection.
    """
    pool = max(
        _size(settings.options, "innodb_buffer_pool_size", 128 * 2**20),
        _size(settings.options, "rocksdb_block_cache_size", 0),
    )
    schema = (
        _process_with_schema(installation)
        if is_true(settings.options.get("performance_schema", _schema_default(installation)))
        else 0
    )
    return int(pool * 1.08) + max(_process_bytes(installation), schema) + connections * 2**20


def _asked(spec: ServerSpec, installation: Installation | None) -> dict[str, str]:
    asked: dict[str, str] = {}
    for file in spec.cnf_files:
        installation = installation or install(spec)
        asked |= read_cnf(Path(file), installation.family, installation.version)
    return asked | dict(spec.options)


def _needed(target: Target, connections: int) -> dict[str, str]:
    options = {
        "skip_name_resolve": "",
        "max_connections": str(max(_DEFAULT_MAX_CONNECTIONS, connections + SPARE_CONNECTIONS)),
        "max_prepared_stmt_count": "1048576",
        "max_allowed_packet": "67108864",
    }
    if target.family == "mysql":
        if target.version >= (5, 7):
            options["secure_file_priv"] = "NULL"
        if understands(target, "mysqlx"):
            options["mysqlx"] = "OFF"
        if target.version < (5, 6, 6) and connections > 50:
            options["back_log"] = str(connections)  # grows by itself since 5.6.6
    return options


def _charset(data: Data) -> dict[str, str]:
    """The server's own default too, so that temporary tables and functions speak the character set of the data."""
    named = {"character_set_server": data.charset, "collation_server": data.collation}
    return {name: value for name, value in named.items() if value}


def _matched(target: Target, memory: ServerMemory, engine: str) -> dict[str, str]:
    options = {
        "innodb_buffer_pool_size": str(memory.buffer_pool_bytes),
        **redo_options(target, memory.redo_bytes),
        "innodb_log_buffer_size": "16777216",
        "innodb_flush_log_at_trx_commit": "1",
        "innodb_doublewrite": "1",
        "innodb_flush_method": "O_DIRECT",
        "innodb_file_per_table": "1",
        "skip_log_bin": "",
        "sync_binlog": "1",
        "performance_schema": "OFF",
        "key_buffer_size": str(memory.buffer_pool_bytes if engine.lower() == "myisam" else 8 * 2**20),
    }
    if engine.lower() == "myisam":
        options["innodb_buffer_pool_size"] = str(64 * 2**20)
    optional = {
        "query_cache_type": "0",
        "query_cache_size": "0",
        "innodb_stats_persistent": "1",
        "innodb_stats_auto_recalc": "0",
        "innodb_buffer_pool_dump_at_shutdown": "0",
        "innodb_buffer_pool_load_at_startup": "0",
    }
    if len(os.sched_getaffinity(0)) < _CPUS_TO_SPIN_ON:
        optional["innodb_log_spin_cpu_abs_lwm"] = _NEVER_SPIN
    return options | {name: value for name, value in optional.items() if understands(target, name)}


def _matched_rocksdb(memory: ServerMemory) -> dict[str, str]:
    return {
        "rocksdb_block_cache_size": str(memory.buffer_pool_bytes),
        "rocksdb_flush_log_at_trx_commit": "1",
        "innodb_buffer_pool_size": str(64 * 2**20),
    }


def _for_compressed_rows(target: Target, data: Data) -> dict[str, str]:
    if "compressed" not in data.table_options.lower() or target.version >= (
        (10, 2) if target.family == "mariadb" else (5, 7, 7)
    ):
        return {}
    return {"innodb_file_format": "Barracuda", "innodb_file_per_table": "1"}


def _engine_wanted(installation: Installation, asked: Mapping[str, str], engine: str) -> str:
    """The engine that the arm's tables will have, after checking that the server has it.

    Raises:
        SpecError: the binaries do not hold it.
    """
    loaded = "rocksdb" in f"{asked.get('plugin', '')} {asked.get('plugin_load_add', '')}".lower()
    if (engine == _ROCKSDB or loaded) and _ROCKSDB not in installation.engines:
        have = sorted(f"{each.flavour}:{each.version}" for each in _catalog().entries if _ROCKSDB in each.engines)
        raise SpecError(
            f"server {installation.name} comes without MyRocks (engine rocksdb).",
            hint=f"These have it: {', '.join(have)}.",
            field=("data", "engine"),
        )
    return engine


def _check_data(installation: Installation, data: Data, options: Mapping[str, str]) -> None:
    name, family, version = installation.name, installation.family, installation.version
    named: dict[KeyPath, str | None] = {("server", "options", "collation_server"): options.get("collation_server")}
    named |= {("data", each): getattr(data, each) for each in ("collation", "table_collation", "column_collation")}
    for at, collation in named.items():
        for part, capability in (("_0900_", "collations-0900"), ("_uca1400_", "collations-uca1400")):
            if collation and part in collation.lower() and not _catalog().has(capability, family, version):
                since = _catalog().range_of(capability, family)
                raise SpecError(
                    f"server {name} has no collation {collation} (in {family}: {since}).",
                    hint="Choose one that all arms have.",
                    field=at,
                )
    if "COMPRESSION=" in data.table_options and not _catalog().has("page-compression", family, version):
        raise SpecError(
            f"server {name} has no page_compression (COMPRESSION=…).",
            hint="Leave the combination out with where.",
            field=("data", "table_options", "page_compression"),
        )
    page = parse_bytes(options.get("innodb_page_size", "16384"))
    if "compressed" in data.table_options.lower() and page > 16384:
        raise SpecError(
            f"server {name}: ROW_FORMAT=COMPRESSED needs pages of at most 16k, and innodb_page_size is {page}.",
            field=("data", "table_options", "row_format"),
        )
    block = re.search(r"KEY_BLOCK_SIZE=(\d+)", data.table_options)
    if block and int(block[1]) * 1024 > page:
        raise SpecError(
            f"server {name}: key_block_size {block[1]} is more than a page: innodb_page_size is {page}.",
            hint="Leave the combination out with where.",
            field=("data", "table_options", "key_block_size"),
        )


def _check_connections(target: Target, options: Mapping[str, str], connections: int) -> None:
    name, value = [each for each in options.items() if stem(each[0]) == "max_connections"][-1]  # the last one counts
    allowed = whole_number(target, name, value)
    if allowed < connections + 2:
        raise SpecError(
            f"server {target.name}: max_connections={allowed} is too few for {connections} connections.",
            hint=f"Leave it out, or set {connections + SPARE_CONNECTIONS}.",
            field=("server", "options", "max_connections"),
        )


def _override(base: Mapping[str, str], user: Mapping[str, str]) -> dict[str, str]:
    """The user's options over ours; `log_bin=x` replaces `skip_log_bin` and the other way round."""
    taken = {stem(name) for name in user}
    return {name: value for name, value in base.items() if stem(name) not in taken} | dict(user)


@cache
def _catalog() -> Catalog:
    return Catalog.load()


def _size(options: Mapping[str, str], name: str, default: int) -> int:
    return parse_bytes(options[name]) if name in options else default


def _process_bytes(installation: Installation) -> int:
    """Resident memory of a bare server, from the nearest catalogue entry below its version."""
    kin = [entry for entry in _catalog().entries if entry.family == installation.family]
    nearest = max(
        (entry for entry in kin if entry.numbers <= installation.version),
        key=lambda entry: entry.numbers,
        default=kin[0],
    )
    return nearest.rss_mib * 2**20


def _process_with_schema(installation: Installation) -> int:
    """With performance_schema on: 5.6 preallocates some 400 MiB, later versions less (measured)."""
    return _process_bytes(installation) + (400 if installation.version < (5, 7) else 280) * 2**20


def _schema_default(installation: Installation) -> str:
    return "on" if installation.family == "mysql" and installation.version >= (5, 6, 6) else "off"


# Finding what a server ignored or changed: every option given is compared with the variable it should have set.
#
# `loose_` options, unknown plugins and values out of range never stop a server; they end as a line in its log at best.
# Reading back is the only honest way to report a setting.

_NOT_VARIABLES = frozenset(
    {
        "plugin_load_add",
        "mysqlx",
        "secure_file_priv",
        "ssl",
        "admin_tls_version",
        "default_authentication_plugin",
        "authentication_policy",
        "user",
    }
)
_OTHER_NAMES = {
    "transaction_isolation": "tx_isolation",
    "default_storage_engine": "storage_engine",
    "key_buffer_size": "key_buffer_size",
}
_MULTIPLE = 0.02  # sizes are rounded to pages, chunks or MiB by the server; within 2 % is as asked


def differences(asked: Mapping[str, str], variables: Mapping[str, str]) -> list[str]:
    """One line for each option whose variable is not what was asked for.

    Args:
        asked: options as given at start; an empty value is a bare flag.
        variables: SHOW GLOBAL VARIABLES.
    """
    found = []
    for name, value in asked.items():
        plain = stem(name)
        if plain in _NOT_VARIABLES:
            continue
        wanted = _wanted(name, plain, value)
        has = variables.get(plain, variables.get(_OTHER_NAMES.get(plain, ""), None))
        said = f"{name}={value}" if value else name
        if has is None:
            found.append(f"{said}: this server has no variable {plain}")
        elif not same(wanted, has):
            found.append(f"{said}: the server has {has or '(empty)'}")
    return found


def same(asked: str, has: str) -> bool:
    """Whether two spellings of a value mean the same: `64M` and `67108864`, `1` and `ON`, `a,b` and `B,A`."""
    left, right = asked.strip().lower(), has.strip().lower()
    if left == right or (is_true(left) and is_true(right)) or (is_false(left) and is_false(right)):
        return True
    try:
        one, other = _number(left), _number(right)
    except (SpecError, ValueError):
        if "=" in left:  # optimizer_switch: a part of the whole
            return set(left.split(",")) <= set(right.split(","))
        return sorted(left.replace("_", "-").split(",")) == sorted(right.replace("_", "-").split(","))
    return abs(one - other) <= _MULTIPLE * max(abs(one), abs(other)) if one > 65536 else one == other


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float(parse_bytes(text))


def _wanted(name: str, plain: str, value: str) -> str:
    if name.startswith("loose_"):
        return _wanted(name[6:], plain, value)
    if name != plain and name.startswith(("skip_", "disable_")):
        return "OFF"
    if plain == "log_bin":  # the value is the log's name
        return "ON"
    return value or "ON"
