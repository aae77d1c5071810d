"""Installs a server: downloads and unpacks it, finds its parts, and asks the binary for its version and options.

A tree with its own C library (unpacked Debian packages) runs through that library's loader: the host's loader fails
with a foreign libc, and the host's libc may be too old for the binary.
"""

import ctypes
import hashlib
import json
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from bakeoff.errors import BakeoffError, HostError, ServerError, SpecError
from bakeoff.files import expanded, write_atomically
from bakeoff.servers import docker, fetch, paths
from bakeoff.servers.catalog import (
    Catalog,
    Entry,
    Installation,
    Layout,
    Packing,
    Source,
    flavour_and_version,
    is_open,
)
from bakeoff.servers.datadir import prune
from bakeoff.servers.fetch import Progress, no_progress, sha256_of, unpack
from bakeoff.servers.options import known_options
from bakeoff.servers.process import Launch, advice, check_libraries, lacks, last_line, run, server_identity
from bakeoff.servers.releases import parse_version, series_of, version_text
from bakeoff.spec import Origin, ServerSpec

RECORD = "bakeoff-installation.json"
RECORD_FORMAT = 3
_DAEMONS = [f"{folder}{name}" for folder in ("bin/", "sbin/", "libexec/", "") for name in ("mariadbd", "mysqld")]
_LISTED_PLUGINS = ("ha_rocksdb.so", "thread_pool.so")  # their options count as the server's
_PARTS: dict[str, list[str]] = tomllib.loads(Path(__file__).with_name("server_parts.toml").read_text("utf-8"))


def detect(path: Path) -> Layout:
    """Find the parts of a server in a basedir, an unpacked root file system, or around a binary."""
    path = expanded(path).absolute()
    if not path.exists():
        raise SpecError(f"path {path} does not exist.", hint="Name a basedir (path:/opt/mysql) or a mysqld.")
    if path.is_file():
        return _around(path, path.parent.parent if path.parent.name in ("bin", "sbin", "libexec") else path.parent)
    loader = next((path / each for each in _PARTS["loaders"] if path != Path("/") and (path / each).exists()), None)
    for basedir in (path / "usr", path) if loader else (path, path / "usr"):
        daemon = next((basedir / each for each in _DAEMONS if (basedir / each).is_file()), None)
        if daemon:
            return _around(daemon, basedir, loader if basedir == path / "usr" else None, path)
    raise SpecError(
        f"path {path}: no mysqld or mariadbd found (looked for {', '.join(_DAEMONS[:4])}).",
        hint="Name the basedir, or the binary itself.",
    )


def _around(daemon: Path, basedir: Path, loader: Path | None = None, root: Path | None = None) -> Layout:
    shares = (basedir / each for each in _PARTS["shares"])
    messages = next((each for each in shares if (each / "english" / "errmsg.sys").exists()), None)
    if messages is None:
        raise SpecError(
            f"path {basedir}: found {daemon.name} but no share/english/errmsg.sys.",
            hint="Name a complete basedir; message files are needed.",
        )
    options = [f"--basedir={basedir}", f"--lc-messages-dir={messages}"]
    if (messages / "charsets" / "Index.xml").exists():
        options.append(f"--character-sets-dir={messages / 'charsets'}")
    plugin_dir = next((basedir / each for each in _PARTS["plugins"] if (basedir / each).is_dir()), None)
    if plugin_dir:
        options.append(f"--plugin-dir={plugin_dir}")
    # Some packages have libaio in the basedir or under libs/, where the loader does not look.
    libaio = next((each for each in (basedir, basedir / "libs") if (each / "libaio.so.1").exists()), None)
    environment = {"LD_LIBRARY_PATH": str(libaio)} if libaio and not loader else {}
    argv: tuple[str, ...] = (str(daemon),)
    if loader and root:
        libraries = (root / each / "x86_64-linux-gnu" for each in ("lib", "usr/lib"))
        argv = (str(loader), "--library-path", ":".join(str(each) for each in libraries if each.is_dir()), *argv)
    return Layout(
        basedir=basedir,
        argv=argv,
        share=messages,
        plugin_dir=plugin_dir,
        environment=environment,
        base_options=tuple(options),
    )


