"""Run the engine that measures on another host, over ssh (docs/how-to/client-on-another-host.md).

The engine's binary is copied there once. `bakeoff-engine drive` then runs at the other end of an ssh connection.
Passwords travel in its standard input, inside ssh.
"""

import contextlib
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO

import psutil

from bakeoff.engine import Engine, engine_path
from bakeoff.errors import EngineError, HostError
from bakeoff.results import RunDirectory
from bakeoff.results.manifest import NETWORK, Network
from bakeoff.servers.client import THIS_MACHINE, Access
from bakeoff.servers.fetch import sha256_of
from bakeoff.servers.paths import boot_id
from bakeoff.servers.process import run_as_us
from bakeoff.spec import Study
from bakeoff.stats.progress import Listener
from bakeoff.units import format_bytes

SSH_VARIABLE = "BAKEOFF_SSH"  # the ssh command to use, with its options

_BUNDLED = Path(__file__).resolve().parents[1] / "workloads"
_COMPLETE = ".complete"
_CONNECT_S, _ALIVE_S, _ALIVE_COUNT = 10, 5, 4
_SILENCE_S = _ALIVE_S * _ALIVE_COUNT
_SSH_FAILED = 255
_BULK_S = 1.5
_PROBE_S = 30.0
_CHUNK_BYTES = 1 << 18
_ANSWER = "bakeoff:"  # a login script may print other lines


@dataclass(frozen=True)
class _Folder:
    """Files in one folder of the other host's cache, which is named by a hash of their content."""

    name: str
    files: tuple[Path, ...]

    @classmethod
    def of(cls, kind: str, files: Iterable[Path]) -> "_Folder":
        digest, files = sha256(), tuple(files)
        for path in files:
            digest.update(os.fsencode(path.name) + b"\0" + sha256_of(path).encode())
        return cls(f"{kind}-{digest.hexdigest()[:24]}", files)

    def write(self, out: IO[bytes]) -> None:
        with tarfile.open(fileobj=out, mode="w") as archive:
            for path in self.files:
                archive.add(path.resolve(), arcname=path.name, filter=_plain)
            archive.addfile(tarfile.TarInfo(_COMPLETE))


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o700
    return member


