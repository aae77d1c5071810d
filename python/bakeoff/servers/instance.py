"""One running server: its own data directory, socket, port, account, CPUs and environment; started, watched, stopped.

Everything that differs between two instances of a study has the same length (paths, socket, port), since lengths
alone can move a measurement. Instances are made by `ServerPool`.
"""

import contextlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pymysql

from bakeoff.errors import HostError, ServerError, SpecError
from bakeoff.servers import docker
from bakeoff.servers.catalog import Installation
from bakeoff.servers.client import ROOT, Account, Server, make_tcp_account, open_connection
from bakeoff.servers.docker import prepare
from bakeoff.servers.options import option_arguments, write_cnf
from bakeoff.servers.paths import bytes_on_disk
from bakeoff.servers.process import SYSTEM_PATH, ProcessId, spawn, tail
from bakeoff.servers.profile import Settings, differences

# The environment of a server process: nothing inherited by accident, LD_PRELOAD by name, padding of a known size.
#
# Mytkowicz et al. (2009) showed that the size of the environment moves the stack and with it the speed by several per
# cent; so it is the same for every start but for padding that the caller draws at random.

PADDING = "BAKEOFF_PADDING"
_REFUSED = ("MYSQL_HOME", "MYSQL_TCP_PORT", "MYSQL_UNIX_PORT", "LD_LIBRARY_PATH")
_PACKAGES = {
    "libjemalloc.so.2": "libjemalloc2",
    "libtcmalloc.so.4": "libgoogle-perftools4",
    "libtcmalloc_minimal.so.4": "libtcmalloc-minimal4",
    "libmimalloc.so.2": "libmimalloc2.0",
    "libmimalloc.so.3": "libmimalloc3",
}
_STANDARD_FOLDERS = (
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/lib64",
    "/usr/lib",
    "/lib",
)


def environment(installation: Installation, asked: Mapping[str, str], padding_bytes: int = 0) -> dict[str, str]:
    """The whole environment of a server process.

    Args:
        installation: what will run in it; may need variables of its own.
        asked: the spec's `env.NAME=value`; `LD_PRELOAD` may name libraries without their folder.
        padding_bytes: length of a variable that serves only to move the stack.

    Raises:
        SpecError: a variable that is bakeoff's own. HostError: a library to preload is not on this machine.
    """
    for name in _REFUSED:
        if name in asked:
            raise SpecError(
                f"server {installation.name}: env.{name} is bakeoff's own to set.",
                hint="Leave it out.",
                field=("server", "env", name),
            )
    result = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/nonexistent"}
    if "TZ" in os.environ:
        result["TZ"] = os.environ["TZ"]
    result |= installation.environment
    result |= asked
    if asked.get("LD_PRELOAD"):
        result["LD_PRELOAD"] = ":".join(str(each) for each in preload_libraries(asked["LD_PRELOAD"]))
    result[PADDING] = "x" * padding_bytes
    return result


def preload_libraries(value: str) -> list[Path]:
    """Files that `LD_PRELOAD=value` means: absolute paths, or names found on the system's library path.

    Raises:
        HostError: one is not there; names the Debian package that holds it.
    """
    found: list[Path] = []
    for name in re.split(r"[:\s]+", value.strip()):
        place = Path(name) if "/" in name else _find(name)
        if place is None or not place.is_file():
            package = _PACKAGES.get(Path(name).name)
            raise HostError(
                f"LD_PRELOAD={name}: there is no such library on this machine.",
                hint=f"Run: apt-get install {package}" if package else "Install it, or name its whole path.",
            )
        found.append(place)
    return found


def check_preloaded(installation: Installation, pid: int, env: Mapping[str, str], errors: str) -> None:
    """Check that a running server has mapped what LD_PRELOAD names: the loader only warns when it cannot.

    Raises:
        ServerError: it has not, with the loader's reason.
    """
    if not env.get("LD_PRELOAD"):
        return
    mapped = Path(f"/proc/{pid}/maps").read_text("utf-8", "replace")
    for library in env["LD_PRELOAD"].split(":"):
        if str(Path(library).resolve()) not in mapped and library not in mapped:
            said = next((line for line in errors.splitlines() if "LD_PRELOAD" in line or "version `" in line), "")
            why = (
                "its own C library, older or other than this machine's, refused it"
                if installation.own_loader
                else "the loader refused it"
            )
            raise ServerError(
                f"{installation.name} did not load {library}: {why}{': ' + said.strip() if said else ''}.",
                hint="Choose a server built for this machine's C library, or leave LD_PRELOAD out.",
            )


