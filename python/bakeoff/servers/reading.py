"""Reading a server through a connection: variables, status, version. The same for our own and for remote servers."""

from abc import ABC, abstractmethod
from typing import Any

import pymysql

from bakeoff.errors import ServerError
from bakeoff.servers.model import Account


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
