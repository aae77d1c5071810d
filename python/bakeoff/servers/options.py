"""Translates mysqld options for one version of a server, or refuses them.

An option is passed on, or replaced or left out with a note for the report. If options would stop the server, one
`SpecError` reports all of them before anything starts.
"""

import difflib
import json
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from bakeoff.errors import SpecError
from bakeoff.files import write_atomically
from bakeoff.servers.catalog import Installation, options_in_help
from bakeoff.servers.paths import cache_root, make_open_folder
from bakeoff.servers.releases import Version, parse_range, parse_version, version_text
from bakeoff.spec.factors import CHARSETS, charset_of, of_charset
from bakeoff.spec.server_name import REPEATED, is_negated, joined, stem, values_of
from bakeoff.units import parse_bytes

_DATA = tomllib.loads(files("bakeoff.servers").joinpath("options.toml").read_text("utf-8"))
GROUPS: dict[str, tuple[str, ...]] = {name: tuple(members) for name, members in _DATA["groups"].items()}
FIXED: dict[str, dict[str, str]] = _DATA["fixed"]
_OUTSIDE = "files outside the data directory are not part of snapshots"
_REDO_FILES = ("innodb_log_file_size", "innodb_log_files_in_group")
MYROCKS = "ha_rocksdb.so"
Row = Mapping[str, Any]
_TRUE = ("", "1", "on", "true", "yes")
_FALSE = ("0", "off", "false", "no")


@dataclass(frozen=True)
class Target:
    name: str
    family: str
    version: Version
    known: frozenset[str] = frozenset()
    flavour: str = ""

    @classmethod
    def of(cls, installation: Installation) -> "Target":
        known, flavour = installation.known_options, installation.flavour
        return cls(installation.name, installation.family, installation.version, known, flavour)

    def within(self, row: Row, suffix: str = "") -> bool:
        """Return whether a row of options.toml names this version; MySQL's ranges are also Percona Server's."""
        return self.version in parse_range(row.get(f"{self.flavour}{suffix}", row.get(f"{self.family}{suffix}")))

    def ignores(self, row: Row) -> bool:
        return self.within(row, "_ignored") and not self.within(row)


def known_options(version: str, sha256: str, ask_help: Callable[[], str]) -> frozenset[str]:
    """Return the options in a binary's `--verbose --help`, which is asked once and kept in the cache."""
    folder = make_open_folder(cache_root() / "options")
    file = folder / f"{version_text(parse_version(version))}-{sha256}.json"
    try:
        return frozenset(json.loads(file.read_bytes()))
    except (OSError, ValueError):
        found = options_in_help(ask_help())
    if found:
        write_atomically(file, json.dumps(sorted(found)).encode())
    return found


@dataclass
class Translation:
    options: dict[str, str] = field(default_factory=dict)
    init_options: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    wrong: list[SpecError] = field(default_factory=list)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        try:
            yield
        except SpecError as error:
            self.wrong.append(error)


@cache
def option_facts() -> Mapping[str, Row]:
    return {name: row for row in _DATA["option"] for name in row.get("names", [row.get("name")])}


def understands(target: Target, name: str) -> bool:
    row = option_facts().get(name)
    if row and target.ignores(row):
        return False
    return name in target.known if target.known else row is None or target.within(row)


def translate(
    target: Target,
    asked: Mapping[str, str],
    places: Mapping[str, str] = MappingProxyType({}),
    problems: Sequence[SpecError] = (),
) -> Translation:
    """Translate options for the target, or raise one SpecError for all that would keep it from starting."""
    done = Translation(wrong=[*problems])
    rest: dict[str, str] = {}
    for name, value in asked.items():
        whole = whole_name(target, name)
        if whole != name:
            done.notes.append(f"{name} became {whole}")
        rest[_named_at_init(target, whole)] = value
    _refuse_ours(target, rest, done)
    if left_out := [name for name in rest if stem(name).startswith(GROUPS["clusters"])]:
        rest = {name: value for name, value in rest.items() if name not in left_out}
        done.notes.append(f"{', '.join(left_out)}: left out, because measured servers join no cluster")
    _refuse_double_negation(target, rest, done)
    for rule in (_charsets, _redo, _isolation, _binlog, _authentication, _tls, _plugin, _page_size):
        with done.collecting():
            rule(target, rest, done)
    for name, value in rest.items():
        with done.collecting():
            _pass_or_refuse(target, name, value, done)
    if done.wrong:
        raise _all_in_one(target, done.wrong, places)
    done.init_options |= counting_at_init(target, done.options)
    return done


