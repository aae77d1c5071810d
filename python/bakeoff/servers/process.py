"""Child processes that die with us, whatever kills us.

Each child asks the kernel for SIGKILL when its parent ends (PR_SET_PDEATHSIG), which reaches it even when it is
stopped by SIGSTOP. The kernel's idea of "parent" is the *thread* that forked, not the process: a child forked from a
worker of a thread pool would die as soon as that worker ends. So every child is forked from one thread that lives as
long as the process: the spawner.

`launch.py` sits between fork and exec, since Python code in `preexec_fn` is not safe in a process with threads.
"""

import json
import os
import pwd
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO

import psutil

from bakeoff.errors import HostError, ServerError

# The account that servers run as: ourselves, or a system account without privileges when we are root.
#
# `BAKEOFF_SERVER_USER` names another account. mysqld refuses to run as root for good reasons, and `--user=root` is
# never given.

DEFAULT_ACCOUNT = "bakeoff"


@dataclass(frozen=True)
class Identity:
    """User and group that a server process has.

    Attributes:
        switch: we are root and must become this account before exec.
    """

    name: str
    uid: int
    gid: int
    switch: bool

    def own(self, *paths: Path) -> None:
        """Give files to this account; nothing to do when we are it."""
        if self.switch:
            for path in paths:
                os.chown(path, self.uid, self.gid, follow_symlinks=False)


@lru_cache(maxsize=1)
def server_identity() -> Identity:
    """Who servers run as; makes the system account `bakeoff` the first time that root asks.

    Raises:
        HostError: the account named by BAKEOFF_SERVER_USER does not exist or is root, or none can be made.
    """
    wanted = os.environ.get("BAKEOFF_SERVER_USER")
    if os.geteuid() != 0:
        me = pwd.getpwuid(os.geteuid())
        if wanted and wanted != me.pw_name:
            raise HostError(
                f"BAKEOFF_SERVER_USER is {wanted}, but only root can start servers as someone else.", hint="Unset it."
            )
        return Identity(me.pw_name, os.geteuid(), os.getegid(), switch=False)
    name = wanted or DEFAULT_ACCOUNT
    entry = _account(name)
    if entry is None and not wanted:
        _make_system_account(name)
        entry = _account(name)
    if entry is None:
        raise HostError(
            f"account {name!r} does not exist.", hint=f"Run: useradd --system --shell /usr/sbin/nologin {name}"
        )
    if entry.pw_uid == 0:
        raise HostError("BAKEOFF_SERVER_USER names root; servers never run as root.", hint="Name a system account.")
    return Identity(entry.pw_name, entry.pw_uid, entry.pw_gid, switch=True)


