"""Servers out of Debian packages, fetched by apt-get without installing anything on this machine.

An apt configuration of its own, with an empty package status, makes apt compute and verify the whole closure of a
suite down to the C library, so that the server can run through its own loader (layout.py). The mirror is whichever
this machine's own apt sources name; the temporary configuration that repeats it is removed again. A suite holds one
version at a time: what was fetched is what the record says.
"""

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bakeoff.errors import HostError, ServerError
from bakeoff.servers.catalog import DebianSource
from bakeoff.servers.fetch import Progress, folder_bytes, need_program, run_client, sha256_of

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SUITES_WITH_SECURITY = ("bookworm", "trixie")  # bullseye's plugin packages are gone from its security suite

_NEVER_NEEDED = re.compile(
    r"^(perl|libperl|libgdbm|libdb5|libsasl2-modules-db|debconf|dpkg$|tar$|libselinux1|libacl1|libbz2-1.0-x)"
)


@dataclass(frozen=True)
class Package:
    """One fetched package file."""

    file: Path
    sha256: str


def fetch_packages(
    name: str, source: DebianSource, folder: Path, total_bytes: int, progress: Progress
) -> list[Package]:
    """Download the closure of `source.packages`, and `source.extra` alone, into `folder`.

    Raises:
        HostError: no apt here, or no Debian mirror among its sources. ServerError: the suite no longer holds them.
    """
    apt = need_program("apt-get", "apt", name)
    options = _configuration(name, source.suite, folder / "apt")
    progress(f"reading Debian {source.suite}'s index", 0, 0)
    try:
        run_client([apt, *options, "-qq", "update"], name, lambda: 0, 0, progress)
        empty = folder / "apt" / "empty.status"
        closure = run_client(
            [apt, *options, "-o", f"Dir::State::status={empty}", "-o", "APT::Install-Recommends=false",
             "--print-uris", "-y", "-qq", "install", *source.packages],
            name, lambda: 0, 0, progress,
        )  # fmt: skip
        wanted = [*_names_and_versions(closure), *source.extra]
        debs = folder / "debs"
        debs.mkdir()
        _download(apt, options, wanted, debs, name, total_bytes, progress)
    finally:
        shutil.rmtree(folder / "apt", ignore_errors=True)  # it names the mirror
    packages = [Package(file, sha256_of(file)) for file in sorted(debs.glob("*.deb"))]
    if len(packages) < len(wanted):
        raise ServerError(f"server {name}: Debian {source.suite} gave {len(packages)} of {len(wanted)} packages.")
    return packages


def _names_and_versions(print_uris: str) -> list[str]:
    """`name=version` of each file that `apt-get --print-uris install` lists, less what a daemon never needs."""
    found = []
    for line in print_uris.splitlines():
        if not line.startswith("'"):
            continue
        name, version, _ = line.split()[1].rsplit("_", 2)
        if not _NEVER_NEEDED.match(name):
            found.append(f"{name}={version.replace('%3a', ':')}")
    return found


def _download(
    apt: str, options: Sequence[str], wanted: Sequence[str], debs: Path, name: str, total_bytes: int, progress: Progress
) -> None:
    """`apt-get download` writes into its working folder, so it is told to change there by env's -C."""
    env = need_program("env", "coreutils", name)
    argv = [env, "-C", str(debs), apt, *options, "-qq", "download", *wanted]
    run_client(argv, name, lambda: folder_bytes(debs), total_bytes, progress)


def _configuration(name: str, suite: str, base: Path) -> list[str]:
    """apt-get options that replace the machine's sources, lists, cache and status by ones below `base`."""
    for each in ("lists/partial", "cache/archives/partial"):
        (base / each).mkdir(parents=True, exist_ok=True)
    (base / "empty.status").touch()
    mirrors = _own_mirrors()
    main = next((each for each in mirrors if each.endswith("/debian")), None)
    if main is None:
        raise HostError(
            f"{name} comes from Debian {suite}, and this machine's apt sources name no Debian mirror.",
            hint="Add a Debian mirror to /etc/apt/sources.list.d/, or choose another server.",
        )
    signed = f"[signed-by={KEYRING}] " if KEYRING.exists() else ""
    lines = [f"deb {signed}{main} {suite} main"]
    security = next((each for each in mirrors if each.endswith("/debian-security")), None)
    if security and suite in SUITES_WITH_SECURITY:
        lines.append(f"deb {signed}{security} {suite}-security main")
    (base / "sources.list").write_text("\n".join(lines) + "\n", "utf-8")
    return [
        "-o", f"Dir::Etc::sourcelist={base}/sources.list", "-o", "Dir::Etc::sourceparts=/dev/null",
        "-o", f"Dir::State::lists={base}/lists", "-o", f"Dir::Cache={base}/cache",
        "-o", f"Dir::Cache::archives={base}/cache/archives", "-o", "APT::Sandbox::User=root",
        "-o", "Acquire::Languages=none",
    ]  # fmt: skip


def _own_mirrors() -> list[str]:
    """Addresses in this machine's own apt sources, without a slash at the end."""
    found: list[str] = []
    for file in (
        *sorted(Path("/etc/apt/sources.list.d").glob("*.sources")),
        *sorted(Path("/etc/apt").glob("sources.list*")),
    ):
        if file.is_file():
            text = file.read_text("utf-8", "replace")
            for line in re.findall(r"^(?:URIs:|deb(?:\s+\[[^]]*\])?)\s+(.+)$", text, re.MULTILINE):
                found += [word.rstrip("/") for word in line.split() if "://" in word]
    return found
