"""Where bakeoff keeps things on this machine, and the locks that let two bakeoffs share them.

    $XDG_CACHE_HOME/bakeoff/  (~/.cache/bakeoff)   servers/ templates/ locks/ work/
    $XDG_CONFIG_HOME/bakeoff/ (~/.config/bakeoff)  servers.toml

Servers run as an account without privileges, which must be able to reach the cache. Root's home is closed to it as a
rule, so root's default cache is /var/cache/bakeoff when ~ cannot be entered by others.
"""

import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bakeoff.errors import HostError

_POLL_S = 0.1


def cache_root() -> Path:
    """The cache folder; it need not exist yet."""
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
    """The user's own catalogue; it need not exist."""
    named = os.environ.get("XDG_CONFIG_HOME")
    base = Path(named).absolute() if named else Path.home() / ".config"
    return base / "bakeoff" / "servers.toml"


def make_open_folder(folder: Path) -> Path:
    """Make a folder, and every missing one above it, that other accounts may enter and read (mode 755).

    Raises:
        HostError: not allowed to, or a file is in the way.
    """
    missing: list[Path] = []
    step = folder
    while not step.exists() and step != step.parent:
        missing.append(step)
        step = step.parent
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
        mode = status.st_mode
        if status.st_uid == uid:
            allowed = mode & stat.S_IXUSR
        elif status.st_gid == gid:
            allowed = mode & stat.S_IXGRP
        else:
            allowed = mode & stat.S_IXOTH
        if uid != 0 and not allowed:
            raise HostError(
                f"servers run as an account without privileges, which may not enter {step} (mode {mode & 0o777:o}).",
                hint=f"Set XDG_CACHE_HOME to a folder open to it, or run: chmod o+x {step}",
            )


_shared: dict[Path, int] = {}  # lock files that this process shares until it ends, with their descriptors


@contextmanager
def locked(name: str, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock `name` of this cache; the kernel lets go of it when the process dies.

    Args:
        name: what is being made (`mysql-8.0.15`); letters, digits, dots and dashes.
        on_wait: called again and again while another bakeoff holds it; what it raises ends the waiting.
    """
    descriptor = _open(_lock_file(name))
    try:
        if on_wait is None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        else:
            while not _try_lock(descriptor):
                on_wait()
                time.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def locked_if_free(name: str) -> Iterator[bool]:
    """Hold the lock `name` if no other bakeoff has a part in it, and tell the block whether it is so.

    What this process itself has of it by `share` is given up, unless another has a part in it, too.
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
    """Take a part in the lock `name` until this process ends: other bakeoffs may too, and none can hold it alone."""
    file = _lock_file(name)
    if file not in _shared:
        descriptor = _open(file)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        _shared[file] = descriptor


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
