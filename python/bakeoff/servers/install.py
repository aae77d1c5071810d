"""From a server spec to binaries that can be started: fetch, unpack, look, ask the binary. Done once and kept.

    $CACHE/servers/NAME/            the unpacked tree, and
    $CACHE/servers/NAME/bakeoff-installation.json   what it is and where it came from

A folder under servers/ is complete or absent: it is made under a temporary name and renamed. Archives are removed
after unpacking. A server that some bakeoff was given stays until that bakeoff ends.
"""

import hashlib
import json
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bakeoff.errors import BakeoffError, HostError, ServerError, SpecError
from bakeoff.servers import docker
from bakeoff.servers.catalog import Catalog, Entry, Source, flavour_and_version, options_in_help, parse_version
from bakeoff.servers.catalog import version_text as text_of
from bakeoff.servers.fetch import Progress, fetch, fetch_packages, file_name, no_progress, sha256_of
from bakeoff.servers.model import Installation
from bakeoff.servers.paths import (
    cache_root,
    locked,
    locked_if_free,
    make_open_folder,
    require_reachable,
    share,
    sweep_unfinished,
)
from bakeoff.servers.process import run, server_identity
from bakeoff.servers.unpack import bytes_on_disk, unpack, unpack_packages
from bakeoff.spec import Origin, ServerSpec

# What a folder of binaries is: where mysqld, its messages, plugins and loader are, found from the files present.
#
# Works for every catalogue packing, for official tarballs of MySQL, MariaDB and Percona Server, for a distribution's
# /usr, and for the path of a mysqld itself. Nothing is run here.
#
# A tree that holds a C library of its own (Debian packages, unpacked) is run through *that* library's loader: the
# host's loader with a foreign libc fails on private symbols, and the host's libc may be too old for the binary.

_DAEMONS = (
    "bin/mariadbd",
    "bin/mysqld",
    "sbin/mariadbd",
    "sbin/mysqld",
    "libexec/mariadbd",
    "libexec/mysqld",
    "mysqld",
    "mariadbd",
)
_SHARES = ("share", "share/mysql", "share/mariadb", "share/percona-server")
_PLUGINS = (
    "lib/plugin",
    "lib/mysql/plugin",
    "lib64/mysql/plugin",
    "lib64/plugin",
    "lib/mariadb/plugin",
    "lib/x86_64-linux-gnu/mariadb19/plugin",
)
_LOADERS = (
    "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
    "lib/x86_64-linux-gnu/ld-2.31.so",  # before usrmerge; lib64/ld-linux… of such a tree is a link into the host
    "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
)


@dataclass(frozen=True)
class Layout:
    """Where the parts of one server are.

    Attributes:
        daemon: mysqld or mariadbd.
        argv: how to run it: the daemon, or its loader with the library path and the daemon.
        share: folder with the messages and the system table scripts.
        environment: variables that the daemon needs to find its own libraries.
        own_loader: argv starts with a loader of the tree.
    """

    basedir: Path
    daemon: Path
    argv: tuple[str, ...]
    share: Path
    plugin_dir: Path | None
    environment: Mapping[str, str] = field(default_factory=dict)
    own_loader: bool = False

    @property
    def base_options(self) -> tuple[str, ...]:
        """Options for init and start alike that say where the parts are."""
        options = [f"--basedir={self.basedir}", f"--lc-messages-dir={self.share}"]
        if (self.share / "charsets" / "Index.xml").exists():
            options.append(f"--character-sets-dir={self.share / 'charsets'}")
        if self.plugin_dir:
            options.append(f"--plugin-dir={self.plugin_dir}")
        return tuple(options)


def detect(place: Path) -> Layout:
    """The layout of a basedir, an unpacked root file system, or a mysqld binary.

    Raises:
        SpecError: there is no server at `place`, or a part of it is missing; says which.
    """
    place = place.expanduser().absolute()
    if not place.exists():
        raise SpecError(f"path {place} does not exist.", hint="Name a basedir (path:/opt/mysql) or a mysqld.")
    if place.is_file():
        return _around(place, _basedir_of(place))
    loader = next((place / each for each in _LOADERS if (place / each).exists()), None)
    for basedir in (place / "usr", place) if loader and place != Path("/") else (place, place / "usr"):
        daemon = next((basedir / each for each in _DAEMONS if (basedir / each).is_file()), None)
        if daemon:
            inside_root = loader if basedir == place / "usr" and place != Path("/") else None
            return _around(daemon, basedir, inside_root, place)
    raise SpecError(
        f"path {place} holds no mysqld or mariadbd (looked for {', '.join(_DAEMONS[:4])}).",
        hint="Name the basedir, or the binary itself.",
    )


