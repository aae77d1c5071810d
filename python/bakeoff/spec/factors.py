"""Settings: the names that a study file may vary or fix, their values, and the field of an arm that each one sets."""

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from bakeoff.errors import KeyPath, SpecError
from bakeoff.spec.machine import NAMES as MACHINE_NAMES
from bakeoff.spec.machine import check_machine, limits_in, with_setting
from bakeoff.spec.server_name import ServerSpec, is_limit, is_url, parse_server, stem, url_database, url_password
from bakeoff.spec.study import CONNECTION_WORDS, Connection, Data, OptionValue, Part
from bakeoff.units import parse_bytes, parse_rows

_DATA = tomllib.loads(files("bakeoff.spec").joinpath("settings.toml").read_text("utf-8"))
_STORED: dict[str, list[str]] = _DATA["stored"]
CONTENTS: tuple[str, ...] = (*_DATA["content"]["ascii"], *_DATA["content"]["other"])
CHARSETS: tuple[str, ...] = tuple(_DATA["charsets"]["known"])
_NOT_FOR_CLIENTS: list[str] = _DATA["charsets"]["not_for_clients"]
_CHAR_MAX = 255
_DEFAULTS: dict[str, OptionValue] = {"text_length": 119, "column_length": 120, "column_type": "char"}


def charset_of(collation: str) -> str | None:
    """Return the character set that a collation's name begins with; None for MariaDB's `uca1400_ai_ci` and the like."""
    charset = collation.partition("_")[0]
    return None if charset == "uca1400" else charset


def of_charset(collation: str, charset: str) -> bool:
    of = charset_of(collation.lower())
    return of is None or of.replace("utf8mb3", "utf8") == charset.lower().replace("utf8mb3", "utf8")


def check_charset(name: str, level: str) -> None:
    """Check that a `…charset` or `…collation` names a character set that exists, and one that clients can use."""
    charset = charset_of(level) if name.endswith("collation") else level
    if charset is None:
        return
    if charset.lower() not in CHARSETS:
        near = difflib.get_close_matches(charset.lower(), CHARSETS, n=1)
        raise SpecError(
            f"character set {charset} is unknown.", hint=f"Did you mean {near[0]}?" if near else "Write utf8mb4."
        )
    if name.startswith("connection_") and charset.lower() in _NOT_FOR_CLIENTS:
        raise SpecError(f"no client can use {charset}.", hint="Write utf8mb4: the server converts.")


def holds(charset: str, content: str) -> bool:
    if content in _DATA["content"]["ascii"] or charset in _STORED["all"]:
        return True
    return charset in _STORED.get(content, ()) or (charset in _STORED["all_but_emoji"] and content != "emoji")


def client_charset(charset: str) -> str:
    """Return the default character set of a connection: that of the texts, or utf8mb4 if clients cannot use it."""
    return "utf8mb4" if charset in _NOT_FOR_CLIENTS else charset


def spoken_charset(connection: Connection) -> str | None:
    """Return the character set that a connection asks for; None to use that of the texts."""
    charset, collation = connection.charset, connection.collation
    if charset and collation and not of_charset(collation, charset):
        raise SpecError(
            f"connection_collation {collation} does not belong to connection_charset {charset}.",
            hint="Leave connection_charset out: the collation implies it.",
            field=("connection", "collation"),
        )
    return charset or (charset_of(collation) if collation else None)


def _unfit(option: str, message: str, hint: str) -> SpecError:
    return SpecError(message, hint=hint, field=("data", "options", option))


def check_texts(data: Data, connection: Connection) -> None:
    options = _DEFAULTS | dict(data.options)
    length, column_length = int(options["text_length"]), int(options["column_length"])
    if length > column_length:
        why = f"text_length {length} is longer than column_length {column_length}."
        hint = "Make the column as long as its texts."
        raise _unfit("text_length" if "text_length" in dict(data.options) else "column_length", why, hint)
    if str(options["column_type"]).lower() == "char" and column_length > _CHAR_MAX:
        why = f"column_length {column_length} is too long for a char: at most {_CHAR_MAX}."
        raise _unfit("column_length", why, "Write column_type: varchar.")
    content = str(options.get("content", "digits"))
    charset = data.text_charset
    if charset is not None and not holds(charset, content):
        collation = f" ({data.text_collation})" if data.text_collation else ""
        why = f"content {content} cannot be stored in {charset}{collation}."
        raise _unfit("content", why, "Leave the combination out with where, or choose a content of ASCII.")
    spoken = spoken_charset(connection) or (charset and client_charset(charset))
    if spoken is not None and content not in (*_DATA["content"]["ascii"], *_DATA["sent"].get(spoken, ())):
        why = f"content {content} cannot be sent over a connection in {spoken}."
        raise _unfit("content", why, "Write connection_charset: utf8mb4.")


_NO_PASSWORD = "a password does not belong in a study file."
_PASSWORD_HINT = "Leave it out and set MYSQL_PWD, or use ~/.my.cnf."

