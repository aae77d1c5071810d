"""What runs on the client's node when client and servers are apart: engines, each driven from the servers' node.

Nothing here imports Ray: `bakeoff.cluster.driver` makes an actor of `EngineHost`. An engine ends with its connection,
and with this process, because its standard input then closes.
"""

import contextlib
import json
import socket
import ssl
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable

from bakeoff.cluster import wire
from bakeoff.cluster.worker import Answer, reset_niceness
from bakeoff.engine import engine_path
from bakeoff.errors import BakeoffError, HostError

_CHUNK = 1 << 20
_PROBE_LIMIT_S = 60.0
_STDERR_LINES = 20


class EngineHost:
    """The client's node. `close` may be called while `serve` runs."""

    def __init__(self) -> None:
        self._identity = wire.Identity()
        self._open: set[socket.socket] = set()
        reset_niceness()

    def certificate(self) -> str:
        """That the servers' node is to know this one by (PEM)."""
        return self._identity.certificate

    def serve(self, address: str, port: int, certificate: str) -> Answer:
        """Carry out the orders of the servers' node until it ends; one connection always waits for the next order.

        Args:
            address: where it listens.
            port: likewise.
            certificate: that it is known by.
        """
        context = self._identity.context(certificate, listens=False)
        try:
            engine_path()
            while True:
                connection = self._connect(address, port, context, certificate)
                if not (work := {wire.DRIVE: _drive, wire.PROBE: _answer_probe}.get(_order(connection))):
                    return Answer(stopped=True)
                threading.Thread(target=self._carry_out, args=(work, connection), daemon=True).start()
        except BakeoffError as error:
            return Answer(error=error)

    def close(self) -> None:
        """End every engine."""
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _connect(self, address: str, port: int, context: ssl.SSLContext, certificate: str) -> ssl.SSLSocket:
        try:
            raw = socket.create_connection((address, port), timeout=wire.HANDSHAKE_S)
            connection = wire.tls_handshake(raw, context, certificate, listens=False)
        except OSError as error:
            raise HostError(
                f"{address} port {port} of the servers' node cannot be reached: {error.strerror or error}.",
                hint="Is it the right interface, and does a firewall let the client through?",
            ) from None
        connection.settimeout(None)
        self._open.add(connection)
        return connection

    def _carry_out(self, work: Callable[[ssl.SSLSocket], None], connection: ssl.SSLSocket) -> None:
        try:
            with contextlib.suppress(OSError):
                work(connection)
        finally:
            self._open.discard(connection)
            connection.close()


def _order(connection: ssl.SSLSocket) -> bytes:
    """The next order; empty when the other end is gone."""
    try:
        return connection.recv(len(wire.DRIVE))
    except OSError:
        return b""


def _drive(connection: ssl.SSLSocket) -> None:
    """Run an engine at the other end's disposal."""
    engine = subprocess.Popen(
        [str(engine_path()), "drive"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    )
    assert engine.stdin
    assert engine.stdout
    assert engine.stderr
    said: deque[bytes] = deque(maxlen=_STDERR_LINES)
    reader = threading.Thread(target=said.extend, args=(engine.stderr,), daemon=True)
    reader.start()
    try:
        wire.relay(connection, engine.stdout.fileno(), engine.stdin.fileno())
    finally:
        engine.stdin.close()  # by which it ends
        try:
            engine.wait(timeout=5)
        except subprocess.TimeoutExpired:
            engine.kill()
            engine.wait()
    reader.join(timeout=2)
    connection.settimeout(wire.HANDSHAKE_S)
    said.append(f"status {engine.returncode}".encode("ascii"))
    connection.sendall(b"".join(b"there: " + line.rstrip() + b"\n" for line in said))  # no JSON: `Engine` keeps it


def _answer_probe(connection: ssl.SSLSocket) -> None:
    """Send back every ping, then count what comes and how long it takes; without TLS, whose work is no network's."""
    connection.settimeout(_PROBE_LIMIT_S)
    with contextlib.closing(connection.unwrap()) as plain:
        plain.sendall(wire.END_OF_PINGS)  # ready
        while (ping := wire.receive(plain, wire.PING_BYTES)) != wire.END_OF_PINGS:
            plain.sendall(ping)
        count, begin, buffer = 0, 0.0, bytearray(_CHUNK)
        while size := plain.recv_into(buffer):
            begin = begin or time.monotonic()
            count += size
        plain.sendall(json.dumps({"bytes": count, "seconds": time.monotonic() - begin}).encode("ascii"))