def _find(name: str) -> Path | None:
    """A library by its file name: the loader's cache first, then the usual folders."""
    program = shutil.which("ldconfig", path=SYSTEM_PATH)
    if program:
        cache = subprocess.run([program, "-p"], capture_output=True, text=True, check=False).stdout
        for line in cache.splitlines():
            entry, arrow, place = line.strip().partition(" => ")
            if arrow and entry.split(" ")[0] == name and "x86-64" in entry:
                return Path(place)
    return next((Path(folder) / name for folder in _STANDARD_FOLDERS if (Path(folder) / name).is_file()), None)


SOCKET_PATH_LIMIT = 107  # bytes of sun_path without the final zero; every server version refuses more
PORTS = range(20_000, 32_000)  # five digits, below the kernel's ephemeral ports
_PORT_TRIES = 8
_POLL_S = 0.01
_COMPLAINTS = (
    (
        "io_setup() failed",
        "The kernel's limit of asynchronous I/O is used up: raise fs.aio-max-nr, or stop other servers.",
    ),
    ("No space left on device", "The disk is full."),
    ("Cannot allocate memory", "Memory is too small for innodb_buffer_pool_size."),
    ("unknown variable", "It does not know one of the options."),
    ("unknown option", "It does not know one of the options."),
    ("version `GLIBC_", "LD_PRELOAD names a library built for a newer C library than the one that this server brings."),
)