DEFAULT = "default"
_FIELDS: dict[str, KeyPath] = {name: tuple(path) for name, path in _DATA["fields"].items()}
_OPEN: dict[str, KeyPath] = {name: tuple(path) for name, path in _DATA["open"].items()}
_PARTS = {"server": Part.SERVER, "data": Part.DATA, "connection": Part.CLIENT}
_WORDS: dict[str, tuple[str, ...]] = {**CONNECTION_WORDS, **_DATA["words"], "content": CONTENTS}
_LENGTHS = {"text_length": 16_383, "column_length": 16_383}  # characters of four bytes in the 65,535 bytes of a row
_COLLATIONS = ("collation", "table_collation", "column_collation")
_SAID_BY_DUMPS: list[str] = _DATA["dumps"]["say"]
# Parsers for script options; other values stay text.
_READ: dict[str, Callable[[str], OptionValue]] = {
    "rows": parse_rows, "compressibility": float, "text_length": int, "column_length": int, "content": str.lower,
    "column_type": str.lower,
}  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9_]+")
_RATIO = re.compile(r"(\d{1,6}(?:\.\d{1,9})?)\s*[x×]")
_SHARE = re.compile(r"0(\.\d+)?|1(\.0+)?")
_POOL_MIN_BYTES = 16 * 2**20
_POOL_STEP_BYTES = 2**20


def part_of(name: str) -> Part:
    return _PARTS[str(_field_of(name)[0])]


def _field_of(name: str) -> KeyPath:
    if name in _FIELDS:
        return _FIELDS[name]
    kind, _, rest = name.partition(".")
    if kind in _OPEN and rest:
        return (*_OPEN[kind], rest if kind == "env" else rest.replace("-", "_"))
    near = difflib.get_close_matches(name, _FIELDS, n=1, cutoff=0.6)
    raise SpecError(
        f"setting {name} is unknown.",
        hint=f"Did you mean {near[0]}?" if near else f"Write option.{name} for an option of mysqld.",
    )


def settings_behind(field: KeyPath) -> tuple[str, ...]:
    """Return the settings that can set a field of an arm (a path inside `Arm`)."""
    found = [name for name, target in _FIELDS.items() if target == field]
    for kind, path in _OPEN.items():
        if field[:2] == path:
            found += [f"{kind}.{field[2]}", f"{kind}.{str(field[2]).replace('_', '-')}"]
    if field[:2] == ("data", "table_options"):
        found.append("table_options")
    elif len(field) == 2 and field[0] == "data":
        name = str(field[1])
        found += [name.replace("collation", "charset"), name.replace("charset", "collation")]
    return tuple(found)


def fields_set_by(name: str, value: str) -> tuple[KeyPath, ...]:
    """Return the fields of an arm (paths inside `Arm`) that a setting sets, whatever name it goes by."""
    if name == "server":
        server = parse_server(value)
        options = (_option_field(option) for option, _ in server.options)
        others = [("server", "env", each) for each, _ in server.env]
        return (*options, *others, *(("server", "limits", each) for each, _ in server.limits))
    if value == DEFAULT:
        return ()
    match _field_of(name):
        case ("server", "options", str(option)):
            return (_option_field(option),)
        case ("server", "limits", "storage") if "=" in value:
            return tuple(("server", "limits", each) for each in limits_in(value))
        case ("data", "engine"):
            return (("data", "options", "mysql_storage_engine"),)
        case ("data", "table_options"):
            return tuple(("data", name, each) for each in re.findall(r"(\w+)\s*=", value.lower()))
        case ("data", "table_options", "compression") as field:
            return (_option_field("innodb_compression_algorithm"), field)
        case field:
            return (field,)


def _option_field(name: str) -> KeyPath:
    return ("server", "options", name if is_limit(name) else stem(name))


def check_level(name: str, level: str) -> None:
    _field_of(name)
    if name == "server":
        parse_server(level)
        if is_url(level) and url_password(level) is not None:
            raise SpecError(_NO_PASSWORD, hint=_PASSWORD_HINT)
        return
    if level == DEFAULT:
        return
    if name == "data":
        if is_url(level):
            check_source_url(level)
        return
    if name in MACHINE_NAMES:
        check_machine(name, level)
        return
    if name in _WORDS and level.lower() not in _WORDS[name]:
        raise SpecError(f"{name} cannot be {level!r}.", hint=f"Write one of {', '.join(_WORDS[name])}.")
    if name == "engine" or name.endswith(("charset", "collation")):
        if not _NAME.fullmatch(level):
            raise SpecError(f"{name} cannot be {level!r}.", hint="Write letters, digits and underscores.")
        if name != "engine":
            check_charset(name, level)
    elif name == "rows":
        parse_rows(level)
    elif (length := name.removeprefix("script.").replace("-", "_")) in _LENGTHS:
        if not level.isdecimal() or len(level) > 9 or not 1 <= int(level) <= _LENGTHS[length]:
            raise SpecError(f"{length} cannot be {level!r}.", hint=f"Write 1 to {_LENGTHS[length]}, in characters.")
    elif name == "compressibility":
        if not _SHARE.fullmatch(level):
            raise SpecError(f"compressibility must be 0 to 1, got {level!r}.", hint="It is the share that zlib saves.")
    elif name == "buffer_pool" and not _RATIO.fullmatch(level):
        parse_bytes(level)


