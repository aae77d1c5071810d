"""Checks downloads: by listed and published checksums, by OpenPGP signatures, and by what came before."""

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bakeoff.errors import ServerError
from bakeoff.files import write_atomically
from bakeoff.servers import paths
from bakeoff.servers.fetch.transfer import Unavailable, host_of, read_text
from bakeoff.servers.releases import Release, Vendor

_KINDS = {32: "md5", 40: "sha1", 64: "sha256", 128: "sha512"}
_NAMES = {"md5": "MD5", "sha1": "SHA-1", "sha256": "SHA-256", "sha512": "SHA-512"}
_STRONG = 64  # digits of SHA-256
LISTED = "in bakeoff's list"


def check_vendor_file(server: str, file: Path, offered: Release, vendor: Vendor, address: str) -> str:
    """Check a vendor's file and return how. The vendor's checksum is fetched only if the list has no strong one."""
    expected = [(LISTED, offered.checksum)] if offered.checksum else []
    signature = ""
    if len(offered.checksum) < _STRONG:
        expected += _published(vendor, address, file.name)
        if vendor.signature and not any(len(checksum) >= _STRONG for _, checksum in expected):
            signature = _signature(server, file, vendor, address)
    return check(server, file, expected) + (f"; {signature}" if signature else "")


def check(server: str, file: Path, expected: Sequence[tuple[str, str]], *, ours: bool = True) -> str:
    """Compare a file with pairs (where the checksum was read, checksum), and return what was checked.

    A file that differs is refused, and kept aside if it is `ours` to move. The first file without a checksum is
    recorded; a later one that differs is refused.
    """
    said = []
    if not expected:
        recorded = _recorded(f"{server}/{file.name}", file)
        expected = [("recorded at the first download", recorded)] if recorded else []
        said = [] if recorded else ["nothing to check it by; its SHA-256 was recorded"]
    for where, checksum in expected:
        kind = _KINDS.get(len(checksum), "sha256")
        found = _digest(file, kind)
        if found != checksum.lower():
            aside = f"and is kept as {_set_aside(file)}" if ours else "and was left where it is"
            raise ServerError(
                f"server {server}: {file.name} has {_NAMES[kind]} {found[:16]}…, expected {checksum[:16]}… ({where}).",
                hint=f"The file is damaged or not the one expected; it was not unpacked, {aside}.",
            )
        said.append(f"{_NAMES[kind]} {where}")
    return "; ".join(said)


def _digest(file: Path, kind: str) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, kind).hexdigest()


def _published(vendor: Vendor, address: str, name: str) -> list[tuple[str, str]]:
    found = []
    for kind in vendor.checksums:
        try:
            text = read_text(vendor.beside(kind, address))
        except Unavailable:
            continue
        lines = text.strip().splitlines()
        ours = lines if len(lines) == 1 else [line for line in lines if name in line]
        digits = re.search(r"\b(?:[0-9a-f]{32}|[0-9a-f]{64}|[0-9a-f]{128})\b", " ".join(ours), re.IGNORECASE)
        if digits:
            found.append((f"published by {host_of(address)}", digits[0]))
    return found


def _signature(server: str, file: Path, vendor: Vendor, address: str) -> str:
    gpg = shutil.which("gpg")
    if gpg is None:
        return "signature not checked, because gpg is not installed"
    try:
        text = read_text(vendor.beside("signature", address))
    except Unavailable:
        return f"no signature at {host_of(address)}"
    with tempfile.TemporaryDirectory(prefix="bakeoff-gpg-") as home:
        base = [gpg, "--homedir", home, "--batch", "--no-autostart", "--status-fd", "1"]
        signature, key = Path(home) / "signature", Path(home) / "key"
        signature.write_text(text, "utf-8")
        for key_file in vendor.key_files:
            try:
                key.write_text(read_text(key_file), "utf-8")
            except Unavailable:
                continue
            subprocess.run([*base, "--import", key], capture_output=True, check=False)
            ran = subprocess.run([*base, "--verify", signature, file], capture_output=True, text=True, check=False)
            signer = re.search(r"^\[GNUPG:\] VALIDSIG .*\b([0-9A-F]{40})$", ran.stdout, re.MULTILINE)
            if signer and signer[1] in vendor.keys:
                return f"OpenPGP signature by {signer[1]}"
            if "[GNUPG:] BADSIG" in ran.stdout:
                raise ServerError(
                    f"server {server}: {file.name} does not match its OpenPGP signature.",
                    hint=f"It was not unpacked, and is kept as {_set_aside(file)}.",
                )
    return "signature not checked, because its key could not be fetched"


def _recorded(key: str, file: Path) -> str:
    """Return the SHA-256 recorded for a file, or record it and return nothing."""
    book = paths.make_open_folder(paths.cache_root()) / "checksums.json"
    with paths.locked("checksums"):
        known: dict[str, str] = json.loads(book.read_bytes()) if book.exists() else {}
        if key not in known:
            write_atomically(book, json.dumps(known | {key: _digest(file, "sha256")}, indent=1).encode())
        return known.get(key, "")


def _set_aside(file: Path) -> Path:
    folder = paths.make_open_folder(paths.cache_root() / "refused")
    return Path(shutil.move(file, folder / file.name))