def _around(daemon: Path, basedir: Path, loader: Path | None = None, root: Path | None = None) -> Layout:
    share = next((each for each in _shares_of(basedir) if (each / "english" / "errmsg.sys").exists()), None)
    if share is None:
        raise SpecError(
            f"path {basedir} holds {daemon.name} and no share/english/errmsg.sys.",
            hint="Name a complete basedir; message files are needed.",
        )
    plugin_dir = next((basedir / each for each in _PLUGINS if (basedir / each).is_dir()), None)
    if loader and root:
        libraries = [
            each for each in (root / "lib/x86_64-linux-gnu", root / "usr/lib/x86_64-linux-gnu") if each.is_dir()
        ]
        argv = (str(loader), "--library-path", ":".join(str(each) for each in libraries), str(daemon))
        return Layout(basedir, daemon, argv, share, plugin_dir, own_loader=True)
    return Layout(basedir, daemon, (str(daemon),), share, plugin_dir, _library_path(basedir))


def _basedir_of(daemon: Path) -> Path:
    return daemon.parent.parent if daemon.parent.name in ("bin", "sbin", "libexec") else daemon.parent


def _shares_of(basedir: Path) -> Iterator[Path]:
    return (basedir / each for each in _SHARES)


def _library_path(basedir: Path) -> dict[str, str]:
    """Some packages ship libaio beside the daemon, or under libs/, and leave finding it to the environment."""
    for folder in (basedir, basedir / "libs"):
        if (folder / "libaio.so.1").exists():
            return {"LD_LIBRARY_PATH": str(folder)}
    return {}


RECORD = "bakeoff-installation.json"
RECORD_FORMAT = 3

_LIBRARY_PACKAGES = {
    "libaio.so.1": "libaio1",
    "libnuma.so.1": "libnuma1",
    "libncurses.so.5": "libncurses5",
    "libtinfo.so.5": "libtinfo5",
    "libssl.so.3": "libssl3",
    "libssl.so.1.1": "libssl1.1",
    "libcrypt.so.1": "libcrypt1",
    "libsnappy.so.1": "libsnappy1v5",
    "liblz4.so.1": "liblz4-1",
    "liburing.so.2": "liburing2",
    "libnsl.so.1": "libnsl2",
}
_RENAMED = {"libaio1": " (from Debian 13 and Ubuntu 24.04 on libaio1t64, and link libaio.so.1 to its libaio.so.1t64)"}


def install(spec: ServerSpec, progress: Progress = no_progress, catalog: Catalog | None = None) -> Installation:
    """Binaries for a server spec, fetched and unpacked if they are not in the cache yet.

    Args:
        spec: any but a running server.
        catalog: None: bakeoff's own with the user's entries.
        progress: called with what is done, bytes done, bytes in all; from one thread at a time.

    Raises:
        SpecError: unknown name, or nothing at the path. HostError: a program or library is missing here.
        ServerError: download or unpacking failed, or the binary does not run.
    """
    if spec.origin is Origin.URL:
        raise SpecError(f"server {spec}: a running server is not installed.", hint="bakeoff only connects to it.")
    if spec.origin is Origin.DOCKER:
        return docker.installation(spec.location, progress)
    if spec.origin is Origin.PATH:
        return _examine(Path(spec.location), "path")
    if spec.origin is Origin.TARBALL:
        return _install_entry(_tarball_entry(spec), progress)
    return _install_entry((catalog or Catalog.load()).resolve(spec), progress)


def installed() -> dict[str, int]:
    """Names in the cache with their size on disk, bytes."""
    folder = cache_root() / "servers"
    found = sorted(each.parent for each in folder.glob(f"*/{RECORD}"))
    return {each.name: bytes_on_disk(each) for each in found}


def is_installed(entry: Entry) -> bool:
    """Whether an entry is in the cache, from the same source as the catalogue names now."""
    return _recorded(cache_root() / "servers" / entry.name, str(entry.source)) is not None


def remove(name: str) -> int:
    """Remove a server and its templates from the cache.

    Returns:
        Bytes freed on disk.

    Raises:
        SpecError: not in the cache. ServerError: another bakeoff uses it.
    """
    folder = cache_root() / "servers" / name
    with locked(name):
        if not folder.is_dir():
            raise SpecError(
                f"server {name} is not in the cache.", hint=f"There is: {', '.join(installed()) or 'nothing'}."
            )
        freed = bytes_on_disk(folder)
        _remove_unused(folder)
    for template in (cache_root() / "templates").glob(f"{name}-*"):
        with locked(template.name):
            freed += bytes_on_disk(template)
            shutil.rmtree(template, ignore_errors=True)
    return freed


