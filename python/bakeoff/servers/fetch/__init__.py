"""Fetches a server from its vendor, else from a package registry, else from the mirror the user names.

A mirror that is a folder comes first, because nothing has to be downloaded. The next source is tried only if one does
not answer or does not have the file; a file that fails its check ends the attempt.
"""

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bakeoff.errors import HostError, ServerError, SpecError
from bakeoff.files import expanded, write_atomically
from bakeoff.servers.catalog import Entry
from bakeoff.servers.fetch import registries
from bakeoff.servers.fetch.checks import LISTED, check, check_vendor_file
from bakeoff.servers.fetch.transfer import (
    NOTICE,
    NotThere,
    Progress,
    Unavailable,
    download,
    file_name,
    host_of,
    no_progress,
    read_text,
    sha256_of,
)
from bakeoff.servers.paths import cache_root, make_open_folder
from bakeoff.servers.releases import NO_VENDOR, Vendor, release_of, this_architecture
from bakeoff.spec.server_name import is_url

__all__ = [
    "NOTICE", "Fetched", "Progress", "fetch", "file_name", "listed_releases", "mirrored_releases", "no_progress",
    "sha256_of",
]  # fmt: skip

MIRROR = "BAKEOFF_MIRROR"
_LIST_KEPT_S = 86_400.0
_told: set[str] = set()  # notices already shown


@dataclass(frozen=True)
class Fetched:
    """Downloaded files, what they are, and how they were checked."""

    files: tuple[Path, ...]
    packing: str
    source: str
    checked: str


def fetch(
    entry: Entry, folder: Path, progress: Progress = no_progress, *, vendor: Vendor = NO_VENDOR, full: bool = False
) -> Fetched:
    """Fetch a server into `folder`; `full` asks for the vendor's tarball with debug symbols.

    Raises:
        ServerError: no source has it, or the file is not the one expected.
    """
    problems: list[Unavailable] = []
    for source in _sources(entry, vendor, full):
        if problems:
            _notice(f"{problems[-1].message}; another source is tried", progress)
        try:
            return source(folder, progress)
        except Unavailable as problem:
            problems.append(problem)
    hints = [problem.hint for problem in problems if problem.hint]
    raise ServerError(
        f"server {entry.name} could not be fetched: {'; '.join(each.message.rstrip('.') for each in problems)}.",
        hint=hints[-1] if hints else f"See `bakeoff server list`, or set {MIRROR} to a place that has the tarball.",
    )


_Source = Callable[[Path, Progress], Fetched]


def _sources(entry: Entry, vendor: Vendor, full: bool) -> Iterator[_Source]:
    mirror = os.environ.get(MIRROR, "")
    has_tarball = not entry.own and vendor.has(entry.numbers)
    if has_tarball and mirror and not is_url(mirror):
        yield partial(_from_folder, entry, vendor, full)
    if has_tarball:
        yield partial(_from_vendor, entry, vendor, full, "")
    if entry.own or (entry.source and not (full and has_tarball) and this_architecture() == "x86_64"):
        yield partial(_from_source, entry)
    if has_tarball and is_url(mirror):
        file_name(MIRROR, mirror)  # refuses an address that is not https
        yield partial(_from_vendor, entry, vendor, full, mirror.rstrip("/"))


def _from_folder(entry: Entry, vendor: Vendor, full: bool, _folder: Path, _progress: Progress) -> Fetched:
    mirror = _mirror_folder()
    for offered in vendor.offered(entry.version, full=full):
        file = mirror / offered.file
        if file.is_file():
            checked = check(entry.name, file, _listed(offered.checksum), ours=False)
            return Fetched((file,), "tarball", f"mirror {offered.file}", checked)
    raise Unavailable(f"{mirror} has no tarball of {entry.name}")


