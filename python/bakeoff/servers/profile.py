"""The options of each arm's server: what it needs to run, what its profile sets, what the user asked for.

Profile `matched` sets the same memory and durability for every version, `stock` leaves each version's defaults. The
settings check compares every option with the variable that it should have set, because `loose_` options, unknown
plugins and values out of range do not stop a server.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePath

from bakeoff.errors import KeyPath, SpecError
from bakeoff.servers.catalog import Catalog, Installation
from bakeoff.servers.client import Server
from bakeoff.servers.cnf import Asked, read_cnf
from bakeoff.servers.options import (
    FIXED,
    GROUPS,
    MYROCKS,
    Target,
    counting_at_init,
    is_false,
    is_true,
    no_tls,
    option_text,
    redo_options,
    translate,
    understands,
    whole_number,
    without_redo_files,
)
from bakeoff.servers.releases import Version
from bakeoff.spec import Data, Profile, ServerSpec
from bakeoff.spec.server_name import REPEATED, is_limit, is_negated, joined, stem, values_of
from bakeoff.units import parse_bytes

SPARE_CONNECTIONS = 24  # for readiness, observers and the user
_DEFAULT_MAX_CONNECTIONS = 151
_ROCKSDB = "rocksdb"
_POOL = "innodb_buffer_pool_size"
_REDO_FILES = "innodb_log_files_in_group"
_OWN_CACHE = {"myisam": "key_buffer_size", _ROCKSDB: "rocksdb_block_cache_size"}  # instead of InnoDB's pool
_SMALL_POOL_BYTES = 64 * 2**20  # InnoDB's pool if another engine gets the memory
_SPIN_OPTION = "innodb_log_spin_cpu_abs_lwm"
OF_THE_MACHINE = frozenset({_SPIN_OPTION})
"""Options whose values depend on the machine's processors."""
_OTHER_NAMES = {"transaction_isolation": "tx_isolation", "default_storage_engine": "storage_engine"}
_ROUNDING = 0.02  # the server rounds sizes to pages, chunks or MiB
# From MySQL 8.0 on the redo log's threads spin once the server uses 80 % of a CPU. On few CPUs that halves throughput
# (docs/explanation/decisions/placement.md).
_CPUS_TO_SPIN_ON = 8
_NEVER_SPIN = "100000"  # percent of one CPU


@dataclass(frozen=True)
class ServerMemory:
    buffer_pool_bytes: int
    redo_bytes: int


@dataclass(frozen=True)
class Settings:
    """How to start one server. `init_options` apply to initialisation, and are hashed into its template name."""

    options: Mapping[str, str]
    init_options: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    from_files: tuple[str, ...] = ()


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
    """Return all options for one arm's server, or raise SpecError if it lacks something.

    Args:
        memory: the same for every arm; `stock` ignores it. A buffer pool that the user sets becomes the cache of the
            tables' engine, unless the user also sets that cache.
        connections: largest number that the load will hold open at once.
    """
    target = Target.of(installation)
    read = _asked(spec, target)
    asked = read.options
    translated = translate(target, asked, read.places, read.problems)
    engine = table_engine(spec, data, installation)
    _check_engine(installation, asked, engine)
    _check_data(installation, data, translated.options)

    options = _needed(target, connections)
    if not tls:
        options |= no_tls(target)
    if engine == _ROCKSDB:
        options["plugin_load_add"] = MYROCKS
    if profile is Profile.MATCHED:
        files = whole_number(target, _REDO_FILES, translated.options.get(_REDO_FILES, "2"))
        options |= _matched(target, memory, engine, max(files, 1))
        # Temporary tables and functions use the server's charset.
        named = {"character_set_server": data.charset, "collation_server": data.collation}
        options |= {name: value for name, value in named.items() if value}
    if data.source:
        options["event_scheduler"] = "OFF"  # the events of a dump must not run beside the load
    options |= _for_barracuda(target, data)
    user, notes = _for_own_cache(translated.options, engine)
    # The options of plugins are not in the help.
    unknown = [name for name in options if not (understands(target, stem(name)) or name.startswith(_ROCKSDB))]
    notes += [
        f"{option_text(name, options.pop(name))} was left out: {target.name} has no such option" for name in unknown
    ]
    options = _override(options, user)
    others = options.get("plugin_load_add", "")
    if engine == _ROCKSDB and "ha_rocksdb" not in others:  # the user's value replaced ours
        options["plugin_load_add"] = joined(MYROCKS, "plugin_load_add", others)
    _check_connections(target, options, connections)

    notes = [*read.all_notes(), *translated.notes, *notes]
    if "innodb_redo_log_capacity" in options:
        notes += without_redo_files(target, options)
    if target.family == "mariadb" and "ha_rocksdb" in options.get("plugin_load_add", ""):
        notes.append("ha_rocksdb was loaded: the engine is a plugin")
    init_options = translated.init_options | counting_at_init(target, options)
    from_files = tuple(option_text(name, options[name]) for name in read.places if name in options)
    return Settings(options, init_options, tuple(notes), dict(spec.env), from_files)