def _install_entry(entry: Entry, progress: Progress) -> Installation:
    if entry.source.path:
        return _examine(Path(entry.source.path).expanduser(), entry.name)
    if platform.machine() not in ("x86_64", "AMD64"):
        raise HostError(
            f"server {entry.name} is built for x86-64, and this is {platform.machine()}.",
            hint="Name your own: path:DIR.",
        )
    home = cache_root() / "servers" / entry.name
    source = str(entry.source)
    sweep_unfinished(home.parent)
    with locked(entry.name, on_wait=lambda: progress(f"waiting for another bakeoff that fetches {entry.name}", 0, 0)):
        record = _recorded(home, source)
        if record is None:
            _fetch_and_unpack(entry, home, progress)
        elif record["format"] != RECORD_FORMAT:  # by an older bakeoff: look again, without fetching
            _write_record(entry, home, record["files"])
        record = _recorded(home, source)
        assert record is not None
        share(_in_use(home))
    return _from_record(home, record)


def _fetch_and_unpack(entry: Entry, home: Path, progress: Progress) -> None:
    with _scratch(entry.name) as scratch:
        tree = scratch / "tree"
        tree.mkdir()
        if entry.source.debian:
            packages = fetch_packages(entry.name, entry.source.debian, scratch, entry.download_bytes, progress)
            hashes = {package.file.name: package.sha256 for package in packages}
            progress(f"unpacking {entry.name}", 0, 0)
            unpack_packages(packages, tree)
        else:
            downloads = scratch / "download"
            downloads.mkdir()
            file = fetch(entry, downloads, progress)
            hashes = {file.name: sha256_of(file)}
            progress(f"unpacking {entry.name}", 0, 0)
            unpack(entry.packing, file, tree)
        if home.exists():  # from another source than the catalogue names now, or incomplete
            _remove_unused(home)
        tree.rename(home)  # layouts hold absolute paths, so examined in place; without a record it does not count
        try:
            _write_record(entry, home, hashes)
        except BakeoffError as problem:
            shutil.rmtree(home, ignore_errors=True)
            if isinstance(problem, SpecError):  # about folders of ours that are gone again
                raise SpecError(f"server {entry.source}: no complete MySQL or MariaDB server inside.") from None
            raise


def _write_record(entry: Entry, home: Path, hashes: dict[str, str]) -> None:
    """Examine what was unpacked and write down what it is.

    Raises:
        ServerError: it is not the version that the catalogue promises.
    """
    found = _examine(home.resolve(), entry.name)
    if not _as_promised(entry, found):
        raise ServerError(
            f"server {entry.name}: its source now holds {found.version_text}.",
            hint=f"Ask for {entry.flavour}:{text_of(found.version[:2])}, or add an entry of your own to servers.toml.",
        )
    record = {
        "format": RECORD_FORMAT,
        "source": str(entry.source),
        "files": hashes,
        "flavour": found.flavour,
        "version_text": found.version_text,
        "sha256": found.sha256,
        "known_options": sorted(found.known_options),
    }
    temporary = home / f"{RECORD}.part"
    temporary.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    temporary.rename(home / RECORD)


def _as_promised(entry: Entry, found: Installation) -> bool:
    """A fixed source holds just the version promised; a moving one any of its series (10.11, 9); a tarball anything."""
    if not entry.numbers[0]:
        return True
    series = 1 if entry.family == "mysql" else 2
    same_family = found.family == entry.family
    return (
        same_family
        and found.version[:series] == entry.numbers[:series]
        and (entry.moving or found.version[:3] == entry.numbers[:3])
    )


def _remove_unused(home: Path) -> None:
    """Remove an unpacked server, under its lock.

    Raises:
        ServerError: another bakeoff uses it, and may start it at any moment.
    """
    with locked_if_free(_in_use(home)) as free:
        if not free:
            raise ServerError(
                f"server {home.name} is in use by a running bakeoff; it was not removed.", hint="Wait until that ends."
            )
        shutil.rmtree(home)


def _in_use(home: Path) -> str:
    """The lock that every bakeoff shares which was given this server, for as long as it lives."""
    return f"{home.name}.in-use"


