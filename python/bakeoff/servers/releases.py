"""What vendors offer: which releases are known, how their files are named, and where they are (catalog.toml)."""

import csv
import os
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath

from pydantic import field_validator, model_validator

from bakeoff.spec import Frozen

_ARCHITECTURES = {"AMD64": "x86_64", "arm64": "aarch64"}
_FILE_NAME = re.compile(r"(mysql|Percona-Server|mariadb)-(\d+\.\d+\.\d+(?:-\d+)?)-.+\.tar\.(?:gz|xz)")
_FLAVOURS = {"Percona-Server": "percona"}


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


@dataclass(frozen=True)
class Release:
    """A release, or one of its files with its addresses. A checksum's length tells its kind."""

    flavour: str
    version: str
    file: str = ""
    download_bytes: int = 0
    checksum: str = ""
    addresses: tuple[str, ...] = ()


class FileNames(Frozen):
    versions: str
    minimal: tuple[str, ...] = ()
    full: tuple[str, ...] = ()
    glibc: tuple[str, ...] = ("",)
    addresses: tuple[str, ...] = ()

    @field_validator("versions")
    @classmethod
    def _a_range(cls, text: str) -> str:
        parse_range(text)
        return text


class Vendor(Frozen):
    addresses: tuple[str, ...]
    lts: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    listed: re.Pattern[str] = re.compile(r"(\d+\.\d+\.\d+)")
    checksums: dict[str, str] = {}
    signature: str = ""
    keys: tuple[str, ...] = ()
    key_files: tuple[str, ...] = ()
    files: tuple[FileNames, ...] = ()

    @model_validator(mode="after")
    def _placeholders(self) -> "Vendor":
        names = [text for each in self.files for text in (*each.minimal, *each.full)]
        addresses = [*self.addresses, *(text for each in self.files for text in each.addresses)]
        for allowed, texts in (
            (("version", "arch", "glibc"), names),
            (("version", "series", "build", "file"), addresses),
            (("series",), self.lists),
            (("address", "folder"), [*self.checksums.values(), self.signature]),
        ):
            for text in texts:
                try:
                    text.format(**dict.fromkeys(allowed, ""))
                except (KeyError, IndexError, ValueError):
                    raise ValueError(f"{text!r} may have only the placeholders {', '.join(allowed)}") from None
        return self

    def has(self, version: Version, arch: str | None = None) -> bool:
        """Whether a pattern covers the version, and the processor if one is given."""
        return any(
            arch is None or _fits(pattern, arch)
            for names in self.files
            if version in parse_range(names.versions)
            for pattern in (*names.minimal, *names.full)
        )

    def offered(self, version: str, *, full: bool = False, arch: str = "") -> Iterator[Release]:
        """Yield the files a release may have for this processor and C library, the best first."""
        arch = arch or this_architecture()
        numbers = parse_version(version)
        fitting = [names for names in self.files if numbers in parse_range(names.versions)]
        known = {release.file: release for release in known_releases()}
        for variant in ("full",) if full else ("minimal", "full"):
            found: dict[str, tuple[str, ...]] = {}
            for names in fitting:
                for glibc in _fitting(names.glibc):
                    for pattern in getattr(names, variant):
                        if _fits(pattern, arch):
                            file = pattern.format(version=version, arch=arch, glibc=glibc)
                            found[file] = (*names.addresses, *self.addresses)
            for file in sorted(found, key=lambda each: each not in known):
                build = re.sub(rf"^.*{re.escape(version)}-|\.tar\.\w+$", "", file)
                where = {"version": version, "series": series_of(version), "build": build, "file": file}
                addresses = tuple(each.format(**where) for each in found[file])
                yield replace(known.get(file, Release("", version, file)), addresses=addresses)

    def beside(self, kind: str, address: str) -> str:
        """Return where the vendor publishes a checksum or the signature of the file at an address."""
        pattern = self.signature if kind == "signature" else self.checksums.get(kind, "")
        return pattern.format(address=address, folder=address.rpartition("/")[0])


NO_VENDOR = Vendor(addresses=())


def _fits(pattern: str, arch: str) -> bool:
    return "{arch}" in pattern or arch in pattern


def _fitting(glibcs: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out builds for newer C libraries than this machine's, unless none is left."""
    here = this_glibc()
    return tuple(each for each in glibcs if not (each and here) or parse_version(each) <= here) or glibcs


def this_glibc() -> Version | None:
    try:
        return parse_version((os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc "))
    except (ValueError, OSError):  # another C library
        return None


def this_architecture() -> str:
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def series_of(version: str) -> str:
    return ".".join(version.split(".")[:2])


def release_of(file: str) -> Release | None:
    """Read flavour and version out of the name of a vendor's tarball."""
    found = _FILE_NAME.fullmatch(PurePosixPath(file).name)
    return Release(_FLAVOURS.get(found[1], found[1]), found[2], found[0]) if found else None


@cache
def known_releases() -> tuple[Release, ...]:
    text = files("bakeoff.servers").joinpath("releases.csv").read_text("utf-8")
    return tuple(
        Release(row["flavour"], row["version"], row["file"], int(row["bytes"] or 0), row["checksum"])
        for row in csv.DictReader(text.splitlines())
    )