class ClientHost:
    """The host that sends the load. `connect` makes one and measures the network between client and servers."""

    network: Network

    def __init__(self, name: str, listener: Listener, stop: threading.Event) -> None:
        self.name = name
        self._listener = listener
        self._stop = stop
        self._cache = ""
        self._engine = ""
        self._paths: dict[str, str] = {}
        self._lua_path = ""

    @classmethod
    def connect(cls, study: Study, listener: Listener, stop: threading.Event) -> "ClientHost":
        """Copy the engine and the study's own files to the host, and measure the network to it."""
        assert study.client
        client = cls(study.client, listener, stop)
        listener.stage(f"connecting to {client.name}")
        engine = _Folder.of("engine", [engine_path().resolve()])
        own = _own_files(study)
        facts = client._look([engine, *own.values()])
        address = client._servers_address(facts)
        client._cache = facts["cache"]
        for folder in (engine, *own.values()):
            if facts.get(folder.name) != "there":
                client._copy(folder)
        client._engine = f"{client._cache}/{engine.name}/{engine.files[0].name}"
        client._paths = {path: f"{client._cache}/{folder.name}/{Path(path).name}" for path, folder in own.items()}
        client._lua_path = "".join(f"{client._cache}/{folder.name}/?.lua;" for folder in own.values())
        client.network = client._measure_network(address, facts)
        if facts.get("boot") == boot_id():
            listener.note(f"{client.name} is this machine: client and servers share its CPUs")
        return client

    @property
    def access(self) -> Access:
        """Servers listen at the address that the client reaches, and let only the client in."""
        address, client = self.network.servers_address, self.network.client_address
        return Access(address, THIS_MACHINE.clients if client == THIS_MACHINE.address else (client,))

    def engine(self, *, stop: threading.Event, on_log: Callable[[str], None]) -> Engine:
        command = f"exec {shlex.quote(self._engine)} drive --silence-limit {_SILENCE_S}"
        if self._lua_path:
            command = f"LUA_PATH={shlex.quote(f'{self._lua_path};')}; export LUA_PATH; {command}"
        process = subprocess.Popen(
            self._ssh(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # Ctrl-C at the terminal must not reach ssh
        )
        return Engine(stop=stop, on_log=on_log, process=process, heartbeat_s=_ALIVE_S, paths=self._paths)

    def keep_network(self, run: RunDirectory) -> None:
        """Store what was measured; HostError if a resumed run's client was another machine."""
        before = run.network()
        if before and before.client_machine != self.network.client_machine:
            raise HostError(
                f"--client {self.name}: it is {self.network.client_machine}, and the run's client was "
                f"{before.client_machine}.",
                hint="Start a new run.",
            )
        run.write_json(NETWORK, self.network)

    def _ssh(self, script: str, *arguments: str, compressed: bool = False) -> list[str]:
        remote = shlex.join(["sh", "-c", script, "sh", *arguments])
        options = {
            "BatchMode": "yes",
            "ConnectTimeout": _CONNECT_S,
            "ServerAliveInterval": _ALIVE_S,
            "ServerAliveCountMax": _ALIVE_COUNT,
            "Compression": "yes" if compressed else "no",
        }
        given = [f"-o{name}={value}" for name, value in options.items()]
        ssh = shlex.split(os.environ.get(SSH_VARIABLE, "")) or ["ssh"]
        return [*ssh, "-T", *given, "--", self.name, remote]

    def _run(self, script: str, *arguments: str, stdin: Path | None = None, what: str = "") -> str:
        program, *rest = self._ssh(script, *arguments, compressed=stdin is not None)
        found = shutil.which(program)
        if found is None:
            raise HostError(
                f"--client {self.name}: {program} cannot be found.",
                hint=f"Install an ssh client, or name another one in {SSH_VARIABLE}.",
            )
        done = run_as_us([found, *rest], stdin=stdin, watch=self._heed_stop)
        if done.returncode:
            raise self._failure(done.returncode, done.stderr, what)
        return done.stdout

    def _failure(self, status: int, said: str, what: str) -> HostError:
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        reason = lines[-1].removeprefix("ssh: ").rstrip(".") if lines else f"ssh ended with status {status}"
        if status != _SSH_FAILED:
            return HostError(f"--client {self.name}: {what}: {reason}.")
        hint = f"`ssh -oBatchMode=yes {self.name} true` must work: with a known host key, and without a password."
        return HostError(f"--client {self.name}: {reason}.", hint=hint)

    def _heed_stop(self) -> None:
        if self._stop.is_set():
            raise KeyboardInterrupt

    def _look(self, folders: Iterable[_Folder]) -> dict[str, str]:
        names = dict.fromkeys(folder.name for folder in folders)
        said = self._run(_script("look"), *names, what="its machine could not be examined")
        lines = (line.removeprefix(_ANSWER) for line in said.splitlines() if line.startswith(_ANSWER))
        return {name: value.strip() for name, _, value in (line.partition(" ") for line in lines)}

    def _servers_address(self, facts: dict[str, str]) -> str:
        address = facts.get("connection", "").partition(" ")[0]
        ours = {each.address for every in psutil.net_if_addrs().values() for each in every}
        if not address or "%" in address or address not in ours:
            raise HostError(
                f"--client {self.name}: ssh reaches it from {address or 'an unknown address'}, at which no server of "
                "this machine can listen.",
                hint="Connect directly: not through a jump host, address translation or a link-local address.",
            )
        return address

    def _copy(self, folder: _Folder) -> None:
        self._listener.stage(f"copying to {self.name}")
        what = f"{', '.join(path.name for path in folder.files[:3])} could not be copied"
        with tempfile.NamedTemporaryFile() as archive:
            folder.write(archive)
            archive.flush()
            self._run(_script("unpack"), self._cache, folder.name, stdin=Path(archive.name), what=what)

    def _measure_network(self, address: str, facts: dict[str, str]) -> Network:
        self._listener.stage(f"measuring the network to {self.name}")
        token = secrets.token_hex(16)
        try:
            with _Echo(address, token) as echo, self.engine(stop=self._stop, on_log=self._listener.note) as engine:
                found = engine.probe(address, echo.port, token, limit_s=_PROBE_S)
        except EngineError as error:
            self._heed_stop()
            if error.code == "connect_failed":
                raise HostError(
                    f"--client {self.name}: from there {error.message.rstrip('.')}.",
                    hint="The client connects to ports of this machine that are chosen at random: let it through the "
                    "firewall.",
                ) from None
            raise HostError(f"--client {self.name}: {error.message.rstrip('.')}.") from None
        memory = format_bytes(1024 * int(facts.get("memory_kib") or 0))
        return Network(
            client_address=echo.client,
            servers_address=address,
            client_machine=f"{facts.get('cpus', '?')} × {facts.get('model') or 'unknown'}, {memory}",
            rtt_ns=found.rtt_ns,
            bytes_per_s=found.bytes_per_s,
        )


def _script(name: str) -> str:
    """Return a shell script as one line, because the login shell may be csh."""
    lines = Path(__file__).with_name(f"client_{name}.sh").read_text("ascii").splitlines()
    return "; ".join(line for line in lines if not line.startswith("#"))


class _Echo:
    """Listens for one probe (`crates/engine/src/probe.rs`): echoes its pings, then sends for a while."""

    def __init__(self, address: str, token: str) -> None:
        self.client = ""
        self._token = token.encode("ascii")
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.create_server((address, 0), family=family)
        self._listener.settimeout(_PROBE_S)
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> "_Echo":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # or `accept` keeps waiting
        self._listener.close()
        self._thread.join(timeout=5)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while not self.client:
                peer, (address, *_) = self._listener.accept()
                with peer, contextlib.suppress(OSError):
                    peer.settimeout(_CONNECT_S)
                    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    said = b"".join(peer.recv(1) for _ in self._token)
                    if secrets.compare_digest(said, self._token):
                        self.client = address
                        self._answer(peer)

    def _answer(self, peer: socket.socket) -> None:
        while peer.recv(1) == b"p":
            peer.sendall(b"p")
        chunk, end_s = bytes(_CHUNK_BYTES), time.monotonic() + _BULK_S
        while time.monotonic() < end_s:
            peer.sendall(chunk)


def _own_files(study: Study) -> dict[str, _Folder]:
    """Return workloads that are files, by path. A Lua script comes with those beside it, which it may require."""
    found: dict[str, _Folder] = {}
    for name in dict.fromkeys(workload.script for workload in study.workloads):
        path = Path(name)
        if path.is_file() and not (_BUNDLED / f"{name}.lua").exists():  # a bundled name wins, as in the engine
            beside = path.absolute().parent.glob("*.lua") if path.suffix == ".lua" else ()
            files = {each.name: each for each in sorted(beside) if each.is_file()} | {path.name: path}
            found[name] = _Folder.of("workload", files.values())
    return found