def table_engine(spec: ServerSpec, data: Data, installation: Installation | None = None) -> str:
    """Return the storage engine of the arm's tables in lower case.

    Without an `installation`, cnf files are not allowed, because their groups may apply to some versions only.
    """
    asked = _asked(spec, Target.of(installation)).options if installation else dict(spec.options)
    if data.engine.lower() != Data().engine:
        return data.engine.lower()
    if "rocksdb" in asked.get("plugin", "").lower():
        return _ROCKSDB
    return asked.get("default_storage_engine", data.engine).lower()


def _asked(spec: ServerSpec, target: Target) -> Asked:
    asked = Asked()
    for file in spec.cnf_files:
        read_cnf(Path(file), target, asked)
    return asked.overridden_by(dict(spec.options))


def _needed(target: Target, connections: int) -> dict[str, str]:
    options = FIXED["needed"] | {"max_connections": str(max(_DEFAULT_MAX_CONNECTIONS, connections + SPARE_CONNECTIONS))}
    if target.family == "mysql":
        if target.version >= (5, 7):
            options["secure_file_priv"] = "NULL"
        if understands(target, "mysqlx"):
            options["mysqlx"] = "OFF"
        if target.version < (5, 6, 6) and connections > 50:
            options["back_log"] = str(connections)  # grows by itself since 5.6.6
    return options


def _matched(target: Target, memory: ServerMemory, engine: str, redo_files: int) -> dict[str, str]:
    pool_bytes = memory.buffer_pool_bytes
    options = FIXED["matched"] | redo_options(target, memory.redo_bytes, redo_files)
    options[_POOL] = str(_SMALL_POOL_BYTES if engine in _OWN_CACHE else pool_bytes)
    options["key_buffer_size"] = str(pool_bytes if engine == "myisam" else 8 * 2**20)
    if engine == _ROCKSDB:
        options |= {"rocksdb_block_cache_size": str(pool_bytes), "rocksdb_flush_log_at_trx_commit": "1"}
    optional = dict(FIXED["matched_if_known"])
    if len(os.sched_getaffinity(0)) < _CPUS_TO_SPIN_ON:
        optional[_SPIN_OPTION] = _NEVER_SPIN
    return options | {name: value for name, value in optional.items() if understands(target, name)}


def _for_own_cache(user: Mapping[str, str], engine: str) -> tuple[Mapping[str, str], list[str]]:
    cache, named = _OWN_CACHE.get(engine), {stem(name): name for name in user}
    if cache is None or cache in named or _POOL not in named:
        return user, []
    rest = {name: value for name, value in user.items() if name != named[_POOL]}
    size = user[named[_POOL]]
    return rest | {cache: size}, [f"{_POOL}={size} became {cache}: the tables are {engine}"]


def _for_barracuda(target: Target, data: Data) -> dict[str, str]:
    """Set the file format Barracuda where row formats need it; old servers would use COMPACT rows."""
    by_default_since = (10, 2) if target.family == "mariadb" else (5, 7, 7)
    asked = any(word in data.table_options.lower() for word in ("compressed", "dynamic", "key_block_size"))
    if not asked or target.version >= by_default_since:
        return {}
    return {"innodb_file_format": "Barracuda", "innodb_file_per_table": "1"}


def _check_engine(installation: Installation, asked: Mapping[str, str], engine: str) -> None:
    loaded = "rocksdb" in f"{asked.get('plugin', '')} {asked.get('plugin_load_add', '')}".lower()
    if (engine == _ROCKSDB or loaded) and _ROCKSDB not in installation.engines:
        have = sorted(f"{each.flavour}:{each.version}" for each in _catalog().entries if _ROCKSDB in each.engines)
        raise SpecError(
            f"server {installation.name} does not include MyRocks (engine rocksdb).",
            hint=f"These have it: {', '.join(have)}.",
            field=("data", "engine"),
        )


def check_collations(name: str, family: str, version: Version, data: Data, of_server: str | None = None) -> None:
    """Raise SpecError if a server does not have a collation that the data or the options name."""
    named: dict[KeyPath, str | None] = {("server", "options", "collation_server"): of_server}
    named |= {("data", each): getattr(data, each) for each in ("collation", "table_collation", "column_collation")}
    for at, collation in named.items():
        for part, capability in (("_0900_", "collations-0900"), ("uca1400_", "collations-uca1400")):
            if collation and part in collation.lower() and not _catalog().has(capability, family, version):
                since = _catalog().range_of(capability, family)
                raise SpecError(
                    f"server {name} has no collation {collation} (in {family}: {since}).",
                    hint="Choose one that all arms have, or exclude the combination with where.",
                    field=at,
                )


def _check_data(installation: Installation, data: Data, options: Mapping[str, str]) -> None:
    name, family, version = installation.name, installation.family, installation.version
    check_collations(name, family, version, data, options.get("collation_server"))
    if "COMPRESSION=" in data.table_options and not _catalog().has("page-compression", family, version):
        raise _unfit(f"server {name} has no page_compression (COMPRESSION=…).", "compression")
    page = parse_bytes(options.get("innodb_page_size", "16384"))
    if "compressed" in data.table_options.lower() and page > 16384:
        why = f"ROW_FORMAT=COMPRESSED needs pages of at most 16k, but innodb_page_size is {page}"
        raise _unfit(f"server {name}: {why}.", "row_format", hint="")
    block = re.search(r"KEY_BLOCK_SIZE=(\d+)", data.table_options)
    if block and int(block[1]) * 1024 > page:
        raise _unfit(f"server {name}: key_block_size {block[1]} exceeds innodb_page_size {page}.", "key_block_size")


