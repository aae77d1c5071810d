"""TLS between the servers' node and the client's: both know the other's certificate, and nobody else is let in.

The servers' node listens, the client's connects and waits for an order: `drive` starts an engine whose standard input
and output are then the connection, `probe` measures the way between the two. Passwords are in these streams and
nowhere else between the nodes. Certificates are no secret; keys are made anew for each run and never leave the memory.
"""

import os
import selectors
import socket
import ssl
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bakeoff.servers.process import in_memory

DRIVE, PROBE = b"drive\n", b"probe\n"
HANDSHAKE_S = 10.0
"""How long either end waits for the other's certificate."""

PING_BYTES = 64
END_OF_PINGS = b"\n" * PING_BYTES
"""In place of a ping; what comes after it is counted."""

_CHUNK = 1 << 16
_LOST_S = 20  # after so long without an answer of the other's kernel the connection is lost
_VALID = timedelta(days=365)


class Identity:
    """A key of this process, and the certificate that the other end knows it by."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bakeoff")])
        now = datetime.now(UTC)
        made = x509.CertificateBuilder(
            issuer_name=name,
            subject_name=name,
            public_key=self._key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=now - timedelta(days=1),  # clocks differ
            not_valid_after=now + _VALID,
        )
        signed = made.sign(self._key, hashes.SHA256())
        self.certificate = signed.public_bytes(serialization.Encoding.PEM).decode("ascii")

    def context(self, peer: str, *, listens: bool) -> ssl.SSLContext:
        """For connections to the holder of the certificate `peer` (PEM), and to nobody else."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if listens else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # the certificate itself is known
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=peer)
        if listens:
            context.num_tickets = 0
        with in_memory(self._pem()) as descriptor:  # `ssl` reads keys from files only
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        return context

    def _pem(self) -> str:
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        key = self._key.private_bytes(encoding, form, serialization.NoEncryption())
        return key.decode("ascii") + self.certificate


def tls_handshake(raw: socket.socket, context: ssl.SSLContext, peer: str, *, listens: bool) -> ssl.SSLSocket:
    """A connection to the holder of `peer`; `raw` is closed when the other end is not.

    Raises:
        OSError: it is not, or does not answer in time.
    """
    try:
        raw.settimeout(HANDSHAKE_S)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (
            (socket.TCP_KEEPIDLE, _LOST_S // 4),
            (socket.TCP_KEEPINTVL, _LOST_S // 4),
            (socket.TCP_KEEPCNT, 3),
            (socket.TCP_USER_TIMEOUT, _LOST_S * 1000),
        ):
            raw.setsockopt(socket.IPPROTO_TCP, option, value)
        connection = context.wrap_socket(raw, server_side=listens)
    except BaseException:
        raw.close()
        raise
    if connection.getpeercert(binary_form=True) != ssl.PEM_cert_to_DER_cert(peer):
        connection.close()
        raise OSError("another certificate than the one that is known")
    return connection


def relay(connection: ssl.SSLSocket, source: int, sink: int) -> str:
    """Pass on what comes from a pipe to the other end, and what comes from there to a pipe, until one of them ends.

    OpenSSL does not read and write one connection in two threads, so one thread does both.

    Returns:
        Why it ended; empty: the pipe `source` did, as it should.
    """
    connection.settimeout(0)
    waiting = b""  # read and not sent; while there is some, no more is read
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        selector.register(source, selectors.EVENT_READ)
        while True:
            ready = set() if connection.pending() else {key.fd for key, _ in selector.select()}
            had = bool(waiting)
            if source in ready:
                waiting = os.read(source, _CHUNK)
                if not waiting:
                    return ""
            try:
                waiting = waiting[_send(connection, waiting) :]
                _pass_on(connection, sink)
            except OSError as error:
                return error.strerror or str(error)
            if bool(waiting) and not had:
                selector.unregister(source)
                selector.modify(connection, selectors.EVENT_READ | selectors.EVENT_WRITE)
            elif had and not waiting:
                selector.register(source, selectors.EVENT_READ)
                selector.modify(connection, selectors.EVENT_READ)


def _send(connection: ssl.SSLSocket, content: bytes) -> int:
    """How many of the bytes were taken."""
    try:
        return connection.send(content) if content else 0
    except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
        return 0


def _pass_on(connection: ssl.SSLSocket, sink: int) -> None:
    try:
        content = connection.recv(_CHUNK)
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return
    if not content:
        raise ConnectionResetError("it was closed")
    while content:
        content = content[os.write(sink, content) :]


def receive(plain: socket.socket, size: int) -> bytes:
    """So many bytes.

    Raises:
        OSError: the other end is gone.
    """
    content = b""
    while len(content) < size:
        if not (part := plain.recv(size - len(content))):
            raise ConnectionResetError("it was closed")
        content += part
    return content