def whole_name(target: Target, name: str) -> str:
    """Complete a unique prefix of an option, as MariaDB and MySQL until 5.6 do: `key_buffer` is `key_buffer_size`."""
    plain = name.removeprefix("loose_")
    if plain in target.known or stem(plain) in {*target.known, *option_facts(), *GROUPS["ours"]}:
        return name
    longer = [known for known in target.known if known.startswith(plain)]
    return name.removesuffix(plain) + longer[0] if len(longer) == 1 else name


def _all_in_one(target: Target, wrong: Sequence[SpecError], places: Mapping[str, str]) -> SpecError:
    whose, texts = f"server {target.name}: ", []
    for error in wrong:
        place = places.get(str(error.field[-1])) if error.field else None
        texts.append(f"{place}: {error.message}" if place else error.message)
    if len(wrong) == 1:
        return SpecError(texts[0], hint=wrong[0].hint, field=wrong[0].field)
    hints = [f" ({error.hint.rstrip('.')})" if error.hint else "" for error in wrong]
    said = [text.replace(whose, "", 1).rstrip(".") + hint for text, hint in zip(texts, hints, strict=True)]
    return SpecError(f"{whose}{len(wrong)} options cannot be used. {'; '.join(said)}.", field=wrong[0].field)


def _named_at_init(target: Target, name: str) -> str:
    plain = name.removeprefix("loose_")
    return plain if plain in (*GROUPS["at_init"], *_REDO_FILES) and understands(target, plain) else name


def counting_at_init(target: Target, options: Mapping[str, str]) -> dict[str, str]:
    names = [*GROUPS["at_init"]]
    if target.within({"mysql": "-5.6.8"}):  # refuses to start on redo files of another size
        names += _REDO_FILES
    return {name: options[name] for name in names if name in options}


def is_true(value: str) -> bool:
    return value.lower() in _TRUE


def is_false(value: str) -> bool:
    return value.lower() in _FALSE


def whole_number(target: Target, name: str, value: str) -> int:
    try:
        return parse_bytes(value)
    except SpecError:
        raise _refuse(target, name, value, "it is not a whole number") from None


def _refuse(target: Target, name: str, value: str, why: str, hint: str = "") -> SpecError:
    what = f"option {option_text(name, value)} cannot be used"
    return SpecError(f"server {target.name}: {what}: {why}.", hint=hint, field=("server", "options", name))


def option_text(name: str, value: str) -> str:
    return f"{name}={', '.join(values_of(name, value))}" if value else name


def is_password(name: str) -> bool:
    return stem(name) in GROUPS["passwords"]


def refuse_passwords(server: str, names: Iterable[str]) -> None:
    for name in names:
        if is_password(name):
            raise SpecError(
                f"server {server}: option {name} cannot be used: it is a password for other servers.",
                hint="Leave it out.",
                field=("server", "options", name),
            )


def own_option(name: str, value: str) -> tuple[str, str] | None:
    plain = stem(name)
    if plain in GROUPS["ours"]:
        return "bakeoff sets it for every server", "Leave it out."
    if plain in GROUPS["folders"]:
        return _OUTSIDE, "Leave it out."
    if plain in GROUPS["files"] and "/" in value:
        return _OUTSIDE, "Name the file without a folder."
    if name.removeprefix("loose_") in GROUPS["not_a_server"] or plain in GROUPS["not_a_server"]:
        return "it would change how the server is run, not how fast it is", "Leave it out."
    return None


def file_name(name: str, value: str) -> str:
    return value.rpartition("/")[2] if stem(name) in GROUPS["files"] and ":" not in value else ""


def _refuse_ours(target: Target, asked: dict[str, str], done: Translation) -> None:
    for name, value in [*asked.items()]:
        try:
            refuse_passwords(target.name, [name])
            if why := own_option(name, value):
                raise _refuse(target, name, value, *why)
        except SpecError as error:
            done.wrong.append(error)
            del asked[name]


def _refuse_double_negation(target: Target, asked: dict[str, str], done: Translation) -> None:
    """Refuse `skip_log_bin=OFF`, which a server reads as `skip_log_bin`, and `=0`, which it reads as `log_bin`."""
    for name, value in [*asked.items()]:
        # A server's help lists `--skip-log-bin` beside `--log-bin`, but only `--skip-slave-start`.
        whole = name.removeprefix("loose_") in target.known and stem(name) not in target.known
        if is_negated(name) and is_false(value) and not whole:
            hint = f"Write {stem(name)}, or {name} without a value."
            done.wrong.append(_refuse(target, name, value, "it negates twice", hint))
            del asked[name]