@contextmanager
def _scratch(name: str) -> Iterator[Path]:
    """A temporary folder on the cache's file system, so that renaming out of it is atomic."""
    parent = make_open_folder(cache_root() / "servers")
    folder = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=parent))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _recorded(home: Path, source: str) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads((home / RECORD).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return record if record.get("source") == source and "format" in record else None


def _from_record(home: Path, record: dict[str, Any]) -> Installation:
    layout = detect(home.resolve())
    return _installation(
        layout, record["flavour"], record["version_text"], record["sha256"], frozenset(record["known_options"])
    )


def _tarball_entry(spec: ServerSpec) -> Entry:
    """An entry made up for a tarball: a changed file is another server, and so is another address.

    The name follows from a file's content, or from the whole address: many builds end in the same file name.
    """
    where = spec.location
    if "://" in where:
        last_part = re.sub(r"[^A-Za-z0-9.]+", "-", file_name("tarball", where))
        key = f"{last_part}-{hashlib.sha256(where.encode()).hexdigest()[:8]}"
        source = Source(url=where)
    else:
        file = Path(where).expanduser().absolute()
        if not file.is_file():
            raise SpecError(
                f"server {spec}: there is no file {file}.", hint="Name a .tar.gz, .tar.xz or a tarball's address."
            )
        key = sha256_of(file)[:16]
        source = Source(tarball=str(file))
    packing = "zip" if where.endswith(".zip") else "tarball"
    return Entry(name=f"tarball-{key}", flavour="mysql", version="0", source=source, packing=packing)


def _examine(place: Path, asked_for: str) -> Installation:
    """Look at files, then ask the binary for its version and its options."""
    layout = detect(place)
    identity = server_identity()
    require_reachable(layout.daemon.parent, identity.uid, identity.gid)
    version = _ask(layout, asked_for, "--version")
    flavour, text = flavour_and_version(version)
    options = options_in_help(_ask(layout, asked_for, *layout.base_options, "--verbose", "--help", must_succeed=False))
    return _installation(layout, flavour, text, sha256_of(layout.daemon), options)


def _installation(layout: Layout, flavour: str, text: str, sha256: str, options: frozenset[str]) -> Installation:
    version = parse_version(text)
    family = "mariadb" if flavour == "mariadb" else "mysql"
    engines = {"innodb", "myisam", "memory", "csv"}
    if layout.plugin_dir and (layout.plugin_dir / "ha_rocksdb.so").exists():
        engines.add("rocksdb")
    return Installation(
        name=f"{flavour}-{text_of(version)}",
        flavour=flavour,
        version=version,
        version_text=text,
        basedir=layout.basedir,
        argv=layout.argv,
        base_options=layout.base_options,
        share=layout.share,
        plugin_dir=layout.plugin_dir,
        init="initialize" if family == "mysql" and version >= (5, 7, 6) else "bootstrap",
        environment=dict(layout.environment),
        sha256=sha256,
        known_options=options,
        engines=frozenset(engines),
        own_loader=layout.own_loader,
    )


def _ask(layout: Layout, asked_for: str, *arguments: str, must_succeed: bool = True) -> str:
    """Run the daemon for a question, as the account that will run it."""
    identity = server_identity()
    with tempfile.TemporaryDirectory(prefix="bakeoff-ask-") as folder:
        place = Path(folder)
        place.chmod(0o755)
        datadir = place / "data"
        datadir.mkdir()
        identity.own(datadir)
        argv = [*layout.argv, "--no-defaults"]
        if "--help" in arguments:
            argv.append(f"--datadir={datadir}")
        answer = run(
            [*argv, *arguments],
            identity,
            env={"PATH": "/usr/bin:/bin", **layout.environment},
            cwd=datadir,
            log=place / "answer",
            timeout_s=60,
        )
    if answer.status != 0 and must_succeed:
        raise _why_not(asked_for, layout.daemon, answer.status, answer.errors + answer.output)
    return answer.output


def _why_not(asked_for: str, daemon: Path, status: int, output: str) -> BakeoffError:
    missing = re.search(r"error while loading shared libraries: (\S+): cannot open shared object", output)
    if missing:
        package = _LIBRARY_PACKAGES.get(missing[1])
        return HostError(
            f"server {asked_for}: {daemon.name} needs {missing[1]}, which this machine lacks.",
            hint=f"Run: apt-get install {package}{_RENAMED.get(package, '')}"
            if package
            else "Install the package that holds it.",
        )
    lines = [line for line in output.strip().splitlines() if line.strip()]
    return ServerError(
        f"server {asked_for}: {daemon} does not run (status {status}): {lines[-1][:200] if lines else 'no message'}"
    )
