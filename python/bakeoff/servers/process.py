"""Starts and watches child processes that end when bakeoff ends, as an account without privileges.

Each child asks the kernel for SIGKILL when its parent ends (PR_SET_PDEATHSIG), which reaches it even when stopped by
SIGSTOP. The kernel's "parent" is the *thread* that forked, so one thread forks all children. `launch.py` runs between
fork and exec, because Python code in `preexec_fn` is not safe in a process with threads.
"""

import contextlib
import json
import math
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import IO, NamedTuple

from bakeoff.errors import HostError, ServerError
from bakeoff.servers.releases import this_glibc

DEFAULT_ACCOUNT = "bakeoff"
LAUNCHER = Path(__file__).with_name("launch.py")
SYSTEM_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"
_AUDIT_LOG = Path("/var/log/audit/audit.log")
_POLL_S = 0.25
_SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bakeoff-spawner")  # its thread forks all children
_ADVICE: dict[str, str] = tomllib.loads(files("bakeoff.servers").joinpath("log_advice.toml").read_text("utf-8"))


@dataclass(frozen=True)
class Identity:
    """User and group of a server process; `switch` if we are root and must become this account before exec."""

    uid: int
    gid: int
    switch: bool

    def own(self, *paths: Path) -> None:
        if self.switch:
            for path in paths:
                os.chown(path, self.uid, self.gid, follow_symlinks=False)


@lru_cache(maxsize=2)
def server_identity(*, make: bool = True) -> Identity:
    """Return the account that servers run as: our own, or for root BAKEOFF_SERVER_USER or `bakeoff`.

    The system account `bakeoff` is made on first use; without `make` its number is -1 until then.
    """
    if os.geteuid() != 0:
        return Identity(os.geteuid(), os.getegid(), switch=False)
    name = os.environ.get("BAKEOFF_SERVER_USER") or DEFAULT_ACCOUNT
    add = ["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", name]
    entry = _account(name)
    if entry is None and name == DEFAULT_ACCOUNT:
        if not make:
            return Identity(-1, -1, switch=True)
        with contextlib.suppress(OSError):
            subprocess.run(add, env={"PATH": SYSTEM_PATH}, capture_output=True, check=False)
        entry = _account(name)
    if entry is None or entry.pw_uid == 0:
        why = "does not exist" if entry is None else "is root, which servers never run as"
        raise HostError(f"account {name!r} {why}.", hint=f"Run: {' '.join(add[:-1])} {DEFAULT_ACCOUNT}")
    return Identity(entry.pw_uid, entry.pw_gid, switch=True)


def _account(name: str) -> pwd.struct_passwd | None:
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(name)
    return None


class ProcessId(NamedTuple):
    """Process id and start time (field 22 of /proc/PID/stat), which a later process with the same id does not share."""

    pid: int
    start_ticks: int

    @classmethod
    def of(cls, pid: int) -> "ProcessId | None":
        fields = _stat_fields(pid)
        return cls(pid, int(fields[19])) if fields else None

    def alive(self) -> bool:
        fields = _stat_fields(self.pid)
        return bool(fields) and int(fields[19]) == self.start_ticks and fields[0] not in "ZX"


def _stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on, or none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return []


@dataclass(frozen=True)
class Launch:
    """What a child is started with. `argv` begins with an absolute path; `env` is the whole environment."""

    argv: Sequence[str]
    env: Mapping[str, str]
    identity: Identity
    cpus: frozenset[int] | None = None
    container: str = ""
    groups: Sequence[str] = ()  # files of control groups that it joins
    huge_pages: int | None = None  # flags of PR_SET_THP_DISABLE


