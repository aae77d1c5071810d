"""The servers' node when the client is on a host of its own: it listens at one interface, for one peer.

`ClientLink.engine` starts an engine on the client's node, which `bakeoff.engine.Engine` drives as if it ran here.
"""

import contextlib
import json
import os
import queue
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from ipaddress import ip_address
from statistics import median
from typing import IO, Any

import psutil

from bakeoff.cluster import wire
from bakeoff.engine import Engine
from bakeoff.errors import EngineError, HostError, SpecError
from bakeoff.results.manifest import Network
from bakeoff.servers.client import Access

_PINGS, _PINGS_S = 300, 3.0
_BULK_S = 1.5
_PROBE_LIMIT_S = 60.0


def address_of(interface: str) -> str:
    """The address of this machine that a name or an address means.

    Raises:
        SpecError: there is no such interface, or it is none that another host reaches.
    """
    families = (socket.AF_INET, socket.AF_INET6)
    known = {
        name: found
        for name, all_of in psutil.net_if_addrs().items()
        if (found := [each.address for each in all_of if each.family in families and "%" not in each.address])
    }
    reached = {name: found for name, found in known.items() if not ip_address(found[0]).is_loopback}
    hint = f"It has {', '.join(f'{name} ({found[0]})' for name, found in reached.items()) or 'none'}."
    for name, found in known.items():
        if interface == name or interface in found:
            address = found[0] if interface == name else interface
            if ip_address(address).is_loopback:
                raise SpecError(f"--interface {interface}: no other host reaches a loopback interface.", hint=hint)
            return address
    if interface in ("0.0.0.0", "::", "*"):
        raise SpecError(f"--interface {interface}: servers do not listen at every interface.", hint=hint)
    raise SpecError(f"--interface {interface}: there is no such interface or address.", hint=hint)


class RemoteEngine:
    """An engine on the client's node, with what `Engine` needs of a process (`bakeoff.engine.EngineProcess`)."""

    returncode: int | None = None

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self._connection = connection
        source, to_it = os.pipe()
        from_it, sink = os.pipe()
        said, says = os.pipe()
        self.stdin: IO[str] | None = os.fdopen(to_it, "w", encoding="utf-8")
        self.stdout: IO[str] | None = os.fdopen(from_it, encoding="utf-8", errors="replace")
        self.stderr: IO[str] | None = os.fdopen(said, encoding="utf-8")
        self._thread = threading.Thread(target=self._run, args=(source, sink, says), daemon=True)
        self._thread.start()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the connection has ended, and the engine with it."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise subprocess.TimeoutExpired("bakeoff-engine", timeout or 0.0)

    def terminate(self) -> None:
        """End the connection."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    kill = terminate

    def _run(self, source: int, sink: int, says: int) -> None:
        ended = wire.relay(self._connection, source, sink)
        self._connection.close()
        if ended:
            with contextlib.suppress(OSError):
                os.write(says, f"the connection to the client's node ended: {ended}\n".encode())
        for each in (source, sink, says):
            os.close(each)


class ClientLink:
    """Connections of the client's node, which wait here for orders.

    Attributes:
        address: where it listens, and the servers too.
        port: of this listener.
        certificate: that the client's node is to know this one by (PEM).
        client: address of the client's node, once it is known.
    """

    def __init__(self, interface: str, client_certificate: str) -> None:
        self.address = address_of(interface)
        identity = wire.Identity()
        self.certificate = identity.certificate
        self.client = ""
        self._peer = client_certificate
        self._context = identity.context(client_certificate, listens=True)
        self._closed = False
        self._waiting: queue.Queue[ssl.SSLSocket] = queue.Queue()
        family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        self._listener = socket.create_server((self.address, 0), family=family)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def access(self) -> Access:
        """For servers: they listen at the same address, for the client alone."""
        return Access(self.address, (self.client,))

    def close(self) -> None:
        """End the connections that wait, and accept no more."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # or `accept` goes on waiting
        self._listener.close()
        self._closed = True
        self._close_waiting()

    def _close_waiting(self) -> None:
        while True:
            try:
                self._waiting.get_nowait().close()
            except queue.Empty:
                return

    def engine(self, *, stop: threading.Event, on_log: Callable[[str], None]) -> Engine:
        """An engine on the client's node.

        Raises:
            EngineError: the client's node is lost.
        """
        return Engine(stop=stop, on_log=on_log, process=RemoteEngine(self._order(wire.DRIVE)))

    def measure(self) -> Network:
        """Measure the round trip (median of small messages) and how fast bytes go from here to the client.

        Raises:
            HostError: the client's node does not connect, or is lost meanwhile.
        """
        try:
            connection = self._order(wire.PROBE)
            self.client = connection.getpeername()[0]
            connection.settimeout(_PROBE_LIMIT_S)
            with contextlib.closing(connection.unwrap()) as plain:
                return self._probe(plain)
        except (EngineError, OSError) as error:
            raise HostError(f"the network to the client's node could not be measured: {error}.") from None

    def _probe(self, plain: socket.socket) -> Network:
        wire.receive(plain, wire.PING_BYTES)
        ping = b"." * wire.PING_BYTES
        times_s: list[float] = []
        end_s = time.monotonic() + _PINGS_S
        while len(times_s) < _PINGS and (not times_s or time.monotonic() < end_s):
            begin_s = time.perf_counter()
            plain.sendall(ping)
            wire.receive(plain, wire.PING_BYTES)
            times_s.append(time.perf_counter() - begin_s)
        plain.sendall(wire.END_OF_PINGS)
        chunk, end_s = bytes(1 << 18), time.monotonic() + _BULK_S
        while time.monotonic() < end_s:
            plain.sendall(chunk)
        plain.shutdown(socket.SHUT_WR)
        answer = b""
        while part := plain.recv(1 << 12):
            answer += part
        counted: dict[str, Any] = json.loads(answer)
        return Network(
            client_address=self.client,
            servers_address=self.address,
            rtt_ns=round(1e9 * median(times_s)),
            bytes_per_s=counted["bytes"] / max(counted["seconds"], 1e-9),
        )

    def _order(self, order: bytes) -> ssl.SSLSocket:
        """A connection that waits, once it has been given an order."""
        try:
            connection = self._waiting.get(timeout=wire.HANDSHAKE_S)
            connection.sendall(order)
        except queue.Empty:
            raise EngineError("the client's node does not connect", code="engine_lost") from None
        except OSError:
            raise EngineError("the connection to the client's node is lost", code="engine_lost") from None
        return connection

    def _accept(self) -> None:
        while True:
            try:
                raw, _ = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._welcome, args=(raw,), daemon=True).start()

    def _welcome(self, raw: socket.socket) -> None:
        """Keep a connection of the client's node; anybody else's is closed."""
        with contextlib.suppress(OSError):
            connection = wire.tls_handshake(raw, self._context, self._peer, listens=True)
            connection.settimeout(wire.HANDSHAKE_S)
            self._waiting.put(connection)
            if self._closed:
                self._close_waiting()
