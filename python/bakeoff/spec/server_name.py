"""Parse the name of a server, as in `mysql:8.0.15,innodb_flush_method=fsync`.

Forms: `FLAVOUR[:VERSION]`, `path:DIR`, `tarball:FILE`, `docker:IMAGE`, `mysql://user@host:3306/?socket=`; then any
number of `,option=value`, `,@FILE.cnf`, `,env.NAME=value`, and machine settings (`,memory=2G`).
"""

import os
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit

from pydantic import Field

from bakeoff.errors import SpecError
from bakeoff.files import expanded, from_here
from bakeoff.spec.cnf_lines import read_cnf_text
from bakeoff.spec.fields import Frozen
from bakeoff.spec.machine import NAMES as MACHINE_NAMES
from bakeoff.spec.machine import Machine, Pairs, check_machine, machine_of, with_setting


class Origin(StrEnum):
    CATALOG = "catalog"
    PATH = "path"
    TARBALL = "tarball"
    DOCKER = "docker"
    URL = "url"


class ServerSpec(Frozen):
    """One server setup. Equality is by value, so two arms may share binaries, templates and data.

    Attributes:
        location: directory, file, image, or URL without its password; empty for CATALOG.
        options: mysqld options in the order typed; names have underscores and no leading dashes.
        cnf_files: my.cnf files that are read before `options`; absolute, or with a leading `~`.
        cnf_options: names of the options in all groups of these files.
        limits: its share of the machine (`bakeoff.spec.machine`).
    """

    origin: Origin
    flavour: str = ""
    version: str = ""
    location: str = ""
    options: tuple[tuple[str, str], ...] = ()
    cnf_files: tuple[str, ...] = ()
    cnf_options: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    limits: Pairs = Field(default=(), exclude_if=lambda limits: not limits)

    def __str__(self) -> str:
        """Return text that `parse_server` reads back, without a URL's password."""
        if self.origin is Origin.CATALOG:
            head = f"{self.flavour}:{self.version}" if self.version else self.flavour
        elif self.is_running:
            head = self.location
        else:
            head = f"{self.origin}:{self.location}"
        parts = [head, *(f"@{from_here(file)}" for file in self.cnf_files)]
        parts += [
            f"{name}={value}" if value else name for name, text in self.options for value in values_of(name, text)
        ]
        parts += [f"env.{name}={value}" for name, value in self.env]
        parts += [f"{name}={value}" for name, value in self.limits]
        return ",".join(parts)

    @property
    def is_running(self) -> bool:
        return self.origin is Origin.URL

    @property
    def machine(self) -> Machine:
        return machine_of(self.limits)

    def with_options(self, **options: str) -> Self:
        return self.with_settings(options=tuple((dict(self.options) | options).items()))

    def with_settings(
        self,
        *,
        options: tuple[tuple[str, str], ...] | None = None,
        env: tuple[tuple[str, str], ...] | None = None,
        limits: Pairs | None = None,
        cnf_files: tuple[str, ...] | None = None,
    ) -> Self:
        given = {"options": options, "env": env, "limits": limits, "cnf_files": cnf_files}
        return self.model_copy(update={name: value for name, value in given.items() if value is not None})


UNWRITABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters and surrogates, which no option, name or title may contain."""


def check_file_name(what: str, name: str) -> None:
    """Raise SpecError for a file name that neither a run directory nor the engine's protocol can hold."""
    if UNWRITABLE.search(name):
        raise SpecError(f"{what} {name!r}: the name is not UTF-8 or has control characters.", hint="Rename it.")


_OPTIONS = tomllib.loads(files("bakeoff.spec").joinpath("settings.toml").read_text("utf-8"))["options"]
REPEATED: frozenset[str] = frozenset(_OPTIONS["repeated"])
"""Options that may be given several times with one value each; bakeoff joins the values with newlines."""
_COLLECTED: dict[str, str] = dict.fromkeys(REPEATED, "\n") | _OPTIONS["collected"]
_VERSION = r"lts|latest|[0-9][0-9A-Za-z.+-]*"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
# Prefixes of an option that are not part of its variable's name.
_PREFIXES = ("loose_", "skip_", "enable_", "disable_", "maximum_")