def install(spec: ServerSpec, progress: Progress = no_progress, *, full: bool = False) -> Installation:
    """Fetch a server if it is missing and return its binaries; `full` asks for a tarball with debug symbols."""
    if spec.is_running:
        raise SpecError(f"server {spec}: a running server is not installed.", hint="bakeoff only connects to it.")
    if spec.origin is Origin.DOCKER:
        return docker.installation(spec.location, progress)
    if spec.origin is Origin.PATH:
        return _examine(Path(spec.location), "path")
    if spec.origin is Origin.TARBALL:
        return _install_entry(_tarball_entry(spec), progress)
    return _install_entry(find_entry(spec), progress, full)


def installed() -> dict[str, int]:
    folder = paths.cache_root() / "servers"
    found = sorted(each.parent for each in folder.glob(f"*/{RECORD}"))
    return {each.name: paths.bytes_on_disk(each) for each in found}


def find_entry(spec: ServerSpec) -> Entry:
    """Find a server by name. If that leaves the release open and none is here, ask the vendor for its newest."""
    catalog = Catalog.load()
    mirrored = fetch.mirrored_releases(spec.flavour)

    def is_here(entry: Entry) -> bool:
        return is_installed(entry) or entry.version in mirrored

    try:
        entry = catalog.resolve(spec, is_here, mirrored)
    except SpecError:
        if spec.flavour not in catalog.vendors:
            raise
        series = series_of(spec.version)  # the vendor may know it
    else:
        if not is_open(spec.version) or is_here(entry) or entry.own:
            return entry
        series = series_of(entry.version)
    listed = fetch.listed_releases(spec.flavour, catalog.vendor_of(spec.flavour), series)
    return catalog.resolve(spec, is_here, (*mirrored, *(listed or ())), vendor_answers=listed is not None)


def known_servers() -> list[Entry]:
    """Return every server known by name, and the installed ones that are not listed."""
    catalog = Catalog.load()
    # The user's own servers may have any name.
    here = [found for name in installed() if (found := re.fullmatch(r"([a-z]+)-(\d+\.\d+\.\d+(?:-\d+)?)", name))]
    flavours = dict.fromkeys([*catalog.vendors, *(entry.flavour for entry in catalog.entries)])
    return [
        entry
        for flavour in flavours
        for entry in catalog.known(flavour, [found[2] for found in here if found[1] == flavour])
    ]


def is_installed(entry: Entry, *, full: bool = False) -> bool:
    return _record_of(entry, full) is not None


def how_checked(entry: Entry) -> tuple[str, str]:
    """Return where an installed server came from, and how its download was checked."""
    record = _record_of(entry) or {}
    return record.get("source", ""), record.get("checked", "")


def _record_of(entry: Entry, full: bool = False) -> dict[str, Any] | None:
    record = _recorded(paths.cache_root() / "servers" / entry.name, str(entry.source) if entry.own else "")
    if record and full and not re.match(r"(vendor|mirror) (?!.*-minimal)", record["source"]):
        return None
    return record


def remove(name: str) -> int:
    """Remove a server and its templates from the cache and return the bytes freed."""
    folder = paths.cache_root() / "servers" / name
    with paths.locked(name):
        if not folder.is_dir():
            raise SpecError(
                f"server {name} is not in the cache.", hint=f"There is: {', '.join(installed()) or 'nothing'}."
            )
        freed, record = paths.bytes_on_disk(folder), _recorded(folder)
        _remove_unused(folder)
    # Tarballs and moving sources have other names in the cache than their servers.
    made = f"{record['flavour']}-{version_text(parse_version(record['version_text']))}" if record else name
    for template in (paths.cache_root() / "templates").glob(f"{made}-*"):
        with paths.locked(template.name):
            freed += paths.bytes_on_disk(template)
            shutil.rmtree(template, ignore_errors=True)
    return freed


