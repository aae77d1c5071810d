"""Reading a server through a connection: variables, status, version. The same for our own and for remote servers."""

import os
import secrets
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import pymysql

from bakeoff.errors import HostError, ServerError, SpecError
from bakeoff.servers.model import Account
from bakeoff.servers.options import read_client_group
from bakeoff.spec import Origin, ServerSpec
from bakeoff.spec.server import url_parts


class Reading(ABC):
    """Reading methods over `connect`. Each call makes and closes its own connection: none is open while measuring.

    Attributes:
        name: the arm's.
        ours: bakeoff started it and may change its settings.
    """

    name: str
    ours: bool = False

    @abstractmethod
    def connect(self, database: str | None = None) -> pymysql.connections.Connection:
        """A new connection with autocommit on; the caller closes it.

        Raises:
            ServerError: no server there, or it refuses.
        """

    @abstractmethod
    def address(self, transport: str = "socket") -> dict[str, Any]:
        """Where it listens, as the engine's `open` wants it: `{"socket": PATH}` or `{"host": H, "port": P}`."""

    @abstractmethod
    def account(self, transport: str = "socket") -> Account:
        """Who to log in as over that transport."""

    @abstractmethod
    def data_bytes(self, database: str) -> int:
        """Data and indexes of a database on disk, bytes."""

    def query(self, sql: str, arguments: tuple[Any, ...] = (), database: str | None = None) -> list[tuple[Any, ...]]:
        """Rows of one statement.

        Raises:
            ServerError: the server refuses the statement, or is gone.
        """
        connection = self.connect(database)
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql, arguments or None)
                return list(cursor.fetchall())
        except pymysql.MySQLError as problem:
            raise ServerError(f"server {self.name}: {sql[:80]!r} failed: {problem.args[-1]}.") from None
        finally:
            connection.close()

    def variables(self) -> dict[str, str]:
        """SHOW GLOBAL VARIABLES."""
        return {str(name): str(value) for name, value in self.query("SHOW GLOBAL VARIABLES")}

    def status(self) -> dict[str, str]:
        """SHOW GLOBAL STATUS."""
        return {str(name): str(value) for name, value in self.query("SHOW GLOBAL STATUS")}

    @property
    def version_string(self) -> str:
        """SELECT VERSION()."""
        return str(self.query("SELECT VERSION()")[0][0])


# Accounts inside a server: root over the socket, and one made for TCP, whose password never leaves memory.

TCP_USER = "bakeoff"
ROOT = Account("root")


def make_tcp_account(connection: pymysql.connections.Connection) -> Account:
    """Make (again) an account that may do everything from 127.0.0.1, with a fresh random password.

    Its plugin is the server's default. Both host names are needed: which one matches depends on whether the server
    resolves names.

    Raises:
        ServerError: the server refuses.
    """
    account = Account(TCP_USER, secrets.token_hex(16))
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT User, Host FROM mysql.user WHERE User=%s", (TCP_USER,))
            for user, host in cursor.fetchall():
                cursor.execute("DROP USER %s@%s", (user, host))
            for host in ("127.0.0.1", "localhost"):
                cursor.execute("CREATE USER %s@%s IDENTIFIED BY %s", (TCP_USER, host, account.password))
                cursor.execute("GRANT ALL ON *.* TO %s@%s", (TCP_USER, host))
    except pymysql.MySQLError as problem:
        raise ServerError(f"an account for TCP could not be made: {problem.args[-1]}.") from None
    return account


# A server that runs already, named by a URL: loaded where it is empty, and measured; never started, stopped or set.
#
# The password is, in this order: the URL's, `MYSQL_PWD`, the `[client]` group of ~/.my.cnf. It is kept in memory and
# appears in no message.

_ACCESS_DENIED = (1045, 1698)


class RemoteServer(Reading):
    """A server by URL, `mysql://user@host:3306/` or with `?socket=PATH`.

    Args:
        spec: of origin URL. mysqld options make no sense for it.
        name: the arm's.
        password: what `spec.server.url_password` found in the URL; None: look in MYSQL_PWD and ~/.my.cnf.

    Raises:
        SpecError: not a URL, or options were given for a server that is not ours to start.
    """

    def __init__(self, spec: ServerSpec, name: str = "", password: str | None = None) -> None:
        if spec.origin is not Origin.URL:
            raise SpecError(f"server {spec}: not the URL of a running server.")
        if spec.options or spec.cnf_files or spec.env:
            raise SpecError(
                f"server {spec}: a running server takes no options.",
                hint="Set them there, or let bakeoff start a server of its own.",
            )
        self.host, self.port, self.socket, user = url_parts(spec.location)
        client = read_client_group(Path.home() / ".my.cnf")
        self._account = Account(user or client.get("user") or os.environ.get("USER", "root"), "")
        found = password if password is not None else os.environ.get("MYSQL_PWD", client.get("password", ""))
        self._account = Account(self._account.user, found)
        self.name = name or spec.location

    def address(self, transport: str = "socket") -> dict[str, Any]:
        """The URL's socket, or its host and port; a remote server has one way in, whatever transport is asked for."""
        return {"socket": self.socket} if self.socket else {"host": self.host, "port": self.port}

    def account(self, transport: str = "socket") -> Account:
        """The account named by the URL, with its password."""
        return self._account

    def connect(self, database: str | None = None) -> pymysql.connections.Connection:
        """A new connection with autocommit on; the caller closes it.

        Raises:
            HostError: nothing answers there. ServerError: it answers and refuses.
        """
        where = self.socket or f"{self.host}:{self.port}"
        how: dict[str, Any] = {"unix_socket": self.socket} if self.socket else {"host": self.host, "port": self.port}
        try:
            return pymysql.connect(
                user=self._account.user,
                password=self._account.password,
                database=database,
                charset="utf8mb4",
                autocommit=True,
                connect_timeout=10,
                read_timeout=600,
                **how,
            )
        except pymysql.MySQLError as problem:
            if problem.args[0] in _ACCESS_DENIED:
                why = "wrong password" if self._account.password else "no password was given"
                raise ServerError(
                    f"server {where} refuses user {self._account.user}: {why}.",
                    hint="Put it into MYSQL_PWD or ~/.my.cnf.",
                ) from None
            if problem.args[0] in (2002, 2003, 2013):
                raise HostError(
                    f"no server answers at {where}.", hint="Is it running, and is the address right?"
                ) from None
            raise ServerError(f"server {where}: {problem.args[-1]}.") from None

    def data_bytes(self, database: str) -> int:
        """Data and indexes as the server itself estimates them: its files are out of reach."""
        rows = self.query(
            "SELECT COALESCE(SUM(data_length + index_length), 0) FROM information_schema.tables WHERE table_schema=%s",
            (database,),
        )
        return int(rows[0][0])
