"""What is measured: a server, and a case that every client runs against it."""

from dataclasses import dataclass

import pymysql


@dataclass(frozen=True)
class Server:
    """A running server on this machine, with a database and an account without a password.

    Attributes:
        port: on 127.0.0.1; 0 if there is none.
        pid: the server's process; None if it is not visible.
        cpus: on which connections are paired (pairing.py); empty if they are left free.
    """

    socket: str
    port: int
    user: str
    database: str
    pid: int | None
    version: str
    cpus: tuple[int, ...] = ()

    def connect(self) -> pymysql.connections.Connection:
        """Connect over the socket, to load tables and read counters."""
        return pymysql.connect(unix_socket=self.socket, user=self.user, autocommit=True)


@dataclass(frozen=True)
class Case:
    """One workload at one concurrency.

    Attributes:
        statements: `prepared` or `text`.
        transport: `socket` or `tcp`.
        tables, table_size: how many, and rows of each.
    """

    workload: str
    threads: int
    statements: str
    transport: str
    tables: int
    table_size: int

    def __str__(self) -> str:
        return f"{self.workload}/{self.threads} {self.statements} {self.transport}"
