"""Paths of the cache and the configuration, locks between bakeoffs, and removal of what killed bakeoffs left behind.

Servers run as an account without privileges, which must be able to reach the cache. So root's default cache is
/var/cache/bakeoff if others may not enter ~.
"""

import fcntl
import json
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

from pydantic import TypeAdapter

from bakeoff.errors import HostError
from bakeoff.files import write_atomically
from bakeoff.machine import undo
from bakeoff.servers.process import ProcessId

OWNER_FILE = "owner.json"
RUNTIME_ROOT = Path("/tmp")  # of sockets, whose paths have at most 107 bytes
_FOLDER = re.compile(r"(bakeoff|pool|load)-[0-9a-f]{8}")
_UNFINISHED = re.compile(r"\.(?P<lock>.+)\.[a-z0-9_]{8}")  # the suffix is tempfile's
_UNFINISHED_S = 3600.0  # for a folder without owner.json, which may be about to get one
_KEPT_S = 3 * 86_400.0  # for a load whose run may be resumed
_POLL_S = 0.1


def cache_root() -> Path:
    named = os.environ.get("XDG_CACHE_HOME")
    if named:
        return Path(named).absolute() / "bakeoff"
    home = Path.home()
    if os.geteuid() == 0 and not _others_may_enter(home):
        return Path("/var/cache/bakeoff")
    return home / ".cache" / "bakeoff"


def work_root() -> Path:
    return cache_root() / "work"


def user_catalog_file() -> Path:
    named = os.environ.get("XDG_CONFIG_HOME")
    base = Path(named).absolute() if named else Path.home() / ".config"
    return base / "bakeoff" / "servers.toml"


def make_open_folder(folder: Path) -> Path:
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
            hint="Set XDG_CACHE_HOME to a writable folder.",
        ) from None
    return folder


def require_reachable(folder: Path, uid: int, gid: int) -> None:
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
    return allocated_bytes(Path(path) / name for path, _, names in os.walk(folder) for name in names)


def allocated_bytes(files: Iterable[Path]) -> int:
    """Return the allocated bytes of files, without those that vanish meanwhile."""
    total = 0
    for file in files:
        with suppress(FileNotFoundError):
            total += file.lstat().st_blocks * 512  # the unit of st_blocks
    return total


_shared: dict[Path, int] = {}  # lock files that this process shares, with their descriptors


@contextmanager
def locked(name: str, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold a lock of this cache; the kernel releases it if the process dies. `on_wait` may raise to end the wait."""
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
    """Hold a lock if no other bakeoff holds or shares it, and yield whether it is held."""
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


def remove_if_free(folder: Path, lock: str, *, with_lock: bool = False) -> bool:
    """Remove a folder unless another bakeoff holds or shares its lock."""
    with locked_if_free(lock) as free:
        if free:
            undo(folder)
            shutil.rmtree(folder, ignore_errors=True)
            if with_lock:
                remove_lock(lock)
    return free


def share(name: str) -> None:
    """Share a lock with other bakeoffs until this process ends."""
    file = _lock_file(name)
    if file not in _shared:
        descriptor = _open(file)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        _shared[file] = descriptor


def remove_lock(name: str) -> None:
    """Stop sharing a lock that nobody will use again, and delete its file."""
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
    """From owner.json: the process that made a folder, its servers, and the run that may need the folder later."""

    boot: str
    process: ProcessId
    servers: tuple[ProcessId, ...]
    kept_for: str = ""

    @classmethod
    def current(cls, servers: tuple[ProcessId, ...], *, kept_for: str = "") -> "Owner":
        process = ProcessId.of(os.getpid())
        assert process is not None
        return cls(boot_id(), process, servers, kept_for)

    def write(self, folder: Path) -> None:
        write_atomically(folder / OWNER_FILE, json.dumps(asdict(self)).encode())

    @classmethod
    def read(cls, folder: Path) -> "Owner | None":
        try:
            return TypeAdapter(cls).validate_json((folder / OWNER_FILE).read_bytes())
        except (OSError, ValueError):
            return None

    def dead(self) -> bool:
        return self.boot != boot_id() or not self.process.alive()


def remove_stale(*roots: Path, kept_s: float = _KEPT_S) -> None:
    """Remove the folders of dead bakeoffs below `roots`, and kill their servers.

    A folder also stays while its lock is shared: an owner in another container, or on another machine with this cache,
    only seems dead. A folder kept for a run stays for `kept_s` while the run's directory exists.
    """
    with locked("stale-cleanup"):
        for root in roots:
            for folder in sorted(root.iterdir()) if root.is_dir() else ():
                if _FOLDER.fullmatch(folder.name) and _ours(folder) and _stale(folder, kept_s):
                    remove_if_free(folder, folder.name, with_lock=True)


def other_bakeoffs(root: Path) -> list[int]:
    owners = [Owner.read(folder) for folder in root.glob("bakeoff-*") if _FOLDER.fullmatch(folder.name)]
    alive = {owner.process.pid for owner in owners if owner is not None and not owner.dead()}
    return sorted(alive - {os.getpid()})


@contextmanager
def unfinished(parent: Path, lock: str) -> Iterator[Path]:
    """Yield a temporary folder `.LOCK.xxxxxxxx` for work under that lock, and remove it afterwards."""
    make_open_folder(parent)
    with tempfile.TemporaryDirectory(prefix=f".{lock}.", dir=parent, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def remove_unfinished(folder: Path) -> None:
    for each in sorted(folder.iterdir()) if folder.is_dir() else ():
        if made_under := _UNFINISHED.fullmatch(each.name):
            remove_if_free(each, made_under["lock"])


def _ours(folder: Path) -> bool:
    try:
        return not folder.is_symlink() and folder.is_dir() and folder.stat().st_uid == os.geteuid()
    except OSError:
        return False


def _stale(folder: Path, kept_s: float) -> bool:
    """Return whether a folder's owner is dead and nobody needs it; kill servers that outlived the owner."""
    owner = Owner.read(folder)
    try:
        age_s = time.time() - (folder / OWNER_FILE if owner else folder).stat().st_mtime
    except FileNotFoundError:  # another bakeoff removes it
        return False
    if owner is None:
        return age_s > _UNFINISHED_S
    if not owner.dead():
        return False
    for server in owner.servers if owner.boot == boot_id() else ():
        if server.alive():
            os.kill(server.pid, signal.SIGKILL)
    return not (owner.kept_for and Path(owner.kept_for).is_dir() and age_s < kept_s)


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip()