def free_cache(*, servers: bool) -> None:
    """Remove from the cache what can be made again, and `servers` too, unless another bakeoff uses it."""
    paths.remove_stale(paths.RUNTIME_ROOT, paths.work_root(), kept_s=0.0)
    for folder in (paths.cache_root() / "servers", paths.cache_root() / "templates"):
        paths.remove_unfinished(folder)
    shutil.rmtree(paths.cache_root() / "refused", ignore_errors=True)
    for interrupted in list((paths.cache_root() / "downloads").glob("*")):
        paths.remove_if_free(interrupted, interrupted.name)
    for dump in list((paths.cache_root() / "dumps").glob("*")):
        paths.remove_if_free(dump, dump.name, with_lock=True)
    if (paths.cache_root() / "templates").is_dir():
        prune(paths.cache_root() / "templates", limit_bytes=0, unused_s=0)
    if not servers:
        return
    for name in installed():
        with suppress(ServerError):  # in use
            remove(name)
    for rest in list((paths.cache_root() / "servers").glob("[!.]*")):  # scripts of images, broken installations
        with paths.locked_if_free(rest.name) as free:
            if free and not (rest / RECORD).exists():
                shutil.rmtree(rest, ignore_errors=True)


def _install_entry(entry: Entry, progress: Progress, full: bool = False) -> Installation:
    if entry.source and entry.source.path:
        return _examine(Path(entry.source.path), entry.name)
    home = paths.cache_root() / "servers" / entry.name
    paths.remove_unfinished(home.parent)
    with paths.locked(entry.name, on_wait=lambda: progress(f"waiting for another bakeoff to fetch {entry.name}", 0, 0)):
        if not is_installed(entry, full=full):
            _fetch_and_unpack(entry, home, progress, full)
        record = _record_of(entry)
        assert record is not None
        paths.share(_in_use(home))
    found = _installation(detect(home.resolve()), record["flavour"], record["version_text"], record["sha256"])
    return replace(found, provenance=f"{record['source']}: {record['checked']}" if record.get("checked") else "")


def _fetch_and_unpack(entry: Entry, home: Path, progress: Progress, full: bool) -> None:
    downloads = paths.make_open_folder(paths.cache_root() / "downloads" / entry.name)  # an interrupted one is resumed
    with paths.unfinished(home.parent, entry.name) as scratch:
        tree = scratch / "tree"
        tree.mkdir()
        vendor = Catalog.load().vendor_of(entry.flavour)
        fetched = fetch.fetch(entry, downloads, progress, vendor=vendor, full=full)
        hashes = {file.name: sha256_of(file) for file in fetched.files}
        progress(f"unpacking {entry.name}", 0, 0)
        try:
            unpack.unpack(fetched.packing, fetched.files, tree)
        except ServerError:  # damaged
            shutil.rmtree(downloads, ignore_errors=True)
            raise
        if home.exists():  # from another source, or incomplete
            _remove_unused(home)
        tree.rename(home)  # examined in place, because layouts hold absolute paths; it is incomplete without a record
        try:
            _write_record(entry, home, fetched, hashes)
        except BakeoffError as problem:
            shutil.rmtree(home, ignore_errors=True)
            if isinstance(problem, SpecError):  # it names the removed folder
                raise SpecError(f"server {fetched.source}: no complete MySQL or MariaDB server inside.") from None
            raise
    shutil.rmtree(downloads, ignore_errors=True)


def _write_record(entry: Entry, home: Path, fetched: fetch.Fetched, hashes: dict[str, str]) -> None:
    found = _examine(home.resolve(), entry.name)
    if not _as_promised(entry, found):
        series = version_text(found.version[:2])
        raise ServerError(
            f"server {entry.name}: its source now holds {found.version_text}.",
            hint=f"Use {entry.flavour}:{series}, or add an entry to servers.toml.",
        )
    record = {
        "format": RECORD_FORMAT,
        "source": fetched.source,
        "checked": fetched.checked,
        "files": hashes,
        "flavour": found.flavour,
        "version_text": found.version_text,
        "sha256": found.sha256,
    }
    write_atomically(home / RECORD, f"{json.dumps(record, indent=1)}\n".encode())


