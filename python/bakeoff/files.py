"""Write files so that a crash or a concurrent reader never sees half of one."""

import ctypes
import os
import secrets as random_text
from contextlib import suppress
from pathlib import Path

from bakeoff.errors import SpecError


def from_here(file: str) -> str:
    with suppress(OSError, ValueError):
        return str(Path(file).relative_to(Path.cwd()))
    return file


def expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:
        raise SpecError(f"{path}: no user has that name.") from None


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file durably: synced, then renamed into place. If that fails, `path` is as it was."""
    # A file at a name that can be guessed may be a link, or half a file of another process.
    part = path.with_name(f".{path.name}.{random_text.token_hex(4)}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_file_system(path: Path) -> None:
    """Make everything durable that was written to the file system of a directory."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor):
            raise OSError(ctypes.get_errno(), "syncfs", str(path))
    finally:
        os.close(descriptor)


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