def parse_server(text: str, folder: Path = Path()) -> ServerSpec:
    """Parse a server of the command line or a study; its @FILEs are relative to `folder`."""
    if odd := UNWRITABLE.search(text):
        raise SpecError(f"server: a control character (U+{ord(odd[0]):04X}) is in its name.", hint="Remove it.")
    head, *rest = _split_commas(text.strip())
    if not head:
        raise SpecError("server: the name is empty.", hint="Write mysql:8.0, path:/opt/mysql or mysql://user@host/.")
    options: dict[str, str] = {}
    env: dict[str, str] = {}
    limits: Pairs = ()
    cnf_files: list[str] = []
    for part in rest:
        if part.startswith("@"):
            cnf_files.append(part[1:] if part.startswith("@~") else str((folder / part[1:]).absolute()))
            continue
        name, _, value = part.partition("=")
        name = name.strip().lstrip("-")
        if not _NAME.fullmatch(name) or name == "env.":
            what = "what follows a comma" if is_url(text) else repr(part)  # it may be part of a password
            raise SpecError(
                f"server {_shown(text)}: {what} is not option=value.", hint="Write mysql:8.0,innodb_flush_method=fsync."
            )
        if name.startswith("env."):
            env[name[4:]] = value
        elif name in MACHINE_NAMES:
            limits = _with_limit(limits, name, value, text)
        else:
            name = name.replace("-", "_")
            if name in options and _joint(name) is None:
                raise SpecError(f"server {_shown(text)}: {name} appears twice.", hint="Leave one out.")
            options[name] = joined(options.get(name), name, value)
    base = _parse_head(head, text)
    if limits and base.origin in (Origin.URL, Origin.DOCKER):
        raise SpecError(
            f"server {_shown(text)}: bakeoff does not start its process, so {limits[0][0]} cannot be limited.",
            hint="Leave it out, or name a server of the catalogue, path: or tarball:.",
        )
    return base.model_copy(
        update={
            "options": tuple(options.items()),
            "env": tuple(env.items()),
            "limits": limits,
            "cnf_files": tuple(cnf_files),
            "cnf_options": _cnf_options(cnf_files),
        }
    )


def _with_limit(limits: Pairs, name: str, value: str, text: str) -> Pairs:
    if name in dict(limits):
        raise SpecError(f"server {_shown(text)}: {name} appears twice.", hint="Leave one out.")
    try:
        check_machine(name, value)
    except SpecError as error:
        raise SpecError(f"server {_shown(text)}: {error.message}", hint=error.hint) from None
    return with_setting(limits, name, value)


def joined(before: str | None, name: str, value: str) -> str:
    """Join an option's value with an earlier one if mysqld collects them; else return the value."""
    joint = _joint(name)
    return value if before is None or joint is None else f"{before}{joint}{value}"


def values_of(name: str, value: str) -> list[str]:
    """Split the value of an option that is given to mysqld several times."""
    return value.split("\n") if _joint(name) == "\n" else [value]


def _joint(name: str) -> str | None:
    return _COLLECTED.get(name.removeprefix("loose_"))


def with_later(options: Mapping[str, str], later: Mapping[str, str]) -> dict[str, str]:
    """Merge options as mysqld does: the later one wins, unless mysqld collects both."""
    others = {name: value for name, value in options.items() if name not in later}
    return others | {name: joined(options.get(name), name, value) for name, value in later.items()}


def stem(name: str) -> str:
    """Return the variable that an option sets: `log_bin` for `loose_skip_log_bin`."""
    if name == "skip_name_resolve":  # a variable itself
        return name
    for prefix in _PREFIXES:
        if name.startswith(prefix) and len(name) > len(prefix):
            return stem(name[len(prefix) :])
    return name


def is_negated(name: str) -> bool:
    """Whether an option switches its variable off: `skip_log_bin`, `loose_disable_log_bin`; not `skip_name_resolve`."""
    bare = name.removeprefix("loose_")
    return bare != stem(name) and bare.startswith(("skip_", "disable_"))


def is_limit(name: str) -> bool:
    """Whether an option only bounds what its variable may be set to later: `maximum_max_connections`."""
    return name.removeprefix("loose_").startswith("maximum_")


