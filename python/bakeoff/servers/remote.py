"""A server that runs already, named by a URL: loaded where it is empty, and measured; never started, stopped or set.

The password is, in this order: the URL's, `MYSQL_PWD`, the `[client]` group of ~/.my.cnf. It is kept in memory and
appears in no message.
"""

import os
from pathlib import Path
from typing import Any

import pymysql

from bakeoff.errors import HostError, ServerError, SpecError
from bakeoff.servers.cnf import read_client_group
from bakeoff.servers.model import Account
from bakeoff.servers.reading import Reading
from bakeoff.spec import Origin, ServerSpec
from bakeoff.spec.server import url_parts

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
