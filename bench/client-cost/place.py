"""Find the server to measure: a running one, or one from bakeoff's catalogue, started and removed here."""

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pymysql
from case import Server

from bakeoff.servers import ServerMemory, ServerPool, install, settings_for
from bakeoff.spec import Data, Profile, parse_server

BUFFER_POOL_BYTES = 1 << 30
# No commit waits for the disk, which would hide what the client costs. pairing.py needs performance_schema.
_OPTIONS = {"innodb_flush_log_at_trx_commit": "2", "performance_schema": "ON"}


def running(path: str, user: str, database: str) -> Server:
    """The server behind a socket.

    Raises:
        pymysql.MySQLError, OSError: it does not answer.
    """
    with pymysql.connect(unix_socket=path, user=user) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT VERSION(), @@port")
        row = cursor.fetchone()
    assert row is not None
    return Server(socket=path, port=int(row[1]), user=user, database=database, pid=_peer_pid(path), version=str(row[0]))


def _peer_pid(path: str) -> int | None:
    """Return the process that listens at the socket, from the kernel; None if it is not visible from here."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.connect(path)
        pid = struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    return pid if pid > 0 and os.access(f"/proc/{pid}/stat", os.R_OK) else None


def _admit_over_tcp(server: Server) -> None:
    """Let the same user in over TCP, without a password; the server listens on 127.0.0.1 only."""
    account = f"'{server.user}'@'127.0.0.1'"
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE USER IF NOT EXISTS {account}")
        cursor.execute(f"GRANT ALL ON *.* TO {account}")


@contextmanager
def started(text: str, connections: int, database: str) -> Iterator[Server]:
    """A server of the catalogue (`mysql:8.0`) with the matched profile, and `_OPTIONS` unless `text` sets them."""
    spec = parse_server(",".join([text, *(f"{name}={value}" for name, value in _OPTIONS.items() if name not in text)]))
    installation = install(spec)
    memory = ServerMemory(BUFFER_POOL_BYTES, redo_bytes=256 << 20)
    settings = settings_for(installation, spec, Profile.MATCHED, Data(), memory, connections=connections)
    with ServerPool() as pool:
        instance = pool.create("client-cost", installation, settings)
        instance.start()
        server = running(str(instance.socket_path), instance.account().user, database)
        _admit_over_tcp(server)
        yield server