def _charsets(target: Target, rest: dict[str, str], done: Translation) -> None:
    named = {stem(name): value for name, value in rest.items()}
    collation, charset = named.get("collation_server"), named.get("character_set_server")
    if collation and charset and not of_charset(collation, charset):
        why = f"it does not belong to character_set_server={charset}"
        hint = "Leave character_set_server out: the collation implies it."
        raise _refuse(target, "collation_server", collation, why, hint)
    implied = charset_of(collation.lower()) if collation and not charset else None
    if implied in CHARSETS:
        rest["character_set_server"] = implied
        done.notes.append(f"character_set_server={implied} was added: collation_server={collation} belongs to it")


def _redo(target: Target, rest: dict[str, str], done: Translation) -> None:
    """Translate the redo size: a capacity (MySQL 8.0.30), files × size (MySQL before) or one file (MariaDB 10.5)."""
    by_capacity = understands(target, "innodb_redo_log_capacity")
    both = {"innodb_log_file_size", "innodb_redo_log_capacity"} <= rest.keys()  # in a file for several versions
    if both:
        size, native = ("innodb_log_file_size", "innodb_redo_log_capacity")[:: 1 if by_capacity else -1]
        done.notes.append(f"{size}={rest.pop(size)} was left out: {target.name} sizes redo by {native}")
    if by_capacity and "innodb_log_file_size" in rest:
        size = rest.pop("innodb_log_file_size")
        count = whole_number(target, "innodb_log_files_in_group", rest.pop("innodb_log_files_in_group", "2"))
        capacity = str(whole_number(target, "innodb_log_file_size", size) * count)
        done.options["innodb_redo_log_capacity"] = capacity
        done.notes.append(
            f"innodb_log_file_size={size} × {count} files became innodb_redo_log_capacity={capacity}: "
            f"{target.name} sizes redo that way"
        )
    elif by_capacity and (both or not understands(target, "innodb_log_files_in_group")):
        done.notes += without_redo_files(target, rest)
    elif not by_capacity and "innodb_redo_log_capacity" in rest:
        size = rest.pop("innodb_redo_log_capacity")
        files = redo_options(target, whole_number(target, "innodb_redo_log_capacity", size))
        done.options.update(files)
        done.notes.append(
            f"innodb_redo_log_capacity={size} became {' '.join(option_text(*each) for each in files.items())}: "
            f"{target.name} has no innodb_redo_log_capacity"
        )


def without_redo_files(target: Target, options: dict[str, str]) -> list[str]:
    count = options.pop("innodb_log_files_in_group", None)
    why = f"{target.name} sizes redo by innodb_redo_log_capacity"
    return [f"innodb_log_files_in_group={count} was left out: {why}"] if count is not None else []


