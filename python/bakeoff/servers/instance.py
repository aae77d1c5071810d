"""Starts, watches and stops one mysqld process. `ServerPool` makes the instances.

Paths, sockets and ports of two instances have the same length, because lengths alone can move a measurement.
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
from dataclasses import replace
from pathlib import Path
from typing import Any

from bakeoff.errors import HostError, ServerError
from bakeoff.machine import Place
from bakeoff.servers import client, docker
from bakeoff.servers.catalog import Installation
from bakeoff.servers.cnf import write_cnf
from bakeoff.servers.docker import prepare
from bakeoff.servers.options import option_arguments
from bakeoff.servers.paths import allocated_bytes, bytes_on_disk
from bakeoff.servers.process import SYSTEM_PATH, ProcessId, advice, how_to_install, spawn, tail
from bakeoff.servers.profile import Settings, ignored_by, ignored_options

PORTS = range(20_000, 32_000)  # five digits, below the kernel's ephemeral ports
PADDING = "BAKEOFF_PADDING"
_PORT_TRIES = 8
_POLL_S = 0.01


def environment(installation: Installation, asked: Mapping[str, str], padding_bytes: int = 0) -> dict[str, str]:
    """Return the whole environment of a server process; only the time zone is inherited.

    The size moves the stack, which changes the speed by several percent (Mytkowicz et al., 2009). So it is the same for
    every start, except for a padding variable whose length the caller draws at random.
    """
    result = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/nonexistent"}
    if "TZ" in os.environ:
        result["TZ"] = os.environ["TZ"]
    result |= {**installation.environment, **asked}
    if asked.get("LD_PRELOAD"):
        result["LD_PRELOAD"] = ":".join(str(each) for each in preload_libraries(asked["LD_PRELOAD"]))
    result[PADDING] = "x" * padding_bytes
    return result


def preload_libraries(value: str) -> list[Path]:
    found: list[Path] = []
    for name in re.findall(r"[^:\s]+", value):
        file = Path(name).absolute() if "/" in name else _find_library(name)
        if file is None or not file.is_file():
            raise HostError(
                f"LD_PRELOAD={name}: no such library on this machine.",
                hint=how_to_install(Path(name).name) or "Install it, or give its full path.",
            )
        found.append(file)
    return found


def check_preloaded(installation: Installation, pid: int, env: Mapping[str, str], errors: str) -> None:
    """Raise ServerError unless a server has loaded what LD_PRELOAD names; the loader only warns."""
    if not env.get("LD_PRELOAD"):
        return
    mapped = Path(f"/proc/{pid}/maps").read_text("utf-8", "replace")
    for library in env["LD_PRELOAD"].split(":"):
        if str(Path(library).resolve()) not in mapped and library not in mapped:
            said = [line.strip() for line in errors.splitlines() if "LD_PRELOAD" in line or "version `" in line]
            raise ServerError(
                f"{installation.name} did not load {library}: {said[0] if said else 'the loader refused it'}.",
                hint="Choose a server built for this machine's C library, or leave LD_PRELOAD out.",
            )


def _find_library(name: str) -> Path | None:
    if program := shutil.which("ldconfig", path=SYSTEM_PATH):
        cache = subprocess.run([program, "-p"], capture_output=True, text=True, check=False).stdout
        found = re.search(rf"^\s*{re.escape(name)} \(libc6,.*64.*\) => (.+)$", cache, re.MULTILINE)
        return Path(found[1]) if found else None
    return None


def folder_of(database: str) -> str:
    """Return the folder of a database in a data directory: `my@002dshop` for `my-shop`."""
    return "".join(sign if re.match(r"\w", sign, re.ASCII) else f"@{ord(sign):04x}" for sign in database)


class Instance(client.Server):
    """A server that bakeoff starts. `home` holds `data/`, `tmp/`, `error.log` and `console.log`."""

    ours = True

    def __init__(
        self,
        name: str,
        installation: Installation,
        settings: Settings,
        folders: tuple[Path, Path],
        place: Place,
        padding_bytes: int,
        on_spawn: Callable[[ProcessId], None],
    ) -> None:
        self.name = name
        self.installation = installation
        self.settings = settings
        self.home, socket_folder = folders
        self.socket_path = socket_folder / "s.sock"
        self.port = 0
        self.place = place
        self.access = client.THIS_MACHINE
        self.removed = False
        self.stopped_cleanly = True  # true of a clone or a restored snapshot
        self.environment = environment(installation, settings.env, padding_bytes)
        self._container = ""
        self._on_spawn = on_spawn
        self._child: subprocess.Popen[bytes] | None = None
        self._tcp_account: client.Account | None = None

    @property
    def datadir(self) -> Path:
        return self.home / "data"

    @property
    def error_log(self) -> Path:
        return self.home / "error.log"

    @property
    def pid(self) -> int:
        if self._child is None or not self.running:
            raise self._failure("is not running")
        if not self._container:
            return self._child.pid
        inside = docker.server_pid(self.installation, self._container)
        if inside is None:
            raise ServerError(f"server {self.name}: the processes of its container are not visible from here.")
        return inside

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def my_cnf(self) -> str:
        return write_cnf(self._options(), f"{self.installation.name}, as bakeoff started it")

    def start(self, timeout_s: float = 120.0) -> float:
        """Start, wait for the first answered `SELECT 1`, and return the seconds since the fork."""
        self.stopped_cleanly = False
        self._tcp_account = None
        for attempt in range(_PORT_TRIES):
            self.port = free_port(self.access.address)
            log_start = self.error_log.stat().st_size if self.error_log.exists() else 0
            try:
                return self._start_once(timeout_s)
            except ServerError:
                log = self.error_log.read_bytes()[log_start:] if self.error_log.exists() else b""
                if b"Address already in use" not in log or attempt == _PORT_TRIES - 1:
                    raise
        raise AssertionError("unreachable")

    def stop(self, timeout_s: float = 120.0, *, slow: bool = False) -> float:
        """Shut down cleanly (SIGTERM) and return the seconds that took.

        With `slow` it purges and merges everything first, so that a snapshot has no pending work.
        """
        if self._child is None or not self.running:
            return 0.0
        if slow:
            self.query("SET GLOBAL innodb_fast_shutdown=0")
        began = time.monotonic()
        self._child.send_signal(signal.SIGCONT)  # it may be frozen
        self._child.send_signal(signal.SIGTERM)
        try:
            status = self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self._failure(f"did not shut down within {timeout_s:.0f} s and was killed") from None
        if status != 0:
            raise self._failure(f"ended with status {status} when stopped")
        self.stopped_cleanly = True
        return time.monotonic() - began

    def kill(self) -> None:
        if self._child is not None and self.running:
            if self._container:
                with contextlib.suppress(ServerError):  # the engine is gone with its containers
                    docker.kill(self.installation, self._container)
            self._child.kill()
            self._child.wait()
            self.stopped_cleanly = False

    def remove(self, *, keep_files: bool = False) -> None:
        self.kill()
        self.place.close()
        if not keep_files:
            shutil.rmtree(self.home, ignore_errors=True)
        shutil.rmtree(self.socket_path.parent, ignore_errors=True)
        self.removed = True  # the pool may reuse its folder's number

    def connect(self, database: str | None = None, *, own_settings: bool = True) -> client.Connection:
        try:
            return self._connect(database, own_settings=own_settings)
        except (client.MySQLError, OSError) as problem:
            raise self._failure(f"does not answer: {problem.args[-1]}") from None

    def address(self, transport: str = "socket") -> dict[str, Any]:
        if transport == "socket":
            return {"socket": str(self.socket_path)}
        return {"host": self.access.address, "port": self.port}

    def account(self, transport: str = "socket", *, encrypted: bool = False) -> client.Account:
        if transport == "socket":
            return client.ROOT
        if self._tcp_account is None:
            connection = self.connect()
            try:
                self._tcp_account = client.make_tcp_account(connection, self.access.clients, encrypted=encrypted)
            finally:
                connection.close()
        return self._tcp_account

    def error_log_tail(self) -> str:
        return tail(self.error_log) or tail(self.home / "console.log")

    def ignored_settings(self) -> list[str]:
        return [*ignored_options(self.settings.options, self.variables()), *ignored_by(self, self.settings.options)]

    def data_bytes(self, database: str) -> int:
        """Return the allocated bytes of a database, without logs."""
        files = list((self.datadir / "#rocksdb").glob("*.sst"))
        if self.variables().get("innodb_file_per_table") == "OFF":
            files += self.datadir.glob("ibdata*")
        return bytes_on_disk(self.datadir / folder_of(database)) + allocated_bytes(files)

    def _start_once(self, timeout_s: float) -> float:
        for leftover in (self.socket_path, self.socket_path.with_name("s.sock.lock"), self.home / "pid"):
            leftover.unlink(missing_ok=True)  # left by a killed server of ours
        options = option_arguments(self._options())
        folders, place = [self.home, self.socket_path.parent], self.place
        launch = prepare(self.installation, options, self.environment, folders, place.cpus)
        if launch.container and place.huge_pages is not None:
            raise HostError(
                f"server {self.name}: thp of another arm changes the machine's huge pages, also for this container.",
                hint="Leave thp out, or use a server that is not in a container.",
            )
        launch = replace(launch, groups=place.group.procs if place.group else (), huge_pages=place.huge_pages)
        self._container = launch.container
        began = time.monotonic()
        self._child = spawn(
            launch,
            cwd=self.home,
            log=self.home / "console.log",
            stdin=subprocess.PIPE if launch.container else subprocess.DEVNULL,
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
                said = f"({self.installation.name}) ended with status {status} while starting"
                logs = tail(self.error_log, 60) + tail(self.home / "console.log", 20)
                raise self._failure(said, hint=advice(logs, self.home))
            try:
                connection = self._connect()
                with connection.cursor() as cursor:
                    cursor.execute("SELECT 1")
                connection.close()
                return
            except (client.MySQLError, OSError):
                if time.monotonic() - began > timeout_s:
                    said = f"({self.installation.name}) did not answer within {timeout_s:.0f} s"
                    raise self._failure(said) from None
            time.sleep(_POLL_S)

    def _failure(self, what: str, hint: str = "") -> ServerError:
        killed = self._child is not None and self._child.poll() == -signal.SIGKILL
        if killed and self.place.group and self.place.group.killed_at_memory_limit():
            hint = "It was killed at its memory limit: give it more memory, or a smaller buffer pool."
        return ServerError(f"server {self.name} {what}.", hint=hint, log_tail=self.error_log_tail())

    def _connect(self, database: str | None = None, *, own_settings: bool = True) -> client.Connection:
        where = {"unix_socket": str(self.socket_path), "ssl_disabled": True}
        return client.open_connection(where, client.ROOT, database, 5, own_settings=own_settings)

    def _options(self) -> dict[str, str]:
        own = {
            "datadir": str(self.datadir),
            "tmpdir": str(self.home / "tmp"),
            "socket": str(self.socket_path),
            "port": str(self.port),
            "bind_address": self.access.address,
            "pid_file": str(self.home / "pid"),
            "log_error": str(self.error_log),
        }
        return own | dict(self.settings.options)


def free_port(address: str = client.THIS_MACHINE.address) -> int:
    for _ in range(200):
        port = random.SystemRandom().choice(PORTS)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with contextlib.suppress(OSError), socket.socket(family) as probe:
            probe.bind((address, port))
            return port
    ports = f"{PORTS.start} and {PORTS.stop}"
    raise ServerError(f"no free port at {address} between {ports}.", hint="Stop what listens there.")
