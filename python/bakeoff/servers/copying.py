"""Copying data directories of stopped servers: by reflink where the file system can, else in parallel, and synced.

A copy must behave like its original when it is measured: a file whose blocks are all allocated stays so (InnoDB
preallocates; a copy full of holes would pay for allocation during the measurement), and a sparse file stays sparse.
Everything is on disk when a copy returns, so that no write-back of the copy disturbs what follows.
"""

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bakeoff.errors import HostError
from bakeoff.units import format_bytes

FICLONE = 0x40049409  # linux/fs.h, _IOW(0x94, 9, int)
_BLOCK = 512  # unit of st_blocks
_MARGIN_BYTES = 64 * 2**20  # left free on the file system after a copy
_PIECE_BYTES = 32 * 2**20


def bytes_on_disk(folder: Path) -> int:
    """Allocated bytes of all files below a folder; files that vanish meanwhile count nothing."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += (Path(path) / name).lstat().st_blocks * _BLOCK
    return total


def require_space(folder: Path, wanted_bytes: int, what_for: str) -> None:
    """Check that the file system of `folder` has room.

    Raises:
        HostError: not enough; says how much is missing and where.
    """
    status = os.statvfs(folder)
    free_bytes = status.f_bavail * status.f_frsize
    if free_bytes < wanted_bytes + _MARGIN_BYTES:
        raise HostError(
            f"{what_for} takes {format_bytes(wanted_bytes)} in {folder} and {format_bytes(_MARGIN_BYTES)} to spare, "
            f"and {format_bytes(free_bytes)} are free.",
            hint="Free some space (bakeoff server rm), or set XDG_CACHE_HOME to a larger disk.",
        )


def copy_tree(source: Path, target: Path, what_for: str) -> bool:
    """Copy a folder with owners, modes and times; `target` must not exist, and does not when this fails.

    Returns:
        True when every file is a reflink: nothing was copied.

    Raises:
        HostError: no room, before or during.
    """
    folders, files = _plan(source)
    reflinks = bool(files) and _can_reflink(source / files[0], target.parent)
    if not reflinks:
        require_space(target.parent, bytes_on_disk(source), what_for)
    try:
        for folder in folders:
            _make_like(source / folder, target / folder)
        with ThreadPoolExecutor(max_workers=4, thread_name_prefix="bakeoff-copy") as pool:
            for _ in pool.map(lambda name: _copy_file(source / name, target / name, reflink=reflinks), files):
                pass
        for folder in reversed(folders):
            _sync_folder(target / folder)
    except OSError as problem:
        shutil.rmtree(target, ignore_errors=True)
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            raise HostError(
                f"{what_for}: the disk of {target.parent} is full.", hint="Free some space: bakeoff server rm"
            ) from None
        raise HostError(f"{what_for}: copying failed: {problem.strerror} ({problem.filename}).") from None
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    return reflinks


def _plan(source: Path) -> tuple[Sequence[Path], Sequence[Path]]:
    """Folders and files below `source`, relative to it, largest file first so that the threads end together."""
    folders = [Path()]
    sizes: list[tuple[int, Path]] = []
    for path, below, names in os.walk(source):
        here = Path(path).relative_to(source)
        folders += [here / name for name in below]
        for name in names:
            file = Path(path) / name
            if not file.is_socket():
                sizes.append((file.lstat().st_size, here / name))
    sizes.sort(key=lambda pair: -pair[0])
    return folders, [name for _, name in sizes]


def _make_like(source: Path, target: Path) -> None:
    status = source.stat()
    target.mkdir()
    if os.geteuid() == 0:
        os.chown(target, status.st_uid, status.st_gid)
    target.chmod(status.st_mode & 0o7777)


def _can_reflink(sample: Path, folder: Path) -> bool:
    probe = folder / f".reflink-{os.getpid()}-{sample.name}"
    try:
        with sample.open("rb") as source, probe.open("wb") as target:
            fcntl.ioctl(target.fileno(), FICLONE, source.fileno())
    except OSError:
        return False
    finally:
        probe.unlink(missing_ok=True)
    return True


def _copy_file(source: Path, target: Path, *, reflink: bool) -> None:
    if source.is_symlink():
        target.symlink_to(source.readlink())
        return
    with source.open("rb", buffering=0) as reader, target.open("xb", buffering=0) as writer:
        status = os.fstat(reader.fileno())
        if reflink:
            fcntl.ioctl(writer.fileno(), FICLONE, reader.fileno())
        else:
            _copy_data(reader.fileno(), writer.fileno(), status)
        if os.geteuid() == 0:
            os.fchown(writer.fileno(), status.st_uid, status.st_gid)
        os.fchmod(writer.fileno(), status.st_mode & 0o7777)
        os.utime(writer.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        os.fsync(writer.fileno())


def _copy_data(reader: int, writer: int, status: os.stat_result) -> None:
    """Copy what is data; leave holes in a sparse file, and allocate a full one as a whole first."""
    size = status.st_size
    if size == 0:
        return
    if status.st_blocks * _BLOCK >= size:
        os.posix_fallocate(writer, 0, size)
    else:
        os.ftruncate(writer, size)
    position = 0
    while position < size:
        try:
            start = os.lseek(reader, position, os.SEEK_DATA)
        except OSError as problem:
            if problem.errno == errno.ENXIO:  # only a hole is left
                return
            raise
        end = os.lseek(reader, start, os.SEEK_HOLE)
        while start < end:
            count = _copy_piece(reader, writer, start, min(end - start, _PIECE_BYTES))
            if count == 0:
                break  # the file shrank under us; a stopped server's does not
            start += count
        position = end


def _copy_piece(reader: int, writer: int, start: int, count: int) -> int:
    """Copy inside the kernel; between two kinds of file system by sendfile, as copy_file_range refuses that."""
    try:
        return os.copy_file_range(reader, writer, count, start, start)
    except OSError as problem:
        if problem.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
    os.lseek(writer, start, os.SEEK_SET)
    return os.sendfile(writer, reader, start, count)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