def redo_options(target: Target, total_bytes: int, files: int = 2) -> dict[str, str]:
    if understands(target, "innodb_redo_log_capacity"):
        return {"innodb_redo_log_capacity": str(total_bytes)}
    if target.family == "mariadb" and target.version >= (10, 5):
        return {"innodb_log_file_size": str(total_bytes)}
    return {"innodb_log_file_size": str(total_bytes // files), "innodb_log_files_in_group": str(files)}


def _isolation(target: Target, rest: dict[str, str], done: Translation) -> None:
    if "tx_isolation" in rest:
        value = rest.pop("tx_isolation")
        done.options["transaction_isolation"] = value
        done.notes.append(f"tx_isolation={value} became transaction_isolation={value}")


def _binlog(target: Target, rest: dict[str, str], done: Translation) -> None:
    """Correct `log_bin=OFF`, which would name a log "OFF", and add options that a binary log needs."""
    if is_false(rest.get("log_bin", "x")):
        value = rest.pop("log_bin")
        rest["skip_log_bin"] = ""
        done.notes.append(f"log_bin={value} became skip_log_bin: the value of log_bin is the log's name")
    if "log_bin" in rest:
        if rest["log_bin"].lower() in ("on", "1"):
            rest["log_bin"] = "binlog"
        if "server_id" not in rest:
            rest["server_id"] = "1"
            done.notes.append("server_id=1 was added: MySQL from 5.7 on keeps no binary log without it")
    with_gtids = rest.get("gtid_mode", "off").lower() == "on"
    if target.within({"mysql": "-5.7"}) and with_gtids and "log_slave_updates" not in rest:
        rest["log_slave_updates"] = "1"
        done.notes.append("log_slave_updates=1 was added: MySQL 5.6 refuses gtid_mode=ON without it")


def _authentication(target: Target, rest: dict[str, str], done: Translation) -> None:
    """Rename the default plugin of new accounts for this version; at initialisation it also applies to root."""
    name = "default_authentication_plugin"
    if name not in rest:
        return
    plugin = rest.pop(name)
    default = "caching_sha2_password" if target.within({"mysql": "8.0.4-"}) else "mysql_native_password"
    if target.within({"mysql": "9.0-"}) and plugin == "mysql_native_password":
        raise _refuse(
            target, name, plugin, "MySQL 9.0 removed the plugin mysql_native_password", "Use caching_sha2_password."
        )
    if understands(target, name):
        done.options[name] = done.init_options[name] = plugin
    elif plugin == default:
        done.notes.append(f"{name}={plugin} was left out: it is the default of {target.name}")
    elif understands(target, "authentication_policy"):
        done.options["authentication_policy"] = done.init_options["authentication_policy"] = plugin
        done.notes.append(f"{name}={plugin} became authentication_policy={plugin}: MySQL 8.4 renamed it")
    else:
        raise _refuse(target, name, plugin, f"its accounts always use {default}")


def _tls(target: Target, rest: dict[str, str], done: Translation) -> None:
    """Turn TLS off by `skip_ssl`, or from MySQL 8.4 on by `tls_version=`, unless the build has no TLS."""
    off = (each for each in rest if stem(each) == "ssl" and (is_negated(each) or is_false(rest[each])))
    name = next(off, None)
    if name is None:
        return
    rest.pop(name)
    done.options.update(no_tls(target))
    if "skip_ssl" not in done.options:
        instead = "tls_version= (empty)" if "tls_version" in done.options else "nothing: this server has no TLS"
        done.notes.append(f"{name} became {instead}")


def no_tls(target: Target) -> dict[str, str]:
    if understands(target, "ssl"):
        return {"skip_ssl": ""}
    return {"tls_version": ""} if understands(target, "tls_version") else {}


def _plugin(_: Target, rest: dict[str, str], done: Translation) -> None:
    if "plugin" in rest:
        value = rest.pop("plugin")
        library = MYROCKS if value.lower() in ("rocksdb", "myrocks") else value
        rest["plugin_load_add"] = joined(rest.get("plugin_load_add"), "plugin_load_add", library)


def _page_size(target: Target, rest: dict[str, str], done: Translation) -> None:
    value = rest.get("innodb_page_size")
    if value is None:
        return
    size = whole_number(target, "innodb_page_size", value)
    if size not in (4096, 8192, 16384, 32768, 65536):
        raise _refuse(target, "innodb_page_size", value, "use 4k, 8k, 16k, 32k or 64k")
    since = (10, 1) if target.family == "mariadb" else (5, 7, 6)
    if size > 16384 and target.version < since:
        why = f"pages above 16k need {version_text(since)}; {target.name} would silently use 16k"
        raise _refuse(target, "innodb_page_size", value, why)
    rest["innodb_page_size"] = str(size)


_ALLOCATORS = {
    "jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4", "mimalloc": "libmimalloc.so.2"
}  # fmt: skip


def _pass_or_refuse(target: Target, name: str, value: str, done: Translation) -> None:
    plain = stem(name)
    if name.startswith("loose_") or understands(target, plain) or understands(target, name):
        done.options[name] = value
        for row in _DATA["value"]:
            if name in row["options"] and row["contains"] in value.lower() and not target.within(row):
                raise _refuse(target, name, value, row["reason"])
        return
    fact = option_facts().get(plain)
    if fact is None:
        near = difflib.get_close_matches(plain, sorted(target.known), n=2, cutoff=0.75)
        hint = f"Did you mean {' or '.join(near)}?" if near else "Prefix it with loose_ to try it anyway."
        for allocator in difflib.get_close_matches(plain, _ALLOCATORS, n=1, cutoff=0.75):
            hint = f"To preload a memory allocator, write ,env.LD_PRELOAD={_ALLOCATORS[allocator]}"
        raise SpecError(f"server {target.name}: it has no option {name}.", hint=hint, field=("server", "options", name))
    negated = is_negated(name)
    off = negated or is_false(value)
    switch = "off" if off else "on" if is_true(value) else ""  # empty if it is not a switch
    meant = {switch, "" if negated else value.lower()}
    if meant & set(fact.get("neutral", ())) and target.within(
        {"mysql_neutral": "*", "mariadb_neutral": "*", **fact}, "_neutral"
    ):
        done.notes.append(f"{option_text(name, value)} was left out: {fact['reason']}")
    elif target.ignores(fact):
        done.notes.append(
            f"{option_text(name, value)} was left out, because {target.name} ignores it: {fact['reason']}"
        )
    else:
        raise _refuse(target, name, value, fact["reason"])


EMPTY_VALUES = REPEATED | set(GROUPS["empty_values"])


def option_arguments(options: Mapping[str, str]) -> list[str]:
    """Format `{"innodb_page_size": "8k", "skip_ssl": ""}` as `--innodb-page-size=8k --skip-ssl`."""
    return [
        f"--{name.replace('_', '-')}" + (f"={value}" if value or name in EMPTY_VALUES else "")
        for name, text in options.items()
        for value in values_of(name, text)
    ]