def check_source_url(url: str) -> None:
    """Check the URL of a running server to copy data from: it names a database and has no password."""
    server = parse_server(url)
    if url_password(url) is not None:
        raise SpecError(_NO_PASSWORD, hint=_PASSWORD_HINT)
    if not url_database(server.location):
        raise SpecError(f"data {url}: no database is named.", hint="Write mysql://user@host/DATABASE.")


@dataclass
class ArmParts:
    """An arm's server, data and connection while settings are applied. @FILEs are relative to `folder`."""

    folder: Path = Path()
    data_bytes: int | None = None
    server: ServerSpec | None = None
    data: Data = field(default_factory=lambda: Data(charset="utf8mb4"))
    connection: Connection = field(default_factory=Connection)

    def apply(self, settings: Mapping[str, str]) -> None:
        """Apply settings: the server first, then its options; a collation wins over a charset."""
        texts = [name for name in settings if name in _FIELDS and name.endswith(("charset", "collation"))]
        settings = {**settings, **{name: settings[name].lower() for name in texts}}  # case does not matter to servers
        if "server" in settings:
            self.server = parse_server(settings["server"], self.folder)
        for name, value in sorted(settings.items(), key=lambda setting: setting[0] in _COLLATIONS):
            if name != "server" and value != DEFAULT:
                self._apply(name, value, settings)
            elif name == "charset":
                self._data(charset=None)
        self._page_compression(settings.get("page_compression", DEFAULT))
        if self.data.source and (said := next((name for name in _SAID_BY_DUMPS if name in settings), None)):
            raise SpecError(
                f"{said}: a dump defines its own tables.", hint=f"Leave {said} or data out.", field=("data", said)
            )
        check_texts(self.data, self.connection)

    def _apply(self, name: str, value: str, settings: Mapping[str, str]) -> None:
        match _field_of(name):
            case ("server", "options", str(option)):
                self._option(option, str(self._pool_bytes(value)) if name == "buffer_pool" else value)
            case ("server", "env", str(variable)):
                assert self.server
                env = dict(self.server.env) | {variable: value}
                self.server = self.server.with_settings(env=tuple(env.items()))
            case ("server", "limits", str(limit)):
                assert self.server
                self.server = self.server.with_settings(limits=with_setting(self.server.limits, limit, value))
            case ("data", "options", str(option)):
                read = _READ[name](value) if name in _READ else value
                self._data(options=tuple((dict(self.data.options) | {option: read}).items()))
            case ("data", "table_options"):
                self._table_option(value)
            case ("data", "table_options", str(option)) if option != "compression":
                self._table_option(f"{option.upper()}={value.upper()}")
            case ("data", str(field)) if name in _COLLATIONS:
                self._collation(field, value, settings)
            case ("data", str(field)):
                self._data(**{field: value})
            case ("connection", str(field)):
                self.connection = Connection.model_validate(self.connection.model_dump() | {field: value})

    def _data(self, **changed: object) -> None:
        self.data = self.data.model_copy(update=changed)

    def _page_compression(self, value: str) -> None:
        """Set the algorithm, which is a table option in MySQL and a server option in MariaDB."""
        if value.lower() in (DEFAULT, "none"):
            return
        if self.server and self.server.flavour == "mariadb":
            self._option("innodb_compression_algorithm", value)
            self._table_option("PAGE_COMPRESSED=1")
        else:
            self._table_option(f"COMPRESSION='{value}'")

    def _option(self, name: str, value: str) -> None:
        assert self.server
        self.server = self.server.with_options(**{name: value})

    def _table_option(self, text: str) -> None:
        self._data(table_options=f"{self.data.table_options} {text}".strip())

    def _collation(self, name: str, collation: str, settings: Mapping[str, str]) -> None:
        charset_name = name.replace("collation", "charset")
        stated = settings.get(charset_name, DEFAULT)
        charset = charset_of(collation) or (stated if stated != DEFAULT else self.data.charset or "utf8mb4")
        if stated not in (DEFAULT, charset):
            raise SpecError(
                f"collation {collation} belongs to charset {charset}, not {stated}.",
                hint=f"Leave {charset_name} out: the collation implies it.",
                field=("data", name),
            )
        self._data(**{charset_name: charset, name: collation})

    def _pool_bytes(self, text: str) -> int:
        ratio = _RATIO.fullmatch(text)
        if not ratio:
            wanted = parse_bytes(text)
        elif self.data_bytes is None:
            raise SpecError(
                f"buffer_pool {text}: the size of a running server's data is not known yet.",
                hint="Write a size: buffer_pool: 512M.",
                field=("server", "options", "innodb_buffer_pool_size"),
            )
        else:
            wanted = int(float(ratio[1]) * self.data_bytes)
        return max(wanted, _POOL_MIN_BYTES) // _POOL_STEP_BYTES * _POOL_STEP_BYTES
