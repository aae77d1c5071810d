"""The names that a study file may vary or fix, what each belongs to, and what it does to an arm.

`server`, `option.NAME`, `env.NAME`, `page_size`, `buffer_pool`, `preload` make the server; `charset`, `collation`,
`engine`, `row_format`, `key_block_size`, `table_options`, `rows`, `script.NAME` the data; `connection_charset`,
`connection_collation`, `prepare_mode`, `transport`, `tls` the client.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from bakeoff.errors import SpecError
from bakeoff.spec.design import Part
from bakeoff.spec.server import ServerSpec, parse_server, url_password
from bakeoff.spec.study import Connection, Data, OptionValue
from bakeoff.units import parse_bytes

DEFAULT = "default"
"""The level that leaves a setting as it is without the study."""

_PARTS: dict[str, Part] = {
    "server": Part.SERVER,
    "page_size": Part.SERVER,
    "buffer_pool": Part.SERVER,
    "preload": Part.SERVER,
    "charset": Part.DATA,
    "collation": Part.DATA,
    "engine": Part.DATA,
    "row_format": Part.DATA,
    "key_block_size": Part.DATA,
    "table_options": Part.DATA,
    "rows": Part.DATA,
    "connection_charset": Part.CLIENT,
    "connection_collation": Part.CLIENT,
    "prepare_mode": Part.CLIENT,
    "transport": Part.CLIENT,
    "tls": Part.CLIENT,
}
_OPEN = {"option.": Part.SERVER, "env.": Part.SERVER, "script.": Part.DATA}
_WORDS: dict[str, tuple[str, ...]] = {
    "prepare_mode": ("server", "client"),
    "transport": ("socket", "tcp"),
    "tls": ("disabled", "preferred", "required", "verify_ca", "verify_identity"),
    "row_format": ("dynamic", "compact", "redundant", "compressed", "fixed", "page"),
    "key_block_size": ("1", "2", "4", "8", "16"),
    "page_size": ("4k", "8k", "16k", "32k", "64k", "4096", "8192", "16384", "32768", "65536"),
}
_NAME = re.compile(r"[A-Za-z0-9_]+")
_RATIO = re.compile(r"(\d+(?:\.\d+)?)\s*[x×]")
_POOL_MIN_BYTES = 16 * 2**20
_POOL_STEP_BYTES = 2**20


def part_of(name: str) -> Part:
    """What a setting belongs to.

    Raises:
        SpecError: there is no such setting; with the nearest name.
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


def check_level(name: str, level: str) -> None:
    """See that a level can be a value of a setting.

    Raises:
        SpecError: it cannot, with what can.
    """
    part_of(name)
    if name == "server":
        parse_server(level)
        if "://" in level and url_password(level) is not None:
            raise SpecError(
                "a password does not belong in a study file.", hint="Leave it out and set MYSQL_PWD, or use ~/.my.cnf."
            )
        return
    if level == DEFAULT:
        return
    if name in _WORDS and level.lower() not in _WORDS[name]:
        raise SpecError(f"{level!r} is no {name}.", hint=f"Write one of {', '.join(_WORDS[name])}.")
    if name in ("charset", "collation", "engine", "connection_charset", "connection_collation"):
        if not _NAME.fullmatch(level):
            raise SpecError(f"{level!r} is no name of a {name}.", hint="Write letters, digits and underscores.")
    elif name == "rows":
        rows_of(level)
    elif name == "buffer_pool" and not _RATIO.fullmatch(level):
        parse_bytes(level)


def rows_of(text: str) -> int:
    """Rows in `20000`, `100k`, `10m`; k and m are 1,000 and 1,000,000.

    Raises:
        SpecError: not a whole number above zero.
    """
    found = re.fullmatch(r"(\d[\d_,]*)([km]?)", text.strip().lower())
    count = int(found[1].replace(",", "").replace("_", "")) if found else 0
    if not found or count < 1:
        raise SpecError(f"{text!r} is not a number of rows.", hint="Write 20000, 100k or 10m.")
    return count * {"": 1, "k": 1_000, "m": 1_000_000}[found[2]]


@dataclass
class ArmParts:
    """Server, data and connection of an arm while its settings are applied.

    Attributes:
        data_bytes: what the tables are expected to take, for a buffer pool as a ratio of the data.
    """

    data_bytes: int
    server: ServerSpec | None = None
    data: Data = field(default_factory=lambda: Data(charset="utf8mb4"))
    connection: Connection = field(default_factory=Connection)

    def apply(self, settings: Mapping[str, str]) -> None:
        """Apply settings: the server first, options over it, the collation over the charset.

        Raises:
            SpecError: a collation of another charset than the one that is set beside it.
        """
        if "server" in settings:
            self.server = parse_server(settings["server"])
        for name, value in settings.items():
            if name != "server" and value != DEFAULT:
                self._apply(name, value, settings)
            elif name in ("charset", "collation") and value == DEFAULT:
                self.data = self.data.model_copy(
                    update={"collation": None} | ({"charset": None} if name == "charset" else {})
                )

    def _apply(self, name: str, value: str, settings: Mapping[str, str]) -> None:
        kind, _, rest = name.partition(".")
        if name == "page_size":
            self._option("innodb_page_size", value)
        elif name == "buffer_pool":
            self._option("innodb_buffer_pool_size", str(self._pool_bytes(value)))
        elif name == "preload":
            self._env("LD_PRELOAD", value)
        elif kind == "option":
            self._option(rest.replace("-", "_"), value)
        elif kind == "env":
            self._env(rest, value)
        elif kind == "script":
            self._script(rest.replace("-", "_"), value)
        elif name == "rows":
            self._script("table_size", rows_of(value))
        elif name == "collation":
            self._collation(value, settings)
        elif name == "row_format":
            self._table_option(f"ROW_FORMAT={value.upper()}")
        elif name == "key_block_size":
            self._table_option(f"KEY_BLOCK_SIZE={value}")
        elif name == "table_options":
            self._table_option(value)
        elif name in ("charset", "engine"):
            self.data = self.data.model_copy(update={name: value})
        else:
            field_name = name.removeprefix("connection_")
            self.connection = self.connection.model_copy(update={field_name: value})

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

    def _collation(self, collation: str, settings: Mapping[str, str]) -> None:
        charset = collation.partition("_")[0]
        stated = settings.get("charset")
        # MariaDB's uca1400 collations are written without a charset of their own.
        if charset == "uca1400":
            charset = stated or self.data.charset or "utf8mb4"
        if stated not in (None, DEFAULT, charset):
            raise SpecError(
                f"collation {collation} is of charset {charset}, not of {stated}.",
                hint="Leave charset out: the collation says it.",
            )
        self.data = self.data.model_copy(update={"charset": charset, "collation": collation})

    def _pool_bytes(self, text: str) -> int:
        ratio = _RATIO.fullmatch(text)
        wanted = int(float(ratio[1]) * self.data_bytes) if ratio else parse_bytes(text)
        return max(wanted, _POOL_MIN_BYTES) // _POOL_STEP_BYTES * _POOL_STEP_BYTES
