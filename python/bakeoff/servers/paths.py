"""Paths of the cache and the configuration, locks between bakeoffs, and cleanup of what killed bakeoffs left behind.

    $XDG_CACHE_HOME/bakeoff/  (~/.cache/bakeoff)   servers/ templates/ locks/ work/
    $XDG_CONFIG_HOME/bakeoff/ (~/.config/bakeoff)  servers.toml

Servers run as an account without privileges, which must be able to reach the cache. Root's home is usually closed to
it, so root's default cache is /var/cache/bakeoff when others may not enter ~.
"""

import fcntl
import os
import re
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
from pydantic import TypeAdapter

from bakeoff.errors import HostError
from bakeoff.servers.process import ProcessId

OWNER_FILE = "owner.json"
RUNTIME_ROOT = Path("/tmp")  # of sockets: every server refuses paths of more than 107 bytes
_FOLDER = re.compile(r"(bakeoff|pool|load)-[0-9a-f]{8}")
_UNFINISHED = re.compile(r"\.(?P<lock>.+)\.[a-z0-9_]{8}")  # as tempfile ends its names
_UNFINISHED_S = 3600.0  # a folder without owner.json may be about to get one
_KEPT_S = 3 * 86_400.0  # a load waits so long for its run to be resumed
_POLL_S = 0.1
BLOCK_BYTES = 512  # unit of st_blocks


def cache_root() -> Path:
    """The cache folder; it may not exist yet."""
    named = os.environ.get("XDG_CACHE_HOME")
    if named:
        return Path(named).absolute() / "bakeoff"
    home = Path.home()
    if os.geteuid() == 0 and not _others_may_enter(home):
        return Path("/var/cache/bakeoff")
    return home / ".cache" / "bakeoff"


def work_root() -> Path:
    """Where instances, their data and snapshots live unless the caller says otherwise."""
    return cache_root() / "work"


def user_catalog_file() -> Path:
    """The user's own catalogue; it may not exist."""
    named = os.environ.get("XDG_CONFIG_HOME")
    base = Path(named).absolute() if named else Path.home() / ".config"
    return base / "bakeoff" / "servers.toml"


def make_open_folder(folder: Path) -> Path:
    """Make a folder, and every missing one above it, that other accounts may enter and read (mode 755).

    Raises:
        HostError: not allowed to, or a file is in the way.
    """
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        for each in reversed(missing):
            each.mkdir(exist_ok=True)
            each.chmod(0o755)
        if not folder.is_dir():
            raise NotADirectoryError(folder)
    except OSError as problem:
        raise HostError(
            f"folder {folder} cannot be made: {problem.strerror or 'a file is in the way'}.",
            hint="Set XDG_CACHE_HOME to a folder that you may write to.",
        ) from None
    return folder


def require_reachable(folder: Path, uid: int, gid: int) -> None:
    """Check that an account may enter `folder` and everything above it.

    Raises:
        HostError: some folder on the way is closed to it.
    """
    for step in reversed([folder, *folder.parents]):
        status = step.stat()
        others = stat.S_IXGRP if status.st_gid == gid else stat.S_IXOTH
        needed = stat.S_IXUSR if status.st_uid == uid else others
        if uid != 0 and not status.st_mode & needed:
            mode = f"{status.st_mode & 0o777:o}"
            in_cache = folder.is_relative_to(cache_root())
            raise HostError(
                f"servers run as an account without privileges, which may not enter {step} (mode {mode}).",
                hint=f"{'Set XDG_CACHE_HOME to a folder open to it, or run' if in_cache else 'Run'}: chmod o+x {step}",
            )


def bytes_on_disk(folder: Path) -> int:
    """Allocated bytes of all files below a folder."""
    return allocated_bytes(Path(path) / name for path, _, names in os.walk(folder) for name in names)


def allocated_bytes(files: Iterable[Path]) -> int:
    """Allocated bytes of files; those that vanish meanwhile count nothing."""
    total = 0
    for file in files:
        with suppress(FileNotFoundError):
            total += file.lstat().st_blocks * BLOCK_BYTES
    return total


_shared: dict[Path, int] = {}  # lock files that this process shares until it ends, with their descriptors