def spawn(
    launch: Launch,
    *,
    cwd: Path,
    log: Path,
    error_log: Path | None = None,
    stdin: IO[bytes] | int = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Start a child that dies with us, in a new session so that Ctrl-C in the terminal reaches only bakeoff.

    `log` receives standard output, and errors too unless there is an `error_log`.
    """
    order = {
        "parent": os.getpid(),
        "uid": launch.identity.uid if launch.identity.switch else None,
        "gid": launch.identity.gid if launch.identity.switch else None,
        "cpus": sorted(launch.cpus) if launch.cpus else None,
        "groups": list(launch.groups),
        "huge_pages": launch.huge_pages,
        "argv": list(launch.argv),
        "env": dict(launch.env),
    }

    def start() -> subprocess.Popen[bytes]:
        memory = os.memfd_create("bakeoff")  # never on disk
        with os.fdopen(memory, "w+") as file, log.open("ab") as output, (error_log or log).open("ab") as errors:
            json.dump(order, file)
            file.seek(0)
            return subprocess.Popen(
                [sys.executable, "-I", "-S", str(LAUNCHER), str(memory)],
                stdin=stdin,
                stdout=output,
                stderr=errors,
                cwd=cwd,
                start_new_session=True,
                pass_fds=(memory,),
            )

    try:
        return _SPAWNER.submit(start).result()
    except OSError as problem:
        raise ServerError(f"{launch.argv[0]} could not be started: {problem.strerror}.") from None


def run(
    launch: Launch,
    *,
    cwd: Path,
    log: Path,
    stdin: Path | None = None,
    limit_s: float = 120,
    watch: Callable[[], None] = lambda: None,
) -> subprocess.CompletedProcess[str]:
    """Run a child to its end, or kill it after `limit_s`. Standard error goes to `log` with `.err` added.

    `watch` is called four times a second; an exception from it kills the child with its children.
    """
    # Two files, because an unbuffered error may land in the middle of a buffered line.
    error_log = log.with_name(f"{log.name}.err")
    with (stdin or Path(os.devnull)).open("rb") as opened:
        child = spawn(launch, cwd=cwd, log=log, error_log=error_log, stdin=opened)
    began_s = time.monotonic()
    try:
        while child.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_POLL_S)
            watch()
            if time.monotonic() - began_s > limit_s:
                what = f"{Path(launch.argv[0]).name} did not end within {limit_s:g} s."
                raise ServerError(what, log_tail=tail(error_log))
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        raise
    output, errors = (each.read_text("utf-8", "replace") for each in (log, error_log))
    return subprocess.CompletedProcess(launch.argv, child.returncode, output, errors)


def run_as_us(
    argv: Sequence[str],
    *,
    stdin: Path | None = None,
    watch: Callable[[], None] = lambda: None,
    limit_s: float = math.inf,
) -> subprocess.CompletedProcess[str]:
    launch = Launch(argv, os.environ, Identity(os.geteuid(), os.getegid(), switch=False))
    with tempfile.TemporaryDirectory(prefix="bakeoff-client-") as folder:
        return run(launch, cwd=Path(), log=Path(folder) / "output", stdin=stdin, limit_s=limit_s, watch=watch)


def tail(file: Path, lines: int = 12) -> str:
    try:
        with file.open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - 16_384))
            text = log.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no message"


def advice(log: str, folder: Path) -> str:
    """Return the advice of log_advice.toml on a server's log, or an empty string."""
    forbidden = [*_ADVICE][-1]
    log = f"{_denials()}{log}" if re.search(forbidden, log) else log
    for complaint, hint in _ADVICE.items():
        if found := re.search(complaint, log):
            option = (found.groupdict().get("option") or "").replace("-", "_")
            return hint.format(folder=folder, **found.groupdict() | {"option": option})
    return ""


def _denials() -> str:
    """Return what AppArmor or SELinux forbade servers: lines of the kernel's and the audit daemon's log."""
    try:
        kernel = subprocess.run(["dmesg"], env={"PATH": SYSTEM_PATH}, capture_output=True, check=False).stdout
    except OSError:
        kernel = b""
    lines = [*kernel.decode("utf-8", "replace").splitlines(), *tail(_AUDIT_LOG, 100).splitlines()]
    return "".join(f"{line}\n" for line in lines if re.search('comm="(mysqld|mariadbd)', line))


def check_libraries(who: str, said: str) -> None:
    """Raise HostError if the loader's list or complaint names libraries that are missing or too old."""
    if newer := re.findall(r"([^\s/]+): version `(\w+_)([\d.]+)' not found", said):
        order = [(symbols == "GLIBC_", [int(part) for part in version.split(".")]) for _, symbols, version in newer]
        library, symbols, version = newer[order.index(max(order))]
        raise HostError(
            f"{who} needs {symbols}{version}; {library} of this machine is older.",
            hint="Choose a build for older systems (its file's name has a lower glibc), or docker:IMAGE.",
        )
    found = re.findall(r"(\S+) => not found|shared librar(?:y|ies):? (\S+?): (?:cannot open|No such)", said)
    if found:
        raise lacks(who, *dict.fromkeys(listed or complained for listed, complained in found))


def lacks(who: str, *libraries: str) -> HostError:
    missing = "which is" if len(libraries) == 1 else "which are"
    hint = how_to_install(*libraries) or "Install the packages that have them."
    return HostError(f"{who} needs {', '.join(libraries)}, {missing} missing here.", hint=hint)


def how_to_install(*libraries: str) -> str:
    """Return the command for this machine's package manager, or nothing if a library's package is not known."""
    data = tomllib.loads(files("bakeoff.servers").joinpath("packages.toml").read_text("utf-8"))
    manager = next((each for each in data["install"] if shutil.which(each, path=SYSTEM_PATH)), "")
    t64 = manager == "apt-get" and (this_glibc() or ()) >= (2, 39)  # Debian 13, Ubuntu 24.04
    rows = [data["libraries"].get(library, {}) for library in libraries]
    packages = [row.get("t64" if t64 and "t64" in row else manager) for row in rows]
    if not all(packages):
        return ""
    after = [data["after"][package] for package in packages if package in data["after"]]
    return " && ".join([f"Run: {data['install'][manager]} {' '.join(dict.fromkeys(packages))}", *after])