def _as_promised(entry: Entry, found: Installation) -> bool:
    """Check the version: exact for a fixed source, of the series (10.11, 9) for a moving one, any for a tarball."""
    if not entry.numbers[0]:
        return True
    compared = 3 if not entry.moving else 1 if entry.family == "mysql" else 2
    return found.family == entry.family and found.version[:compared] == entry.numbers[:compared]


def _remove_unused(home: Path) -> None:
    if not paths.remove_if_free(home, _in_use(home)):
        raise ServerError(
            f"server {home.name} was not removed: a running bakeoff uses it.", hint="Wait until that ends."
        )


def _in_use(home: Path) -> str:
    return f"{home.name}.in-use"


def _recorded(home: Path, source: str = "") -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads((home / RECORD).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return record if source in ("", record.get("source")) and record.get("format") == RECORD_FORMAT else None


def _tarball_entry(spec: ServerSpec) -> Entry:
    where = spec.location
    if "://" in where:
        last_part = re.sub(r"[^A-Za-z0-9.]+", "-", fetch.file_name("server tarball", where))
        key = f"{last_part}-{hashlib.sha256(where.encode()).hexdigest()[:8]}"
        source = Source(url=where)
    else:
        file = expanded(Path(where)).absolute()
        if not file.is_file():
            raise SpecError(f"server {spec}: no such file: {file}.", hint="Name a .tar.gz, a .tar.xz or a URL.")
        key = sha256_of(file)[:16]
        source = Source(tarball=str(file))
    packing: Packing = "zip" if where.endswith(".zip") else "tarball"
    return Entry(name=f"tarball-{key}", flavour="mysql", version="0", source=source, packing=packing, own=True)


def _examine(path: Path, asked_for: str) -> Installation:
    layout = detect(path)
    identity = server_identity()
    paths.require_reachable(layout.daemon.parent, identity.uid, identity.gid)
    who = f"server {asked_for}: {layout.daemon.name}"
    listed = _ask(layout, "--version", LD_TRACE_LOADED_OBJECTS="1")  # as ldd does
    check_libraries(who, listed.stdout + listed.stderr)
    answer = _ask(layout, "--version")
    if answer.returncode != 0:
        said = answer.stderr + answer.stdout
        check_libraries(who, said)
        why = f"does not run (status {answer.returncode}): {last_line(said)}"
        raise ServerError(f"server {asked_for}: {layout.daemon} {why}", hint=advice(said, layout.basedir))
    flavour, text = flavour_and_version(answer.stdout)
    return _installation(layout, flavour, text, sha256_of(layout.daemon))


def _installation(layout: Layout, flavour: str, text: str, sha256: str) -> Installation:
    plugins = [each for each in _LISTED_PLUGINS if layout.plugin_dir and (layout.plugin_dir / each).exists()]
    question = [*layout.base_options, *(f"--plugin-load-add={each}" for each in plugins), "--verbose", "--help"]
    options = known_options(text, sha256, lambda: _ask(layout, *question).stdout)
    engines = {"innodb", "myisam", "memory", "csv"} | ({"rocksdb"} if "ha_rocksdb.so" in plugins else set())
    return Installation(
        **vars(layout),
        flavour=flavour,
        version_text=text,
        sha256=sha256,
        known_options=options,
        engines=frozenset(engines),
    )


def _ask(layout: Layout, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    identity = server_identity()
    with tempfile.TemporaryDirectory(prefix="bakeoff-ask-") as folder:
        temporary = Path(folder)
        temporary.chmod(0o755)
        datadir = temporary / "data"
        datadir.mkdir()
        identity.own(datadir)
        own_folder = [f"--datadir={datadir}"] if "--help" in arguments else []
        argv = [*layout.argv, "--no-defaults", *own_folder, *arguments]
        env = {"PATH": "/usr/bin:/bin", **layout.environment, **env}
        return run(Launch(argv, env, identity), cwd=datadir, log=temporary / "answer", limit_s=60)


def lacking() -> Iterator[HostError]:
    """Yield an error for each library that many builds need and this machine lacks."""
    for library in ("libaio.so.1", "libnuma.so.1"):
        try:
            ctypes.CDLL(library)
        except OSError:
            yield lacks("most servers", library)