@contextmanager
def locked(name: str, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock `name` of this cache; the kernel releases it when the process dies.

    Args:
        name: what is being made (`mysql-8.0.15`); letters, digits, dots and dashes.
        on_wait: called repeatedly while another bakeoff holds the lock; an exception from it ends the waiting.
    """
    descriptor = _open(_lock_file(name))
    try:
        while not _try_lock(descriptor):
            if on_wait:
                on_wait()
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def locked_if_free(name: str) -> Iterator[bool]:
    """Hold the lock `name` if no other bakeoff holds or shares it; yields whether it is held.

    What this process itself shares of it is given up, unless another bakeoff shares it too.
    """
    file = _lock_file(name)
    shared = file in _shared
    if shared:
        os.close(_shared.pop(file))
    descriptor = _open(file)
    try:
        free = _try_lock(descriptor)
        if shared and not free:
            share(name)
        yield free
    finally:
        os.close(descriptor)


def share(name: str) -> None:
    """Share the lock `name` with other bakeoffs until this process ends; nobody can hold it alone meanwhile."""
    file = _lock_file(name)
    if file not in _shared:
        descriptor = _open(file)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        _shared[file] = descriptor


def remove_lock(name: str) -> None:
    """Share the lock `name` no longer, and delete its file: nobody will ask for it again."""
    file = _lock_file(name)
    if file in _shared:
        os.close(_shared.pop(file))
    file.unlink(missing_ok=True)


def _lock_file(name: str) -> Path:
    return make_open_folder(cache_root() / "locks") / f"{name}.lock"


def _open(file: Path) -> int:
    return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _others_may_enter(folder: Path) -> bool:
    try:
        return all(step.stat().st_mode & stat.S_IXOTH for step in (folder, *folder.parents))
    except OSError:
        return False


@dataclass(frozen=True)
class Owner:
    """The process that made a folder, as its owner.json names it.

    Attributes:
        boot: the kernel's boot id; process numbers of another boot mean nothing.
        servers: server processes started from there.
        kept_for: a run directory that may need the folder again when the process is dead; empty: none does.
    """

    boot: str
    process: ProcessId
    servers: tuple[ProcessId, ...]
    kept_for: str = ""

    @classmethod
    def current(cls, servers: tuple[ProcessId, ...], *, kept_for: str = "") -> "Owner":
        """This process as an owner."""
        process = ProcessId.of(os.getpid())
        assert process is not None
        return cls(boot_id(), process, servers, kept_for)

    def as_json(self) -> dict[str, Any]:
        """As written to owner.json, processes as lists."""
        return asdict(self)

    @classmethod
    def read(cls, folder: Path) -> "Owner | None":
        """The owner of a folder; None when there is no readable owner.json."""
        try:
            return TypeAdapter(cls).validate_json((folder / OWNER_FILE).read_bytes())
        except (OSError, ValueError):
            return None

    def dead(self) -> bool:
        """Whether the owner has ended."""
        return self.boot != boot_id() or not self.process.alive()


def remove_stale(*roots: Path, kept_s: float = _KEPT_S) -> None:
    """Remove the folders of dead bakeoffs below `roots`, and kill servers of theirs that still run.

    A folder is removed when it belongs to our user, has a bakeoff's name, and its owner is dead and shares its lock no
    longer: an owner in another container or on another machine, with the same cache, seems dead. One that is kept for a
    run stays for `kept_s` seconds, while the run's directory is there.
    """
    with locked("stale-cleanup"):
        for root in roots:
            for folder in sorted(root.iterdir()) if root.is_dir() else ():
                if _FOLDER.fullmatch(folder.name) and _ours(folder) and _stale(folder, kept_s):
                    with locked_if_free(folder.name) as free:
                        if free:
                            shutil.rmtree(folder, ignore_errors=True)
                            remove_lock(folder.name)


def other_bakeoffs(root: Path) -> list[int]:
    """Process numbers of the bakeoffs other than this one that have servers below `root`."""
    folders = [folder for folder in root.glob("bakeoff-*") if _FOLDER.fullmatch(folder.name)]
    owners = [Owner.read(folder) for folder in folders]
    alive = {owner.process.pid for owner in owners if owner is not None and not owner.dead()}
    alive |= _starters([folder for folder in folders if not os.access(folder, os.X_OK)])
    return sorted(alive - {os.getpid()})


def _starters(folders: list[Path]) -> set[int]:
    """Of other users' folders, which are closed: who started the servers whose sockets are there."""
    found: set[int] = set()
    for process in psutil.process_iter(["cmdline", "ppid"]) if folders else ():
        words = process.info["cmdline"] or []
        if any(word.startswith(f"--socket={folder}/") for word in words for folder in folders):
            found.add(process.info["ppid"])
    return found


@contextmanager
def unfinished(parent: Path, lock: str) -> Iterator[Path]:
    """A temporary folder `.LOCK.xxxxxxxx` to make something of the cache in, under that lock; removed afterwards."""
    make_open_folder(parent)
    with tempfile.TemporaryDirectory(prefix=f".{lock}.", dir=parent, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def remove_unfinished(folder: Path) -> None:
    """Remove from a folder of the cache what killed bakeoffs left unfinished there."""
    for each in sorted(folder.iterdir()) if folder.is_dir() else ():
        made_under = _UNFINISHED.fullmatch(each.name)
        if made_under:
            with locked_if_free(made_under["lock"]) as free:
                if free:
                    shutil.rmtree(each, ignore_errors=True)


def _ours(folder: Path) -> bool:
    try:
        return not folder.is_symlink() and folder.is_dir() and folder.stat().st_uid == os.geteuid()
    except OSError:
        return False


def _stale(folder: Path, kept_s: float) -> bool:
    """Whether a folder's owner is dead and nobody will need it; kills the servers that outlived the owner."""
    owner = Owner.read(folder)
    if owner is None:
        try:
            return time.time() - folder.stat().st_mtime > _UNFINISHED_S
        except FileNotFoundError:  # its owner has just removed it
            return False
    if not owner.dead():
        return False
    if owner.boot == boot_id():
        for server in owner.servers:
            if server.alive():
                os.kill(server.pid, signal.SIGKILL)
    try:
        age_s = time.time() - (folder / OWNER_FILE).stat().st_mtime
    except FileNotFoundError:  # another bakeoff has just removed it
        return False
    return not (owner.kept_for and Path(owner.kept_for).is_dir() and age_s < kept_s)


def boot_id() -> str:
    """The kernel's id of this boot: machines with the same id are one."""
    return Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip()