def _from_vendor(entry: Entry, vendor: Vendor, full: bool, mirror: str, folder: Path, progress: Progress) -> Fetched:
    """Download one of the files that a release may have, from one of its addresses or from a mirror."""
    patient = bool(mirror) or entry.source is None  # else a host that recently did not answer is skipped
    silent: dict[str, str] = {}
    without: dict[str, None] = {}
    for offered in vendor.offered(entry.version, full=full):
        for address in (f"{mirror}/{offered.file}",) if mirror else offered.addresses:
            if (host := host_of(address)) in silent:
                continue
            try:
                file = download(address, folder / offered.file, progress, patient=patient)
            except NotThere:
                without[host] = None
            except Unavailable as problem:
                silent[host] = problem.message
            else:
                if mirror:
                    checked = check(entry.name, file, _listed(offered.checksum))
                else:
                    checked = check_vendor_file(entry.name, file, offered, vendor, address)
                return Fetched((file,), "tarball", f"{'mirror' if mirror else 'vendor'} {offered.file}", checked)
    missing = [f"no {entry.name} for {this_architecture()} at {' or '.join(without)}"] if without else []
    raise Unavailable("; ".join([*silent.values(), *missing]) or f"no tarball fits {this_architecture()}")


def _listed(checksum: str) -> list[tuple[str, str]]:
    return [(LISTED, checksum)] if checksum else []


def _mirror_folder() -> Path:
    folder = expanded(Path(os.environ[MIRROR]))
    if not folder.is_dir():
        raise SpecError(
            f"{MIRROR}: no such folder: {folder}.", hint="Name a folder of tarballs or an https:// address."
        )
    return folder


def mirrored_releases(flavour: str) -> set[str]:
    """Return the releases in the folder that BAKEOFF_MIRROR names."""
    if not (mirror := os.environ.get(MIRROR)) or is_url(mirror):
        return set()
    found = (release_of(file.name) for file in _mirror_folder().iterdir())
    return {release.version for release in found if release and release.flavour == flavour}


def listed_releases(flavour: str, vendor: Vendor, series: str) -> list[str] | None:
    """Return the releases that the vendor's own pages list, or None if it does not answer."""
    kept = make_open_folder(cache_root()) / f"releases-{flavour}-{series}.json"
    with suppress(OSError, ValueError):
        if time.time() - kept.stat().st_mtime < _LIST_KEPT_S:
            return list(json.loads(kept.read_bytes()))
    found: set[str] = set()
    answered = False
    for address in vendor.lists:
        with suppress(Unavailable):
            text = read_text(address.format(series=series), patient=False)
            found |= set(re.findall(vendor.listed, text))
            answered = True
    if not answered:
        return None
    write_atomically(kept, json.dumps(sorted(found)).encode())
    return sorted(found)


def _notice(text: str, progress: Progress) -> None:
    if text not in _told:
        _told.add(text)
        progress(text, 0, NOTICE)


def _from_source(entry: Entry, folder: Path, progress: Progress) -> Fetched:
    source = entry.source
    assert source
    registry = folder / "registry"
    shutil.rmtree(registry, ignore_errors=True)
    registry.mkdir(parents=True)
    try:
        if source.debian:
            packages = registries.fetch_packages(entry.name, source.debian, registry, entry.download_bytes, progress)
            return Fetched(tuple(packages), "debs", str(source), "Debian's signed index, by apt")
        if source.maven:
            file = registries.maven(entry, source.maven, registry, progress)
        elif source.npm:
            file = registries.npm(entry, source.npm, registry, progress)
        elif source.tarball or (source.url or "").startswith("file:"):
            file = expanded(Path(source.tarball or unquote(urlsplit(source.url or "").path)))
            if not file.is_file():
                raise SpecError(f"server {entry.name}: no such file: {file}.")
        else:
            assert source.url
            file = download(source.url, folder / file_name(f"server {entry.name}", source.url), progress)
    except (HostError, ServerError) as problem:
        raise Unavailable(problem.message, hint=problem.hint) from None
    expected = [("in servers.toml" if entry.own else LISTED, entry.sha256)] if entry.sha256 else []
    local = not file.is_relative_to(folder)
    checked = check(entry.name, file, expected, ours=not local) if expected or not local else "a file of your own"
    return Fetched((file,), entry.packing, str(source), checked)
