"""Settings: the names that a study file may vary or fix, their values, and what each does to an arm.

`server`, `option.NAME`, `env.NAME`, `server_charset`, `page_size`, `buffer_pool`, `preload` make the server; `charset`,
`table_charset`, `column_charset` (and their collations), `engine`, `row_format`, `key_block_size`, `page_compression`,
`table_options`, `data`, `rows`, `content`, `compressibility`, `text_length`, `column_type`, `column_length`,
`script.NAME` the data; `connection_charset`, `connection_collation`, `prepare_mode`, `transport`, `tls` the client.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bakeoff.errors import KeyPath, SpecError
from bakeoff.spec.server_name import (
    ServerSpec,
    is_limit,
    is_url,
    parse_server,
    stem,
    url_database,
    url_password,
)
from bakeoff.spec.study import CONNECTION_WORDS, Connection, Data, OptionValue, Part
from bakeoff.units import parse_bytes, parse_rows

# Contents of texts (setting `content`). The engine makes the characters (crates/script); these tables say, before
# anything is loaded, which character sets can store and send them.
_ASCII = ("digits", "ascii", "text", "prefix", "uuid", "hash")
_FULL_UNICODE = frozenset({"utf8mb4", "utf16", "utf16le", "utf32", "gb18030"})
_BASIC_PLANE = frozenset({"utf8", "utf8mb3", "ucs2"})
# Checked by a test against Python's codecs, with the alphabets of the engine.
_HOLD: dict[str, frozenset[str]] = {
    "latin": frozenset({"latin1", "cp850", "ujis", "eucjpms"}),
    "cyrillic": frozenset(
        {"cp1251", "cp866", "koi8r", "koi8u", "sjis", "cp932", "ujis", "eucjpms", "gb2312", "gbk", "euckr"}
    ),
    "japanese": frozenset({"sjis", "cp932", "ujis", "eucjpms", "gbk"}),
    "chinese": frozenset({"gb2312", "gbk"}),
    "emoji": frozenset(),
}
CONTENTS = (*_ASCII, *_HOLD)
"""Values of the setting `content`."""

CHARSETS = (
    "armscii8", "ascii", "big5", "binary", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852", "cp866", "cp932",
    "dec8", "eucjpms", "euckr", "gb18030", "gb2312", "gbk", "geostd8", "greek", "hebrew", "hp8", "keybcs2", "koi8r",
    "koi8u", "latin1", "latin2", "latin5", "latin7", "macce", "macroman", "sjis", "swe7", "tis620", "ucs2", "ujis",
    "utf16", "utf16le", "utf32", "utf8", "utf8mb3", "utf8mb4",
)  # fmt: skip
"""Character sets of MySQL and MariaDB; not every version has all of them."""

_NOT_FOR_CLIENTS = frozenset({"ucs2", "utf16", "utf16le", "utf32"})
# What the engine can encode, by the connection's character set; ASCII contents in any other.
_ENCODABLE: dict[str, frozenset[str]] = {
    "utf8mb4": frozenset(CONTENTS),
    "utf8": frozenset(CONTENTS) - {"emoji"},
    "utf8mb3": frozenset(CONTENTS) - {"emoji"},
    "latin1": frozenset({*_ASCII, "latin"}),
}
_CHAR_MAX = 255
_DEFAULTS: dict[str, OptionValue] = {"text_length": 119, "column_length": 120, "column_type": "char"}


def charset_of(collation: str) -> str | None:
    """The character set that a collation's name begins with; None for MariaDB's, which name none (`uca1400_ai_ci`)."""
    charset = collation.partition("_")[0]
    return None if charset == "uca1400" else charset


def of_charset(collation: str, charset: str) -> bool:
    """Whether a collation can go with a character set; utf8 and utf8mb3 are one."""
    of = charset_of(collation.lower())
    return of is None or of.replace("utf8mb3", "utf8") == charset.lower().replace("utf8mb3", "utf8")


def check_charset(name: str, level: str) -> None:
    """Check that a `…charset` or `…collation` names a character set that exists, and one that clients can use.

    Raises:
        SpecError: otherwise; with the nearest known name.
    """
    charset = charset_of(level) if name.endswith("collation") else level
    if charset is None:
        return
    if charset.lower() not in CHARSETS:
        near = difflib.get_close_matches(charset.lower(), CHARSETS, n=1)
        raise SpecError(
            f"there is no character set {charset}.", hint=f"Did you mean {near[0]}?" if near else "Write utf8mb4."
        )
    if name.startswith("connection_") and charset.lower() in _NOT_FOR_CLIENTS:
        raise SpecError(f"no client can use {charset}.", hint="Write utf8mb4: the server converts.")


def holds(charset: str, content: str) -> bool:
    """Whether a column in this character set can store a content."""
    if content in _ASCII or charset in _FULL_UNICODE:
        return True
    return charset in _HOLD.get(content, ()) or (charset in _BASIC_PLANE and content != "emoji")


def client_charset(charset: str) -> str:
    """Default of a connection to texts in this character set: the same, or utf8mb4 where clients cannot use it."""
    return "utf8mb4" if charset in _NOT_FOR_CLIENTS else charset


def spoken_charset(connection: Connection) -> str | None:
    """The character set that a connection is given, which its collation implies; None: that of the texts.

    Raises:
        SpecError: a collation of another character set than the one beside it.
    """
    charset, collation = connection.charset, connection.collation
    if charset and collation and not of_charset(collation, charset):
        raise SpecError(
            f"connection_collation {collation} is not of connection_charset {charset}.",
            hint="Leave connection_charset out: the collation implies it.",
            field=("connection", "collation"),
        )
    return charset or (charset_of(collation) if collation else None)


def check_texts(data: Data, connection: Connection) -> None:
    """Check that the texts fit into their columns, and that columns and connection can encode their content.

    Raises:
        SpecError: otherwise; with the values at fault, and the one to change as its field.
    """
    options = _DEFAULTS | dict(data.options)
    length, column_length = int(options["text_length"]), int(options["column_length"])
    if length > column_length:
        raise SpecError(
            f"text_length {length} is longer than column_length {column_length}.",
            hint="Make the column as long as its texts.",
            field=("data", "options", "text_length" if "text_length" in dict(data.options) else "column_length"),
        )
    if str(options["column_type"]).lower() == "char" and column_length > _CHAR_MAX:
        raise SpecError(
            f"column_length {column_length} is too long for a char: at most {_CHAR_MAX}.",
            hint="Write column_type: varchar.",
            field=("data", "options", "column_length"),
        )
    content = str(options.get("content", "digits"))
    charset = data.text_charset
    if charset is not None and not holds(charset, content):
        collation = f" ({data.text_collation})" if data.text_collation else ""
        raise SpecError(
            f"content {content} cannot be stored in {charset}{collation}.",
            hint="Leave the combination out with where, or choose a content of ASCII.",
            field=("data", "options", "content"),
        )
    spoken = spoken_charset(connection) or (charset and client_charset(charset))
    if spoken is not None and content not in _ENCODABLE.get(spoken, _ASCII):
        raise SpecError(
            f"content {content} cannot be sent over a connection in {spoken}.",
            hint="Write connection_charset: utf8mb4.",
            field=("data", "options", "content"),
        )


_NO_PASSWORD = "a password does not belong in a study file."
_PASSWORD_HINT = "Leave it out and set MYSQL_PWD, or use ~/.my.cnf."

DEFAULT = "default"
"""The level that leaves a setting unset."""

_PARTS: dict[str, Part] = {
    **dict.fromkeys(
        ("server", "page_size", "buffer_pool", "preload", "server_charset", "server_collation"), Part.SERVER
    ),
    **dict.fromkeys(
        (
            "charset", "collation", "table_charset", "table_collation", "column_charset", "column_collation", "engine",
            "row_format", "key_block_size", "table_options", "page_compression", "rows", "content", "compressibility",
            "text_length", "column_type", "column_length", "data",
        ),
        Part.DATA,
    ),
    **dict.fromkeys(
        ("connection_charset", "connection_collation", "prepare_mode", "transport", "tls"), Part.CLIENT
    ),
}  # fmt: skip
_OPEN = {"option.": Part.SERVER, "env.": Part.SERVER, "script.": Part.DATA}
_WORDS: dict[str, tuple[str, ...]] = {
    **CONNECTION_WORDS,
    "row_format": ("dynamic", "compact", "redundant", "compressed", "fixed", "page"),
    "key_block_size": ("1", "2", "4", "8", "16"),
    "page_compression": ("none", "zlib", "lz4"),
    "content": CONTENTS,
    "column_type": ("char", "varchar"),
    "page_size": ("4k", "8k", "16k", "32k", "64k", "4096", "8192", "16384", "32768", "65536"),
}
_LENGTHS = {"text_length": 16_383, "column_length": 16_383}  # characters of four bytes in the 65,535 bytes of a row
_OPTIONS_SET_BY = {
    "innodb_page_size": "page_size",
    "innodb_buffer_pool_size": "buffer_pool",
    "innodb_compression_algorithm": "page_compression",
    "character_set_server": "server_charset",
    "collation_server": "server_collation",
}
_COLLATIONS = ("collation", "table_collation", "column_collation")
_OF_SCRIPTS = ("content", "text_length", "column_type", "column_length")
_SAID_BY_DUMPS = (
    "engine", "row_format", "key_block_size", "table_options", "page_compression", "table_charset", "table_collation",
    "column_charset", "column_collation",
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9_]+")
_RATIO = re.compile(r"(\d{1,6}(?:\.\d{1,9})?)\s*[x×]")
_SHARE = re.compile(r"0(\.\d+)?|1(\.0+)?")
_POOL_MIN_BYTES = 16 * 2**20
_POOL_STEP_BYTES = 2**20


def part_of(name: str) -> Part:
    """Whether a setting belongs to the server, the data or the client.

    Raises:
        SpecError: there is no such setting; with the nearest known name.
    """
    if name in _PARTS:
        return _PARTS[name]
    for prefix, part in _OPEN.items():
        if name.startswith(prefix) and len(name) > len(prefix):
            return part
    near = difflib.get_close_matches(name, _PARTS, n=1, cutoff=0.6)
    raise SpecError(
        f"there is no setting {name}.",
        hint=f"Did you mean {near[0]}?" if near else f"Write option.{name} for an option of mysqld.",
    )


def settings_behind(field: KeyPath) -> tuple[str, ...]:
    """The settings that can give a field of an arm its value, the likeliest first.

    Args:
        field: path inside `Arm`, as `("server", "options", "innodb_page_size")` or `("data", "collation")`.
    """
    match field:
        case ("server", "options", str(name)):
            return (f"option.{name}", f"option.{name.replace('_', '-')}", _OPTIONS_SET_BY.get(name, "server"))
        case ("server", "env", str(name)):
            return (f"env.{name}", "preload") if name == "LD_PRELOAD" else (f"env.{name}",)
        case ("data", "source"):
            return ("data",)
        case ("data", "options", str(name)):
            own = "rows" if name == "table_size" else name
            return (own, f"script.{name}", f"script.{name.replace('_', '-')}")
        case ("data", "table_options", str(name)):
            return (name, "table_options")
        case ("data", str(name)):
            return (name, name.replace("collation", "charset"), name.replace("charset", "collation"))
        case ("connection", str(name)):
            return (f"connection_{name}", name)
        case _:
            return ()


def fields_set_by(name: str, value: str) -> tuple[KeyPath, ...]:
    """The fields of an arm that a setting gives their values, the same ones whatever the setting is called.

    Returns:
        Paths inside `Arm`, none for `default`; of a server, those of the options and the environment in its words.
    """
    if name == "server":
        server = parse_server(value)
        return (
            *(_option_field(option) for option, _ in server.options),
            *(("server", "env", each) for each, _ in server.env),
        )
    if value == DEFAULT:
        return ()
    kind, _, rest = name.partition(".")
    options = [_option_field(option) for option, setting in _OPTIONS_SET_BY.items() if setting == name]
    if kind == "option":
        return (_option_field(rest.replace("-", "_")),)
    if kind == "env" or name == "preload":
        return (("server", "env", rest or "LD_PRELOAD"),)
    if kind == "script" or name in ("rows", "engine", "compressibility", *_OF_SCRIPTS):
        own = {"rows": "table_size", "engine": "mysql_storage_engine"}.get(name, rest or name)
        return (("data", "options", own.replace("-", "_")),)
    if name == "table_options":
        return tuple(("data", name, each) for each in re.findall(r"(\w+)\s*=", value.lower()))
    if name in ("row_format", "key_block_size"):
        return (("data", "table_options", name),)
    if name == "page_compression":
        options.append(("data", "table_options", "compression"))
    return tuple(options)


def _option_field(name: str) -> KeyPath:
    return ("server", "options", name if is_limit(name) else stem(name))


def check_level(name: str, level: str) -> None:
    """Check that a level can be the value of a setting.

    Raises:
        SpecError: it cannot; with the values that can.
    """
    part_of(name)
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
    if name in _WORDS and level.lower() not in _WORDS[name]:
        raise SpecError(f"{level!r} is no {name}.", hint=f"Write one of {', '.join(_WORDS[name])}.")
    if name == "engine" or name.endswith(("charset", "collation")):
        if not _NAME.fullmatch(level):
            raise SpecError(f"{level!r} is no name of a {name}.", hint="Write letters, digits and underscores.")
        if name != "engine":
            check_charset(name, level)
    elif name == "rows":
        parse_rows(level)
    elif (length := name.removeprefix("script.").replace("-", "_")) in _LENGTHS:
        if not level.isdecimal() or len(level) > 9 or not 1 <= int(level) <= _LENGTHS[length]:
            raise SpecError(f"{level!r} is no {length}.", hint=f"Write 1 to {_LENGTHS[length]}, in characters.")
    elif name == "compressibility":
        if not _SHARE.fullmatch(level):
            raise SpecError(f"{level!r} is no compressibility.", hint="Write 0 to 1: the share that zlib saves.")
    elif name == "buffer_pool" and not _RATIO.fullmatch(level):
        parse_bytes(level)


def check_source_url(url: str) -> None:
    """Check the URL of a running server whose data is taken.

    Raises:
        SpecError: it has a password, or names no database.
    """
    if url_password(url) is not None:
        raise SpecError(_NO_PASSWORD, hint=_PASSWORD_HINT)
    if not url_database(parse_server(url).location):
        raise SpecError(f"data {url}: no database is named.", hint="Write mysql://user@host/DATABASE.")


@dataclass
class ArmParts:
    """Server, data and connection of an arm while its settings are applied.

    Attributes:
        folder: where the server's @FILEs lie.
        data_bytes: expected size of the tables, for a buffer pool given as a ratio of the data; None: not known.
    """

    folder: Path = Path()
    data_bytes: int | None = None
    server: ServerSpec | None = None
    data: Data = field(default_factory=lambda: Data(charset="utf8mb4"))
    connection: Connection = field(default_factory=Connection)

    def apply(self, settings: Mapping[str, str]) -> None:
        """Apply settings: the server first, then its options; a collation wins over a charset.

        Raises:
            SpecError: a collation of another charset than the one set beside it, or texts that do not fit.
        """
        texts = [name for name in settings if name in _PARTS and name.endswith(("charset", "collation"))]
        settings = {**settings, **{name: settings[name].lower() for name in texts}}  # servers do not mind the case
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
                f"{said}: tables of a dump are as the dump says.",
                hint=f"Leave {said} or data out.",
                field=("data", said),
            )
        check_texts(self.data, self.connection)

    def _apply(self, name: str, value: str, settings: Mapping[str, str]) -> None:
        kind, _, rest = name.partition(".")
        if name == "page_size":
            self._option("innodb_page_size", value)
        elif name == "buffer_pool":
            self._option("innodb_buffer_pool_size", str(self._pool_bytes(value)))
        elif name == "preload":
            self._env("LD_PRELOAD", value)
        elif name in ("server_charset", "server_collation"):
            self._option("character_set_server" if name == "server_charset" else "collation_server", value)
        elif kind == "option":
            self._option(rest.replace("-", "_"), value)
        elif kind == "env":
            self._env(rest, value)
        elif kind == "script":
            self._script(rest.replace("-", "_"), value)
        elif name == "rows":
            self._script("table_size", parse_rows(value))
        elif name == "compressibility":
            self._script(name, float(value))
        elif name in _OF_SCRIPTS:
            self._script(name, int(value) if name in _LENGTHS else value.lower())
        elif name in _COLLATIONS:
            self._collation(name, value, settings)
        elif name == "data":
            self._data(source=value)
        elif name == "row_format":
            self._table_option(f"ROW_FORMAT={value.upper()}")
        elif name == "key_block_size":
            self._table_option(f"KEY_BLOCK_SIZE={value}")
        elif name == "table_options":
            self._table_option(value)
        elif name in ("charset", "table_charset", "column_charset", "engine"):
            self._data(**{name: value})
        elif name != "page_compression":
            changed = {name.removeprefix("connection_"): value}
            self.connection = Connection.model_validate(self.connection.model_dump() | changed)

    def _data(self, **changed: str | None) -> None:
        self.data = self.data.model_copy(update=changed)

    def _page_compression(self, value: str) -> None:
        """MySQL takes the algorithm as a table option, MariaDB as a server option."""
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

    def _env(self, name: str, value: str) -> None:
        assert self.server
        merged = dict(self.server.env) | {name: value}
        self.server = self.server.model_copy(update={"env": tuple(merged.items())})

    def _script(self, name: str, value: OptionValue) -> None:
        merged = dict(self.data.options) | {name: value}
        self.data = self.data.model_copy(update={"options": tuple(merged.items())})

    def _table_option(self, text: str) -> None:
        self.data = self.data.model_copy(update={"table_options": f"{self.data.table_options} {text}".strip()})

    def _collation(self, name: str, collation: str, settings: Mapping[str, str]) -> None:
        """Set a collation of the database, the tables or the columns, with its character set."""
        charset_name = name.replace("collation", "charset")
        stated = settings.get(charset_name, DEFAULT)
        charset = charset_of(collation) or (stated if stated != DEFAULT else self.data.charset or "utf8mb4")
        if stated not in (DEFAULT, charset):
            raise SpecError(
                f"collation {collation} is of charset {charset}, not of {stated}.",
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
                f"buffer_pool {text}: how large the data of a running server is, is not known yet.",
                hint="Write a size: buffer_pool: 512M.",
                field=("server", "options", "innodb_buffer_pool_size"),
            )
        else:
            wanted = int(float(ratio[1]) * self.data_bytes)
        return max(wanted, _POOL_MIN_BYTES) // _POOL_STEP_BYTES * _POOL_STEP_BYTES