def _unfit(message: str, table_option: str, hint: str = "Exclude the combination with where.") -> SpecError:
    return SpecError(message, hint=hint, field=("data", "table_options", table_option))


def _check_connections(target: Target, options: Mapping[str, str], connections: int) -> None:
    own = {name: value for name, value in options.items() if stem(name) == "max_connections" and not is_limit(name)}
    name, value = [*own.items()][-1]  # the last one counts
    allowed = whole_number(target, name, value)
    if allowed < connections + 2:
        raise SpecError(
            f"server {target.name}: max_connections={allowed} is too small for {connections} connections.",
            hint=f"Leave it out, or set {connections + SPARE_CONNECTIONS}.",
            field=("server", "options", "max_connections"),
        )


def _override(base: Mapping[str, str], user: Mapping[str, str]) -> dict[str, str]:
    taken = {stem(name) for name in user if not is_limit(name)}
    if "character_set_server" in taken:  # our collation may belong to another charset
        taken.add("collation_server")
    return {name: value for name, value in base.items() if stem(name) not in taken} | dict(user)


@cache
def _catalog() -> Catalog:
    return Catalog.load()


def ignored_options(asked: Mapping[str, str], variables: Mapping[str, str]) -> list[str]:
    """Return a line for each option whose variable in SHOW GLOBAL VARIABLES has another value.

    Many options have no variable. Only for `loose_` options does a missing one show that the server ignored them.
    """
    found = []
    for name, value in asked.items():
        plain = stem(name)
        if plain in GROUPS["not_variables"] or is_limit(name):
            continue
        # The value of log_bin is the log's name.
        wanted = "OFF" if is_negated(name) else "ON" if plain == "log_bin" else value or "ON"
        has = variables.get(plain, variables.get(_OTHER_NAMES.get(plain, ""), None))
        said = option_text(name, value)
        if has is None:
            if name.startswith("loose_"):  # an unknown option without it stops the server
                found.append(f"{said}: this server has no variable {plain}")
        elif plain in REPEATED and set(values_of(name, value)) <= set(has.split(",")):
            continue
        elif not same_value(wanted, has):
            found.append(f"{said}: the server has {has or '(empty)'}")
    return found


def ignored_by(server: Server, asked: Mapping[str, str]) -> list[str]:
    """Return a line for each instrument, consumer or plugin option that a running server ignored.

    No variable shows these. For an instrument, only the pattern is checked: it must match an existing one.
    """
    found = []
    for name, text in asked.items():
        plain = stem(name)
        if plain == "performance_schema_instrument":
            for value in values_of(name, text):
                pattern = value.partition("=")[0].strip()
                sql = "SELECT 1 FROM performance_schema.setup_instruments WHERE name LIKE %s LIMIT 1"
                if not server.query(sql, (pattern,)):
                    found.append(f"{plain}={value}: this server has no such instrument, or performance_schema is off")
        elif plain.startswith("performance_schema_consumer_"):
            consumer = plain.removeprefix("performance_schema_consumer_")
            rows = server.query("SELECT enabled FROM performance_schema.setup_consumers WHERE name=%s", (consumer,))
            wanted = not is_negated(name) and is_true(text)
            if (rows == [("YES",)]) is not wanted:
                found.append(f"{name}={text or 'on'}: the consumer is {'off' if wanted else 'on'}")
        elif plain in ("early_plugin_load", "plugin_load", "plugin_load_add"):
            rows = server.query("SELECT plugin_library FROM information_schema.plugins WHERE plugin_status='ACTIVE'")
            loaded = {_library(str(row[0])) for row in rows}
            parts = [part for part in text.split(";") if part]
            missing = [part for part in parts if _library(part.rpartition("=")[2]) not in loaded]
            found += [f"{name}={part}: the server runs without it" for part in missing]
    return found


def _library(file: str) -> str:
    return PurePath(file.strip()).name.removesuffix(".so")


def same_value(asked: str, has: str) -> bool:
    """Return whether `64M` and `67108864`, `1` and `ON`, or `a,b` and `B,A` mean the same."""
    left, right = asked.strip().lower(), has.strip().lower()
    if left == right or (is_true(left) and is_true(right)) or (is_false(left) and is_false(right)):
        return True
    try:
        one, other = _number(left), _number(right)
    except SpecError:
        if "=" in left:  # optimizer_switch: a part of the whole
            return set(left.split(",")) <= set(right.split(","))
        return sorted(left.replace("_", "-").split(",")) == sorted(right.replace("_", "-").split(","))
    return abs(one - other) <= _ROUNDING * max(abs(one), abs(other)) if one > 65536 else one == other


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float(parse_bytes(text))