def _account(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _make_system_account(name: str) -> None:
    program = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if program is None:
        raise HostError(
            "servers must not run as root, and there is no useradd to make an account.", hint="Set BAKEOFF_SERVER_USER."
        )
    shell = "/usr/sbin/nologin" if Path("/usr/sbin/nologin").exists() else "/bin/false"
    made = subprocess.run(
        [program, "--system", "--user-group", "--no-create-home", "--shell", shell, name],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode not in (0, 9):  # 9: someone else made it meanwhile
        raise HostError(
            f"account {name!r} for the servers could not be made: {made.stderr.strip()}",
            hint="Set BAKEOFF_SERVER_USER.",
        )


LAUNCHER = Path(__file__).with_name("launch.py")


@dataclass(frozen=True)
class ProcessId:
    """A process that cannot be mistaken for a later one with the same number.

    Attributes:
        start_ticks: field 22 of /proc/PID/stat, clock ticks since boot.
    """

    pid: int
    start_ticks: int

    @classmethod
    def of(cls, pid: int) -> "ProcessId | None":
        """The process that has this number now; None when there is none."""
        try:
            text = Path(f"/proc/{pid}/stat").read_text("utf-8")
        except OSError:
            return None
        return cls(pid, int(text.rpartition(")")[2].split()[19]))

    def alive(self) -> bool:
        """Whether it still runs; a zombie does not."""
        if ProcessId.of(self.pid) != self:
            return False
        try:
            return bool(psutil.Process(self.pid).status() != psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return False


def spawn(
    argv: Sequence[str],
    identity: Identity,
    *,
    env: Mapping[str, str],
    cwd: Path,
    log: Path | None = None,
    error_log: Path | None = None,
    stdin: IO[bytes] | int = subprocess.DEVNULL,
    cpus: frozenset[int] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a child that dies with us, in a session of its own, so that Ctrl-C in the terminal reaches only bakeoff.

    Args:
        argv: program by absolute path, and its arguments.
        identity: whom it runs as.
        env: its whole environment.
        cwd: its working folder.
        log: appended with standard output and error; None: /dev/null.
        error_log: for standard error alone.
        stdin: an open file, or subprocess.PIPE, which ends when we do.
        cpus: CPUs that it may run on; None: all.

    Raises:
        ServerError: the program cannot be started at all.
    """
    order = {
        "parent": os.getpid(),
        "uid": identity.uid if identity.switch else None,
        "gid": identity.gid if identity.switch else None,
        "cpus": sorted(cpus) if cpus else None,
        "argv": list(argv),
        "env": dict(env),
    }

    def start() -> subprocess.Popen[bytes]:
        with (
            (log or Path(os.devnull)).open("ab") as output,
            (error_log or log or Path(os.devnull)).open("ab") as errors,
            _in_memory(json.dumps(order)) as place,
        ):
            return subprocess.Popen(
                [sys.executable, "-I", "-S", str(LAUNCHER), str(place)],
                stdin=stdin,
                stdout=output,
                stderr=errors,
                cwd=cwd,
                start_new_session=True,
                pass_fds=(place,),
            )

    try:
        return _SPAWNER.call(start)
    except OSError as problem:
        raise ServerError(f"{argv[0]} could not be started: {problem.strerror}.") from None


@dataclass(frozen=True)
class Finished:
    """A child that has ended: its exit status, and what it wrote to standard output and to standard error."""

    status: int
    output: str
    errors: str


def run(
    argv: Sequence[str],
    identity: Identity,
    *,
    env: Mapping[str, str],
    cwd: Path,
    log: Path,
    stdin: Path | None = None,
    timeout_s: float = 120,
) -> Finished:
    """Run a child to its end; it dies with us, and after `timeout_s`. Its errors go to `log` with `.err` added.

    Raises:
        ServerError: not done in time, or not to be started.
    """
    error_log = log.with_name(
        f"{log.name}.err"
    )  # two files: an unbuffered error lands in the middle of a buffered line
    opened = stdin.open("rb") if stdin else None
    try:
        child = spawn(
            argv, identity, env=env, cwd=cwd, log=log, error_log=error_log, stdin=opened or subprocess.DEVNULL
        )
    finally:
        if opened:
            opened.close()
    try:
        status = child.wait(timeout_s)
    except BaseException as problem:
        child.kill()
        child.wait()
        if isinstance(problem, subprocess.TimeoutExpired):
            raise ServerError(
                f"{Path(argv[0]).name} did not end within {timeout_s:.0f} s.", log_tail=tail(error_log)
            ) from None
        raise
    return Finished(status, log.read_text("utf-8", "replace"), error_log.read_text("utf-8", "replace"))


def tail(file: Path, lines: int = 12) -> str:
    """The last lines of a log; empty when there is none."""
    try:
        with file.open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - 16_384))
            text = log.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


@contextmanager
def _in_memory(text: str) -> Iterator[int]:
    """A descriptor that gives a text to a child: everyone on this machine may read its arguments while it starts."""
    with os.fdopen(os.memfd_create("bakeoff-order"), "w+", encoding="utf-8") as file:
        file.write(text)
        file.seek(0)
        yield file.fileno()


_Orders = queue.SimpleQueue[tuple[Callable[[], subprocess.Popen[bytes]], Future[subprocess.Popen[bytes]]]]


class _Spawner:
    """One thread that forks on behalf of all others; started at first use."""

    def __init__(self) -> None:
        self._orders: _Orders = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._pid = 0

    def call(self, start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        """Fork in the spawner's thread, and hand back the child or the failure."""
        with self._lock:
            if self._thread is None or self._pid != os.getpid():  # the thread does not survive a fork of ours
                self._pid = os.getpid()
                self._orders = queue.SimpleQueue()
                self._thread = threading.Thread(
                    target=self._serve, args=(self._orders,), name="bakeoff-spawner", daemon=True
                )
                self._thread.start()
        done: Future[subprocess.Popen[bytes]] = Future()
        self._orders.put((start, done))
        return done.result()

    @staticmethod
    def _serve(orders: _Orders) -> None:
        while True:
            start, done = orders.get()
            try:
                done.set_result(start())
            except BaseException as problem:
                done.set_exception(problem)


_SPAWNER = _Spawner()