class Instance(Server):
    """A server that belongs to us.

    Attributes:
        name: the arm's.
        home: its folder: `data/`, `tmp/`, `error.log`.
        socket_path: its unix socket.
        port: on 127.0.0.1; 0 before the first start.
        removed: its files are gone; it cannot be started again.
        stopped_cleanly: the last stop ended with status 0 and nothing was started since; a snapshot needs that.
    """

    ours = True

    def __init__(
        self,
        name: str,
        installation: Installation,
        settings: Settings,
        home: Path,
        socket_folder: Path,
        *,
        env: Mapping[str, str] | None = None,
        cpus: frozenset[int] | None = None,
        padding_bytes: int = 0,
        on_spawn: Callable[[ProcessId], None] = lambda _process: None,
    ) -> None:
        self.name = name
        self.installation = installation
        self.settings = settings
        self.home = home
        self.socket_path = socket_folder / "s.sock"
        self.port = 0
        self.cpus = cpus
        self.removed = False
        self.stopped_cleanly = True  # a clone or a restored snapshot is
        self.environment = environment(installation, env or {}, padding_bytes)
        self._container = ""
        self._on_spawn = on_spawn
        self._child: subprocess.Popen[bytes] | None = None
        self._tcp_account: Account | None = None
        if len(os.fsencode(self.socket_path)) > SOCKET_PATH_LIMIT:
            raise ServerError(
                f"server {name}: socket path {self.socket_path} is longer than {SOCKET_PATH_LIMIT} bytes."
            )

    @property
    def datadir(self) -> Path:
        """The data directory."""
        return self.home / "data"

    @property
    def error_log(self) -> Path:
        """The server's error log, kept over restarts of this instance."""
        return self.home / "error.log"

    @property
    def pid(self) -> int:
        """Process id of the running server.

        Raises:
            ServerError: it is not running.
        """
        if self._child is None or self._child.poll() is not None:
            raise ServerError(f"server {self.name} is not running.", log_tail=self.error_log_tail())
        if not self._container:
            return self._child.pid
        inside = docker.server_pid(self.installation, self._container)
        if inside is None:
            raise ServerError(f"server {self.name}: the processes of its container cannot be seen from here.")
        return inside

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._child is not None and self._child.poll() is None

    @property
    def my_cnf(self) -> str:
        """All options as the text of a my.cnf, for the run directory."""
        return write_cnf(
            {**self._place_options(), **self.settings.options}, f"{self.installation.name}, as bakeoff started it"
        )

    def start(self, timeout_s: float = 120.0) -> float:
        """Start and wait for the first answered `SELECT 1`. A port that someone else took meanwhile is replaced.

        Returns:
            Seconds from fork to the first answer.

        Raises:
            ServerError: it exits, or does not answer in time; with the end of its log.
        """
        if self.running:
            raise ServerError(f"server {self.name} is already running.")
        self.stopped_cleanly = False
        self._tcp_account = None
        for attempt in range(_PORT_TRIES):
            self.port = free_port()
            log_start = self.error_log.stat().st_size if self.error_log.exists() else 0
            try:
                return self._start_once(timeout_s)
            except ServerError:
                log = self.error_log.read_bytes()[log_start:] if self.error_log.exists() else b""
                if b"Address already in use" not in log or attempt == _PORT_TRIES - 1:
                    raise
        raise AssertionError("unreachable")

    def stop(self, timeout_s: float = 120.0, *, slow: bool = False) -> float:
        """Shut down cleanly (SIGTERM) and wait for the end; an open connection costs MySQL up to 2 s.

        Args:
            timeout_s: killed after that.
            slow: purge and merge everything first (innodb_fast_shutdown=0), so that a snapshot owes nothing.

        Returns:
            Seconds it took; 0 if it was not running.

        Raises:
            ServerError: it did not end in time (it is killed then), or not with status 0.
        """
        if not self.running:
            return 0.0
        assert self._child is not None
        if slow:
            self.query("SET GLOBAL innodb_fast_shutdown=0")
        began = time.monotonic()
        self._signal(signal.SIGCONT)  # it may be frozen
        self._signal(signal.SIGTERM)
        try:
            status = self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServerError(
                f"server {self.name} did not shut down within {timeout_s:.0f} s and was killed.",
                log_tail=self.error_log_tail(),
            ) from None
        if status != 0:
            raise ServerError(
                f"server {self.name} ended with status {status} when stopped.", log_tail=self.error_log_tail()
            )
        self.stopped_cleanly = True
        return time.monotonic() - began

    def kill(self) -> None:
        """End it at once (SIGKILL); nothing happens if it is not running."""
        if self._child is not None and self._child.poll() is None:
            if self._container:
                with contextlib.suppress(ServerError):  # the engine is gone, and its containers with it
                    docker.kill(self.installation, self._container)
            self._signal(signal.SIGKILL)
            self._child.wait()
            self.stopped_cleanly = False

    def remove(self) -> None:
        """Kill it and delete its files; its place in the pool is free again."""
        self.kill()
        self.removed = True
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.rmtree(self.socket_path.parent, ignore_errors=True)

    def connect(self, database: str | None = None) -> pymysql.connections.Connection:
        """A new connection as root over the socket, autocommit on; the caller closes it.

        Raises:
            ServerError: it does not answer.
        """
        try:
            return self._connect(database)
        except (pymysql.MySQLError, OSError) as problem:
            raise ServerError(
                f"server {self.name} does not answer: {problem.args[-1]}.", log_tail=self.error_log_tail()
            ) from None

    def address(self, transport: str = "socket") -> dict[str, Any]:
        """Where the engine finds it: `{"socket": PATH}` or `{"host": "127.0.0.1", "port": P}`."""
        if transport == "socket":
            return {"socket": str(self.socket_path)}
        return {"host": "127.0.0.1", "port": self.port}

    def account(self, transport: str = "socket") -> Account:
        """Who to log in as: root without a password over the socket; over TCP an account made when first asked for."""
        if transport == "socket":
            return ROOT
        if self._tcp_account is None:
            connection = self.connect()
            try:
                self._tcp_account = make_tcp_account(connection)
            finally:
                connection.close()
        return self._tcp_account

    def error_log_tail(self, lines: int = 12) -> str:
        """The end of the error log, or of the standard error where there is no log yet."""
        return tail(self.error_log, lines) or tail(self.home / "console.log", lines)

    def ignored_settings(self) -> list[str]:
        """One line for each option that the server ignored or changed, found by reading it back."""
        found = differences(self.settings.options, self.variables())
        if "ha_rocksdb" in self.settings.options.get("plugin_load_add", ""):
            engines = {str(row[0]).lower(): str(row[1]) for row in self.query("SHOW ENGINES")}
            if engines.get("rocksdb") not in ("YES", "DEFAULT"):
                found.append("plugin_load_add=ha_rocksdb: the server runs without the engine")
        return found

    def data_bytes(self, database: str) -> int:
        """Allocated bytes of a database on disk: its folder, MyRocks' tables, the system tablespace if it has tables.

        Logs are left out, InnoDB's and MyRocks' alike.
        """
        total = bytes_on_disk(self.datadir / database)
        total += sum(file.stat().st_blocks * 512 for file in (self.datadir / "#rocksdb").glob("*.sst"))
        if self.variables().get("innodb_file_per_table") == "OFF":
            total += sum(file.stat().st_blocks * 512 for file in self.datadir.glob("ibdata*"))
        return total

    def _start_once(self, timeout_s: float) -> float:
        for leftover in (self.socket_path, self.socket_path.with_name("s.sock.lock"), self.home / "pid"):
            leftover.unlink(missing_ok=True)  # of a server that was killed: ours, and known to be dead
        options = option_arguments(self._place_options() | dict(self.settings.options))
        launch = prepare(self.installation, options, self.environment, [self.home, self.socket_path.parent], self.cpus)
        self._container = launch.container
        began = time.monotonic()
        self._child = spawn(
            launch.argv,
            launch.identity,
            env=launch.env,
            cwd=self.home,
            log=self.home / "console.log",
            stdin=subprocess.PIPE if launch.container else subprocess.DEVNULL,
            cpus=launch.cpus,
        )
        process = ProcessId.of(self._child.pid)
        if process:
            self._on_spawn(process)
        try:
            self._wait_until_ready(began, timeout_s)
            check_preloaded(self.installation, self.pid, self.environment, tail(self.home / "console.log", 40))
        except BaseException:
            self.kill()
            raise
        return time.monotonic() - began

    def _wait_until_ready(self, began: float, timeout_s: float) -> None:
        assert self._child is not None
        while True:
            status = self._child.poll()
            if status is not None:
                raise ServerError(
                    f"server {self.name} ({self.installation.name}) ended with status {status} while starting.",
                    hint=self._why_it_ended(status),
                    log_tail=self.error_log_tail(),
                )
            try:
                connection = self._connect()
                with connection.cursor() as cursor:
                    cursor.execute("SELECT 1")
                connection.close()
                return
            except (pymysql.MySQLError, OSError):
                if time.monotonic() - began > timeout_s:
                    raise ServerError(
                        f"server {self.name} ({self.installation.name}) did not answer within {timeout_s:.0f} s.",
                        log_tail=self.error_log_tail(),
                    ) from None
            time.sleep(_POLL_S)

    def _why_it_ended(self, status: int) -> str:
        """What to do, from the usual complaints in its log."""
        log = tail(self.error_log, 60) + tail(self.home / "console.log", 20)
        for sign, hint in _COMPLAINTS:
            if sign in log:
                return hint
        if status < 0 and self.environment.get("LD_PRELOAD"):
            return "It crashed with LD_PRELOAD: this build does not bear it (some bring an allocator of their own)."
        return ""

    def _connect(self, database: str | None = None) -> pymysql.connections.Connection:
        where = {"unix_socket": str(self.socket_path), "ssl_disabled": True}
        return open_connection(where, ROOT, database, 5)

    def _place_options(self) -> dict[str, str]:
        return {
            "datadir": str(self.datadir),
            "tmpdir": str(self.home / "tmp"),
            "socket": str(self.socket_path),
            "port": str(self.port),
            "bind_address": "127.0.0.1",
            "pid_file": str(self.home / "pid"),
            "log_error": str(self.error_log),
        }

    def _signal(self, number: int) -> None:
        assert self._child is not None
        try:
            self._child.send_signal(number)
        except ProcessLookupError:
            return


def free_port() -> int:
    """A TCP port on 127.0.0.1 that nobody listens on now, drawn at random so that two bakeoffs rarely meet.

    Raises:
        ServerError: none of many is free.
    """
    for _ in range(200):
        port = random.SystemRandom().choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise ServerError(
        f"no free port on 127.0.0.1 between {PORTS.start} and {PORTS.stop}.", hint="Stop what listens there."
    )