def _cnf_options(files: list[str]) -> tuple[str, ...]:
    """Return the names of the options in cnf files. An unreadable file is reported later, when a server starts."""
    names: set[str] = set()
    for name in files:
        with suppress(SpecError, OSError, ValueError):
            if expanded(Path(name)).is_file():  # a pipe or a device might never end
                names |= {line.name for line in read_cnf_text(Path(name)).lines if _NAME.fullmatch(line.name)}
    return tuple(sorted(names))


def is_url(text: str) -> bool:
    return "://" in text


def url_password(text: str) -> str | None:
    """Return the password in a server URL, which `ServerSpec` never keeps, or None."""
    password = urlsplit(_split_commas(text.strip())[0]).password
    return unquote(password) if password is not None else None


def url_parts(location: str) -> tuple[str, int, str | None, str | None]:
    parts = urlsplit(location)
    socket = parse_qs(parts.query).get("socket", [None])[0]
    return (
        parts.hostname or "127.0.0.1",
        parts.port or 3306,
        socket,
        unquote(parts.username) if parts.username else None,
    )


def running_at(server: ServerSpec, *, with_database: bool) -> tuple[str | int, ...]:
    """Identify a running server by where it listens, however its URL is written; optionally also by its database."""
    host, port, socket, _ = url_parts(server.location)
    host = "127.0.0.1" if host in ("localhost", "::1") else host
    place: tuple[str | int, ...] = (os.path.realpath(socket),) if socket else (host, port)
    return (*place, url_database(server.location)) if with_database else place


def url_database(location: str) -> str:
    return unquote(urlsplit(location).path).strip("/")


def _parse_head(head: str, text: str) -> ServerSpec:
    if re.match(r"(mysql|mariadb)://", head):
        try:
            parts = urlsplit(head)
            host, port = parts.hostname or "", parts.port
        except ValueError:  # its message may quote a password
            raise SpecError(
                "server: this URL is not understood: its host or port is unclear.",
                hint="Write mysql://user@host:3306/, with %40, %2F and %23 for @, / and # in a password.",
            ) from None
        if parse_qs(parts.query, keep_blank_values=True).keys() - {"socket"}:  # not quoted: it may be a password
            raise SpecError(
                "server: a URL takes no parameter but ?socket=PATH.",
                hint="The password goes before the @ or into MYSQL_PWD; "
                "TLS is --tls (duel), or tls in the settings of a study.",
            )
        host = f"[{host}]" if ":" in host else host
        netloc = (f"{parts.username}@" if parts.username else "") + host + (f":{port}" if port else "")
        query = f"?{parts.query}" if parts.query else ""
        return ServerSpec(origin=Origin.URL, location=f"{parts.scheme}://{netloc}{parts.path}{query}")
    kind, colon, location = head.partition(":")
    if kind in (Origin.PATH, Origin.TARBALL, Origin.DOCKER):
        if not location:
            raise SpecError(f"server {_shown(text)}: nothing after {kind}:.", hint=f"Write {kind}:NAME.")
        return ServerSpec(origin=Origin(kind), location=location)
    if not re.fullmatch(r"[a-z][a-z0-9-]*", kind) or (colon and not re.fullmatch(_VERSION, location)):
        raise SpecError(
            f"server {_shown(text)} is not understood.",
            hint="Write FLAVOUR:VERSION (mysql:8.0), path:DIR, tarball:FILE or mysql://user@host/.",
        )
    return ServerSpec(origin=Origin.CATALOG, flavour=kind, version=location)


def _shown(text: str) -> str:
    """Quote a server for a message; only the scheme of a URL, because a password may follow."""
    return repr(text.partition("://")[0] + "://…" if is_url(text) else text)


def _split_commas(text: str) -> list[str]:
    """Split at commas that start an option, but not inside a value (`sql_mode=A,B`), where no `=` follows."""
    parts: list[str] = []
    for piece in text.split(","):
        starts_option = not parts or "=" in piece or piece.startswith(("@", "skip_", "skip-"))
        if starts_option or "=" not in parts[-1]:
            parts.append(piece)
        else:
            parts[-1] += "," + piece
    return parts
